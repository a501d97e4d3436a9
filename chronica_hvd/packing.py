"""Which sample goes to which step and rank, so that the sum of the steps' longest rank times is least.

A step that holds one giant sample is long anyway, so the giants share as few long steps as possible, each on its
own rank, and the other samples fill those steps up. In order: choose how long each step shall be, deal the samples
to the steps, trade between steps until their loads fit, place each step's samples longest first on the rank that
would be done soonest, then trade samples (swaps and moves) between the fullest and the emptiest cells.

Words: a cell is one rank in one step, cell = step * M + rank; a window is the steps between which samples may be
exchanged; all times are ``slope * load + intercept``, the intercept once a step. Sizes in size units, times in s.
"""

from __future__ import annotations

import numpy as np

from .dealing import deal, level
from .records import Profile, World
from .trades import Groups, trade

COUNTS = ("fixed", "free")
CHUNK = 65536  # samples packed at once: enough to keep array operations busy, few enough for the cache
SLACK = 1e-3  # of a step's time; nearer than this to the target is near enough


def lower_bound(sizes, profile: Profile, steps: int = 1) -> float:
    """Seconds that no plan of ``steps`` steps can beat: all the work on all the speed, or the biggest sample alone."""
    sizes = np.asarray(sizes, float)
    if not len(sizes):
        return 0.0
    slope, intercept = _positive(profile.slope), np.asarray(profile.intercept, float)
    biggest = np.min(slope * sizes.max() + intercept) + (steps - 1) * intercept.min()
    return float(max(level(slope, steps * intercept, sizes.sum()), biggest))


def pack(
    sizes, batch: int, world: World, profile: Profile, count: str = "fixed", window: int = 0, rounds: int = 24
) -> np.ndarray:
    """The cell of every sample, (n,) int64, for ``ceil(n / batch)`` steps; ``divmod(cells, M)`` is (step, rank).

    sizes: (n,) size units. count: "fixed" puts exactly ``batch`` samples in each step (the last may be short),
    "free" keeps that number on average, at most twice it. window: steps between which samples may be exchanged;
    0: all. rounds: trades tried. Every rank gets ``world.min_count`` samples in each step that has so many, and at
    most ``world.max_count``. Raises ValueError for an unknown count and for a batch that the caps cannot hold.
    """
    sizes = np.asarray(sizes, float)
    caps = (
        np.full(world.size, len(sizes)) if world.max_count is None else np.asarray(world.max_count, np.int64)
    )
    if count not in COUNTS:
        raise ValueError(f"unknown count {count!r}; choose one of {', '.join(COUNTS)}")
    if caps.sum() < min(batch, len(sizes)):
        raise ValueError(
            f"a batch of {batch} does not fit the caps {caps.tolist()}, {caps.sum()} in all; lower the batch"
        )
    slope, intercept = _positive(profile.slope), np.asarray(profile.intercept, float)
    steps = -(-len(sizes) // batch)
    edges = np.linspace(0, steps, max(steps // window, 1) + 1 if window else 2).astype(int) * batch
    per_chunk = max(1, CHUNK * (len(edges) - 1) // max(len(sizes), 1))
    cells = np.empty(len(sizes), np.int64)
    for first in range(0, len(edges) - 1, per_chunk):
        some = np.minimum(edges[first : first + per_chunk + 1], len(sizes))
        part = slice(some[0], some[-1])
        packed = _pack_windows(
            sizes[part],
            some - some[0],
            batch,
            slope,
            intercept,
            caps,
            world.min_count,
            count == "free",
            rounds,
        )
        cells[part] = packed + some[0] // batch * world.size
    return cells


def _pack_windows(sizes, edges, batch, slope, intercept, caps, min_count, free, rounds):
    """Cells of several windows at once; edges: (windows + 1,) where in ``sizes`` each begins."""
    step, target, league = np.empty(len(sizes), np.int64), [], []
    for w, (start, end) in enumerate(zip(edges[:-1], edges[1:])):
        dealt, times = deal(sizes[start:end], batch, slope, intercept, free)
        step[start:end] = dealt + len(league)
        target, league = target + times.tolist(), league + [w] * len(times)
    target, league = np.array(target), np.array(league)
    cell, held, time = _place(sizes, step, len(target), slope, intercept, caps, min_count)
    least = np.minimum(min_count, held)
    groups = Groups(
        sizes,
        cell,
        np.tile(slope, len(target)),
        (time - target[:, None]).ravel(),
        held.ravel(),
        least.ravel(),
        np.tile(caps, len(target)),
    )
    by_window, by_step = np.repeat(league, len(slope)), np.repeat(np.arange(len(target)), len(slope))
    for turn in range(rounds):
        within = turn % 2
        trade(
            groups, by_step if within else by_window, bool(free or within), turn // 2, SLACK * target.mean()
        )
    return groups.member


def _place(sizes, step, steps, slope, intercept, caps, min_count):
    """Cell of every sample (n,), samples (K, M) and times (K, M) of the cells.

    In each step longest first, each to the rank that is then done first; all steps advance together.
    """
    ranks = len(slope)
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
    return cell, held, time


def _positive(slope) -> np.ndarray:
    """Slopes that can be divided by: a rank that costs nothing costs a billionth of the slowest."""
    slope = np.asarray(slope, float)
    return np.maximum(slope, 1e-9 * slope.max() if slope.max() > 0 else 1.0)
