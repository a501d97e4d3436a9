"""Ranks that own their data: each sample once on its owner, whole batches, levelled steps, agreed ends."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_balance_contract import every_strategy, strategy_of

from chronica_hvd.balance import make
from chronica_hvd.placed import Placement, placed_order
from chronica_hvd.planner import Planner
from chronica_hvd.records import StepRecord, World


def epoch_plans(counts, batch, strategy="chronica", sizes=None, ends="last"):
    placement = Placement.of(counts, batch, ends)
    sizes = np.ones(sum(counts)) if sizes is None else sizes
    planner = Planner(sizes, batch, World(len(counts)), strategy, placement=placement)
    return [planner.next() for _ in range(planner.steps)], placement


@every_strategy
@given(st.lists(st.integers(0, 30), min_size=3, max_size=3).filter(sum), st.integers(1, 12), st.integers(0, 999))
@settings(max_examples=15, deadline=None)
def test_each_sample_once_on_its_owner_in_whole_batches(variant, counts, batch, seed):
    sizes = np.random.default_rng(seed).uniform(1, 50, sum(counts))
    plans, placement = epoch_plans(counts, batch, strategy_of(variant), sizes)
    for rank in range(3):
        mine = np.concatenate([plan.samples[rank] for plan in plans])
        assert sorted(mine) == np.flatnonzero(placement.owner == rank).tolist()
    assert [plan.count.sum() for plan in plans[:-1]] == [batch] * (len(plans) - 1)
    assert all(np.allclose(plan.load, [sizes[ids].sum() for ids in plan.samples]) for plan in plans)


@pytest.mark.parametrize(
    ("counts", "batch", "steps"), [([10, 11], 4, 6), ([4, 4, 8, 4], 4, 5), ([9, 1], 2, 5), ([8, 0], 4, 2)]
)
def test_c22_c23_c32_c29_steps_are_agreed_and_every_sample_is_used(counts, batch, steps):
    plans, _ = epoch_plans(counts, batch)
    assert len(plans) == steps and sum(plan.count for plan in plans).tolist() == counts


def test_c30_first_end_stops_all_when_the_first_rank_has_too_few():
    plans, _ = epoch_plans([10, 4], 4, ends="first")
    assert [plan.count.tolist() for plan in plans] == [[2, 2], [2, 2]]


def test_long_samples_meet_and_a_ranks_steps_are_level():
    rng = np.random.default_rng(0)
    sizes = rng.gamma(0.5, 90, 640)
    spans = {}
    for strategy in ("even", "chronica"):
        plans, _ = epoch_plans([160] * 4, 40, strategy, sizes)
        spans[strategy] = sum(plan.load.max() for plan in plans)
    whole = max(sizes[:160].sum(), sizes[160:320].sum(), sizes[320:480].sum(), sizes[480:].sum())
    assert spans["chronica"] < 1.02 * whole < spans["even"]


def test_any_stretch_of_the_order_is_in_proportion():
    placement = Placement.of([300, 100, 0], 8)
    order = placed_order(np.random.default_rng(1).permutation(400), placement)
    assert sorted(order) == list(range(400))
    share = np.cumsum(placement.owner[order] == 0) / np.arange(1, 401)
    assert np.all(np.abs(share - 0.75) * np.arange(1, 401) < 1.01)


def test_nobody_has_data_or_first_makes_no_step():
    for counts, ends in (([0, 0], "last"), ([8, 0], "first")):
        with pytest.raises(ValueError, match="makes no step"):
            Placement.of(counts, 4, ends)
    with pytest.raises(ValueError, match="allowed are 'last', 'first'"):
        Placement.of([1, 1], 2, "never")


def test_a_strategy_that_ignores_the_owners_is_refused():
    class Careless(type(make("even"))):
        def plan(self, state, world, profile, pool):
            pool = type(pool)(pool.ids, pool.sizes, pool.batch)
            return super().plan(state, world, profile, pool)

    with pytest.raises(ValueError, match="Careless gave rank"):
        epoch_plans([6, 2], 4, Careless())


def test_only_the_overflow_of_a_slow_rank_moves_and_then_nothing_more():
    sizes = np.random.default_rng(2).uniform(1, 9, 400)
    planner = Planner(sizes, 20, World(2), placement=Placement.of([200, 200], 20))
    before, slope, nothing = planner.placement.owner, np.array([1.0, 3.0]), np.zeros(2)
    assert planner.migrate() is before  # nothing is known yet
    for step in range(planner.steps):
        plan = planner.next()
        seconds = slope * plan.load
        planner.observe(StepRecord(0, step, plan.count, plan.load, seconds, nothing, nothing, nothing, seconds))
    after = planner.migrate()
    assert np.all(after[before == 0] == 0) and np.any(after[before == 1] == 0)
    time = slope * np.bincount(after, sizes)
    assert time.max() < 1.01 * sizes.sum() / (1 + 1 / 3)
    assert planner.migrate() is after
    planner.start(1)
    plans = [planner.next() for _ in range(planner.steps)]
    assert [plan.count.sum() for plan in plans] == [20] * 20
    assert sum(max(slope * plan.load) for plan in plans) < 1.03 * time.max()
