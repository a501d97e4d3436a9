"""The one rule of weighting: the gradient of a step is ``sum(n_j * g_j) / sum(n_j)`` over ranks and passes.

``n_j`` is what the loss on rank j was a mean over (samples, size units, or the user's own count) and comes from
what was really computed. Each rank multiplies its gradient by ``n_j / N`` before Horovod sums, N being the planned
total that all ranks know. The true total rides along as one small tensor, and where it differs from N the sum is
corrected, so no plan can make a gradient wrong. (Chronica's learning-rate compensator, section IV.)
"""

from __future__ import annotations

import math

import torch


def share(weight: float, total: float) -> float:
    """``weight / total``; 0 for a rank without work, also in a step without any."""
    return weight / total if weight else 0.0


def scale_(grad: torch.Tensor, factor: float) -> torch.Tensor:
    """Multiply in place; by 0 it clears, also nan and inf."""
    return grad.zero_() if factor == 0 else grad if factor == 1 else grad.mul_(factor)


def scaled(grad: torch.Tensor, factor: float) -> torch.Tensor:
    """The same out of place, for gradients that autograd still owns."""
    return torch.zeros_like(grad) if factor == 0 else grad if factor == 1 else grad * factor


class StepWeight:
    """Weights of one optimizer step on one rank; stands in for Horovod's ``compression``.

    inner: Horovod's compressor, or None. passes: backward passes of one step. reduce: starts the sum of a small
    float64 tensor over the ranks and returns the function that waits for it. average: told once a step whether
    Horovod's plain average does, because all ranks are known to weigh alike; then nothing is multiplied here.
    """

    def __init__(self, session, inner, ranks: int, passes: int, reduce, average):
        self.session, self.ranks, self.passes, self.reduce, self.average = session, ranks, passes, reduce, average
        self.inner = inner
        self.last_total = 0.0  # of the last step, the same on all ranks; 0: none yet
        self.reset()

    def reset(self) -> None:
        """The step is over."""
        self.sum = 0.0  # n_j of the passes so far
        self.correction = math.nan  # planned over true total, known after ``agree``
        self._seen = self._finish = self._reference = None

    def on_pass(self, grad: torch.Tensor) -> torch.Tensor:
        """Tensor hook of gradient accumulation: weigh this pass's gradient before it is added."""
        self._enter_pass()
        return scaled(grad, share(self.session.weight, self._reference))

    def compress(self, grad: torch.Tensor):
        """Weigh and compress a gradient that is about to be reduced."""
        factor = self.factor()
        keep = 1.0 if self.alike else self._headroom(grad)
        grad = scale_(grad, factor * keep)
        tensor, context = self.inner.compress(grad) if self.inner else (grad, None)
        return tensor, (keep, context)

    def factor(self) -> float:
        """This rank's share of the step; 1 where each pass was weighed already, or Horovod averages."""
        self.announce()
        return 1.0 if self.passes > 1 or self.alike else share(self.sum, self._reference)

    def decompress(self, tensor: torch.Tensor, context):
        """Undo the compression and correct by the true total."""
        keep, inner = context or (1.0, None)  # Horovod's sparse path has no context
        grad = self.inner.decompress(tensor, inner) if self.inner and context else tensor
        return scale_(grad, self.correction / keep)

    def announce(self):
        """Send this rank's true total on its way, once a step; returns the function that waits for the sum."""
        if self._finish is None:
            self._enter_pass()
            self.alike = self.passes == 1 and self.session.alike
            self.average(self.alike)
            mine = torch.tensor([self.sum, self._reference], dtype=torch.float64)
            self._finish = self.reduce(mine)
        return self._finish

    def agree(self) -> float:
        """Wait for the true total of all ranks. Raises RuntimeError if the ranks planned with different totals."""
        total, references = self.announce()().tolist()
        self.last_total = total
        if self.alike and math.isclose(total, self.ranks * self.sum, rel_tol=1e-9):
            self.correction = 1.0
            return total
        if self.alike or not math.isclose(references, self.ranks * self._reference, rel_tol=1e-9):
            raise RuntimeError(
                f"the ranks weigh this step differently (this one expects a total of {self._reference:g}, the mean is "
                f"{references / self.ranks:g}); let all of them use the loader's weight or all call optimizer.weigh()"
            )
        exact = math.isclose(total, self._reference, rel_tol=1e-12)
        self.correction = 1.0 if exact or not total else self._reference / total
        return total

    def _enter_pass(self) -> None:
        """Count a pass once, however many gradients it has."""
        if self._seen != self.session.passes or self._reference is None:
            self._seen = self.session.passes
            self.sum += self.session.weight
            if self._reference is None:
                self._reference = self.session.total

    def _headroom(self, grad: torch.Tensor) -> float:
        """Small weights must not vanish in 16 bit: scale by the number of ranks there, and back afterwards."""
        return float(self.ranks) if self.inner or grad.element_size() <= 2 else 1.0


def weighted_allreduce(tensor: torch.Tensor, factor: float, name: str | None = None) -> torch.Tensor:
    """``sum(factor_j * tensor_j)`` over the ranks, each with a factor of its own; factors that add to 1 give a mean.

    Horovod's own ``prescale_factor`` must be the same on every rank.
    """
    import horovod.torch as hvd

    return hvd.allreduce(scaled(tensor, factor), name=name, op=hvd.Sum)
