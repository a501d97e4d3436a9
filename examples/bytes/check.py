"""Is the gradient that the ranks compute together the one that a single process computes from the same samples?"""

from __future__ import annotations

import copy

import torch

import chronica_hvd as chronica

loss_of = torch.nn.functional.cross_entropy


def gradient_errors(comm, loader, model: torch.nn.Module, optimizer, steps: int = 3) -> dict[str, float]:
    """Largest difference of any gradient to one process in float64, over the largest gradient of its parameter.

    ``gradient_error`` is that of a float64 copy of the model, so that it shows what the weighting does and nothing
    else. ``gradient_error_float32`` is that of the model and optimizer which train, rounding included;
    ``one_process_error_float32`` is what one process in float32 has from rounding alone. Nothing is updated.
    """
    twin = copy.deepcopy(model).double()
    names = [(f"float64.{name}", parameter) for name, parameter in twin.named_parameters()]
    twin_optimizer = chronica.DistributedOptimizer(torch.optim.SGD(twin.parameters(), lr=0.0), names)
    errors = dict.fromkeys(("gradient_error", "gradient_error_float32", "one_process_error_float32"), 0.0)
    for _, batch in zip(range(steps), loader):
        many32, many64 = reduced(model, optimizer, batch), reduced(twin, twin_optimizer, batch)
        parts = comm.allgather(batch if loader.session.weight else None)
        union = [torch.cat(tensors) for tensors in zip(*filter(None, parts))]
        one32, one64 = (gradients(module, union) for module in (model, twin))
        for name, found in zip(errors, (many64, many32, one32)):
            errors[name] = max(errors[name], worst(found, one64))
    return errors


def reduced(model: torch.nn.Module, optimizer, batch) -> list[torch.Tensor]:
    """Gradients of all ranks' batches, as the optimizer would apply them."""
    optimizer.zero_grad()
    contexts, targets = batch
    loss_of(model(contexts), targets).backward()
    optimizer.synchronize()
    return [parameter.grad.clone() for parameter in model.parameters()]


def gradients(model: torch.nn.Module, batch) -> list[torch.Tensor]:
    """Gradients of one process."""
    contexts, targets = batch
    return torch.autograd.grad(loss_of(model(contexts), targets), list(model.parameters()))


def worst(found: list[torch.Tensor], true: list[torch.Tensor]) -> float:
    """Over all parameters: largest difference over the largest true gradient."""
    return max(((a.double() - b).abs().max() / b.abs().max()).item() for a, b in zip(found, true))
