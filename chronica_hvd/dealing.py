"""Which step of a window each sample goes to, and how long each step shall be.

A sample that alone takes longer than an equal share of the window makes its step long whatever else is in it. Such
giants are put together: the biggest opens a long step on the fastest rank, the next ones join it on ranks that are
done no later, and a new long step is opened only when none of them fits. What a long step can hold besides is taken
from the other samples, in a mix as near to the usual one as its load allows; the rest is dealt in equal mixes.
"""

from __future__ import annotations

import numpy as np


def level(slope, intercept, work: float) -> float:
    """Time (s) at which ranks that all work until then have done ``work`` size units (water filling)."""
    order = np.argsort(intercept, kind="stable")
    speed, start = np.cumsum(1 / slope[order]), np.cumsum(intercept[order] / slope[order])
    reached = (work + start) / speed  # (M,) with the first 1, 2, ... ranks at work
    return float(reached[np.argmax(reached <= np.append(intercept[order][1:], np.inf))])


def holds(slope, intercept, time: float) -> float:
    """Size units that all ranks have done by ``time`` (s); the inverse of ``level``."""
    return float(np.sum(np.maximum(time - intercept, 0) / slope))


def deal(sizes, batch: int, slope, intercept, free: bool) -> tuple[np.ndarray, np.ndarray]:
    """Step of each sample of one window, (n,) int64, and how long each step shall be, (K,) s.

    sizes: (n,) size units. free: steps may differ in their number of samples, up to twice the batch.
    """
    steps, order = -(-len(sizes) // batch), np.argsort(-sizes)
    quota = _quota(len(sizes), batch, steps, free)
    giant_step, longest = giants(sizes[order], quota * (1 + free), slope, intercept)
    step, long_steps = np.empty(len(sizes), np.int64), len(longest)
    step[order[: len(giant_step)]] = giant_step
    target, rest = np.zeros(steps), order[len(giant_step) :]
    for k, limit in enumerate(longest):
        mine = order[: len(giant_step)][giant_step == k]
        room = holds(slope, intercept, limit) - sizes[mine].sum()
        count = quota[k] - len(mine)
        if free:
            count = _natural_count(sizes[rest], room, 2 * batch - len(mine), len(slope), steps - k - 1)
        chosen = _mix(sizes[rest], count if k < steps - 1 else len(rest), room)
        step[rest[chosen]] = k
        target[k] = max(limit, level(slope, intercept, sizes[mine].sum() + sizes[rest[chosen]].sum()))
        rest = np.delete(rest, chosen)
    if quota[-1] < batch and not free and long_steps < steps:
        work = sizes[rest].sum() * quota[-1] / len(rest)
        target[-1] = level(slope, intercept, work)
        fitting = np.searchsorted(-sizes[rest], -np.max((target[-1] - intercept) / slope))
        chosen = _mix(sizes[rest], quota[-1], work, min(fitting, len(rest) - quota[-1]))
        step[rest[chosen]] = steps - 1
        rest, steps = np.delete(rest, chosen), steps - 1
    if long_steps < steps:
        step[rest] = long_steps + _snake(len(rest), steps - long_steps)
        target[long_steps:steps] = level(slope, intercept, sizes[rest].sum() / (steps - long_steps))
    return step, target


def _quota(samples, batch, steps, free):
    """Samples of each step, (K,): full batches and a short last one, or all alike."""
    if free:
        return samples // steps + (np.arange(steps) < samples % steps)
    return np.minimum(batch, samples - batch * np.arange(steps))


def _natural_count(rest, room, most, ranks, later):
    """Samples of the usual mix that fill the room, leaving the later steps a sample a rank."""
    count = round(len(rest) * room / max(rest.sum(), 1e-300))
    return max(min(count, most, len(rest) - later * ranks), 0)


def _snake(samples, steps):
    """Steps dealt to and fro, (samples,): 0 1 2 2 1 0 0 1 2 ..."""
    turn, place = np.divmod(np.arange(samples), steps)
    return np.where(turn % 2, steps - 1 - place, place)


def giants(ordered, most, slope, intercept) -> tuple[np.ndarray, list[float]]:
    """Step of each giant, (g,) int64, and the times (s) of the long steps 0, 1, ... that they make.

    ordered: (n,) sizes, biggest first. most: (K,) samples a step may hold.
    """
    steps, work, absorbed = len(most), ordered.sum(), 0.0
    at, longest, seats = [], [], []
    even = level(slope, intercept, work / steps)
    for i, size in enumerate(ordered):
        time = slope * size + intercept
        if time.min() <= even or len(longest) == steps:
            break
        k = _seat(time, longest, seats)
        if k == len(longest):
            longest.append(float(time.min()))
            seats.append(_fastest(slope, most[k]) & (np.arange(len(slope)) != np.argmin(time)))
            absorbed += min(holds(slope, intercept, longest[-1]), ordered[i : i + most[k]].sum())
            left = steps - len(longest)
            even = level(slope, intercept, max(work - absorbed, 0) / left) if left else np.inf
        at.append(k)
    return np.array(at, np.int64), longest


def _fastest(slope, count):
    """The ``count`` fastest ranks, (M,) bool."""
    return np.argsort(np.argsort(slope)) < count


def _seat(time, longest, seats):
    """The long step with a free rank that is done in time, which is taken (the slowest such); else a new step."""
    for k, (limit, free) in enumerate(zip(longest, seats)):
        fits = free & (time <= limit)
        if fits.any():
            free[np.argmax(np.where(fits, time, -1.0))] = False
            return k
    return len(longest)


def _mix(ordered, count: int, load: float, first: int = 0) -> np.ndarray:
    """Places of ``count`` samples of about ``load`` in all, evenly spread over as much of the range as that allows.

    ordered: (n,) sizes, biggest first. first: bigger ones than this place are not taken.
    """
    spare, places = len(ordered) - first - count, np.arange(count) + 0.5
    low, high = 0, 2 * spare
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
