"""Even: every global batch as the seed dealt it, cut into equal counts. What data parallelism does, and the base class.

    n_j = floor(n / M), one more for the first n mod M ranks

n: samples of the step, M: ranks. With ``shares`` the counts follow the user's batch sizes instead, and with memory
caps what a capped rank cannot take goes to the others. A strategy that only changes counts overrides ``counts``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..placed import placed_cells
from ..records import Pool, Profile, StepPlan, StepRecord, World
from ..shares import largest_remainder, min_max_shares


@dataclass(frozen=True)
class Even:
    """Equal counts, or counts in proportion to ``shares`` (samples of each rank's batch, given by the user)."""

    window: int = 1  # steps drawn into the pool at once; 0: the whole epoch
    shares: tuple[int, ...] | None = None  # (M,) samples of a full step; None: equal

    def init(self, world: World, seed: int = 0):
        """State before the first step. Raises ValueError when shares and ranks differ in number."""
        del seed
        if self.shares is not None and len(self.shares) != world.size:
            raise ValueError(
                f"shares names {len(self.shares)} batch sizes {tuple(self.shares)} but there are {world.size} ranks; "
                f"give {world.size} numbers, one a rank"
            )
        return None

    def observe(self, state, record: StepRecord):
        """What a step's record changes in the state: nothing here."""
        del record
        return state

    def plan(self, state, world: World, profile: Profile, pool: Pool) -> tuple[list[StepPlan], Pool, object]:
        """Every step the pool makes, in dealt order, then what is left of the pool (nothing), then the state."""
        if pool.owner is not None:
            return step_plans(pool, placed_cells(pool, world, profile, by_size=False), profile), pool.part([]), state
        plans = []
        for start in range(0, len(pool.ids), pool.batch):
            dealt = pool.part(slice(start, start + pool.batch))
            rank = np.repeat(np.arange(world.size), self.counts(state, world, profile, len(dealt.ids)))
            plans.append(step_plan(dealt.ids, dealt.sizes, rank, profile))
        return plans, pool.part([]), state

    def counts(self, state, world: World, profile: Profile, samples: int) -> np.ndarray:
        """Samples of each rank in a step of ``samples`` samples, (M,) int64 that sum to it."""
        del state, profile
        weights = np.ones(world.size) if self.shares is None else np.asarray(self.shares, float)
        counts = largest_remainder(weights, samples)
        low = (weights > 0) * (world.min_count if samples >= world.min_count * world.size else 0)
        high = np.full(world.size, samples) if world.max_count is None else world.max_count
        if np.all((low <= counts) & (counts <= high)):
            return counts
        slope = weights.max() / np.maximum(weights, 1e-9 * weights.max())
        return min_max_shares(slope, 0.0, samples, low, high)


def step_plan(ids: np.ndarray, sizes: np.ndarray, rank: np.ndarray, profile: Profile) -> StepPlan:
    """The plan of one step from its samples (n,), their sizes (n,) and their ranks (n,); dealt order is kept."""
    ranks = len(profile.slope)
    order = np.argsort(rank, kind="stable")
    ends = np.cumsum(np.bincount(rank, minlength=ranks))[:-1]
    load = np.bincount(rank, weights=sizes, minlength=ranks)
    return StepPlan(tuple(np.split(ids[order], ends)), load, profile.seconds(load))


def step_plans(pool: Pool, cells: np.ndarray, profile: Profile) -> list[StepPlan]:
    """One plan a step from the cells (step * M + rank), (n,), of the pool's samples; dealt order within each rank."""
    step, rank = np.divmod(cells, len(profile.slope))
    order = np.argsort(step, kind="stable")
    parts = np.split(order, np.cumsum(np.bincount(step, minlength=pool.steps))[:-1])
    return [step_plan(pool.ids[part], pool.sizes[part], rank[part], profile) for part in parts]
