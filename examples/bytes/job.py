"""What the two training scripts of the demo share: arguments, timing, checks, and the report of rank 0."""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import torch
from data import Functions, functions
from model import pack

from chronica_hvd.records import StepRecord
from chronica_hvd.train import emulate, session
from chronica_hvd.watch.progress import Progress
from chronica_hvd.watch.trace import TraceWriter

TESTED = 256  # functions of the loss that is reported, the same for both scripts


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
        """Add the trained model's loss; rank 0 writes the report."""
        if self.comm.rank == 0:
            contexts, targets = pack([self.data[index] for index in range(min(TESTED, len(self.data)))])
            with torch.no_grad():
                self.report["loss"] = torch.nn.functional.cross_entropy(model(contexts), targets).item()
            with open(self.args.report, "w") as file:
                json.dump(self.report, file)


class StockTrace:
    """Stock Horovod on the same emulated devices, and the trace that it does not write itself.

    Rows are kept on each rank; rank 0 writes them at the end.
    """

    def __init__(self, job: Job, optimizer):
        self.job, self.device, self.rows = job, emulate.attach(optimizer), []

    def steps(self, epoch: int, batches):
        """The batches of one epoch; from one batch to the next is a step."""
        seen, begun, device = 0, time.perf_counter(), self.device
        for step, batch in enumerate(batches):
            samples, seen = len(self.job.data.read) - seen, len(self.job.data.read)
            load, got = len(batch[1]), time.perf_counter()
            device.begin(load)
            yield batch
            now = time.perf_counter()
            times = (device.compute_s, got - begun, 0.0, device.wait_s, now - begun)
            self.rows.append((epoch, step, samples, load, *times))
            begun = now

    def write(self) -> None:
        """Gather all ranks' rows and write them."""
        table = self.job.comm.gather(np.array(self.rows))
        if table:
            writer, args = TraceWriter(self.job.args.trace), self.job.args
            facts = {"strategy": "stock Horovod", "batch": args.batch, "samples": args.functions}
            writer.header(ranks=session.current().ranks, emulated=emulate.any_emulated(), **facts)
            for row in np.stack(table, axis=1):  # (M, 9)
                writer.step(StepRecord(int(row[0, 0]), int(row[0, 1]), *row.T[2:]), np.full(len(row), np.nan))
