"""Horovod's DistributedOptimizer with the weighting rule inside, so that no script can forget it."""

from __future__ import annotations

import horovod.torch as hvd
import torch

from . import emulate
from .session import Session, current
from .weights import StepWeight, scale_


def DistributedOptimizer(
    optimizer: torch.optim.Optimizer,
    named_parameters=None,
    compression=hvd.Compression.none,
    backward_passes_per_step: int = 1,
    op=hvd.Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups=None,
    sparse_as_dense: bool = False,
    process_set=hvd.global_process_set,
):
    """Wrap a torch optimizer; arguments as in Horovod's function of the same name.

    The reduced gradient is ``sum(n_j * g_j) / sum(n_j)``: ``n_j`` comes from the loader, or from
    ``optimizer.weigh(n)`` called before backward (valid pixels, tokens); without either, ranks count alike as in
    Horovod. With ``backward_passes_per_step = k`` the sum runs over all ranks' k passes: let each loss be the mean of
    its own batch and do not divide it by k. The last step of an epoch may have fewer passes.

    Wrapping a wrapped optimizer gives it back. Raises ValueError for what would make the gradient inexact.
    """
    if hasattr(optimizer, "weigh"):
        return optimizer
    _refuse_inexact(optimizer, op, gradient_predivide_factor)
    session = current()
    inner = None if compression is hvd.Compression.none else compression
    ranks = process_set.size()

    def average(alike: bool) -> None:
        wrapped.op = hvd.Average if alike else hvd.Sum

    weight = StepWeight(
        session, inner, ranks, backward_passes_per_step, lambda mine: _sum_async(mine, process_set), average
    )
    wrapped = hvd.DistributedOptimizer(
        optimizer, named_parameters, weight, backward_passes_per_step, hvd.Sum, 1.0, num_groups, groups,
        sparse_as_dense, process_set,
    )  # fmt: skip
    _Reduction(session, weight, wrapped).install()
    return wrapped


class _Reduction:
    """What happens round Horovod's synchronize() on this rank."""

    def __init__(self, session: Session, weight: StepWeight, optimizer):
        self.session, self.weight, self.optimizer = session, weight, optimizer
        self.horovod_synchronize = optimizer.synchronize
        self.horovod_sparse = optimizer._sparse_allreduce_grad_async
        self.parameters = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]

    def install(self) -> None:
        """Horovod looks these up on the object, which leaves its class alone."""
        self.optimizer.weigh = self.weigh
        self.optimizer.synchronize = self.synchronize
        self.optimizer._sparse_allreduce_grad_async = self.reduce_sparse
        if self.weight.passes > 1:
            for parameter in self.parameters:
                parameter.register_hook(self.weight.on_pass)
        if self.session.emulated:
            emulate.hold_back(self.optimizer)

    def weigh(self, weight: float) -> None:
        """Say what this pass's loss is a mean over on this rank (valid pixels, tokens); before backward, on all ranks.

        Raises ValueError for a weight that is negative or not finite.
        """
        if not 0 <= weight < float("inf"):
            raise ValueError(f"a weight of {weight} was given; allowed is a finite number that is not negative")
        total = self.weight.last_total or self._first_total(weight)
        self.session.begin_pass(weight, total)

    def synchronize(self) -> None:
        """Wait for the weighted gradients of all ranks, without burning the core while waiting."""
        if self.optimizer._synchronized and not self.optimizer._handles:
            return  # called twice: the gradients are already those of all ranks
        self.session.stopwatch.stop()
        try:
            self._reduce()
        finally:
            self.weight.reset()
        self.session.stopwatch.go()

    def _reduce(self) -> None:
        if self.weight.ranks == 1 and self.weight.passes == 1:
            return self.horovod_synchronize()
        self._launch_missing()
        self.session.soft_wait(self._arrived)
        self.weight.agree()
        self.horovod_synchronize()
        if self.weight.ranks == 1:  # Horovod reduces nothing there
            for parameter in self.parameters:
                if parameter.grad is not None:
                    scale_(parameter.grad, self.weight.correction)

    def _launch_missing(self) -> None:
        """Start what backward did not start, in one order on all ranks, as Horovod's synchronize would."""
        self.weight.announce()
        handles = self.optimizer._handles
        grouped = {p for key in handles if isinstance(key, tuple) for p in key}
        for parameter in self.parameters if self.weight.ranks > 1 else ():
            if parameter not in grouped and handles.get(parameter, (None,))[0] is None:
                handles[parameter] = self.optimizer._allreduce_grad_async(parameter)

    def _arrived(self) -> bool:
        handles = (handle for handle, _ in self.optimizer._handles.values())
        return all(hvd.poll(handle) for handle in handles if not callable(handle))

    def reduce_sparse(self, parameter, name):
        """Horovod's sparse path never calls the compressor; weigh there as well."""
        scale_(parameter.grad, self.weight.factor())
        return self.horovod_sparse(parameter, name)

    def _first_total(self, weight: float) -> float:
        mine = torch.tensor([weight], dtype=torch.float64)
        return float(_sum_async(mine, self.optimizer.process_set)())


def _sum_async(mine: torch.Tensor, process_set):
    """Start summing a small float64 tensor over the ranks; the function returned waits for it."""
    if process_set.size() == 1:
        return lambda: mine
    handle = hvd.allreduce_async_(mine, name="chronica.weight", op=hvd.Sum, process_set=process_set)
    return lambda: hvd.synchronize(handle)


def _refuse_inexact(optimizer, op, predivide: float) -> None:
    if hasattr(optimizer, "_allreduce_delay"):
        raise ValueError(
            "the optimizer is already wrapped by Horovod; give chronica.DistributedOptimizer the torch one"
        )
    if op != hvd.Average:
        raise ValueError(
            f"op={op} was given; allowed is hvd.Average, which here is the mean weighted by each rank's work"
        )
    if predivide != 1.0:
        raise ValueError(f"gradient_predivide_factor={predivide} was given; only 1.0 is allowed, the weights add to 1")
