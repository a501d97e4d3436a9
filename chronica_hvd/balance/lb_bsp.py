"""LB-BSP, semi-dynamic load balancing (Chen, Weng, Wang, Li, Li: SoCC 2020, arXiv 1806.02508), as we understand it.

At a step's boundary the batch sizes follow the ranks' sample speeds:

    v_j <- (1 - w) v_j + w * b_j / t_j        b_j = B * v_j / sum v   (largest remainder)

    v_j  samples per s of rank j      b_j  its samples in a step      t_j  its compute time, s
    B    samples of the step          w    weight of the newest step; the first steps weigh alike

The paper predicts v_j by a recurrent net from speeds, CPU and memory; an exponential mean stands for it here. New
sizes are taken only if one of them changes by more than the dead band (Tyagi and Sharma, arXiv 2305.12213).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..records import Profile, StepRecord, World
from ..shares import largest_remainder, min_max_shares
from .even import Even


@dataclass(frozen=True)
class SpeedState:
    """Sample speeds, and those that the current batch sizes come from."""

    speed: np.ndarray  # (M,) samples per s; nan before the first feedback
    used: np.ndarray  # (M,) samples per s; nan before the first feedback
    steps: int = 0  # steps seen


@dataclass(frozen=True)
class LbBsp(Even):
    """Settings: ``newest``, weight of the newest step; ``dead_band``, relative change that is not worth a new plan."""

    newest: float = 0.1
    dead_band: float = 0.05

    def init(self, world: World, seed: int = 0) -> SpeedState:
        super().init(world, seed)
        unknown = np.full(world.size, np.nan)
        return SpeedState(unknown, unknown)

    def observe(self, state: SpeedState, record: StepRecord) -> SpeedState:
        worked = (record.count > 0) & (record.compute_s > 0)
        now = np.divide(record.count, record.compute_s, out=np.full(len(worked), np.nan), where=worked)
        newest = max(self.newest, 1 / (state.steps + 1))
        speed = np.where(np.isnan(state.speed), now, (1 - newest) * state.speed + newest * now)
        speed = np.where(worked, speed, state.speed)
        moved = np.abs(speed / speed.sum() / (state.used / state.used.sum()) - 1)
        stale = np.isnan(state.used).any() or moved.max() > self.dead_band
        return SpeedState(speed, speed if stale else state.used, state.steps + 1)

    def counts(self, state: SpeedState, world: World, profile: Profile, samples: int) -> np.ndarray:
        if np.isnan(state.used).any():
            return super().counts(state, world, profile, samples)
        shares = largest_remainder(state.used, samples)
        low = world.min_count if samples >= world.min_count * world.size else 0
        high = np.full(world.size, samples) if world.max_count is None else world.max_count
        if np.all((low <= shares) & (shares <= high)):
            return shares
        return min_max_shares(1 / state.used, 0.0, samples, low, high)
