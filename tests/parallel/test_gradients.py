"""The reduced gradient is that of one process on the union of all ranks' batches, whatever the script does."""

import pytest
import torch
from ranks import parallel

import chronica_hvd as chronica


def lin(x, y, n=None):
    """One step of prediction w*x on this rank's batch; returns w after SGD with lr 1."""
    w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("w", w)])
    optimizer.weigh(len(x) if n is None else n)
    loss = ((w * torch.tensor(x, dtype=torch.float64) - torch.tensor(y, dtype=torch.float64)) ** 2).mean()
    loss.backward()
    optimizer.synchronize()
    gradient = w.grad.item()
    with optimizer.skip_synchronize():
        optimizer.step()
    return gradient, w.item(), loss.item()


def model(sparse=False, seed=1):
    torch.manual_seed(seed)
    return torch.nn.Sequential(
        torch.nn.Embedding(50, 8, sparse=sparse), torch.nn.Flatten(), torch.nn.Linear(24, 5)
    ).double()


def data(samples=24, seed=2):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(50, (samples, 3), generator=generator), torch.randint(5, (samples,), generator=generator)


def loss_of(net, x, y):
    return torch.nn.functional.cross_entropy(net(x), y)


def one_process(x, y, **kwargs):
    """Gradients of one process on all samples."""
    net = model(**kwargs)
    loss_of(net, x, y).backward()
    return [p.grad.to_dense() if p.grad.is_sparse else p.grad for p in net.parameters()]


def largest_error(net, reference):
    dense = [p.grad.to_dense() if p.grad.is_sparse else p.grad for p in net.parameters()]
    return max(((a - b).abs().max() / b.abs().max()).item() for a, b in zip(dense, reference))


def mine(cuts):
    """This rank's slice of the union, for the given samples per rank."""
    begin = sum(cuts[: chronica.rank()])
    return slice(begin, begin + cuts[chronica.rank()])


@parallel(2)
def test_c01_unequal_batches_give_the_gradient_of_the_union():
    chronica.init()
    x, y = ([1, 1, 1], [1, 1, 1]) if chronica.rank() == 0 else ([1], [5])
    assert lin(x, y)[0] == -4


@parallel(2)
def test_c03_through_the_optimizer_wrapper():
    chronica.init()
    x, y = ([1, 1, 1], [1, 1, 1]) if chronica.rank() == 0 else ([1], [5])
    assert lin(x, y)[1] == 4


@parallel(3)
def test_c02_a_rank_with_nothing_takes_part_and_its_nan_stays_out():
    chronica.init()
    cuts = (5, 3, 0)
    x, y = torch.arange(8.0), torch.arange(8.0) * 3
    part = mine(cuts)
    gradient, _, loss = lin(x[part].tolist(), y[part].tolist())
    union = (2 * x * (0 * x - y)).mean().item()
    assert abs(gradient / union - 1) < 1e-12
    assert (loss != loss) == (chronica.rank() == 2)


@parallel(3)
def test_c02_a_rank_without_backward_takes_part():
    chronica.init()
    net, (x, y) = model(), data(8)
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters())
    part = mine((5, 3, 0))
    optimizer.weigh(part.stop - part.start)
    if part.stop > part.start:
        loss_of(net, x[part], y[part]).backward()
    optimizer.synchronize()
    assert largest_error(net, one_process(x, y)) < 1e-12


@parallel(2)
def test_c14_mean_over_valid_pixels():
    chronica.init()
    valid = [2, 6][chronica.rank()]
    gradient, _, _ = lin([1.0] * valid, [[1.0] * 2, [3.0] * 6][chronica.rank()], valid)
    assert gradient == pytest.approx(-2 * (0.25 * 1 + 0.75 * 3), rel=1e-12)


@parallel(1)
def test_c15_token_means_of_micro_batches_weigh_by_tokens():
    chronica.init()
    w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("w", w)], backward_passes_per_step=2)
    for tokens, loss in ((10, 2.0), (30, 1.0)):
        optimizer.weigh(tokens)
        (w * loss).backward()
    optimizer.synchronize()
    assert w.grad.item() == pytest.approx(1.25, rel=1e-12)


@parallel(2)
def test_c18_unequal_factors_in_one_sum():
    chronica.init()
    total = chronica.weighted_allreduce(torch.tensor([1.0, 3.0]), factor=chronica.rank() + 1)
    assert total.tolist() == [3.0, 9.0]


@parallel(2)
def test_c54_wrapping_twice_gives_the_same_object():
    chronica.init()
    net = model()
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters())
    assert chronica.DistributedOptimizer(optimizer) is optimizer


@parallel(2)
def test_without_weights_ranks_count_alike_as_in_horovod():
    chronica.init()
    w = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("w", w)])
    (w * (chronica.rank() + 1)).backward()
    optimizer.step()
    assert w.item() == -1.5


