"""Which step of a window each sample goes to, and how long each step shall be.

A sample that alone takes longer than an equal share of the window makes its step long whatever else is in it. Such
giants are put together: the biggest opens a long step on the fastest rank, the next ones go where they fill a room
best, and a new long step is opened only when none of them fits. What a long step can hold besides is taken from the
other samples, in a mix as near to the usual one as its load allows; the rest is dealt in equal mixes.
"""

from __future__ import annotations

from bisect import bisect_left, insort

import numpy as np

from .levels import equal_counts, holds, level, whole_counts
from .records import Profile

ALIKE = 0.25  # standard deviation over mean below which sizes are so alike that whole samples leave gaps


def deal(sizes, quota, least: int, most: int, profile: Profile) -> tuple[np.ndarray, np.ndarray]:
    """Step of each sample of one window, (n,) int64, and how long each step shall be, (K,) s.

    sizes: (n,) size units. quota: (K,) samples of each step, only the last may be short. most: 0, or samples a step
    may have and need not keep the quota; then it has ``least`` at least.
    """
    table = _Table(sizes, quota, least, most, profile)
    long_steps = table.deal_giants()
    for k in range(long_steps):
        table.fill(k)
    short = table.fixed and quota[-1] < quota[0] and long_steps < len(quota)
    if short:
        table.deal_short()
    table.deal_alike(long_steps, len(quota) - short)
    return table.step, table.target


class _Table:
    """The window being dealt: ``rest`` are the samples still in hand, biggest first."""

    def __init__(self, sizes, quota, least, most, profile):
        self.sizes, self.least, self.most, self.profile = sizes, least, most, profile
        self.quota, self.fixed, steps = quota, most == 0, len(quota)
        self.step, self.target = np.empty(len(sizes), np.int64), np.zeros(steps)
        self.held, self.load = np.zeros(steps, np.int64), np.zeros(steps)  # (K,) samples and size units so far
        self.rest = np.argsort(-sizes)

    def put(self, k, chosen):
        """Samples at these places of the rest go to step k (one step, or one for each)."""
        self.step[self.rest[chosen]] = k
        self.rest = np.delete(self.rest, chosen)

    def deal_giants(self):
        """Every giant to its long step; returns the number of long steps, which are the first ones."""
        most = self.quota if self.fixed else np.full(len(self.quota), self.most)
        at, longest = giants(self.sizes[self.rest], 0 if self.fixed else self.least, most, self.profile)
        self.target[: len(longest)] = longest
        self.held = np.bincount(at, minlength=len(most))
        self.load = np.bincount(at, self.sizes[self.rest[: len(at)]], minlength=len(most))
        self.put(at, np.arange(len(at)))
        return len(longest)

    def fill(self, k):
        """Fill up long step k."""
        sizes, room = self.sizes[self.rest], holds(self.profile, self.target[k]) - self.load[k]
        count = self.quota[k] - self.held[k]
        if not self.fixed:
            later = self.held[k + 1 :]
            usual = len(sizes) * room / max(sizes.sum(), 1e-300)
            low = max(self.least - self.held[k], len(sizes) - np.sum(self.most - later), 0)
            high = min(self.most - self.held[k], len(sizes) - np.maximum(self.least - later, 0).sum())
            count = min(int(max(low, min(usual, high))), len(sizes))
        chosen = _mix(sizes, count, room)
        self.target[k] = max(self.target[k], level(self.profile, self.load[k] + sizes[chosen].sum()))
        self.put(k, chosen)

    def deal_short(self):
        """The last step, short of the batch: its share of the work, in samples that are not too long for it."""
        sizes, count = self.sizes[self.rest], self.quota[-1]
        work = sizes.sum() * count / len(sizes)
        self.target[-1] = level(self.profile, work)
        fitting = _biggest(self.profile, self.target[-1])
        first = min(int(np.searchsorted(-sizes, -fitting)), len(sizes) - count)
        self.put(len(self.quota) - 1, _mix(sizes, count, work, first))

    def deal_alike(self, start, end):
        """All the rest to the steps from start to end in equal mixes: biggest first, each turn through all of them."""
        if start == end:
            return
        sizes, steps = self.sizes[self.rest], end - start
        count = equal_counts(len(sizes), steps)
        if not self.fixed and start == 0 and steps > 1 and sizes.std() < ALIKE * sizes.mean():
            count = whole_counts(len(sizes), steps, self.least, self.most, self.profile, sizes.mean())
        for share in np.unique(count):
            time = level(self.profile, sizes.sum() * share / len(sizes))
            self.target[start:end][count == share] = time
        turn = np.concatenate([np.arange(n) for n in count])
        step = np.repeat(np.arange(steps), count)
        spot = (turn + 0.5) / count[step] + np.where(turn % 2, steps - step, step) * (1e-6 / steps)
        self.put(start + step[np.argsort(spot)], np.arange(len(sizes)))


def giants(ordered, least: int, most, profile: Profile) -> tuple[np.ndarray, list[float]]:
    """Step of each giant, (g,) int64, and the times (s) of the long steps 0, 1, ... that they make.

    ordered: (n,) sizes, biggest first. least: samples a step must hold; most: (K,) samples it may hold.
    """
    steps, work, absorbed, owed = len(most), ordered.sum(), 0.0, least * len(most)
    at: list[int] = []
    longest: list[float] = []
    rooms: list[tuple[float, int, int]] = []  # (size units still free, step, rank), ascending
    held, limit = [0] * steps, _biggest(profile, level(profile, work / steps))
    for i, size in enumerate(ordered.tolist()):
        if size <= limit or len(longest) == steps or len(ordered) - i <= owed:
            break
        tightest = bisect_left(rooms, (size,))
        if tightest < len(rooms):
            room, k, rank = rooms.pop(tightest)
            insort(rooms, (room - size, k, rank))
        else:
            k, alone = len(longest), profile.seconds(size)
            longest.append(float(alone.min()))
            free = (longest[k] - profile.intercept) / profile.slope
            free[alone.argmin()] = 0
            rooms = sorted(rooms + [(room, k, rank) for rank, room in enumerate(free.tolist()) if room > 0])
            absorbed += min(holds(profile, longest[k]), ordered[i : i + most[k]].sum())
            limit = _biggest(profile, level(profile, max(work - absorbed, 0) / max(steps - k - 1, 1)))
        at.append(k)
        held[k] += 1
        owed -= held[k] <= least
        if held[k] == most[k]:
            rooms = [room for room in rooms if room[1] != k]
    return np.array(at, np.int64), longest


def _biggest(profile, time):
    """The biggest sample that some rank can do in this time (s), size units."""
    return float(np.max((time - profile.intercept) / profile.slope))


def _mix(ordered, count: int, load: float, first: int = 0) -> np.ndarray:
    """Places of ``count`` samples of about ``load`` in all, evenly spread over as much of the range as that allows.

    ordered: (n,) sizes, biggest first. first: bigger ones than this place are not taken.
    """
    spare, places = len(ordered) - first - count, np.arange(count) + 0.5
    low, high = 0, 2 * spare  # 0: the biggest ones, spare: from all, 2 * spare: the smallest ones
    while True:
        turn = (low + high) // 2
        begin, end = first + max(0, turn - spare), first + min(count + turn, count + spare)
        chosen = (begin + places * ((end - begin) / max(count, 1))).astype(np.int64)
        if low >= high:
            return chosen
        if ordered[chosen].sum() > load:
            low = turn + 1
        else:
            high = turn
