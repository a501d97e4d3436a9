"""The cost fit learns its own model back, and is not led astray by outliers, noise, drift or a change of speed."""

import pickle
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronica_hvd.costs import CostFit
from chronica_hvd.shares import min_max_shares


def fed(loads, seconds, fit=None, state=None):
    """State after these (steps, M) loads and times."""
    fit = fit or CostFit()
    state = fit.init(np.shape(loads)[1]) if state is None else state
    for load, second in zip(loads, seconds):
        state = fit.observe(state, load, second)
    return state


def profile(loads, seconds):
    return CostFit().profile(fed(loads, seconds))


def noisy(rng, steps, slope, intercept, spread=0.2, noise=0.02):
    """(steps, M) loads around 100, and times on the lines with relative noise."""
    loads = 100 * (1 + spread * rng.uniform(-1, 1, (steps, len(slope))))
    return loads, (slope * loads + intercept) * (1 + noise * rng.standard_normal(loads.shape))


def test_exact_lines_come_back_and_predict_the_papers_times():
    loads = np.array([[10, 10], [20, 40], [49, 15], [35, 30]] * 3)
    found = profile(loads, loads * [3, 5] + [3, 2])
    assert np.allclose(found.slope, [3, 5]) and np.allclose(found.intercept, [3, 2])
    assert np.allclose(found.seconds(np.array([49, 49])), [150, 247])


@given(
    st.lists(st.tuples(st.floats(1e-4, 10), st.floats(0, 50)), min_size=1, max_size=5),
    st.integers(0, 2**31),
)
@settings(max_examples=60, deadline=None)
def test_any_exact_line_comes_back(lines, seed):
    slope, intercept = np.array(lines).T
    loads = np.random.default_rng(seed).uniform(5, 200, (20, len(lines)))
    found = profile(loads, slope * loads + intercept)
    assert np.allclose(found.seconds(np.full(len(lines), 77.0)), slope * 77 + intercept, rtol=1e-6)


@given(st.integers(0, 2**31), st.integers(1, 30), st.integers(1, 4))
@settings(max_examples=60, deadline=None)
def test_slope_and_intercept_are_never_negative_whatever_comes_in(seed, steps, ranks):
    rng = np.random.default_rng(seed)
    loads, seconds = rng.gamma(0.5, 10, (2, steps, ranks))
    seconds[rng.random(seconds.shape) < 0.2] = np.nan
    found = profile(loads, seconds)
    assert np.all(found.slope >= 0) and np.all(found.intercept >= 0)
    assert np.all(np.isfinite(found.slope) & np.isfinite(found.intercept))


def test_before_the_first_feedback_time_equals_load():
    fit = CostFit()
    found = fit.profile(fit.init(3))
    assert found.slope.tolist() == [1, 1, 1] and found.intercept.tolist() == [0, 0, 0]
    untouched = fit.observe(fit.init(3), [0, 0, 5], [1, np.nan, np.nan])
    assert fit.profile(untouched).slope.tolist() == [1, 1, 1]


def test_a_rank_not_seen_yet_is_taken_for_a_typical_one():
    found = profile([[10, 10, 10, 0]], [[1, 2, 3, np.nan]])
    assert np.allclose(found.slope, [0.1, 0.2, 0.3, 0.2])


def test_c04_two_generations_of_cards_from_one_single_load():
    found = profile([[6, 6]] * 5, [[0.060, 0.120]] * 5)
    assert np.allclose(found.slope, [0.010, 0.020]) and np.allclose(found.intercept, 0)
    assert min_max_shares(found.slope, found.intercept, 12).tolist() == [8, 4]


def test_loads_that_do_not_vary_keep_the_intercept_and_move_the_slope():
    loads = np.array([[10.0], [30], [20], [40]] * 4)
    state = fed(np.full((200, 1), 20.0), np.full((200, 1), 47.0), state=fed(loads, 2 * loads + 7))
    found = CostFit().profile(state)
    assert found.intercept == pytest.approx(7, rel=1e-3) and found.slope == pytest.approx(2, rel=1e-3)
    state = fed(np.full((200, 1), 20.0), np.full((200, 1), 52.0), state=state)
    found = CostFit().profile(state)
    assert found.intercept == pytest.approx(7, rel=1e-2) and found.slope == pytest.approx(2.25, rel=1e-2)


