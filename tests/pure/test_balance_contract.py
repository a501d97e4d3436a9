"""What every balance strategy promises, whatever its paper: one table, the same tests for all."""

import pickle
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronica_hvd.balance import STRATEGIES, make
from chronica_hvd.balance.even import Even
from chronica_hvd.records import Pool, Profile, StepRecord, World

VARIANTS = {
    **{name: (name, {}) for name in STRATEGIES},
    "even with shares": ("even", {"shares": (3, 1, 2)}),
    "chronica window 1": ("chronica", {"window": 1}),
    "chronica free": ("chronica", {"count": "free"}),
    "chronica nearest": ("chronica", {"pick": "nearest", "ahead": 3}),
    "chronica fit": ("chronica", {"pick": "fit", "ahead": 3}),
}
every_strategy = pytest.mark.parametrize("variant", VARIANTS)
SPEEDS = np.array([1.0, 0.5, 0.25])


def strategy_of(variant):
    name, its_settings = VARIANTS[variant]
    return make(name, **its_settings)


def record_of(plan, speeds=SPEEDS, step=0):
    zero = np.zeros(len(speeds))
    return StepRecord(0, step, plan.count, plan.load, plan.load / speeds, zero, zero, zero, zero)


def epoch(strategy, state, world, sizes, batch, profile, pool_ids=None):
    """All plans of one epoch, with feedback after each call of plan; and the state after it."""
    ids = np.arange(len(sizes)) if pool_ids is None else pool_ids
    pool, plans = Pool(ids, sizes[ids], batch), []
    while len(pool.ids):
        new, pool, state = strategy.plan(state, world, profile, pool)
        assert new, "a call of plan makes a step at least"
        plans += new
        for plan in new:
            state = strategy.observe(state, record_of(plan, np.resize(SPEEDS, world.size)))
    return plans, state


def flat(plans):
    return np.concatenate([ids for plan in plans for ids in plan.samples])


def same(plans, others):
    return len(plans) == len(others) and all(
        np.array_equal(a, b) for plan, other in zip(plans, others) for a, b in zip(plan.samples, other.samples)
    )


