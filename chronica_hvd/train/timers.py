"""Times a step's own compute, without what is spent waiting for other ranks, data or plans."""

from __future__ import annotations

import time

from .emulate import Device


class HostClock:
    """Marks on the host's clock."""

    mark = staticmethod(time.perf_counter)

    @staticmethod
    def between(begin: float, end: float) -> float:
        """Seconds from one mark to another."""
        return end - begin


class CudaClock:
    """Marks in the GPU's stream, read when long past, so the stream never stalls."""

    @staticmethod
    def mark():
        """An event on the current stream."""
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    @staticmethod
    def between(begin, end) -> float:
        """Seconds from one event to another."""
        end.synchronize()
        return begin.elapsed_time(end) / 1e3


class Stopwatch:
    """One pass after another: ``begin`` when the batch is there, ``stop``/``go`` round each reduction."""

    def __init__(self, clock, device: Device):
        self.clock, self.device = clock, device
        self.running = False
        self._spans: list[tuple] = []
        self._host_begun = self._host_s = 0.0

    def begin(self, load: float) -> None:
        """A pass over ``load`` size units begins."""
        self.device.begin(load)
        self._spans, self._host_s = [], 0.0
        self._host_begun, self._mark, self.running = time.perf_counter(), self.clock.mark(), True

    def stop(self) -> None:
        """Own work is done; what follows is waiting."""
        if self.running:
            self.device.finish()
            self._spans.append((self._mark, self.clock.mark()))
            self._host_s = time.perf_counter() - self._host_begun
            self.running = False

    def go(self) -> None:
        """The reduction is over; work between two reductions of one step counts as compute again."""
        self._host_s = time.perf_counter() - self._host_begun
        self.device.begin(0.0)
        self._mark, self.running = self.clock.mark(), True

    def read(self) -> tuple[float, float]:
        """(compute s, waiting s) of the pass; called at its end."""
        if not self._spans:  # a pass of gradient accumulation: nothing was reduced
            self.stop()
        self.running = False
        compute_s = sum(self.clock.between(*span) for span in self._spans)
        return compute_s, max(0.0, self._host_s - compute_s)
