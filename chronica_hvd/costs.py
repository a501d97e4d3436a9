"""What a step costs on each rank, learnt from its timings: ``time = a * load + b`` (Chronica's runtime prophet).

A robust weighted line per rank. Old steps fade with a half-life; a step far off the line hardly counts; three
steps in a row that are off in the same way are a change of speed, and the past is scaled to it. The line runs
through the weighted mean; how far its intercept may follow the data depends on how clearly the loads varied,
because balanced steps have nearly equal loads and would otherwise turn noise into an intercept.

As in the paper (Maeng, Moon, Park, CCGrid 2023) time is affine in load; we differ in bounding a, b >= 0, in
forgetting, and in not following noise, all of which the paper leaves open.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .alike import pooled, standard_error
from .records import Profile

TINY = 1e-300


@dataclass(frozen=True)
class CostState:
    """H steps remembered for each rank, the newest last."""

    load: np.ndarray  # (M, H) size units
    seconds: np.ndarray  # (M, H) s
    weight: np.ndarray  # (M, H) 1 = just seen, fading; 0 = nothing there
    slope: np.ndarray  # (M,) s per size unit; nan before the first feedback
    intercept: np.ndarray  # (M,) s; nan before the first feedback
    scatter: np.ndarray  # (M,) typical relative miss of the line; nan before the first feedback
    steps: int = 0  # steps seen
    calm: int = 0  # steps in a row in which no rank missed its line by as much as a change of speed would


@dataclass(frozen=True)
class CostFit:
    """Settings of the fit; the state goes in and comes out."""

    history: int = 64  # steps remembered
    half_life: float = 16.0  # steps after which an observation counts half
    clip: float = 2.5  # misses beyond this many typical ones are clipped (Huber)
    change: float = 0.2  # a change of speed is at least this relative miss ...
    change_scatter: float = 4.0  # ... and this many typical misses ...
    change_steps: int = 3  # ... in so many steps in a row
    fade: float = 0.05  # weight left to the steps before a change
    every: int = 8  # steps between two fits while all goes as predicted
    timing: float = 0.01  # relative noise expected of a timing before the data tell
    doubt: float = 30.0  # signal over noise at which the intercept follows the data by a quarter

    def init(self, size: int) -> CostState:
        """Nothing seen yet on ``size`` ranks."""
        empty, unknown = np.zeros((size, self.history)), np.full(size, np.nan)
        return CostState(empty, empty, empty, unknown, unknown, unknown)

    def observe(self, state: CostState, load, compute_s) -> CostState:
        """One more step. load: (M,) size units; compute_s: (M,) s; nan or a load of 0: not seen this step."""
        load, seconds = np.asarray(load, float), np.asarray(compute_s, float)
        seen = np.isfinite(load) & np.isfinite(seconds) & (load > 0) & (seconds >= 0)
        if not seen.any():
            return state
        miss = np.where(seen, self._miss(state, load, seconds), 0.0)
        expected = np.all(miss <= np.maximum(self.clip * state.scatter, 2 * self.timing))
        calm = state.calm + 1 if np.all(miss <= np.maximum(self.change_scatter * state.scatter, self.change)) else 0
        state = self._append(replace(state, calm=calm), np.where(seen, load, 0.0), np.where(seen, seconds, 0.0), seen)
        if expected and state.steps > 2 * self.every and state.steps % self.every:
            return state
        return self._fit(self._changed(state, seen))

    def _miss(self, state, load, seconds):
        """How far the newest step is from each rank's line, (M,) relative; nan before there is one."""
        return np.abs(seconds / np.maximum(state.slope * load + state.intercept, TINY) - 1)

    def profile(self, state: CostState) -> Profile:
        """Today's line of every rank; ranks not seen yet are taken for typical ones, all unknown: a = 1, b = 0."""
        known = np.isfinite(state.slope)
        if not known.any():
            return Profile.unknown(len(known))
        if known.all():
            return Profile(state.slope, state.intercept)
        slope = np.where(known, state.slope, np.median(state.slope[known]))
        return Profile(slope, np.where(known, state.intercept, np.median(state.intercept[known])))

    def pooled_profile(self, state: CostState) -> Profile:
        """The same with one line for ranks whose timings do not tell them apart; what plans are made with."""
        profile, steps = self.profile(state), state.weight.sum(1)
        if not steps.all():
            return profile
        load = (state.weight * state.load).sum(1) / steps
        return pooled(profile, load, standard_error(state.scatter, steps))

    def _append(self, state, load, seconds, seen):
        def push(past, now):
            return np.where(seen[:, None], np.column_stack([past[:, 1:], now]), past)

        fading = state.weight * 0.5 ** (1 / self.half_life)
        return replace(
            state,
            load=push(state.load, load),
            seconds=push(state.seconds, seconds),
            weight=push(fading, np.ones(len(seen))),
            steps=state.steps + 1,
        )

    def _changed(self, state, seen):
        """Where the last steps all miss the line in the same way: scale the past to them and let it fade."""
        last = slice(self.history - self.change_steps, None)
        line = state.slope[:, None] * state.load[:, last] + state.intercept[:, None]
        ratio = state.seconds[:, last] / np.maximum(line, TINY)
        limit = np.fmax(self.change, self.change_scatter * state.scatter)[:, None]
        before = state.weight[:, : last.start].sum(1) > 0
        slower, faster = np.all(ratio > 1 + limit, 1), np.all(ratio < 1 / (1 + limit), 1)
        changed = seen & before & (slower | faster) & np.all(state.weight[:, last] > 0, 1)
        if not changed.any():
            return state
        factor = np.where(changed, np.median(ratio, 1), 1.0)
        past = np.ones(state.load.shape)
        past[:, last] = 0
        return replace(
            state,
            seconds=state.seconds * np.where(past > 0, factor[:, None], 1.0),
            weight=state.weight * np.where((past > 0) & changed[:, None], self.fade, 1.0),
            slope=state.slope * factor,
            intercept=state.intercept * factor,
        )

    def _fit(self, state):
        """Weighted lines with clipped misses; the clipping starts from the median slope, so outliers stay out."""
        there = state.weight > 0
        held = intercept = np.where(np.isfinite(state.intercept), state.intercept, 0.0)
        above = np.maximum(state.seconds - held[:, None], 0)
        slope = _median(above / np.where(there, state.load, 1.0), there)
        typical = np.maximum((state.weight * state.seconds).sum(1) / np.maximum(state.weight.sum(1), TINY), TINY)
        for _ in range(2):
            miss = np.abs(state.seconds - slope[:, None] * state.load - intercept[:, None])
            spread = np.maximum(1.4826 * _median(miss, there), 1e-9 * typical)
            near = np.minimum(1, self.clip * spread[:, None] / np.maximum(miss, TINY))
            slope, intercept = self._line(state, state.weight * near, held)
        known = there.any(1)
        return replace(
            state,
            slope=np.where(known, slope, np.nan),
            intercept=np.where(known, intercept, np.nan),
            scatter=np.where(known, spread / typical, np.nan),
        )

    def _line(self, state, weight, held):
        """Weighted least squares with a, b >= 0; the intercept stays near ``held`` unless the loads speak clearly."""
        total = np.maximum(weight.sum(1), TINY)
        load, seconds = (weight * state.load).sum(1) / total, (weight * state.seconds).sum(1) / total
        dx, dy = state.load - load[:, None], state.seconds - seconds[:, None]
        varied = (weight * dx * dx).sum(1)
        varied = np.where(varied > 1e-12 * total * load**2, varied, 0.0)
        slope = np.where(varied > 0, (weight * dx * dy).sum(1) / np.where(varied > 0, varied, 1.0), 0.0)
        noise = (weight * (dy - slope[:, None] * dx) ** 2).sum(1) / total + 2 * (self.timing * seconds) ** 2 / total
        free = np.clip(seconds - np.maximum(slope, 0) * load, 0, seconds)
        signal = (seconds / np.maximum(load, TINY)) ** 2 * varied
        trust = np.where(signal > 0, signal / np.maximum(signal + self.doubt * noise, TINY), 0.0) ** 2
        intercept = np.clip(held + trust * (free - held), 0, seconds)
        return (seconds - intercept) / np.maximum(load, TINY), intercept


def _median(values, there):
    """Median of each row over the places that are there, the lower of two, (M,); 0 for an empty row."""
    ordered = np.sort(np.where(there, values, np.inf), axis=1)
    count = there.sum(1)
    middle = ordered[np.arange(len(values)), np.maximum(count - 1, 0) // 2]
    return np.where(count > 0, middle, 0.0)
