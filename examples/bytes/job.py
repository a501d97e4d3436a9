"""What the two training scripts of the demo share: arguments, timing, checks, and the report of rank 0."""

from __future__ import annotations

import argparse
import copy
import json
import time

import numpy as np
import torch
from data import Functions, functions
from model import pack

from chronica_hvd.records import StepRecord
from chronica_hvd.watch.progress import Progress
from chronica_hvd.watch.trace import TraceWriter


def arguments(description: str) -> argparse.Namespace:
    """Arguments of both scripts."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--functions", type=int, default=4096, help="samples of an epoch")
    parser.add_argument("--batch", type=int, default=32, help="global batch")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--trace", default="trace.jsonl")
    parser.add_argument("--report", default="report.json", help="what rank 0 measured")
    return parser.parse_args()


class Job:
    """One run on this rank: epochs between barriers, samples really read, and the report."""

    def __init__(self, name: str, args: argparse.Namespace):
        from mpi4py import MPI

        self.comm, self.name, self.args = MPI.COMM_WORLD, name, args
        self.data = Functions(self.comm.bcast(functions(args.functions) if self.comm.rank == 0 else None))
        self.report: dict = {"epoch_s": [], "each_sample_once": [], "repeated": []}
        steps = -(-args.functions // args.batch)
        self._steps, self._progress, self._done = steps * args.epochs, None, 0

    def epoch(self, batches):
        """The batches of one epoch, timed between barriers."""
        self.data.read.clear()
        self.comm.Barrier()
        if self.comm.rank == 0 and not self._progress:
            self._progress = Progress(self._steps, self.name)
        begun = time.perf_counter()
        for batch in batches:
            yield batch
            self._done += 1
            if self._progress:
                self._progress.update(self._done)
        self.comm.Barrier()
        self.report["epoch_s"].append(time.perf_counter() - begun)
        times = np.bincount(sum(self.comm.allgather(self.data.read), []), minlength=len(self.data))
        self.report["each_sample_once"].append(bool((times >= 1).all()) and self._repeats_are_ghosts(times))
        self.report["repeated"].append(int((times - 1).sum()))

    def _repeats_are_ghosts(self, times: np.ndarray) -> bool:
        """Only the last step may repeat: at most one sample for each rank that had none left."""
        return bool((times - 1).sum() <= max(0, self.comm.size - (len(self.data) - 1) % self.args.batch - 1))

    def finish(self, model: torch.nn.Module) -> None:
        """Loss of the trained model on the same fixed functions for both scripts; rank 0 writes the report."""
        if self.comm.rank == 0:
            contexts, targets = pack([self.data[index] for index in range(256)])
            with torch.no_grad():
                self.report["loss"] = torch.nn.functional.cross_entropy(model(contexts), targets).item()
            with open(self.args.report, "w") as file:
                json.dump(self.report, file)

    def check_gradient(self, loader, model: torch.nn.Module, steps: int = 3) -> None:
        """Largest relative difference of reduced gradients to those of one process on all ranks' samples.

        In float64, on a copy of the model, so that it shows the weighting and not the rounding of float32.
        """
        import chronica_hvd as chronica

        twin, errors = copy.deepcopy(model).double(), []
        names = [(f"check.{name}", parameter) for name, parameter in twin.named_parameters()]
        optimizer = chronica.DistributedOptimizer(torch.optim.SGD(twin.parameters(), lr=0.0), names)
        for _, (contexts, targets) in zip(range(steps), loader):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(twin(contexts), targets).backward()
            optimizer.synchronize()
            parts = self.comm.allgather((contexts, targets) if loader.session.weight else None)
            if self.comm.rank == 0:
                errors.append(_worst_error(twin, [part for part in parts if part]))
        self.report["gradient_error"] = max(errors, default=float("nan"))


def _worst_error(model: torch.nn.Module, parts: list) -> float:
    """Over all parameters: largest difference to one process over the largest gradient."""
    contexts, targets = (torch.cat(tensors) for tensors in zip(*parts))
    loss = torch.nn.functional.cross_entropy(model(contexts), targets)
    one = torch.autograd.grad(loss, list(model.parameters()))
    pairs = zip(model.parameters(), one)
    return max(((many.grad - alone).abs().max() / alone.abs().max()).item() for many, alone in pairs)


class StockTrace:
    """The trace that stock Horovod does not write: kept on each rank, written by rank 0 at the end."""

    def __init__(self, job: Job, device):
        self.job, self.device, self.rows = job, device, []

    def step(self, epoch: int, step: int, samples: int, load: int) -> None:
        """A step is over; its times are those of the emulated device."""
        device = self.device
        step_s = device.compute_s + device.wait_s
        self.rows.append((epoch, step, samples, load, device.compute_s, 0.0, 0.0, device.wait_s, step_s))

    def write(self, ranks: list[dict], emulated: dict) -> None:
        """Gather all ranks' rows and write them."""
        table = self.job.comm.gather(np.array(self.rows))
        if table:
            writer = TraceWriter(self.job.args.trace)
            writer.header(ranks=ranks, emulated=emulated, strategy="stock Horovod", batch=self.job.args.batch)
            for row in np.stack(table, axis=1):  # (M, 9)
                writer.step(StepRecord(int(row[0, 0]), int(row[0, 1]), *row.T[2:]), np.full(len(row), np.nan))
