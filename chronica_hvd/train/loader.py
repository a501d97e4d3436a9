"""A data loader that is given the global batch and hands each rank the samples that rank 0 planned for it."""

from __future__ import annotations

import os
import sys
import time
from collections import deque

import numpy as np
import torch
import torch.utils.data

from ..order import epoch_steps
from ..planner import Planner
from ..watch.start import print_start
from ..watch.trace import TraceWriter
from .arguments import batch_and_strategy, check_alike, check_names, checked_sizes, digest, place, settings_of, world_of
from .channel import Channel
from .own_data import OwnData, check_can_move
from .session import current


class DataLoader:
    """Batches of this rank, one for each step of the epoch, as many steps on every rank.

    dataset: map style. With placement "shared" every rank can read all of it; with "local" it is this rank's own, of
    any length, also none. batch_size: samples of one step over all ranks, or a list of one number per rank that is
    used as given. sizes: (n,) size units of each sample of the data set (frames, tokens); None: all 1. weight: what
    the loss is a mean over, "count" for samples, "size" for size units. strategy: a name or an object of
    ``chronica_hvd.balance``; window: steps planned together, for a strategy given by name. cost: how time goes with
    size, "affine", "attention" (with a square) or "auto", which finds out. trace: a file that rank 0
    writes one JSON line a step to. max_samples: most samples of a step that a rank's memory holds, one number a rank.
    ends, for "local": train until the "last" rank has nothing left, each step taking of each rank in proportion to what
    it has; or take the same of each rank until the "first" has too few. migrate, for "local": between epochs samples
    move from slow ranks to fast ones; the dataset has give(index) -> sample and take(sample) -> index. Further
    arguments go to torch's DataLoader.

    Each sample comes once an epoch, in an order that is a function of (seed, epoch). In a last step with fewer samples
    than ranks a spare rank gets one sample again with weight 0, so that its gradient is zero and nobody waits.
    Every rank constructs its loaders in the same order. Raises ValueError for arguments that do not fit, or differ
    between ranks.
    """

    def __init__(
        self,
        dataset,
        batch_size,
        sizes=None,
        *,
        weight="count",
        strategy=None,
        window=None,
        cost="auto",
        seed=0,
        shuffle=True,
        drop_last=False,
        trace=None,
        max_samples=None,
        placement="shared",
        ends="last",
        migrate=False,
        num_workers=0,
        prefetch_factor=None,
        **torch_options,
    ):
        self.session = session = current()
        self.dataset, self.weight, self.seed = dataset, weight, seed
        own_sizes = checked_sizes(sizes, len(dataset))
        self.batch, strategy = batch_and_strategy(batch_size, strategy, window, session.size)
        check_names(weight=weight, placement=placement, cost=cost)
        local, self.migrate = placement == "local", migrate
        if migrate:
            check_can_move(dataset, placement, ends)
        alike = {
            "batch_size": np.array(batch_size).tolist(), "strategy": settings_of(strategy), "weight": weight,
            "cost": cost, "seed": seed, "shuffle": shuffle, "drop_last": drop_last, "placement": placement,
            "ends": ends, "migrate": migrate, "num_workers": num_workers, "prefetch_factor": prefetch_factor,
            "own " * local + "samples": len(dataset), "own " * local + "sizes": digest(own_sizes),
        }  # fmt: skip
        counts = [given["own " * local + "samples"] for given in check_alike(session, alike)]
        self._place = place(counts, self.batch, batch_size, ends, max_samples) if local else None
        self.sizes = own_sizes  # (n,) of the samples that this rank can read
        samples = int(self._place.used.sum()) if local else len(dataset)
        self.steps = epoch_steps(samples, self.batch, drop_last)
        self.epoch, self._next_epoch = -1, 0
        self._queued = num_workers * (prefetch_factor or 1)  # batches torch asks for ahead of time
        self._torch_options = torch_options | {"num_workers": num_workers}
        if num_workers:
            self._torch_options["prefetch_factor"] = prefetch_factor or 1
        if local:
            self.dataset = OwnData(session, dataset, counts)
            own_sizes = np.concatenate(session.allgather(own_sizes))
        planner = self._trace = None
        self._told = 0.0  # bend of the cost model that was last printed
        if session.rank == 0:
            world = world_of(session.ranks, max_samples, self.batch)
            planner = Planner(
                own_sizes, self.batch, world, strategy, seed=seed, shuffle=shuffle, drop_last=drop_last,
                placement=self._place, cost=cost,
            )  # fmt: skip
            self._trace = _trace_writer(trace, session, planner, weight)
        self._channel = Channel(session, planner, 4 * self.batch, self._record)
        self._running = None

    def __len__(self) -> int:
        return self.steps

    def set_epoch(self, epoch: int) -> None:
        """Choose the next epoch's order; without it every epoch has the next one. Alike on all ranks."""
        self._next_epoch = epoch

    def __iter__(self):
        if self._running:
            self._running.close()
        self._running = self._epoch()
        return self._running

    def _epoch(self):
        self.epoch, self._next_epoch = self._next_epoch, self._next_epoch + 1
        watch, stopwatch = self.session.watch, self.session.stopwatch
        if self.migrate:
            self._migrate()
        self._channel.begin(self.epoch, self.steps, self._queued + 2)
        plans, begun, self._plan_s = deque(), time.perf_counter(), 0.0
        try:
            ids = _Ids(self, plans)
            batches = iter(torch.utils.data.DataLoader(self.dataset, batch_sampler=ids, **self._torch_options))
            for step in range(self.steps):
                watch.place[:] = self.epoch, step
                batch = next(batches)
                data_s = time.perf_counter() - begun - self._plan_s
                record = self._start(plans.popleft()) | {"data_s": data_s, "plan_s": self._plan_s}
                yield batch
                compute_s, wait_s = stopwatch.read()
                begun, step_s, self._plan_s = time.perf_counter(), time.perf_counter() - begun, 0.0
                self._channel.send(record | {"compute_s": compute_s, "wait_s": wait_s, "step_s": step_s})
        finally:
            self._channel.end()
        watch.place[:] = -1, -1

    def _migrate(self) -> None:
        """Between epochs the overflow of slow ranks moves to fast ones, decided by rank 0."""
        planner, before = self._channel.planner, self._place.owner
        after = self.session.allgather(planner.migrate() if planner else None)[0]
        self._place = self._place.moved(after)
        self.dataset.move(before, after)

    def _start(self, plan) -> dict[str, float]:
        """Begin timing and weighing this rank's part of a plan."""
        count, load = plan.count[self.session.rank], plan.load[self.session.rank]
        self._introduce(plan)
        if plan.threads is not None and plan.threads[self.session.rank] != torch.get_num_threads():
            torch.set_num_threads(int(plan.threads[self.session.rank]))
        weights = plan.count if self.weight == "count" else plan.load
        self.session.begin_pass(weights[self.session.rank], weights.sum(), bool((weights == weights[0]).all()))
        self.session.stopwatch.begin(load)
        return {"count": count, "load": load}

    def _own(self, plan) -> list[int]:
        """This rank's samples of a step; where it has none, one that weighs nothing."""
        mine = plan.samples[self.session.rank]
        if self._place is None:
            return (mine if len(mine) else max(plan.samples, key=len)[:1]).tolist()
        return mine.tolist() or [-1]

    def _introduce(self, plan) -> None:
        session = self.session
        if session.rank == 0 and not session.introduced:
            strategy = _name(self._channel.planner.strategy)
            print_start(session.ranks, plan.count, strategy, self.batch, session.emulated)
        session.introduced = True

    def _record(self, record, plan) -> None:
        fitted = self._channel.planner.bend.fitted
        if fitted and fitted.bend != self._told:
            print(f"chronica_hvd: cost model {fitted}", file=sys.stderr, flush=True)
            self._told = fitted.bend
        if self._trace:
            self._trace.step(record, plan.predicted_s)


class _Ids:
    """torch's batch sampler: this rank's sample numbers of each step."""

    def __init__(self, loader: DataLoader, plans: deque):
        self.loader, self.plans = loader, plans

    def __len__(self) -> int:
        return self.loader.steps

    def __iter__(self):
        for _ in range(self.loader.steps):
            asked = time.perf_counter()
            plan = self.loader._channel.take()
            self.loader._plan_s += time.perf_counter() - asked
            self.plans.append(plan)
            yield self.loader._own(plan)


def _trace_writer(path, session, planner, weight: str):
    path = path or os.environ.get("CHRONICA_TRACE")
    if not path:
        return None
    writer = TraceWriter(path)
    writer.header(
        ranks=session.ranks, emulated=session.emulated, strategy=_name(planner.strategy),
        window=planner.strategy.window, batch=planner.batch, weight=weight, samples=len(planner.sizes),
        steps=planner.steps, seed=planner.seed, size_quantiles=np.quantile(planner.sizes, np.linspace(0, 1, 257)),
    )  # fmt: skip
    return writer


def _name(strategy) -> str:
    return type(strategy).__name__.lower()