def run_variant(cuts, steps=3, sparse=False, passes=1, **options):
    """A few SGD steps with unequal parts, new every step; returns the worst error of the reduced gradients."""
    import horovod.torch as hvd

    if options.pop("fp16", False):
        options["compression"] = hvd.Compression.fp16
    net = model(sparse)
    if options.pop("lists", False):
        options["groups"] = [[net[0].weight, net[2].weight]]
    optimizer = chronica.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1),
        net.named_parameters(),
        backward_passes_per_step=passes,
        **options,
    )
    worst = 0.0
    for step in range(steps):
        turned = cuts[step % len(cuts) :] + cuts[: step % len(cuts)]
        x, y = data(sum(turned), seed=step)
        part = mine(turned)
        twin = model(sparse)
        twin.load_state_dict(net.state_dict())
        loss_of(twin, x, y).backward()
        reference = [p.grad.to_dense() if p.grad.is_sparse else p.grad for p in twin.parameters()]
        optimizer.zero_grad()
        micro = torch.arange(part.start, part.stop).tensor_split(passes)
        if passes > 1:  # unequal micro-batches
            micro = [torch.arange(part.start, part.start + 1), torch.arange(part.start + 1, part.stop)]
        for ids in micro:
            optimizer.weigh(len(ids))
            loss_of(net, x[ids], y[ids]).backward()
        optimizer.synchronize()
        worst = max(worst, largest_error(net, reference))
        with optimizer.skip_synchronize():
            optimizer.step()
    return worst


@parallel(3)
def test_dense_grouped_and_listed_gradients_equal_one_process():
    chronica.init()
    assert run_variant([3, 17, 9]) < 1e-12
    assert run_variant([3, 17, 9], groups=2) < 1e-12
    assert run_variant([3, 17, 9], lists=True) < 1e-12


@parallel(3)
def test_sparse_gradients_equal_one_process():
    chronica.init()
    assert run_variant([3, 17, 9], sparse=True) < 1e-12
    assert run_variant([3, 17, 9], sparse=True, sparse_as_dense=True) < 1e-12


@parallel(3)
def test_accumulated_gradients_equal_one_process():
    chronica.init()
    assert run_variant([3, 17, 9], passes=2) < 1e-12
    assert run_variant([3, 17, 9], passes=2, sparse=True, sparse_as_dense=True) < 1e-12


@parallel(3)
def test_sixteen_bit_compression_stays_within_sixteen_bits():
    chronica.init()
    assert 0 < run_variant([1, 40, 200], fp16=True) < 2e-3
    assert 0 < run_variant([3, 40, 200], fp16=True, passes=2) < 2e-3


@parallel(2)
def test_a_weight_of_zero_on_every_rank_gives_a_zero_gradient():
    chronica.init()
    assert lin([1.0], [5.0], n=0)[0] == 0


@parallel(2)
def test_ranks_that_weigh_differently_are_refused():
    chronica.init()
    w = torch.nn.Parameter(torch.zeros(1))
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("w", w)])
    chronica.train.session.current().begin_pass(1, [2, 4][chronica.rank()])
    (w * 1).backward()
    with pytest.raises(RuntimeError, match="weigh this step differently"):
        optimizer.step()


@parallel(2)
def test_clipping_between_synchronize_and_step():
    chronica.init()
    net, (x, y) = model(), data(12)
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters())
    part = mine((9, 3))
    optimizer.weigh(part.stop - part.start)
    loss_of(net, x[part], y[part]).backward()
    optimizer.synchronize()
    optimizer.synchronize()  # by mistake: harmless
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)
    union = torch.cat([g.flatten() for g in one_process(x, y)]).norm()
    assert abs(norm / union - 1) < 1e-12


@parallel(2)
def test_bad_arguments_are_refused_with_the_way_out():
    import horovod.torch as hvd

    chronica.init()
    net = model()
    for bad, words in (
        ({"op": hvd.Sum}, "allowed is hvd.Average"),
        ({"gradient_predivide_factor": 2.0}, "only 1.0"),
    ):
        with pytest.raises(ValueError, match=words):
            chronica.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters(), **bad)
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=1.0), net.named_parameters())
    with pytest.raises(ValueError, match="finite number"):
        optimizer.weigh(float("nan"))


@parallel(2)
def test_c48_a_short_last_accumulation_window():
    """Five global batches, two passes a step: three updates, the last over one; the weights of one process."""
    chronica.init()
    x = torch.arange(1.0, 21.0, dtype=torch.float64)[:, None]
    loader = chronica.DataLoader(torch.utils.data.TensorDataset(x), 4, seed=3)
    w = torch.nn.Parameter(torch.ones(1, dtype=torch.float64))
    optimizer = chronica.DistributedOptimizer(torch.optim.SGD([w], lr=1e-3), [("w", w)], backward_passes_per_step=2)
    updates, window, alone = 0, [], torch.ones(1, dtype=torch.float64)
    for step, (batch,) in enumerate(loader, 1):
        ((w * batch) ** 2).mean().backward()
        window.append(batch)
        if step % 2 == 0 or step == len(loader):
            optimizer.step()
            optimizer.zero_grad()
            updates += 1
            union = torch.cat(everyones(window))
            alone = alone - 1e-3 * (2 * alone * union**2).mean()
            window = []
            assert torch.allclose(w.detach(), alone, rtol=1e-12)
    assert updates == 3


def everyones(tensors):
    """The tensors of all ranks, in one list."""
    from mpi4py import MPI

    return sum(MPI.COMM_WORLD.allgather(tensors), [])
