"""Ranks whose timings do not tell them apart count as equal; ranks that differ keep their own line."""

import numpy as np
import pytest

from chronica_hvd.alike import pooled, standard_error
from chronica_hvd.costs import CostFit
from chronica_hvd.planner import Planner
from chronica_hvd.records import Profile, StepRecord, World


def test_groups_hold_what_the_error_cannot_tell_apart():
    profile = Profile(np.array([1.0, 2.0, 1.02, 2.1]), np.array([0.0, 0.1, 0.0, 0.1]))
    alike = pooled(profile, np.full(4, 10.0), np.full(4, 0.01))
    assert alike.slope == pytest.approx([1.01, 2.0, 1.01, 2.1])
    assert alike.intercept == pytest.approx([0.0, 0.1, 0.0, 0.1])


def test_a_chain_of_small_differences_is_not_one_group():
    profile = Profile(1.03 ** np.arange(20.0), np.zeros(20))
    slope = pooled(profile, np.ones(20), np.full(20, 0.01)).slope
    assert slope[-1] / slope[0] > 1.5 and len(set(slope)) > 5


def test_the_error_shrinks_with_the_steps_seen():
    error = standard_error(np.full(3, 0.03), np.array([1.0, 4.0, 16.0]))
    assert error[0] > 0.05 and error[2] == pytest.approx(0.03 / 4, rel=0.2) and np.all(np.diff(error) < 0)


def _counts(speed, noise, steps=120):
    rng = np.random.default_rng(3)
    planner = Planner(np.ones(64 * steps), 64, World(len(speed)), costs=CostFit())
    counts, nothing = [], np.zeros(len(speed))
    for step in range(steps):
        plan = planner.next()
        seconds = plan.load / speed * (1 + noise * rng.standard_normal(len(speed)))
        planner.observe(StepRecord(0, step, plan.count, plan.load, seconds, nothing, nothing, nothing, seconds))
        counts.append(plan.count)
    return np.array(counts)


def test_equal_ranks_with_noisy_timings_keep_equal_shares():
    counts = _counts(np.ones(2), noise=0.03)
    assert np.mean(counts[:, 0] == 32) > 0.9


def test_a_rank_that_is_really_slower_gets_less_at_once():
    counts = _counts(np.array([1.0, 0.9]), noise=0.0)
    assert counts[0].tolist() == [32, 32] and np.all(counts[20:] == [34, 30])
