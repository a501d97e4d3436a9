"""The two algorithms of the Chronica paper: the data scheduler of a step and the data shuffler of an epoch.

Formulas, symbols and our differences are in ``chronica``; here the lists are sorted by size, so every "closest" is
a binary search.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right

import numpy as np

from ..levels import positive
from ..records import Profile, World


class Queue:
    """The samples that one rank owns, shortest first."""

    def __init__(self, sizes: np.ndarray, samples: np.ndarray):
        order = np.argsort(sizes, kind="stable")
        self.sizes, self.samples = sizes[order].tolist(), samples[order].tolist()

    def __len__(self):
        return len(self.samples)

    def take(self, place: int) -> tuple[int, float]:
        """Remove the sample at a place; its number and size."""
        return self.samples.pop(place), self.sizes.pop(place)

    def nearest(self, size: float) -> int:
        """Place of the sample nearest in size; of two equally near ones the smaller."""
        at = bisect_left(self.sizes, size)
        if at and (at == len(self) or size - self.sizes[at - 1] <= self.sizes[at] - size):
            at -= 1
        return at

    def fit(self, size: float) -> int:
        """Place of the biggest sample that is not above the size, else of the smallest."""
        return max(bisect_right(self.sizes, size) - 1, 0)


class Step:
    """One step while its samples are chosen."""

    def __init__(self, queues: list[Queue], batch: int, world: World, profile: Profile):
        self.queues, self.slope, self.acc = queues, profile.slope.tolist(), profile.intercept.tolist()
        self.left = min(batch, sum(map(len, queues)))  # samples still to choose
        enough = self.left >= world.min_count * world.size
        self.need = [world.min_count * enough] * world.size  # samples a rank must still get
        self.room = [self.left] * world.size if world.max_count is None else [int(c) for c in world.max_count]
        self.owed = sum(self.need)
        self.chosen: list[tuple[int, int]] = []  # (sample, rank)

    def give(self, rank: int, queue: Queue, place: int) -> None:
        """The sample at this place of a queue goes to the rank."""
        sample, size = queue.take(place)
        self.chosen.append((sample, rank))
        self.acc[rank] += self.slope[rank] * size
        self.left, self.room[rank] = self.left - 1, self.room[rank] - 1
        self.owed, self.need[rank] = self.owed - (self.need[rank] > 0), self.need[rank] - 1

    def open(self, first: float) -> None:
        """The random first pick, the only randomness of a step; first: in [0, 1)."""
        place = int(first * sum(map(len, self.queues)))
        for rank, queue in enumerate(self.queues):
            if place < len(queue):
                return self.give(rank, queue, place)
            place -= len(queue)

    def pick(self, how: str) -> None:
        """The least filled rank takes the sample that closes its gap, until the batch is full or ranks starve."""
        heap, longest = [(acc, rank) for rank, acc in enumerate(self.acc)], max(self.acc)
        heapq.heapify(heap)
        while heap and self.left > self.owed:
            rank = heapq.heappop(heap)[1]
            queue = self.queues[rank]
            if not queue or self.room[rank] <= 0:
                continue
            self.give(rank, queue, getattr(queue, how)((longest - self.acc[rank]) / self.slope[rank]))
            longest = max(longest, self.acc[rank])
            heapq.heappush(heap, (self.acc[rank], rank))

    def fill(self) -> None:
        """The rest of the batch: shortest samples, to ranks without one first, from others where a rank owns none."""
        while self.left:
            rank = min(range(len(self.acc)), key=lambda j: (self.room[j] <= 0, self.need[j] <= 0, self.acc[j]))
            self.give(rank, self.queues[rank] or max(self.queues, key=len), 0)


def schedule(sizes, owner, batch: int, world: World, profile: Profile, pick: str, firsts) -> np.ndarray:
    """Cells (step * M + rank) of the samples used in the next steps, (n,) int64; -1: not used yet.

    sizes: (n,) size units. owner: (n,) rank of each sample. pick: "nearest" or "fit". firsts: one number in [0, 1)
    for each step, its random first pick; no step is made once the samples are used up.
    """
    profile, cells = positive(profile), np.full(len(sizes), -1)
    queues = [Queue(sizes[mine], mine) for mine in (np.flatnonzero(owner == j) for j in range(world.size))]
    for k, first in enumerate(firsts):
        step = Step(queues, batch, world, profile)
        if not step.left:
            break
        step.open(first)
        step.pick(pick)
        step.fill()
        for sample, rank in step.chosen:
            cells[sample] = k * world.size + rank
    return cells


def shuffle(sizes, owner, profile: Profile, steps: int, passes: int) -> np.ndarray:
    """New owners (n,) int64: what a rank owns beyond the mean time moves to the least loaded ranks.

    Passes are repeated until the ranks' times lie within one sample, because a sample costs its new owner another
    time than its old one. sizes: (n,) size units. owner: (n,) rank. steps: steps of the epoch, each with an intercept.
    """
    profile, owner = positive(profile), owner.copy()
    for _ in range(passes):
        load = np.bincount(owner, sizes, minlength=len(profile.slope))
        total = profile.slope * load + profile.intercept * steps  # (M,) s
        if np.ptp(total) <= np.max(profile.slope) * sizes.max(initial=0):
            break
        overflow = [
            _overflow(sizes, np.flatnonzero(owner == j), profile.slope[j], total[j] - total.mean())
            for j in np.flatnonzero(total > total.mean())
        ]
        moving = np.concatenate(overflow)
        total -= profile.slope * np.bincount(owner[moving], sizes[moving], minlength=len(total))
        heap = [(time, rank) for rank, time in enumerate(total.tolist())]
        heapq.heapify(heap)
        for sample in moving[np.argsort(-sizes[moving], kind="stable")]:
            time, rank = heap[0]
            owner[sample] = rank
            heapq.heapreplace(heap, (time + profile.slope[rank] * sizes[sample], rank))
    return owner


def _overflow(sizes, mine, slope, excess) -> np.ndarray:
    """Samples that a rank gives away: again and again the one closest to what it still has too much.

    While the excess is above the biggest sample, the biggest is the closest, so those are taken at once.
    """
    mine = mine[np.argsort(-sizes[mine], kind="stable")]
    after = excess - slope * np.cumsum(sizes[mine])
    whole = np.count_nonzero(after >= 0)
    queue, given = Queue(sizes[mine[whole:]], mine[whole:]), mine[:whole].tolist()
    excess = excess if not whole else after[whole - 1]
    while excess > 0 and queue:
        sample, size = queue.take(queue.nearest(excess / slope))
        given.append(sample)
        excess -= slope * size
    return np.array(given, np.int64)
