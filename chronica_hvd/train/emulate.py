"""Emulated devices: a rank sleeps until a slower device would be done. For demonstrations and tests.

``CHRONICA_SLOW="2:3.0,3:2"`` makes ranks 2 and 3 that many times slower than measured;
``CHRONICA_DEVICE_COST="2e-5"`` replaces measured time by that many seconds per size unit, times the slow factor.
Gradients leave only when the emulated device has finished, so nothing overlaps that could not.
"""

from __future__ import annotations

import os
import time


def parse_slow(text: str) -> dict[int, float]:
    """``"2:3.0,3:2"`` as {rank: factor}. Raises ValueError that shows the form."""
    try:
        pairs = [part.split(":") for part in text.split(",") if part.strip()]
        slow = {int(rank): float(factor) for rank, factor in pairs}
    except ValueError:
        raise ValueError(f"slow ranks given as {text!r}; allowed is RANK:FACTOR,... as in 2:3.0,3:2") from None
    if bad := {rank: factor for rank, factor in slow.items() if rank < 0 or not factor > 0}:
        raise ValueError(f"slow ranks {bad}: ranks start at 0 and factors are above 0")
    return slow


class Device:
    """The device of one rank; without emulation it only measures."""

    def __init__(self, slow: float = 1.0, unit_s: float | None = None):
        self.slow, self.unit_s = slow, unit_s  # factor; s per size unit or None
        self.compute_s = self.wait_s = 0.0  # s, the last step of a stock optimizer (see attach)
        self._begun, self._load = time.perf_counter(), 0.0

    @staticmethod
    def from_environment(rank: int) -> Device:
        """As CHRONICA_SLOW and CHRONICA_DEVICE_COST say."""
        slow = parse_slow(os.environ.get("CHRONICA_SLOW", ""))
        unit = os.environ.get("CHRONICA_DEVICE_COST")
        return Device(slow.get(rank, 1.0), float(unit) if unit else None)

    @property
    def emulated(self) -> bool:
        """Whether this rank sleeps at all."""
        return self.slow != 1.0 or self.unit_s is not None

    def begin(self, load: float) -> None:
        """A pass over ``load`` size units starts."""
        self._begun, self._load = time.perf_counter(), load

    def finish(self) -> None:
        """Sleep until the emulated device is done with the pass."""
        if not self.emulated:
            return
        measured_s = time.perf_counter() - self._begun
        target_s = measured_s if self.unit_s is None else self._load * self.unit_s
        time.sleep(max(0.0, self._begun + self.slow * target_s - time.perf_counter()))


def any_emulated() -> dict:
    """What is emulated on this job, for traces and tables; empty if nothing is."""
    slow, unit = os.environ.get("CHRONICA_SLOW"), os.environ.get("CHRONICA_DEVICE_COST")
    return {**({"slow": slow} if slow else {}), **({"device_cost_s_per_unit": float(unit)} if unit else {})}


def hold_back(optimizer) -> None:
    """Let a Horovod optimizer send its gradients from synchronize() on, not during backward."""
    optimizer.set_backward_passes_per_step(optimizer.backward_passes_per_step + 1)


def attach(optimizer) -> Device:
    """Run a stock Horovod optimizer on this rank's emulated device; call ``device.begin(load)`` before forward."""
    import horovod.torch as hvd

    device, reduce = Device.from_environment(hvd.rank()), optimizer.synchronize
    if any_emulated():
        hold_back(optimizer)

    def synchronize():
        device.finish()
        done = time.perf_counter()
        reduce()
        device.compute_s, device.wait_s = done - device._begun, time.perf_counter() - done

    optimizer.synchronize = synchronize
    return device
