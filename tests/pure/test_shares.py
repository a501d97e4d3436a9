"""Whole shares: they sum, keep their bounds, and the min-max ones are optimal against brute force and a solver."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from chronica_hvd.shares import largest_remainder, min_max_shares

LBB_SLOPE = np.array([(104.94 - 81.81) / 39, (104.14 - 81.49) / 39, (103.46 - 85.39) / 30, (104.41 - 392.92) / -108])
LBB_INTERCEPT = np.array([81.81, 81.49, 85.39, 392.92]) - 128 * LBB_SLOPE  # ms


def longest(slope, intercept, shares):
    return np.max(np.asarray(slope) * shares + intercept)


def test_the_boa_example_and_its_cap():
    shares = min_max_shares([1, 2, 4], [10, 10, 10], 70)
    assert shares.tolist() == [40, 20, 10] and longest([1, 2, 4], 10, shares) == 50
    capped = min_max_shares([1, 2, 4], [10, 10, 10], 70, high=[32, 70, 70])
    assert capped.sum() == 70 and capped[0] <= 32 and longest([1, 2, 4], 10, capped) == 62


def test_the_measured_cluster_of_lbb():
    shares = min_max_shares(LBB_SLOPE, LBB_INTERCEPT, 512)
    assert shares.tolist() == [166, 167, 159, 20]
    assert longest(LBB_SLOPE, LBB_INTERCEPT, shares) == pytest.approx(104.41, abs=0.005)


def test_c04_ten_and_twenty_milliseconds_a_sample():
    assert min_max_shares([10, 20], 0, 12).tolist() == [8, 4]


def test_c05_the_balanced_batch_is_one_and_a_half_times_faster():
    cost = np.array([1.0, 2.0])
    assert longest(cost, 0, largest_remainder([1, 1], 12)) / longest(cost, 0, min_max_shares(cost, 0, 12)) == 1.5


def test_c07_memory_caps_decide():
    assert min_max_shares([1, 1], 0, 36, high=[24, 12]).tolist() == [24, 12]


def bounded(draw_ranks=4, most=8):
    rank = st.tuples(st.floats(0, 5), st.floats(0, 20), st.integers(0, 2), st.integers(2, most))
    return st.tuples(st.lists(rank, min_size=1, max_size=draw_ranks), st.floats(0, 1))


@given(bounded())
@settings(max_examples=80, deadline=None)
def test_nothing_is_better_than_the_min_max_shares_by_brute_force(case):
    (slope, intercept, low, high), total = unpack(case)
    shares = min_max_shares(slope, intercept, total, low, high)
    assert shares.sum() == total and np.all((low <= shares) & (shares <= high))
    every = itertools.product(*(range(a, b + 1) for a, b in zip(low, high)))
    best = min(longest(slope, intercept, np.array(some)) for some in every if sum(some) == total)
    assert longest(slope, intercept, shares) == pytest.approx(best, rel=1e-9, abs=1e-9)


@given(bounded(6, 40))
@settings(max_examples=40, deadline=None)
def test_nothing_is_better_than_the_min_max_shares_by_a_solver(case):
    (slope, intercept, low, high), total = unpack(case)
    ranks = len(slope)
    below = LinearConstraint(np.column_stack([np.diag(slope), -np.ones(ranks)]), -np.inf, -intercept)
    whole = LinearConstraint(np.append(np.ones(ranks), 0)[None], total, total)
    found = milp(
        np.append(np.zeros(ranks), 1),
        integrality=np.append(np.ones(ranks), 0),
        bounds=Bounds(np.append(low, -np.inf), np.append(high, np.inf)),
        constraints=[below, whole],
        options={"mip_rel_gap": 0},
    )
    ours = longest(slope, intercept, min_max_shares(slope, intercept, total, low, high))
    assert ours == pytest.approx(found.fun, rel=1e-5, abs=1e-5)


def unpack(case):
    ranks, where = case
    slope, intercept, low, high = (np.array(column) for column in zip(*ranks))
    total = int(round(low.sum() + where * (high.sum() - low.sum())))
    return (slope, intercept, low, high), total


@given(st.lists(st.floats(0.1, 5), min_size=2, max_size=6, unique=True), st.integers(1, 60), st.randoms())
@settings(max_examples=60, deadline=None)
def test_permuting_the_ranks_permutes_the_longest_time_not_its_value(slope, total, random):
    order = list(range(len(slope)))
    random.shuffle(order)
    slope = np.array(slope)
    plain, turned = min_max_shares(slope, 1.0, total), min_max_shares(slope[order], 1.0, total)
    assert longest(slope, 1.0, plain) == pytest.approx(longest(slope[order], 1.0, turned))
    assert longest(slope, 1.0, plain) <= longest(slope, 1.0, largest_remainder(np.ones(len(slope)), total)) + 1e-9


def test_many_samples_on_many_ranks():
    slope = np.random.default_rng(0).uniform(1, 3, 1000)
    shares = min_max_shares(slope, 5.0, 100_000)
    ideal = (100_000 + np.sum(5 / slope)) / np.sum(1 / slope)
    assert shares.sum() == 100_000 and ideal <= longest(slope, 5.0, shares) <= ideal + slope.max()


def test_bounds_that_cannot_hold_are_named():
    with pytest.raises(ValueError, match=r"40 samples do not fit .*sum 36"):
        min_max_shares([1, 1], 0, 40, high=[24, 12])
    with pytest.raises(ValueError, match=r"3 samples do not fit"):
        min_max_shares([1, 1], 0, 3, low=2)


@given(st.lists(st.floats(0, 100), min_size=1, max_size=8), st.integers(0, 1000))
@settings(max_examples=100, deadline=None)
def test_largest_remainder_sums_and_is_nearest(weights, total):
    shares = largest_remainder(weights, total)
    exact = np.array(weights) * total / sum(weights) if sum(weights) else np.full(len(weights), total / len(weights))
    assert shares.sum() == total and np.all(np.abs(shares - exact) < 1 + 1e-6)


def test_largest_remainder_examples():
    assert largest_remainder([1, 2, 5], 80).tolist() == [10, 20, 50]
    assert largest_remainder([0.3, 0.3, 0.3, 0.1], 512).tolist() == [154, 154, 153, 51]
    assert largest_remainder([0, 0], 3).tolist() == [2, 1]
    with pytest.raises(ValueError, match="weights must be finite"):
        largest_remainder([1, np.nan], 3)
