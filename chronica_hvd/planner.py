"""Plans an epoch step by step: draws the dealt samples, asks the strategy, learns from what happened.

Pure: timings come in through ``observe``, plans go out through ``next``. Rank 0 runs it beside the training,
the simulator runs it on a virtual clock.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from .balance import make
from .balance.chronica_paper import shuffle
from .costs import CostFit
from .order import epoch_order, epoch_steps
from .placed import Placement, placed_order
from .records import Pool, Profile, StepPlan, StepRecord, World
from .work import KINDS, Bend

REPLAN_LOSS = 0.01  # what is known now makes the planned steps this much longer than need be: plan them anew
SHUFFLE_PASSES = 20
CALM_STEPS = 8  # so many steps in a row without a surprise are calm


class Planner:
    """One data set, one strategy, one cluster.

    sizes: (n,) size units of every sample. batch: samples of one step over all ranks. placement: who owns which
    samples; None: every rank can read all of them. cost: "affine" in size, "attention" with a square, or "auto".
    """

    def __init__(
        self,
        sizes,
        batch: int,
        world: World,
        strategy="chronica",
        *,
        seed=0,
        shuffle=True,
        drop_last=False,
        costs: CostFit | None = None,
        placement: Placement | None = None,
        cost: str = "auto",
    ):
        self.sizes = np.asarray(sizes, float)
        self.bend = Bend("affine" if cost in KINDS and np.ptp(self.sizes) == 0 else cost)
        self._work = self.sizes  # (n,) what each sample costs, in units of size
        self._sums: dict[int, tuple] = {}  # of steps handed out: sums of sizes and of their squares, (M,) each
        self.batch, self.world, self.seed = batch, world, seed
        self.shuffle, self.drop_last, self.placement = shuffle, drop_last, placement
        self.strategy = make(strategy)
        self.state = self.strategy.init(world, seed)
        self.costs = costs or CostFit()
        self.cost_state = self.costs.init(world.size)
        self.profile = Profile.unknown(world.size)
        self.start(0)

    @property
    def steps(self) -> int:
        """Steps of one epoch."""
        samples = len(self.sizes) if self.placement is None else int(self.placement.used.sum())
        return epoch_steps(samples, self.batch, self.drop_last)

    @property
    def informed(self) -> bool:
        """Whether any step was observed yet."""
        return self.cost_state.steps > 0

    @property
    def calm(self) -> bool:
        """Whether the last steps went as predicted on every rank."""
        return self.cost_state.calm >= CALM_STEPS

    def start(self, epoch: int) -> None:
        """Begin an epoch: deal its samples; what is known about the ranks is kept."""
        self.epoch = epoch
        order = epoch_order(len(self.sizes), self.seed, epoch, self.shuffle)
        order = order if self.placement is None else placed_order(order, self.placement)
        self._step, self._sums = 0, {}
        self._dealt = order[: self.steps * self.batch]  # (n,) not yet drawn into the pool
        self._pool = self._draw(0)
        self._queue: list[StepPlan] = []  # planned, not yet handed out
        self._planned_with = self._judged_with = self.profile

    def migrate(self) -> np.ndarray:
        """Between epochs: new owners (n,) of the samples, the old ones where moving some gains too little.

        Chronica's data shuffler: only what a rank owns beyond the mean time moves.
        """
        assert self.placement, "only ranks with data of their own can give it away"
        owner = shuffle(self._work, self.placement.owner, self.profile, self.steps, SHUFFLE_PASSES)
        loads = [np.bincount(who, self._work, minlength=self.world.size) for who in (self.placement.owner, owner)]
        before, after = (float(np.max(self.profile.slope * load)) for load in loads)
        if self.informed and before > (1 + REPLAN_LOSS) * after:
            self.placement = self.placement.moved(owner)
        return self.placement.owner

    def next(self) -> StepPlan:
        """The plan of the next step. Raises IndexError when the epoch is used up."""
        if self._queue and self.profile is not self._judged_with:
            self._judged_with = self.profile
            if self._loss() > REPLAN_LOSS:
                self._take_back()
        if not self._queue:
            self._fill()
        plan, step = self._queue.pop(0), self._step
        self._step += 1
        if self.bend.kind == "affine":
            return plan
        sizes = [self.sizes[ids] for ids in plan.samples]
        load = np.array([size.sum() for size in sizes])
        self._sums[step] = load, np.array([(size**2).sum() for size in sizes])
        return replace(plan, load=load)

    def observe(self, record: StepRecord) -> None:
        """Learn from one step's records of all ranks."""
        self.state = self.strategy.observe(self.state, record)
        sums, squares = self._sums.pop(record.step, (record.load, np.zeros(self.world.size)))
        if self.bend.observe(sums, squares, record.compute_s):
            self._bend()
        fitted = self.cost_state.slope
        self.cost_state = self.costs.observe(self.cost_state, sums + self.bend.value * squares, record.compute_s)
        if self.cost_state.slope is not fitted:
            self.profile = self.costs.pooled_profile(self.cost_state)

    def _bend(self) -> None:
        """Work is another function of size now: see the past by it, and plan anew what is not begun."""
        self._work = self.sizes * (1 + self.bend.value * self.sizes)
        self.cost_state = self.costs.init(self.world.size)
        for sums, squares, seconds in list(self.bend.rows)[:-1]:
            self.cost_state = self.costs.observe(self.cost_state, sums + self.bend.value * squares, seconds)
        self.profile = self.costs.pooled_profile(self.cost_state)
        self._take_back()

    def _draw(self, samples: int) -> Pool:
        ids, self._dealt = self._dealt[:samples], self._dealt[samples:]
        return self._pool_of(ids)

    def _pool_of(self, ids: np.ndarray, owed: int | None = None) -> Pool:
        owner = self.placement.owner[ids] if self.placement else None
        return Pool(ids, self._work[ids], self.batch, owed, owner)

    def _fill(self) -> None:
        if not len(self._pool.ids):
            window = self.strategy.window * self.batch or len(self._dealt)
            short_rest = len(self._dealt) < 1.5 * window and window > self.batch
            self._pool = self._draw(len(self._dealt) if short_rest else window)
        if not len(self._pool.ids):
            raise IndexError(f"epoch {self.epoch} has no step left of its {self.steps}")
        self._queue, self._pool, self.state = self.strategy.plan(self.state, self.world, self.profile, self._pool)
        self._check_owners()
        self._planned_with = self._judged_with = self.profile

    def _check_owners(self) -> None:
        if self.placement is None:
            return
        for rank, ids in ((rank, ids) for plan in self._queue for rank, ids in enumerate(plan.samples)):
            if np.any(self.placement.owner[ids] != rank):
                raise ValueError(
                    f"strategy {type(self.strategy).__name__} gave rank {rank} samples of other ranks, which it cannot "
                    f"read; where ranks own their data a plan follows pool.owner"
                )

    def _take_back(self) -> None:
        planned = [ids for plan in self._queue for ids in plan.samples]
        ids = np.concatenate([*planned, self._pool.ids])
        owed = len(self._queue) + self._pool.steps
        self._pool, self._queue = self._pool_of(ids, owed), []

    def _loss(self) -> float:
        """By how much the queue's steps have become longer, over the shortest possible, than when they were planned."""
        load = np.stack([plan.load for plan in self._queue])
        return _over_shortest(self.profile, load) / _over_shortest(self._planned_with, load) - 1


def _over_shortest(profile: Profile, load: np.ndarray) -> float:
    """Time of steps with loads (K, M) over that of the same work divided perfectly."""
    speed = 1 / np.maximum(profile.slope, 1e-300)  # (M,) size units per s
    perfect = (load.sum() + len(load) * (profile.intercept * speed).sum()) / speed.sum()
    return float(profile.seconds(load).max(axis=1).sum() / perfect)
