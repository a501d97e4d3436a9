"""Which sample goes to which step and rank, so that the sum of the steps' longest rank times is least.

A step that holds one giant sample is long anyway, so the giants share as few long steps as possible, each on its
own rank, and the other samples fill those steps up. In order: choose how long each step shall be, deal the samples
to the steps, trade between steps until their loads fit, place each step's samples longest first on the rank that
would be done soonest, then trade samples (swaps and moves) between the fullest and the emptiest cells.

Words: a cell is one rank in one step, cell = step * M + rank; room is what a cell could still take; all times are
``slope * load + intercept``, the intercept once a step. Sizes in size units, times in seconds.
"""

from __future__ import annotations

import numpy as np

from .records import Profile, World

COUNTS = ("fixed", "free")


def lower_bound(sizes, profile: Profile, steps: int = 1) -> float:
    """Seconds that no plan of ``steps`` steps can beat: all the work on all the speed, or the biggest sample alone."""
    sizes = np.asarray(sizes, float)
    if not len(sizes):
        return 0.0
    slope, intercept = _positive(profile.slope), profile.intercept
    biggest = np.min(slope * sizes.max() + intercept) + (steps - 1) * intercept.min()
    return float(max(_level(slope, steps * intercept, sizes.sum()), biggest))


def pack(
    sizes, batch: int, world: World, profile: Profile, count: str = "fixed", rounds: int = 24
) -> np.ndarray:
    """The cell of every sample, (n,) int64, for ``ceil(n / batch)`` steps; ``divmod(cells, M)`` is (step, rank).

    sizes: (n,) size units. count: "fixed" puts exactly ``batch`` samples in each step (the last may be short),
    "free" keeps that number on average. rounds: trades tried. Every rank gets ``world.min_count`` samples in each
    step that has so many, and at most ``world.max_count``. Raises ValueError for a batch that the caps cannot hold.
    """
    sizes = np.asarray(sizes, float)
    if count not in COUNTS:
        raise ValueError(f"unknown count {count!r}; choose one of {', '.join(COUNTS)}")
    caps = (
        np.full(world.size, len(sizes)) if world.max_count is None else np.asarray(world.max_count, np.int64)
    )
    if caps.sum() < min(batch, len(sizes)):
        raise ValueError(
            f"a batch of {batch} does not fit the caps {caps.tolist()} (sum {caps.sum()}); lower the batch"
        )
    if not len(sizes):
        return np.zeros(0, np.int64)
    slope, intercept = _positive(profile.slope), np.asarray(profile.intercept, float)
    step = _deal(sizes, batch, slope, intercept)
    cell = _place(sizes, step, slope, intercept, caps, world.min_count)
    return _trade_cells(sizes, cell, slope, intercept, caps, world.min_count, rounds, count == "free")


def _positive(slope) -> np.ndarray:
    """Slopes that can be divided by: a rank that costs nothing costs a billionth of the slowest."""
    slope = np.asarray(slope, float)
    return np.maximum(slope, 1e-9 * slope.max() if slope.max() > 0 else 1.0)


def _level(slope, intercept, work: float) -> float:
    """Time at which ranks that all work until then have done ``work`` size units (water filling)."""
    order = np.argsort(intercept, kind="stable")
    speed, start = np.cumsum(1 / slope[order]), np.cumsum(intercept[order] / slope[order])
    level = (work + start) / speed  # (M,) with the first 1, 2, ... ranks at work
    later = np.append(intercept[order][1:], np.inf)
    return float(level[np.argmax(level <= later)])


def _deal(sizes, batch, slope, intercept):
    """The step of every sample, (n,): giants together, then shares of equal mix."""
    steps = -(-len(sizes) // batch)
    quota = np.full(steps, batch)
    quota[-1] = len(sizes) - batch * (steps - 1)
    step = np.full(len(sizes), -1)
    order = np.argsort(-sizes, kind="stable")
    giants, target = _giants(sizes[order], quota, slope, intercept)
    step[order[: len(giants)]] = giants
    quota -= np.bincount(giants, minlength=steps)
    rest = order[len(giants) :]
    spot = np.concatenate([(np.arange(q) + (k + 0.5) / steps) / q for k, q in enumerate(quota) if q])
    step[rest] = np.repeat(np.arange(steps), quota)[np.argsort(spot, kind="stable")]
    return step


def _giants(ordered, quota, slope, intercept):
    return np.zeros(0, np.int64), None


def _place(sizes, step, slope, intercept, caps, min_count):
    """The cell of every sample, (n,): in each step longest first to the rank that is then done first."""
    ranks, steps = len(slope), int(step.max()) + 1
    order = np.lexsort((-sizes, step))
    quota = np.bincount(step, minlength=steps)
    start = np.cumsum(quota) - quota
    time, held = np.tile(intercept, (steps, 1)), np.zeros((steps, ranks), np.int64)
    cell = np.empty(len(sizes), np.int64)
    for turn in range(quota.max()):
        live = np.flatnonzero(quota > turn)
        sample = order[start[live] + turn]
        done = time[live] + slope * sizes[sample, None]
        done[held[live] >= caps] = np.inf
        short = np.maximum(min_count - held[live], 0)
        must = short.sum(1) >= quota[live] - turn
        done[must[:, None] & (short == 0) & np.any(short > 0, 1)[:, None]] = np.inf
        rank = np.argmin(done, 1)
        time[live, rank] += slope[rank] * sizes[sample]
        held[live, rank] += 1
        cell[sample] = live * ranks + rank
    return cell


def _trade_cells(sizes, cell, slope, intercept, caps, min_count, rounds, free):
    return cell
