"""Ranks with data of their own, over real MPI and Horovod: agreed steps, nothing lost, nobody waits for ever."""

import pytest
import torch
from ranks import parallel
from test_loader import Numbers, epoch, gathered, lin_optimizer

import chronica_hvd as chronica


def own(counts):
    """This rank's part of the numbers 0, 1, ... of which each rank has so many."""
    rank = chronica.rank()
    first = sum(counts[:rank])
    return [torch.tensor([float(first + index)], dtype=torch.float64) for index in range(counts[rank])]


def trained(counts, batch, **options):
    """(loader, this rank's samples of each step) of one epoch with a real optimizer."""
    chronica.init()
    loader = chronica.DataLoader(own(counts), batch, placement="local", **options)
    return loader, epoch(loader, *lin_optimizer())


@parallel(2)
def test_c22_ten_and_eleven_samples_make_six_steps_of_four():
    _, steps = trained([10, 11], 4)
    assert len(steps) == 6 and sorted(gathered(sum(steps, []))) == list(range(21))


@parallel(4, timeout=30)
def test_c23_loaders_of_different_length_end_together():
    _, steps = trained([4, 4, 8, 4], 4)
    assert len(steps) == 5 and sorted(gathered(sum(steps, []))) == list(range(20))


@parallel(2)
def test_c32_shards_of_nine_and_one():
    _, steps = trained([9, 1], 2, strategy="even")
    assert len(steps) == 5 and sorted(gathered(sum(steps, []))) == list(range(10))


@parallel(2)
def test_c30_all_stop_when_the_first_has_too_few():
    _, steps = trained([10, 4], 4, ends="first")
    assert [len(step) for step in steps] == [2, 2]
    _, steps = trained([10, 4], [4, 2], ends="first")
    assert [len(step) for step in steps] == ([4, 4] if chronica.rank() == 0 else [2, 2])


@parallel(2)
def test_c29_a_rank_without_data_takes_part_with_weight_zero():
    chronica.init()
    counts = [8, 0]
    if chronica.rank():
        with pytest.warns(UserWarning, match="rank 1 on .* has no data"):
            loader = chronica.DataLoader(own(counts), 4, placement="local")
    else:
        loader = chronica.DataLoader(own(counts), 4, placement="local")
    optimizer, weight = lin_optimizer()
    steps = epoch(loader, optimizer, weight)
    assert torch.isfinite(weight).all() and weight.item() != 1.0
    assert [len(step) for step in steps] == ([4, 4] if chronica.rank() == 0 else [0, 0])


@parallel(2)
def test_c26_gradients_keep_their_size_after_a_rank_has_nothing_left():
    chronica.init()
    loader = chronica.DataLoader(own([3, 1]), 1, placement="local")
    weight = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [("w", weight)])
    for step, batch in enumerate(loader, 1):
        optimizer.zero_grad()
        (weight + 0 * batch).mean().backward()
        optimizer.step()
        assert weight.item() == -step


@parallel(2)
def test_local_data_learns_with_workers_for_several_epochs():
    chronica.init()
    loader = chronica.DataLoader(own([13, 6]), 4, placement="local", num_workers=1)
    first, second = epoch(loader), epoch(loader)
    assert first != second
    for steps in (first, second):
        assert len(steps) == 5 and sorted(gathered(sum(steps, []))) == list(range(19))


@parallel(2)
def test_different_arguments_are_an_error_on_all_ranks_that_names_the_rank():
    chronica.init()
    for wrong, name in (
        ({"seed": chronica.rank()}, "seed is 1 on rank 1"),
        ({"strategy": ["even", "chronica"][chronica.rank()]}, "strategy is Chronica"),
        ({"sizes": [1.0 + chronica.rank()] * 8}, "sizes is 8 numbers with checksum"),
    ):
        with pytest.raises(ValueError, match=name):
            chronica.DataLoader(Numbers(8), 4, **wrong)
    with pytest.raises(ValueError, match="samples is 9 on rank 1"):
        chronica.DataLoader(Numbers(8 + chronica.rank()), 4)


@parallel(2)
def test_what_local_data_leaves_no_room_for_is_refused():
    chronica.init()
    for wrong, reason in (({"max_samples": [4, 4]}, "no sample can go"), ({"ends": "never"}, "allowed are 'last'")):
        with pytest.raises(ValueError, match=reason):
            chronica.DataLoader(Numbers(8), 4, placement="local", **wrong)
    with pytest.raises(ValueError, match="ends='first'"):
        chronica.DataLoader(Numbers(8), [2, 2], placement="local")
    with pytest.raises(ValueError, match="allowed are 'shared', 'local'"):
        chronica.DataLoader(Numbers(8), 4, placement="everywhere")


class Shelf:
    """Own samples that can be given away and taken in."""

    def __init__(self, samples):
        self.samples, self.gone, self.come = dict(enumerate(samples)), 0, 0

    def __len__(self):
        return len(self.samples)

    def __getitem__(self, index):
        return self.samples[index]

    def give(self, index):
        self.gone += 1
        return self.samples.pop(index)

    def take(self, sample):
        self.come += 1
        index = 1000 + self.come
        self.samples[index] = sample
        return index


@parallel(2, timeout=120, CHRONICA_DEVICE_COST="2e-3", CHRONICA_SLOW="1:3")
def test_between_epochs_the_overflow_of_a_slow_rank_moves():
    chronica.init()
    shelf = Shelf(own([100, 100]))
    loader = chronica.DataLoader(shelf, 20, placement="local", migrate=True)
    for _ in range(3):
        steps = epoch(loader, *lin_optimizer())
        assert len(steps) == 10 and sorted(gathered(sum(steps, []))) == list(range(200))
    if chronica.rank() == 0:
        assert shelf.gone <= 3 and shelf.come == len(shelf) - 100 + shelf.gone and 146 <= len(shelf) <= 154
    else:
        assert shelf.come <= 3 and shelf.gone == 100 - len(shelf) + shelf.come


@parallel(2)
def test_data_that_cannot_move_is_refused():
    chronica.init()
    with pytest.raises(ValueError, match="has no give and no take"):
        chronica.DataLoader(Numbers(8), 4, placement="local", migrate=True)
    with pytest.raises(ValueError, match="placement='local'"):
        chronica.DataLoader(Shelf(own([4, 4])), 4, migrate=True)
