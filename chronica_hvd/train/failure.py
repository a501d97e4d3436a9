"""All ranks fail together, and the message names the rank: one that raises, and one that leaves early.

An exception aborts the whole job. A rank whose script ends sends a note first (to rank 0; rank 0 to all), so
whoever still waits for it can say who left instead of hanging or reporting a bare Horovod error.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import traceback

import numpy as np

LEAVE_TAG = 7
NAMING_S = 3.0  # how long the other ranks leave rank 0 to name the one that left


class RankLeftError(RuntimeError):
    """Another rank's script ended while this one still needs it."""


class Watch:
    """Failure handling of one rank. ``comm`` is used for nothing else."""

    def __init__(self, comm, hosts: list[str]):
        self.comm, self.hosts, self.rank = comm, hosts, comm.rank
        self.place = np.array([-1, -1], np.int64)  # (2,) epoch, step this rank is in; -1: not in an epoch
        self._sent, self._process = [], os.getpid()
        sys.excepthook = self._raised
        threading.excepthook = lambda args: self._raised(args.exc_type, args.exc_value, args.exc_traceback)
        atexit.register(self._leave)

    def abort(self, reason: str, code: int = 1) -> None:
        """End every rank now. The line's form is what ``chronica run`` looks for."""
        print(f"chronica: rank {self.rank} on {self.hosts[self.rank]} {reason}", file=sys.stderr, flush=True)
        sys.stdout.flush()
        self.comm.Abort(code)

    def check(self) -> None:
        """Raise RankLeftError if somebody this rank waits for has left."""
        from mpi4py import MPI

        status = MPI.Status()
        if self.comm.Iprobe(MPI.ANY_SOURCE, LEAVE_TAG, status):
            place, who = np.empty(2, np.int64), status.source
            self.comm.Recv(place, who, LEAVE_TAG)
            where = "outside an epoch" if place[0] < 0 else f"at step {place[1]} of epoch {place[0]}"
            raise RankLeftError(
                f"rank {who} on {self.hosts[who]} left the job {where} (its script ended or called exit) while the "
                f"others still train; let every rank run the same number of steps, or raise an error instead"
            )

    def explain(self, error: Exception) -> Exception:
        """The reason behind Horovod's bare "has been shut down", if it can be known within a few seconds."""
        deadline = time.monotonic() + NAMING_S
        while time.monotonic() < deadline:
            try:
                self.check()
            except RankLeftError as left:
                return left
            time.sleep(0.05)
        return error

    def _raised(self, kind, error, trace) -> None:
        traceback.print_exception(kind, error, trace)
        if os.getpid() != self._process:
            return  # a forked child's own affair
        if issubclass(kind, KeyboardInterrupt):
            self.abort("was interrupted", 130)
        if kind.__name__ == "HorovodInternalError":
            error = self.explain(error)
        self.abort(f"raised {type(error).__name__}: {error}")

    def _leave(self) -> None:
        from mpi4py import MPI

        if MPI.Is_finalized() or os.getpid() != self._process:
            return
        others = [0] if self.rank else range(1, self.comm.size)
        self._sent = [self.comm.Isend(self.place, other, LEAVE_TAG) for other in others]
