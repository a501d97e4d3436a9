"""The loader over real MPI: each sample once, the planned parts, learning while training, clean ends."""

import numpy as np
import pytest
import torch
from ranks import parallel

import chronica_hvd as chronica


class Numbers(torch.utils.data.Dataset):
    """Sample i is the number i; remembers what was read."""

    def __init__(self, samples):
        self.samples, self.read = samples, []

    def __len__(self):
        return self.samples

    def __getitem__(self, index):
        self.read.append(index)
        return torch.tensor([float(index)], dtype=torch.float64)


def gathered(values):
    """Every rank's list, joined."""
    from mpi4py import MPI

    return sum(MPI.COMM_WORLD.allgather(list(values)), [])


def epoch(loader, optimizer=None, weight=None):
    """Run one epoch; returns this rank's sample numbers of each step that counted."""
    steps = []
    for batch in loader:
        counted = loader.session.weight > 0
        steps.append(batch.flatten().int().tolist() if counted else [])
        if optimizer:
            optimizer.zero_grad()
            ((weight * batch) ** 2).mean().backward()
            optimizer.step()
    return steps


def lin_optimizer():
    w = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    return chronica.DistributedOptimizer(torch.optim.SGD([w], lr=1e-6), [("w", w)]), w


@parallel(4)
def test_c41_seven_samples_on_four_ranks_each_once():
    chronica.init()
    loader = chronica.DataLoader(Numbers(7), batch_size=7, strategy="even")
    steps = epoch(loader)
    assert sorted(gathered(sum(steps, []))) == list(range(7))
    assert sorted(gathered([len(s) for s in steps])) == [1, 2, 2, 2]


@parallel(4)
def test_a_last_step_smaller_than_the_ranks_repeats_with_weight_zero():
    chronica.init()
    data = Numbers(10)
    loader = chronica.DataLoader(data, batch_size=8)
    optimizer, w = lin_optimizer()
    steps = epoch(loader, optimizer, w)
    assert len(steps) == len(loader) == 2
    assert sorted(gathered(sum(steps, []))) == list(range(10))
    assert len(gathered(data.read)) == 12  # two of the four ranks saw one sample again
    assert len(set(gathered([w.item()]))) == 1


@parallel(2)
def test_c42_every_epoch_has_an_order_of_its_own_and_set_epoch_is_honoured():
    chronica.init()
    loader = chronica.DataLoader(Numbers(40), batch_size=8, strategy="even")
    first, second = epoch(loader), epoch(loader)
    assert first != second
    loader.set_epoch(0)
    assert epoch(loader) == first
    assert loader.epoch == 0 and len(loader) == 5


@parallel(2)
def test_c08_sizes_given_by_hand_are_used_as_given():
    chronica.init()
    loader = chronica.DataLoader(Numbers(14), batch_size=[3, 4])
    shares = [loader.session.weight / loader.session.total for _ in loader]
    assert shares == [[3 / 7, 4 / 7][chronica.rank()]] * 2


@parallel(2)
def test_c09_wrong_number_of_sizes_names_both_numbers():
    chronica.init()
    with pytest.raises(ValueError, match="3 batch sizes were given for 2 ranks"):
        chronica.DataLoader(Numbers(14), batch_size=[3, 4, 5])


@parallel(2)
def test_c35_a_batch_size_per_rank_sees_each_sample_once():
    chronica.init()
    steps = epoch(chronica.DataLoader(Numbers(7), batch_size=[3, 1]))
    assert sorted(gathered(sum(steps, []))) == list(range(7))


@parallel(2)
def test_c07_memory_caps_are_kept():
    chronica.init()
    for strategy in ("chronica", "boa", "even"):
        loader = chronica.DataLoader(Numbers(72), batch_size=36, max_samples=[24, 12], strategy=strategy)
        assert [len(step) for step in epoch(loader)] == [[24, 12][chronica.rank()]] * 2


@parallel(3)
def test_c17_weights_add_to_one_over_the_ranks():
    chronica.init()
    sizes = np.random.default_rng(1).uniform(0.1, 50, 60)
    loader = chronica.DataLoader(Numbers(60), batch_size=20, sizes=sizes, weight="size")
    for _ in loader:
        share = loader.session.weight / loader.session.total
        assert abs(sum(gathered([share])) - 1) < 1e-12


@parallel(2, CHRONICA_DEVICE_COST="0.010", CHRONICA_SLOW="1:2.0")
def test_c04_a_card_twice_as_slow_gets_half_as_much():
    """10 and 20 ms a sample, global batch 12: 8 and 4 (emulated devices)."""
    chronica.init()
    loader = chronica.DataLoader(Numbers(96), batch_size=12)
    optimizer, w = lin_optimizer()
    counts = [len(step) for step in epoch(loader, optimizer, w)]
    assert counts[0] == 6
    assert counts[-1] == [8, 4][chronica.rank()]


