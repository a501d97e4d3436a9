"""Chronica (Maeng, Moon, Park: a data-imbalance-aware scheduler, CCGrid 2023): who computes which samples.

    T_j = a_j * L_j + b_j        acc_j = b_j + sum of a_j * s over the samples chosen so far for rank j

    a_j  s per size unit      b_j  s per step      L_j  load of rank j in a step, size units
    s    size of a sample     beta samples of a step over all ranks

``pick="nearest"`` and ``pick="fit"`` are the paper's data scheduler: each rank owns samples; a step opens with a
random one; then, until beta are chosen, the least filled rank ``r`` takes of its own samples the one whose time is
nearest to the gap ``max acc - acc_r`` (fit: the longest within the gap, else the shortest). Between epochs the data
shuffler (``shuffle``) moves what a rank owns beyond the mean, closest first, to the least loaded ranks.

``pick="pack"`` (ours, the default) packs a window of steps at once: see ``packing``.

Where we differ: the intercept is charged once a step; a rank left without a sample gets its shortest one *within*
beta instead of a repeated one, so each sample is used exactly once; the shuffler repeats its pass until the spread is
below one sample, because one pass with the old owners' times does not balance unequal ranks; every rank can read
every sample, so ownership is also shuffled in mid epoch when the relative speeds have changed by more than 10 %.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..levels import positive
from ..packing import COUNTS, pack
from ..placed import placed_cells
from ..records import Pool, Profile, World
from ..shares import min_max_shares
from .chronica_paper import schedule, shuffle
from .even import Even, step_plans

PICKS = ("pack", "nearest", "fit")
RESHUFFLE = 0.1  # relative change of speed after which ownership is shuffled in mid epoch


@dataclass(frozen=True)
class ChronicaState:
    """Who owns what; used by the paper's picks only."""

    seed: int
    turn: int = 0  # calls of plan so far
    left: int = 0  # samples left of the pool by the last call
    owner: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))  # (samples,) rank, -1: nobody yet
    slope: np.ndarray | None = None  # (M,) s per size unit at the last shuffle


@dataclass(frozen=True)
class Chronica(Even):
    """Balance by sample sizes; every setting has the default that measured best."""

    window: int = -1  # steps drawn into the pool at once; -1: 16 for pack, 0 (the epoch) for the others
    pick: str = "pack"  # how samples are chosen: one of PICKS
    count: str = "fixed"  # pack: "fixed" keeps beta samples in every step, "free" keeps beta on average
    ahead: int = 16  # nearest, fit: steps planned in one call
    passes: int = 20  # of the shuffler, at most

    def __post_init__(self):
        if self.pick not in PICKS or self.count not in COUNTS:
            raise ValueError(
                f"pick is one of {', '.join(PICKS)} and count one of {', '.join(COUNTS)}; "
                f"got pick={self.pick!r}, count={self.count!r}"
            )
        if self.shares is not None:
            raise ValueError(f"chronica decides the counts itself; got shares={self.shares}, which is for 'even'")
        if self.window < 0:
            object.__setattr__(self, "window", 16 if self.pick == "pack" else 0)

    def init(self, world: World, seed: int = 0) -> ChronicaState:
        """No sample has an owner yet; the seed makes the random first picks."""
        return ChronicaState(seed)

    def plan(self, state: ChronicaState, world: World, profile: Profile, pool: Pool):
        """pack: every step of the pool. nearest, fit: the next ``ahead`` steps."""
        if self.pick == "pack":
            return step_plans(pool, self._packed(world, profile, pool), profile), pool.part([]), state
        if pool.owner is None:
            state = self._owned(state, world, profile, pool)
            owner = state.owner[pool.ids]
        else:
            owner, world = pool.owner, replace(world, min_count=0)
        rng = np.random.default_rng([state.seed, state.turn])
        firsts = rng.random(min(self.ahead, pool.steps))
        cells = schedule(pool.sizes, owner, pool.batch, world, profile, self.pick, firsts)
        used = cells >= 0
        left = pool.part(~used)
        plans = step_plans(replace(pool.part(used), owed=len(firsts)), cells[used], profile)
        return plans, left, replace(state, turn=state.turn + 1, left=len(left.ids))

    def _packed(self, world, profile, pool):
        if pool.owner is not None:
            return placed_cells(pool, world, profile, by_size=True)
        if self.count == "fixed" and len(pool.ids) and np.ptp(pool.sizes) == 0:
            return _alike(pool, world, positive(profile))
        return pack(pool.sizes, pool.batch, world, profile, self.count, self.window, steps=pool.steps)

    def _owned(self, state, world, profile, pool):
        """The state with an owner for each sample of the pool, shuffled where an epoch begins or speeds changed."""
        owner = np.full(max(len(state.owner), pool.ids.max(initial=-1) + 1), -1)
        owner[: len(state.owner)] = state.owner
        mine = owner[pool.ids]
        new = mine < 0
        mine[new] = np.arange(np.count_nonzero(new)) * world.size // max(np.count_nonzero(new), 1)
        slope = positive(profile).slope
        if len(pool.ids) > state.left or new.any() or _changed(state.slope, slope):
            mine = shuffle(pool.sizes, mine, profile, pool.steps, self.passes)
            state = replace(state, slope=slope)
        owner[pool.ids] = mine
        return replace(state, owner=owner)


def _alike(pool, world, profile):
    """Cells (n,) of samples of one size, where their numbers are all there is to choose; batches stay as dealt."""
    full, rest = divmod(len(pool.ids), pool.batch)
    ranks = [_ranks_alike(samples, pool.sizes[0], world, profile) for samples in (pool.batch, rest)]
    step = np.arange(len(pool.ids)) // pool.batch
    return step * world.size + np.append(np.tile(ranks[0], full), ranks[1])


def _ranks_alike(samples, size, world, profile):
    """The rank of each of a step's samples of one size, (samples,)."""
    low = world.min_count if samples >= world.min_count * world.size else 0
    shares = min_max_shares(profile.slope * size, profile.intercept, samples, low, world.max_count)
    return np.repeat(np.arange(world.size), shares)


def _changed(before, now):
    """Whether the ranks' relative speeds moved by more than RESHUFFLE."""
    if before is None:
        return True
    moved = now / before
    return moved.max() / moved.min() > 1 + RESHUFFLE