@every_strategy
@given(st.integers(0, 150), st.integers(3, 24), st.integers(0, 2**31))
@settings(max_examples=25, deadline=None)
def test_each_sample_once_true_loads_no_rank_empty_and_a_short_last_step(variant, samples, batch, seed):
    rng, strategy, world = np.random.default_rng(seed), strategy_of(variant), World(3)
    sizes, profile = rng.lognormal(3, 1, samples), Profile(rng.uniform(0.5, 2, 3), rng.uniform(0, 9, 3))
    state = strategy.init(world, seed)
    for _ in range(2):
        ids = rng.permutation(samples)
        plans, state = epoch(strategy, state, world, sizes, batch, profile, ids)
        assert len(plans) == -(-samples // batch)
        assert not samples or sorted(flat(plans)) == list(range(samples))
        for plan in plans:
            assert np.allclose(plan.load, [sizes[mine].sum() for mine in plan.samples])
            assert np.allclose(plan.predicted_s, profile.seconds(plan.load))
            assert plan.count.sum() < 3 or plan.count.min() >= 1
        if variant != "chronica free":
            assert [plan.count.sum() for plan in plans[:-1]] == [batch] * (len(plans) - 1)


@every_strategy
def test_caps_are_kept(variant):
    world, rng = World(3, max_count=np.array([3, 20, 20])), np.random.default_rng(0)
    strategy, sizes = strategy_of(variant), rng.lognormal(3, 1, 200)
    plans, _ = epoch(strategy, strategy.init(world, 0), world, sizes, 24, Profile(np.ones(3), np.zeros(3)))
    assert max(plan.count[0] for plan in plans) == 3 and len(flat(plans)) == 200


@every_strategy
def test_the_same_seed_gives_the_same_plans_through_pickling_too(variant):
    strategy, world, sizes = strategy_of(variant), World(3), np.random.default_rng(1).lognormal(3, 1, 120)
    profile = Profile(1 / SPEEDS, np.zeros(3))
    first, state = epoch(strategy, strategy.init(world, 7), world, sizes, 12, profile)
    assert same(first, epoch(strategy, strategy.init(world, 7), world, sizes, 12, profile)[0])
    again = epoch(pickle.loads(pickle.dumps(strategy)), pickle.loads(pickle.dumps(state)), world, sizes, 12, profile)
    assert same(epoch(strategy, state, world, sizes, 12, profile)[0], again[0])


@every_strategy
def test_one_rank_alone_computes_everything(variant):
    if variant == "even with shares":
        pytest.skip("its shares are for three ranks")
    strategy, world, sizes = strategy_of(variant), World(1), np.arange(1.0, 12)
    plans, _ = epoch(strategy, strategy.init(world, 0), world, sizes, 4, Profile.unknown(1))
    assert sorted(flat(plans)) == list(range(11)) and all(len(plan.samples) == 1 for plan in plans)


@every_strategy
def test_fewer_samples_than_ranks_leave_some_ranks_empty(variant):
    strategy, world = strategy_of(variant), World(3)
    plans, _ = epoch(strategy, strategy.init(world, 0), world, np.array([5.0, 7]), 4, Profile.unknown(3))
    assert len(plans) == 1 and plans[0].count.sum() == 2 and sorted(flat(plans)) == [0, 1]


@every_strategy
def test_settings_are_frozen_and_in_their_fields(variant):
    strategy = strategy_of(variant)
    assert strategy == type(strategy)(**vars(strategy)) and isinstance(strategy.window, int)
    with pytest.raises(AttributeError):
        strategy.window = 3


def test_even_gives_equal_counts_of_each_batch_in_dealt_order():
    plans, _ = epoch(Even(), None, World(3), np.ones(20), 8, Profile.unknown(3), np.arange(20)[::-1])
    assert plans[0].samples[0].tolist() == [19, 18, 17]
    assert [plan.count.tolist() for plan in plans] == [[3, 3, 2], [3, 3, 2], [2, 1, 1]]


def test_c08_sizes_given_by_hand_are_used_as_given():
    strategy = make("even", shares=(3, 4))
    plans, _ = epoch(strategy, strategy.init(World(2)), World(2), np.ones(21), 7, Profile.unknown(2))
    assert [plan.count.tolist() for plan in plans] == [[3, 4]] * 3


def test_c09_a_wrong_number_of_sizes_names_both_numbers():
    with pytest.raises(ValueError, match=r"3 batch sizes \(2, 2, 2\) but there are 2 ranks; give 2 numbers"):
        make("even", shares=(2, 2, 2)).init(World(2))


def test_c35_a_batch_size_per_rank_uses_each_sample_once():
    strategy = make("even", shares=(3, 1))
    plans, _ = epoch(strategy, strategy.init(World(2)), World(2), np.ones(7), 4, Profile.unknown(2))
    assert sorted(flat(plans)) == list(range(7)) and plans[0].count.tolist() == [3, 1]


def test_c41_seven_samples_on_four_ranks_without_padding():
    plans, _ = epoch(Even(), None, World(4), np.ones(7), 7, Profile.unknown(4))
    assert plans[0].count.tolist() == [2, 2, 2, 1] and sorted(flat(plans)) == list(range(7))


def test_c21_chronica_balances_by_size():
    strategy = make("chronica")
    plans, _ = epoch(strategy, strategy.init(World(2)), World(2), np.array([4.0, 4, 1, 1, 1, 1]), 6, Profile.unknown(2))
    assert plans[0].load.tolist() == [6, 6]


def test_a_users_own_object_is_taken_as_it_is():
    class Mine(Even):
        pass

    mine = Mine()
    assert make(mine) is mine


def test_bad_strategies_are_refused_with_the_choices():
    with pytest.raises(ValueError) as error:
        make("fastest")
    assert all(name in str(error.value) for name in ("fastest", *STRATEGIES))
    with pytest.raises(TypeError, match="window, init, plan and observe"):
        make(object())
    with pytest.raises(TypeError, match="settings"):
        make(Even(), window=3)
    with pytest.raises(ValueError, match="pack, nearest, fit.*got pick='best'"):
        make("chronica", pick="best")
    with pytest.raises(ValueError, match="shares"):
        make("chronica", shares=(1, 2))


@pytest.mark.parametrize("module", ["records", "costs", "shares", "levels", "dealing", "trades", "packing", "balance"])
def test_decision_files_load_no_torch_horovod_mpi_and_no_clock(module):
    look = (
        f"import sys, chronica_hvd.{module}; "
        "print([name for name in ('torch', 'horovod', 'mpi4py') if name in sys.modules]); "
        "print([name for name, loaded in sys.modules.items() if name.startswith('chronica_hvd.') "
        "and any(hasattr(loaded, clock) for clock in ('time', 'open', 'os', 'subprocess'))])"
    )
    found = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, timeout=60, check=True)
    assert found.stdout.split() == ["[]", "[]"]