@parallel(2, CHRONICA_DEVICE_COST="0.004", CHRONICA_SLOW="1:3.0")
def test_the_plan_follows_the_first_feedback_and_training_does_not_wait_for_it():
    """Emulated devices: the second step is balanced already, and the trace shows what happened."""
    import os
    import tempfile

    chronica.init()
    path = tempfile.mkstemp()[1]
    sizes = np.random.default_rng(3).integers(1, 9, 480)
    loader = chronica.DataLoader(Numbers(480), batch_size=16, sizes=sizes, weight="size", trace=path)
    optimizer, w = lin_optimizer()
    steps = epoch(loader, optimizer, w)
    assert sorted(gathered(sum(steps, []))) == list(range(480))
    if chronica.rank() == 0:
        from chronica_hvd.watch.trace import read

        header, rows = read(path)
        assert header["emulated"] == {"slow": "1:3.0", "device_cost_s_per_unit": 0.004}
        assert len(rows) == 30
        compute = np.array([row["compute_s"] for row in rows])
        assert compute[0, 1] > 2 * compute[0, 0]
        assert np.median(np.abs(compute[2:, 1] / compute[2:, 0] - 1)) < 0.25
        load = np.array([row["load"] for row in rows])
        assert np.allclose(load.sum(), sizes.sum())
        predicted = np.array([row["predicted_s"] for row in rows])
        assert np.median(np.abs(predicted[5:] / compute[5:] - 1)) < 0.1
        waited = np.array([row["plan_s"] for row in rows])
        assert waited[2:].sum() < 0.1 * compute.sum()
    os.remove(path)


@parallel(2)
def test_breaking_off_on_all_ranks_and_starting_again():
    chronica.init()
    loader = chronica.DataLoader(Numbers(60), batch_size=6)
    optimizer, w = lin_optimizer()
    for stop in (0, 1, 5):
        for step, batch in enumerate(loader):
            optimizer.zero_grad()
            (w * batch).mean().backward()
            optimizer.step()
            if step == stop:
                break
    assert sorted(gathered(sum(epoch(loader, optimizer, w), []))) == list(range(60))


@parallel(2)
def test_loader_workers_and_two_loaders_side_by_side():
    chronica.init()
    one = chronica.DataLoader(Numbers(30), batch_size=6, num_workers=2)
    two = chronica.DataLoader(Numbers(30), batch_size=6, seed=5)
    seen = [], []
    for a, b in zip(one, two):
        seen[0].extend(a.flatten().int().tolist())
        seen[1].extend(b.flatten().int().tolist())
    for ids in seen:
        assert sorted(gathered(ids)) == list(range(30))


@parallel(2)
def test_another_epoch_on_one_rank_is_refused():
    chronica.init()
    loader = chronica.DataLoader(Numbers(12), batch_size=6)
    loader.set_epoch(chronica.rank())
    if chronica.rank() == 1:
        with pytest.raises(RuntimeError, match="this rank is in epoch 1, rank 0 in 0"):
            next(iter(loader))
    else:
        next(iter(loader))


@parallel(1)
def test_one_rank_alone():
    chronica.init()
    loader = chronica.DataLoader(Numbers(10), batch_size=4)
    optimizer, w = lin_optimizer()
    assert sorted(sum(epoch(loader, optimizer, w), [])) == list(range(10))
    assert w.item() != 1


@parallel(1)
def test_bad_arguments_are_refused():
    chronica.init()
    for bad, words in (
        ({"batch_size": 0}, "at least 1"),
        ({"batch_size": 2, "sizes": [1, 2]}, r"shape \(2,\) were given for 3"),
        ({"batch_size": 2, "sizes": [1, 0, 3]}, r"sizes\[1\]"),
        ({"batch_size": 2, "weight": "frames"}, "'count', 'size'"),
        ({"batch_size": 2, "max_samples": [1, 2]}, "one number of at least 1 for each rank"),
        ({"batch_size": 2, "max_samples": [1]}, "together at least the batch"),
        ({"batch_size": 2, "strategy": "quick"}, "chronica"),
    ):
        with pytest.raises(ValueError, match=words):
            chronica.DataLoader(Numbers(3), **bad)


@parallel(2)
def test_threads_of_a_plan_are_really_set():
    """A strategy of one's own that gives rank 1 two threads."""
    from dataclasses import dataclass, replace

    from chronica_hvd.balance.even import Even

    @dataclass(frozen=True)
    class TwoThreads(Even):
        def plan(self, state, world, profile, pool):
            plans, left, state = super().plan(state, world, profile, pool)
            return [replace(plan, threads=np.array([1, 2])) for plan in plans], left, state

    chronica.init()
    next(iter(chronica.DataLoader(Numbers(8), batch_size=4, strategy=TwoThreads())))
    assert torch.get_num_threads() == chronica.rank() + 1