def test_nearly_equal_loads_do_not_turn_noise_into_an_intercept():
    rng = np.random.default_rng(0)
    loads, seconds = noisy(rng, 300, np.full(16, 2.0), 0.0, spread=0.005, noise=0.03)
    found = profile(loads, seconds)
    assert np.abs(found.seconds(np.full(16, 50.0)) / 100 - 1).max() < 0.15


def test_noise_is_averaged_away():
    rng = np.random.default_rng(1)
    slope, intercept = np.linspace(1, 3, 16), np.full(16, 30.0)
    found = profile(*noisy(rng, 200, slope, intercept, spread=0.5))
    assert np.abs(found.seconds(np.full(16, 100.0)) / (slope * 100 + intercept) - 1).max() < 0.02
    assert np.abs(found.slope / slope - 1).max() < 0.1


@pytest.mark.parametrize("steps_before", [3, 10, 100])
def test_one_outlier_hardly_moves_the_line(steps_before):
    rng = np.random.default_rng(2)
    loads, seconds = noisy(rng, steps_before + 6, np.array([2.0, 1.0]), np.array([10.0, 0]))
    clean = seconds.copy()
    seconds[steps_before] *= 10
    for end in range(steps_before + 1, steps_before + 7):
        load = np.full(2, 100.0)
        moved = profile(loads[:end], seconds[:end]).seconds(load) / profile(loads[:end], clean[:end]).seconds(load)
        assert np.abs(moved - 1).max() < 0.05


@pytest.mark.parametrize("factor", [3.0, 1 / 3, 1.5])
@pytest.mark.parametrize("intercept", [0.0, 40.0])
def test_a_sudden_change_of_speed_is_followed_within_three_steps(factor, intercept):
    rng = np.random.default_rng(3)
    loads, seconds = noisy(rng, 60, np.array([2.0, 1.0]), intercept)
    later, slower = noisy(rng, 10, np.array([2.0, 1.0]), intercept)
    slower[:, 0] *= factor
    state = fed(loads, seconds)
    for step, (load, second) in enumerate(zip(later, slower), start=1):
        state = CostFit().observe(state, load, second)
        off = CostFit().profile(state).seconds(np.full(2, 100.0)) / ([200, 100] + np.array(intercept))
        assert abs(off[1] - 1) < 0.03
        if step >= 3:
            assert abs(off[0] / factor - 1) < 0.05, step


def test_drift_is_followed():
    rng = np.random.default_rng(4)
    slope = np.linspace(2, 4, 400)[:, None]
    loads, seconds = noisy(rng, 400, np.ones(1), 0.0)
    found = profile(loads, seconds * slope)
    assert found.seconds(np.array([100.0])) == pytest.approx(400, rel=0.05)


def test_the_first_step_may_be_slow_from_warming_up():
    loads = np.linspace(80, 120, 6)[:, None]
    seconds = 2 * loads
    seconds[0] *= 20
    assert profile(loads, seconds).seconds(np.array([100.0])) == pytest.approx(200, rel=0.05)


def test_the_state_survives_pickling_and_is_never_changed_in_place():
    rng = np.random.default_rng(5)
    loads, seconds = noisy(rng, 30, np.ones(3), 5.0)
    state = fed(loads[:20], seconds[:20])
    copy = pickle.loads(pickle.dumps(state))
    fed(loads[20:], seconds[20:], state=state)
    for name in ("load", "seconds", "weight", "slope", "intercept", "scatter"):
        assert np.array_equal(getattr(copy, name), getattr(state, name))
    again = CostFit().profile(fed(loads[20:], seconds[20:], state=copy))
    assert np.array_equal(again.slope, profile(loads, seconds).slope)


@pytest.mark.parametrize("ranks, limit_s", [(64, 0.02), (1000, 0.2)])
def test_a_step_of_feedback_is_cheap(ranks, limit_s):
    """The aim is 1 ms for 64 ranks and a few for 1000; the limits leave room for a busy machine."""
    rng = np.random.default_rng(6)
    loads, seconds = noisy(rng, 20, np.ones(ranks), 5.0)
    state, best = fed(loads, seconds), np.inf
    for load, second in zip(loads, seconds):
        start = time.process_time()
        state = CostFit().observe(state, load, second)
        best = min(best, time.process_time() - start)
    assert best < limit_s
