"""Records to rank 0, plans from rank 0, never on the training path.

Every rank sends its record of a step with a non-blocking gather and holds one broadcast open for the next plan. On
rank 0 a thread gathers, lets the planner learn and plan, and broadcasts, all while the training computes. The plan
of step s uses the records up to step ``s - lead``, so a step finds its plan waiting; only the first step that can
know anything waits for it.

Order of calls: every rank constructs its channels in the same order, and per epoch calls begin, take and send for
each step, end. Gathers and broadcasts have a communicator each, so the thread cannot disturb their order.
"""

from __future__ import annotations

import queue
import threading
import time

import numpy as np

from ..records import StepPlan, StepRecord

RECORD = ("count", "load", "compute_s", "data_s", "plan_s", "wait_s", "step_s")  # one rank's record, float64
POLL_S = 3e-4
END_S = 2.0


def encode(plan: StepPlan, epoch: int, step: int, room: int) -> np.ndarray:
    """A plan as (2 + 4 M + room) float64; sample numbers below 2**53 stay exact."""
    ranks, ids = len(plan.samples), np.concatenate(plan.samples)
    message = np.full(2 + 4 * ranks + room, -1.0)
    threads = np.full(ranks, np.nan) if plan.threads is None else plan.threads
    head = np.concatenate([[epoch, step], plan.count, plan.load, plan.predicted_s, threads, ids])
    message[: len(head)] = head
    return message


def decode(message: np.ndarray, ranks: int) -> tuple[int, int, StepPlan]:
    """(epoch, step, plan) of a message."""
    count, load, predicted_s, threads = message[2 : 2 + 4 * ranks].reshape(4, ranks)
    ids = message[2 + 4 * ranks :].astype(np.int64)
    cuts = np.cumsum(count.astype(np.int64))
    samples = tuple(np.split(ids[: cuts[-1]], cuts[:-1]))
    known = None if np.isnan(threads).any() else threads.astype(int)
    return int(message[0]), int(message[1]), StepPlan(samples, load, predicted_s, known)


class Channel:
    """One loader's way to rank 0 and back. ``planner`` on rank 0, None elsewhere."""

    def __init__(self, session, planner, room: int, on_record=None):
        self.session, self.planner, self.room, self.on_record = session, planner, room, on_record
        self.gathers, self.plans = session.comm.Dup(), session.comm.Dup()
        self.ranks = session.size
        self._steps = 0

    def begin(self, epoch: int, steps: int, lead: int) -> None:
        """Start an epoch of this many steps; the plan of step s waits for the records up to ``s - lead``."""
        self.epoch, self._steps, self._lead = epoch, steps, lead
        self._taken = self._sent = 0
        self._open: tuple | None = None  # (request, buffer) of the next plan
        self._gathering: list[tuple] = []
        if self.planner:
            self._inbox, self._outbox, self._last = queue.Queue(), queue.Queue(), steps
            self._thread = threading.Thread(target=self._serve, name="chronica planner", daemon=True)
            self._thread.start()
        else:
            self._receive_next()

    def take(self) -> StepPlan:
        """The next step's plan. Raises RuntimeError if rank 0 is in another epoch."""
        if self.planner:
            self.session.soft_wait(lambda: not self._outbox.empty(), POLL_S)
            message = self._outbox.get()
        else:
            assert self._open, "one plan is always on its way until the epoch's last was taken"
            request, message = self._open
            self.session.soft_wait(request.Test, POLL_S)
        self._taken += 1
        if not self.planner:
            self._receive_next()
        epoch, _, plan = decode(message, self.ranks)
        if epoch != self.epoch:
            raise RuntimeError(
                f"this rank is in epoch {self.epoch}, rank 0 in {epoch}; call set_epoch alike on all ranks"
            )
        return plan

    def send(self, record: dict[str, float]) -> None:
        """Send this rank's record of the step it has finished."""
        mine = np.array([record[name] for name in RECORD])
        all_ranks = np.empty((self.ranks, len(RECORD))) if self.planner else None
        request = self.gathers.Igather(mine, all_ranks, root=0)
        self._gathering = [item for item in self._gathering if not item[0].Test()] if not self.planner else []
        self._gathering.append((request, mine))
        self._sent += 1
        if self.planner:
            self._inbox.put((request, all_ranks, mine))

    def end(self) -> None:
        """Finish the epoch, also one that was broken off on all ranks after the same step.

        A rank that leaves alone must not hang here: what does not come within END_S will never come.
        """
        if self.planner:
            self._last = min(self._steps, self._taken + 1)  # the others already wait for this one
            self._inbox.put(None)
            self._thread.join(END_S)
            return
        for request, _ in [*self._gathering, *([self._open] if self._open else [])]:
            _poll(request, time.monotonic() + END_S)

    def _receive_next(self) -> None:
        self._open = None
        if self._taken < self._steps:
            message = np.empty(2 + 4 * self.ranks + self.room)
            self._open = self.plans.Ibcast(message, root=0), message

    def _serve(self) -> None:
        """Rank 0's thread: one epoch."""
        self._seen, self._stopped, self._planned, sending = 0, False, {}, []
        self.planner.start(self.epoch)
        for step in range(self._steps):
            while self._seen < self._records_needed(step) and not self._stopped:
                self._learn()
            if self._stopped and step >= self._last:
                break
            self._planned[step] = self.planner.next()
            message = encode(self._planned[step], self.epoch, step, self.room)
            sending = [item for item in sending if not item[0].Test()]
            sending.append((self.plans.Ibcast(message, root=0), message))
            self._outbox.put(message)
        while self._seen < self._steps and not self._stopped:
            self._learn()
        for request, _ in sending:
            _poll(request)

    def _records_needed(self, step: int) -> int:
        """How many steps' records the plan of this step waits for."""
        first = self._lead - 1  # the first step that can know anything
        return 0 if step < first else max(1, step - self._lead + 1)

    def _learn(self) -> None:
        item = self._inbox.get()
        if item is None:
            self._stopped = True
            return
        request, all_ranks, _ = item
        _poll(request)
        record = StepRecord(self.epoch, self._seen, *all_ranks.T)
        self.planner.observe(record)
        if self.on_record:
            self.on_record(record, self._planned.pop(self._seen))
        self._seen += 1


def _poll(request, deadline: float = float("inf")) -> None:
    while not request.Test() and time.monotonic() < deadline:
        time.sleep(POLL_S)
