"""A data loader that is given the global batch and hands each rank the samples that rank 0 planned for it."""

from __future__ import annotations

import os
import time
from collections import deque

import numpy as np
import torch
import torch.utils.data

from ..order import epoch_steps
from ..planner import Planner
from ..records import World
from ..watch.start import print_start
from ..watch.trace import TraceWriter
from .channel import Channel
from .session import current

WEIGHTS = ("count", "size")


class DataLoader:
    """Batches of this rank, one for each step of the epoch, as many steps on every rank.

    dataset: readable on every rank (map style). batch_size: samples of one step over all ranks, or a list of one
    number per rank that is used as given. sizes: (n,) size units of each sample (frames, tokens); None: all 1.
    weight: what the loss is a mean over, "count" for samples, "size" for size units. strategy: a name or an object
    of ``chronica_hvd.balance``; window: steps planned together, for a strategy given by name. trace: a file that
    rank 0 writes one JSON line a step to. max_samples: most samples of a step that each rank's memory holds, one number
    a rank. Further arguments go to torch's DataLoader.

    Each sample comes once an epoch, in an order that is a function of (seed, epoch). In a last step with fewer samples
    than ranks a spare rank gets one sample again with weight 0, so that its gradient is zero and nobody waits.
    Every rank constructs its loaders in the same order. Raises ValueError for arguments that do not fit.
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
        seed=0,
        shuffle=True,
        drop_last=False,
        trace=None,
        max_samples=None,
        num_workers=0,
        prefetch_factor=None,
        **torch_options,
    ):
        self.session = current()
        self.dataset, self.weight, self.seed = dataset, weight, seed
        self.sizes = _checked_sizes(sizes, len(dataset))
        self.batch, strategy = _batch_and_strategy(batch_size, strategy, window, self.session.size)
        if weight not in WEIGHTS:
            raise ValueError(f"weight={weight!r} was given; allowed are {', '.join(map(repr, WEIGHTS))}")
        self.steps = epoch_steps(len(dataset), self.batch, drop_last)
        self.epoch, self._next_epoch = -1, 0
        self._queued = num_workers * (prefetch_factor or 1)  # batches torch asks for ahead of time
        self._torch_options = torch_options | {"num_workers": num_workers}
        if num_workers:
            self._torch_options["prefetch_factor"] = prefetch_factor or 1
        planner = self._trace = None
        if self.session.rank == 0:
            world = _world(self.session.ranks, max_samples, self.batch)
            planner = Planner(self.sizes, self.batch, world, strategy, seed=seed, shuffle=shuffle, drop_last=drop_last)
            self._trace = _trace_writer(trace, self.session, planner, weight)
        self._channel = Channel(self.session, planner, 4 * self.batch, self._record)
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

    def _introduce(self, plan) -> None:
        session = self.session
        if session.rank == 0 and not session.introduced:
            strategy = _name(self._channel.planner.strategy)
            print_start(session.ranks, plan.count, strategy, self.batch, session.emulated)
        session.introduced = True

    def _record(self, record, plan) -> None:
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
            mine = plan.samples[self.loader.session.rank]
            yield (mine if len(mine) else max(plan.samples, key=len)[:1]).tolist()


def _world(ranks: list[dict], max_samples, batch: int) -> World:
    hosts = {name: number for number, name in enumerate(dict.fromkeys(rank["host"] for rank in ranks))}
    threads, cores = np.array([[rank["threads"], len(rank["affinity"])] for rank in ranks]).T
    if max_samples is not None:
        max_samples = np.asarray(max_samples)
        if max_samples.shape != (len(ranks),) or max_samples.min() < 1 or max_samples.sum() < batch:
            raise ValueError(
                f"max_samples={max_samples.tolist()} was given for {len(ranks)} ranks and a global batch of {batch}; "
                f"give one number of at least 1 for each rank, together at least the batch"
            )
    where = np.array([hosts[rank["host"]] for rank in ranks])
    return World(len(ranks), max_count=max_samples, threads=threads, max_threads=cores, hosts=where)


def _checked_sizes(sizes, samples: int) -> np.ndarray:
    if sizes is None:
        return np.ones(samples)
    sizes = np.asarray(sizes, float)
    if sizes.shape != (samples,):
        raise ValueError(
            f"sizes of shape {sizes.shape} were given for {samples} samples; allowed is one number a sample"
        )
    if not (np.isfinite(sizes) & (sizes > 0)).all():
        at = int(np.flatnonzero(~(np.isfinite(sizes) & (sizes > 0)))[0])
        raise ValueError(f"sizes[{at}] = {sizes[at]}; every size is a finite number above 0")
    return sizes


def _batch_and_strategy(batch_size, strategy, window, ranks: int):
    from ..balance import make

    if np.ndim(batch_size):
        shares = tuple(int(share) for share in batch_size)
        if len(shares) != ranks:
            raise ValueError(f"{len(shares)} batch sizes were given for {ranks} ranks; give one for each rank")
        if min(shares) < 0 or sum(shares) < 1:
            raise ValueError(f"batch sizes {shares} were given; none may be negative and one must be above 0")
        return sum(shares), make("even", shares=shares)
    if int(batch_size) < 1:
        raise ValueError(f"batch_size={batch_size} was given; allowed is a global batch of at least 1 sample")
    strategy = strategy or os.environ.get("CHRONICA_STRATEGY", "chronica")
    window = window or os.environ.get("CHRONICA_WINDOW")
    return int(batch_size), make(strategy, **({"window": int(window)} if window else {}))


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
