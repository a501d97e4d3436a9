"""The order of an epoch: a pure function of (seed, epoch), whatever the number of ranks."""

from __future__ import annotations

import numpy as np


def epoch_order(samples: int, seed: int, epoch: int, shuffle: bool = True) -> np.ndarray:
    """Sample numbers in the order of this epoch, (samples,) int64."""
    if not shuffle:
        return np.arange(samples)
    return np.random.default_rng([seed, epoch]).permutation(samples)


def epoch_steps(samples: int, batch: int, drop_last: bool = False) -> int:
    """Steps of an epoch, the same on every rank; the last batch may be short."""
    return samples // batch if drop_last else -(-samples // batch)
