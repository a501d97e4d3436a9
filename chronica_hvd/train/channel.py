"""Records to rank 0, plans from rank 0, never on the training path.

A message holds the plans of a few steps: of one while the ranks surprise, of CALM while all goes as predicted. Every
rank sends its records of a message's steps with one non-blocking gather and holds one broadcast open for the next
message. On rank 0 a thread gathers, lets the planner learn and plan, and broadcasts, all while the training computes.
The plan of step s uses the records up to ``s - lead`` that are there, so a step finds its plan waiting; only the first
step that can know anything waits for it.

Order of calls: every rank constructs its channels in the same order, and per epoch calls begin, take and send for
each step, end. Gathers and broadcasts have a communicator each, so the thread cannot disturb their order.
"""

from __future__ import annotations

import bisect
import queue
import threading
import time
from collections import deque

import numpy as np

from ..records import StepPlan, StepRecord

RECORD = ("count", "load", "compute_s", "data_s", "plan_s", "wait_s", "step_s")  # one rank's record, float64
CALM = 4  # steps of a message while all goes as predicted
POLL_S = 1e-3
END_S = 2.0


def encode(plan: StepPlan, room: int) -> np.ndarray:
    """A plan as (4 M + room) float64; sample numbers below 2**53 stay exact."""
    ranks, ids = len(plan.samples), np.concatenate(plan.samples)
    row = np.full(4 * ranks + room, -1.0)
    threads = np.full(ranks, np.nan) if plan.threads is None else plan.threads
    head = np.concatenate([plan.count, plan.load, plan.predicted_s, threads, ids])
    row[: len(head)] = head
    return row


def decode(row: np.ndarray, ranks: int) -> StepPlan:
    """The plan that ``encode`` wrote."""
    count, load, predicted_s, threads = row[: 4 * ranks].reshape(4, ranks)
    cuts = np.cumsum(count.astype(np.int64))
    ids = row[4 * ranks : 4 * ranks + cuts[-1]].astype(np.int64)
    known = None if np.isnan(threads).any() else threads.astype(int)
    return StepPlan(tuple(np.split(ids, cuts[:-1])), load, predicted_s, known)


