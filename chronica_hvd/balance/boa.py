"""BOA (Yang, Kang, Youn: batch orchestration algorithm, J. Supercomputing 76, 2020), as we understand the paper.

Batch sizes that let the slowest rank finish soonest, from a model of time over batch size:

    minimise tau   with   alpha_j * b_j + gamma_j <= tau,   sum b_j = B,   b_min <= b_j <= b_max,   b_j whole

    alpha_j  s per sample of rank j        b_j  samples of rank j in a step
    gamma_j  s per step of rank j          B    samples of the step over all ranks

The model sees counts only, so samples of unequal size are noise to it. The affine form, the robust refit and the
threshold for planning again are ours (the paper's body is not public); its branch and bound is replaced by an exact
greedy (``shares.min_max_shares``), and gradients are weighted by ``b_j / B`` as everywhere in this project.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..costs import CostFit, CostState
from ..records import Profile, StepRecord, World
from ..shares import min_max_shares
from .even import Even


@dataclass(frozen=True)
class BoaState:
    """The fit so far, and the line that the current batch sizes come from."""

    fit: CostState
    line: Profile | None  # s over samples; None before the first feedback


@dataclass(frozen=True)
class Boa(Even):
    """Settings: ``gap``, the straggler gap (max t - min t) / mean t beyond which the batch sizes are solved anew."""

    gap: float = 0.1
    costs: CostFit = field(default_factory=CostFit)

    def init(self, world: World, seed: int = 0) -> BoaState:
        super().init(world, seed)
        return BoaState(self.costs.init(world.size), None)

    def observe(self, state: BoaState, record: StepRecord) -> BoaState:
        fit = self.costs.observe(state.fit, record.count, record.compute_s)
        seconds = record.compute_s[record.count > 0]
        gap = np.ptp(seconds) / np.mean(seconds) if len(seconds) else 0.0
        stale = state.line is None or gap > self.gap
        return replace(state, fit=fit, line=self.costs.profile(fit) if stale else state.line)

    def counts(self, state: BoaState, world: World, profile: Profile, samples: int) -> np.ndarray:
        if state.line is None:
            return super().counts(state, world, profile, samples)
        low = world.min_count if samples >= world.min_count * world.size else 0
        return min_max_shares(state.line.slope, state.line.intercept, samples, low, world.max_count)
