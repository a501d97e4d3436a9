"""BOA, LB-BSP and EP4DDL: what their papers' rules give on numbers that can be checked by hand."""

import numpy as np
import pytest

from chronica_hvd.balance import make
from chronica_hvd.balance.ep4ddl import amdahl_s, choose_threads, relative_variance
from chronica_hvd.planner import Planner
from chronica_hvd.records import Profile, StepRecord, World


def record(count, compute_s):
    count, compute_s = np.array(count), np.array(compute_s, float)
    zero = np.zeros(len(count))
    return StepRecord(0, 0, count, count.astype(float), compute_s, zero, zero, zero, zero)


def counts_after(strategy, records, samples, world=None):
    world = world or World(len(records[0].count))
    state = strategy.init(world)
    for each in records:
        state = strategy.observe(state, each)
    return strategy.counts(state, world, Profile.unknown(world.size), samples).tolist()


def test_lb_bsp_follows_exact_speeds():
    seen = record([10, 10, 10], [10, 5, 2])
    assert counts_after(make("lb_bsp"), [seen], 80) == [10, 20, 50]


def test_lb_bsp_leaves_small_changes_alone():
    strategy, first = make("lb_bsp"), record([10, 10], [1, 1])
    assert counts_after(strategy, [first, record([10, 10], [1.04, 1])], 100) == [50, 50]
    assert counts_after(strategy, [first, record([10, 10], [3, 1])], 100) != [50, 50]


def test_boa_solves_its_affine_model():
    """Times 10 + (1, 2, 4) b seen at two batch sizes: (40, 20, 10) of 70."""
    alpha = np.array([1, 2, 4])
    seen = [record([n] * 3, 10 + alpha * n) for n in (5, 20, 35, 10, 25)]
    assert counts_after(make("boa"), seen, 70) == [40, 20, 10]
    capped = World(3, max_count=np.array([32, 70, 70]))
    best = counts_after(make("boa"), seen, 70, capped)
    assert best[0] <= 32 and sum(best) == 70 and (10 + alpha * best).max() == pytest.approx(62)


def test_boa_keeps_its_plan_while_the_ranks_finish_together():
    strategy, world = make("boa"), World(2)
    state = strategy.observe(strategy.init(world), record([10, 10], [1, 2]))
    line = state.line
    assert strategy.observe(state, record([13, 7], [1.30, 1.36])).line is line
    assert strategy.observe(state, record([13, 7], [1.30, 2.0])).line is not line


def test_ep4ddl_performance_variance():
    assert relative_variance(np.array([1, 1, 1, 3.0])) == pytest.approx(1 / 3)


def test_ep4ddl_never_slows_everyone_down():
    assert choose_threads([4, 8], [2, 2], [4, 4], serial=0.0).tolist() == [2, 4]


def test_ep4ddl_shares_a_hosts_threads():
    """Four ranks on one host of 8 threads: as good as any other choice, and no more than 8."""
    seconds, now, limits = np.array([1, 1, 2, 4.0]), np.full(4, 2), np.full(4, 8)
    chosen = choose_threads(seconds, now, limits, 0.1, np.zeros(4, int), np.array([8]))
    every = np.stack(np.meshgrid(*[np.arange(1, 9)] * 4), -1).reshape(-1, 4)
    every = every[every.sum(axis=1) <= 8]
    best = min(amdahl_s(seconds, now, threads, 0.1).max() for threads in every)
    assert chosen.sum() <= 8
    assert amdahl_s(seconds, now, chosen, 0.1).max() == pytest.approx(best)


def test_ep4ddl_predictor():
    """A constant stays; after a change of 1, three steps bring 87.5 % of it."""
    strategy, world = make("ep4ddl"), World(2)
    state = strategy.init(world)
    for _ in range(3):
        state = strategy.observe(state, record([1, 1], [1, 1]))
    assert state.seconds.tolist() == [1, 1]
    for _ in range(3):
        state = strategy.observe(state, record([1, 1], [2, 2]))
    assert state.seconds.tolist() == [1.875, 1.875]


def test_ep4ddl_plans_equal_counts_with_threads():
    world = World(2, threads=np.array([2, 2]), max_threads=np.array([4, 4]))
    planner = Planner(np.ones(40), 8, world, make("ep4ddl", serial=0.0))
    planner.next()
    planner.observe(record([4, 4], [4, 8]))
    plan = planner.next()
    assert plan.count.tolist() == [4, 4] and plan.threads.tolist() == [2, 4]
