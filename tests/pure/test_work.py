"""The cost model finds a square of the size where there is one, nothing where there is none, and plans by it."""

import numpy as np
import pytest

from chronica_hvd.planner import Planner
from chronica_hvd.records import StepRecord, World
from chronica_hvd.work import fit_work

SLOPE = np.array([1.0, 1.0, 2.0, 3.0]) * 1e-3  # s per size unit


def history(bend, noise, seed=0, steps=96):
    """(sums, squares, seconds) of steps with eight samples a rank."""
    rng = np.random.default_rng(seed)
    sizes = rng.gamma(2, 50, (steps, 4, 8))
    sums, squares = sizes.sum(2), (sizes**2).sum(2)
    seconds = (SLOPE * (sums + bend * squares) + 0.01) * (1 + noise * rng.standard_normal(sums.shape))
    return sums, squares, seconds


@pytest.mark.parametrize("bend", [0.0005, 0.002, 0.01, 0.1])
def test_a_bend_comes_back(bend):
    fitted = fit_work("auto", *history(bend, 0.0))
    assert fitted.kind == "attention" and fitted.bend == pytest.approx(bend, rel=0.03)
    assert fitted.r2.min() > 0.999 and fitted.worst < 0.01
    assert fit_work("auto", *history(bend=0.01, noise=0.03)).bend == pytest.approx(0.01, rel=0.3)


@pytest.mark.parametrize("noise", [0.0, 0.01, 0.1])
def test_noise_bends_nothing(noise):
    kinds = {fit_work("auto", *history(0.0, noise, seed)).kind for seed in range(30)}
    assert kinds == {"affine"}


def test_outliers_and_unseen_steps_do_not_bend_either():
    sums, squares, seconds = history(0.0, 0.01)
    seconds[::9] *= 5
    seconds[::7, 1] = np.nan
    assert fit_work("auto", sums, squares, seconds).kind == "affine"
    sums, squares, seconds = history(0.01, 0.01)
    seconds[::9, 2] *= 5
    assert fit_work("auto", sums, squares, seconds).kind == "attention"


def test_times_of_equal_steps_have_no_r_squared():
    fitted = fit_work("auto", np.full((20, 2), 5.0), np.full((20, 2), 9.0), np.full((20, 2), 0.1))
    assert fitted.kind == "affine" and np.isnan(fitted.r2).all()
    assert "unknown" in str(fitted)


def _span(cost, bend, strategy="chronica", steps=200):
    """Simulated seconds of steps 80 on, over what perfect division would take."""
    sizes = np.random.default_rng(1).gamma(1, 100, 64 * steps)
    planner = Planner(sizes, 64, World(4), strategy, cost=cost)
    span, nothing = 0.0, np.zeros(4)
    work = SLOPE[0] * (sizes + bend * sizes**2)
    used = []
    for step in range(steps):
        plan = planner.next()
        seconds = np.array([(SLOPE[j] / SLOPE[0]) * work[ids].sum() for j, ids in enumerate(plan.samples)])
        assert np.allclose(plan.load, [sizes[ids].sum() for ids in plan.samples])  # size units, whatever the work
        planner.observe(StepRecord(0, step, plan.count, plan.load, seconds, nothing, nothing, nothing, seconds))
        if step >= 80:
            span += seconds.max()
            used += plan.samples
    return span / (work[np.concatenate(used)].sum() / (SLOPE[0] / SLOPE).sum())


def test_plans_follow_the_bend():
    found, straight = _span("auto", 0.02), _span("affine", 0.02)
    assert found < 1.04 and straight > 1.08, (found, straight)
    assert _span("auto", 0.0) == pytest.approx(_span("affine", 0.0), rel=1e-12)


def test_an_unknown_cost_is_refused():
    with pytest.raises(ValueError, match="allowed are 'auto', 'affine', 'attention'"):
        Planner(np.ones(8), 4, World(2), cost="cubic")