class Channel:
    """One loader's way to rank 0 and back. ``planner`` on rank 0, None elsewhere."""

    def __init__(self, session, planner, room: int, on_record=None):
        self.session, self.planner, self.room, self.on_record = session, planner, room, on_record
        self.gathers, self.plans = session.duplicate(), session.duplicate()
        self.ranks = session.size
        self._steps = 0

    def begin(self, epoch: int, steps: int, lead: int) -> None:
        """Start an epoch of this many steps; the plan of step s waits for the records up to ``s - lead``."""
        self.epoch, self._steps, self._lead = epoch, steps, lead
        self._taken = self._messages = 0  # steps, messages
        self._ready: deque[StepPlan] = deque()
        self._lengths: deque[int] = deque()  # steps of the messages whose records are not sent yet
        self._rows: list[list[float]] = []  # records of the first of them
        self._open: tuple | None = None  # (request, buffer) of the next message
        self._gathering: list[tuple] = []
        if self.planner:
            self._inbox, self._outbox, self._last = queue.Queue(), queue.Queue(), steps
            self._thread = threading.Thread(target=self._serve, name="chronica planner", daemon=True)
            self._thread.start()
        else:
            self._receive_next()

    def take(self) -> StepPlan:
        """The next step's plan. Raises RuntimeError if rank 0 is in another epoch."""
        if not self._ready:
            plans = self._own_message() if self.planner else self._message()
            self._ready.extend(plans)
            self._lengths.append(len(plans))
            self._messages += 1
        self._taken += 1
        return self._ready.popleft()

    def send(self, record: dict[str, float]) -> None:
        """Note this rank's record of the step it has finished; the last of a message sends them all."""
        self._rows.append([record[name] for name in RECORD])
        if len(self._rows) == self._lengths[0]:
            self._send_rows()

    def end(self) -> None:
        """Finish the epoch, also one that was broken off on all ranks after the same step.

        A rank that leaves alone must not hang here: what does not come within END_S will never come.
        """
        if self._rows:
            self._send_rows()
        if self.planner:
            self._last = self._messages + 1  # the others already wait for this one
            self._inbox.put(None)
            self._thread.join(END_S)
            return
        for request, _ in [*self._gathering, *([self._open] if self._open else [])]:
            _poll(request, time.monotonic() + END_S)

    def _own_message(self) -> list[StepPlan]:
        self.session.soft_wait(lambda: not self._outbox.empty())
        return self._outbox.get()

    def _message(self) -> list[StepPlan]:
        assert self._open, "one message is always on its way until the epoch's last was taken"
        request, message = self._open
        self.session.soft_wait(request.Test)
        epoch, steps = int(message[0, 0]), int(message[0, 1])
        if epoch != self.epoch:
            raise RuntimeError(
                f"this rank is in epoch {self.epoch}, rank 0 in {epoch}; call set_epoch alike on all ranks"
            )
        plans = [decode(row, self.ranks) for row in message[:steps, 2:]]
        self._receive_next(steps)
        return plans

    def _receive_next(self, steps: int = 0) -> None:
        self._open = None
        if self._taken + steps < self._steps:
            message = self._buffer()
            self._open = self.plans.Ibcast(message, root=0), message

    def _buffer(self) -> np.ndarray:
        """A message: for each step epoch, number of steps in the message, and the plan."""
        return np.empty((CALM, 2 + 4 * self.ranks + self.room))

    def _send_rows(self) -> None:
        mine = np.full((CALM, len(RECORD)), np.nan)
        mine[: len(self._rows)] = self._rows
        all_ranks = np.empty((self.ranks, *mine.shape)) if self.planner else None
        request = self.gathers.Igather(mine, all_ranks, root=0)
        if self.planner:
            self._inbox.put((request, all_ranks, mine, len(self._rows)))
        else:
            self._gathering = [*(item for item in self._gathering if not item[0].Test()), (request, mine)]
        self._lengths.popleft()
        self._rows = []

    def _serve(self) -> None:
        """Rank 0's thread: one epoch."""
        self._seen, self._stopped, self._planned, sending = 0, False, {}, []
        self._ends: list[int] = []  # of each message the step after its last
        self.planner.start(self.epoch)
        step = 0
        while step < self._steps:
            while self._seen < self._records_needed(step) and not self._stopped:
                self._learn()
            if self._stopped and len(self._ends) >= self._last:
                break
            plans = self._plan(step)
            message = self._buffer()
            message[:, 0], message[:, 1] = self.epoch, len(plans)
            message[: len(plans), 2:] = [encode(plan, self.room) for plan in plans]
            sending = [item for item in sending if not item[0].Test()]
            sending.append((self.plans.Ibcast(message, root=0), message))
            self._outbox.put(plans)
            step += len(plans)
            self._ends.append(step)
        while self._seen < self._steps and not self._stopped:
            self._learn()
        for request, _ in sending:
            _poll(request)

    def _plan(self, step: int) -> list[StepPlan]:
        """The plans of the next message."""
        steps = min(CALM if self.planner.calm else 1, self._steps - step)
        plans = [self.planner.next() for _ in range(steps)]
        self._planned.update(enumerate(plans, step))
        return plans

    def _records_needed(self, step: int) -> int:
        """How many steps' records the plan of this step waits for: those of whole messages, and of the very first."""
        bound = step - self._lead + (1 if self.planner.informed else 2)
        return max((0, *self._ends[: bisect.bisect_right(self._ends, bound)]))

    def _learn(self) -> None:
        item = self._inbox.get()
        if item is None:
            self._stopped = True
            return
        request, all_ranks, _, steps = item
        _poll(request)
        for row in range(steps):
            record = StepRecord(self.epoch, self._seen, *all_ranks[:, row].T)
            self.planner.observe(record)
            if self.on_record:
                self.on_record(record, self._planned.pop(self._seen))
            self._seen += 1


def _poll(request, deadline: float = float("inf")) -> None:
    while not request.Test() and time.monotonic() < deadline:
        time.sleep(POLL_S)
