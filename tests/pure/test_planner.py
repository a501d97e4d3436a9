"""Order and planner: each sample once, the order a function of (seed, epoch), what drifted is planned anew."""

import numpy as np
import pytest

from chronica_hvd.balance import STRATEGIES
from chronica_hvd.order import epoch_order, epoch_steps
from chronica_hvd.planner import Planner
from chronica_hvd.records import StepRecord, World


def drive(planner, speeds, epoch=0, change=None):
    """One epoch on exact devices; returns (plans, (steps, M) s). change: {step: speeds}."""
    planner.start(epoch)
    plans, seconds = [], []
    for step in range(planner.steps):
        speeds = (change or {}).get(step, speeds)
        plan = planner.next()
        compute = plan.load / speeds
        zero = np.zeros(len(speeds))
        planner.observe(StepRecord(epoch, step, plan.count, plan.load, compute, zero, zero, zero, zero))
        plans.append(plan)
        seconds.append(compute)
    return plans, np.array(seconds)


def flat(plans):
    return np.concatenate([ids for plan in plans for ids in plan.samples])


def test_the_order_depends_on_seed_and_epoch_alone():
    assert sorted(epoch_order(100, 1, 2)) == list(range(100))
    assert (epoch_order(100, 1, 2) == epoch_order(100, 1, 2)).all()
    assert (epoch_order(100, 1, 2) != epoch_order(100, 1, 3)).any()
    assert (epoch_order(100, 1, 2) != epoch_order(100, 2, 2)).any()
    assert epoch_order(5, 1, 2, shuffle=False).tolist() == [0, 1, 2, 3, 4]
    assert [epoch_steps(10, 4), epoch_steps(10, 4, drop_last=True), epoch_steps(8, 4)] == [3, 2, 2]


@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("samples, batch, ranks", [(203, 16, 4), (7, 16, 4), (64, 16, 16), (33, 16, 1)])
def test_each_sample_once_in_every_epoch(name, samples, batch, ranks):
    sizes = np.random.default_rng(0).lognormal(3, 1, samples)
    planner = Planner(sizes, batch, World(ranks), name)
    for epoch in range(3):
        plans, _ = drive(planner, np.linspace(1, 3, ranks), epoch)
        assert sorted(flat(plans)) == list(range(samples))
        assert [plan.count.sum() for plan in plans[:-1]] == [batch] * (planner.steps - 1)
        with pytest.raises(IndexError, match="no step left"):
            planner.next()


def test_window_one_leaves_every_global_batch_as_dealt():
    sizes = np.random.default_rng(0).lognormal(3, 1, 200)
    dealt = epoch_order(200, 4, 0)
    from chronica_hvd.balance import make

    plans, _ = drive(Planner(sizes, 16, World(4), make("chronica", window=1), seed=4), np.array([1.0, 1, 2, 3]))
    for step, plan in enumerate(plans):
        assert set(flat([plan])) == set(dealt[step * 16 : step * 16 + 16])


def test_a_rank_three_times_slower_is_balanced_within_ten_steps_and_back():
    sizes = np.random.default_rng(0).lognormal(3, 1, 200 * 64)
    even, slow = np.ones(4), np.array([1.0, 1, 1, 1 / 3])
    _, seconds = drive(Planner(sizes, 64, World(4)), even, change={60: slow, 130: even})
    ideal = sizes.mean() * 64 / np.array([slow.sum() if 60 <= step < 130 else 4 for step in range(200)])
    over = seconds.max(axis=1) / ideal
    for begin, end in ((10, 60), (70, 130), (140, 200)):
        assert over[begin:end].mean() < 1.06
    assert over[60] > 1.5


def test_drop_last_leaves_the_short_step_out():
    plans, _ = drive(Planner(np.ones(11), 4, World(2), "even", drop_last=True), np.ones(2))
    assert [plan.count.sum() for plan in plans] == [4, 4]


def test_free_counts_use_each_sample_once_though_planned_again():
    """Speeds that change keep sending planned samples back; none may be lost or left over."""
    from chronica_hvd.balance import make

    sizes = np.random.default_rng(0).lognormal(3, 1, 1000)
    planner = Planner(sizes, 16, World(4), make("chronica", count="free"))
    rng = np.random.default_rng(1)
    plans, _ = drive(planner, np.ones(4), change={step: rng.uniform(1, 3, 4) for step in range(0, 60, 5)})
    assert sorted(flat(plans)) == list(range(1000))


def test_c46_eleven_items_on_four_ranks_are_all_used():
    for strategy in ("even", "chronica"):
        plans, _ = drive(Planner(np.ones(11), 4, World(4), strategy), np.ones(4))
        assert sorted(np.concatenate([ids for plan in plans for ids in plan.samples])) == list(range(11))
