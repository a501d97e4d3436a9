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


def deal(sizes, batch: int, most: int, slope, intercept) -> tuple[np.ndarray, np.ndarray]:
    """Step of each sample of one window, (n,) int64, and how long each step shall be, (K,) s.

    sizes: (n,) size units. most: samples a step may have; just the batch: every step has so many (the last may be
    short), more than that: steps may differ.
    """
    quota = _quota(len(sizes), batch, most)
    step, target = np.empty(len(sizes), np.int64), np.zeros(len(quota))
    order = np.argsort(-sizes)
    giant_step, longest = giants(sizes[order], np.maximum(quota, most * (most > batch)), slope, intercept)
    step[order[: len(giant_step)]] = giant_step
    rest = order[len(giant_step) :]
    for k, limit in enumerate(longest):
        held = np.flatnonzero(giant_step == k)
        load = sizes[order[held]].sum()
        room = holds(slope, intercept, limit) - load
        count = quota[k] - len(held)
        if most > batch:
            count = _usual_count(sizes[rest], room, most - len(held), (len(quota) - 1 - k) * len(slope))
        chosen = _mix(sizes[rest], count if k < len(quota) - 1 else len(rest), room)
        step[rest[chosen]] = k
        target[k] = max(limit, level(slope, intercept, load + sizes[rest[chosen]].sum()))
        rest = np.delete(rest, chosen)
    _deal_alike(sizes, rest, quota, batch if most == batch else 0, len(longest), slope, intercept, step, target)
    return step, target


def _deal_alike(sizes, rest, quota, batch, first, slope, intercept, step, target):
    """Deal the rest, biggest first, to the steps from ``first`` on; a last step short of the batch comes apart."""
    last = len(quota)
    if first < last and quota[-1] < batch:
        last -= 1
        work = sizes[rest].sum() * quota[-1] / len(rest)
        target[last] = level(slope, intercept, work)
        fitting = np.searchsorted(-sizes[rest], -np.max((target[last] - intercept) / slope))
        chosen = _mix(sizes[rest], quota[-1], work, min(fitting, len(rest) - quota[-1]))
        step[rest[chosen]] = last
        rest = np.delete(rest, chosen)
    if first < last:
        step[rest] = first + _snake(len(rest), last - first)
        target[first:last] = level(slope, intercept, sizes[rest].sum() / (last - first))


def _quota(samples, batch, most):
    """Samples of each step, (K,): full batches and a short last one, or all alike."""
    steps = -(-samples // batch)
    if most > batch:
        return samples // steps + (np.arange(steps) < samples % steps)
    return np.minimum(batch, samples - batch * np.arange(steps))


def _usual_count(rest, room, most, later):
    """Samples of the usual mix that fill the room, with as many as ``later`` left for the later steps."""
    count = round(len(rest) * room / max(rest.sum(), 1e-300))
    return max(min(count, most, len(rest) - later), 0)


def _snake(samples, steps):
    """Steps dealt to and fro, (samples,): 0 1 2 2 1 0 0 1 2 ..."""
    turn, place = np.divmod(np.arange(samples), steps)
    return np.where(turn % 2, steps - 1 - place, place)


def giants(ordered, most, slope, intercept) -> tuple[np.ndarray, list[float]]:
    """Step of each giant, (g,) int64, and the times (s) of the long steps 0, 1, ... that they make.

    ordered: (n,) sizes, biggest first. most: (K,) samples a step may hold.
    """
    steps, work, absorbed = len(most), ordered.sum(), 0.0
    at, longest, room = [], [], np.zeros((0, len(slope)))  # room: (long steps, M) s
    even, held = level(slope, intercept, work / steps), np.zeros(steps, np.int64)
    for i, size in enumerate(ordered):
        alone = slope * size + intercept
        if alone.min() <= even or len(longest) == steps:
            break
        left = room - slope * size
        left[(left < 0) | (held[: len(left), None] >= most[: len(left), None])] = np.inf
        k, rank = divmod(int(left.argmin()), len(slope)) if left.size else (0, 0)
        if not left.size or left[k, rank] == np.inf:
            k, rank = len(longest), int(alone.argmin())
            longest.append(float(alone.min()))
            room = np.vstack([room, longest[-1] - intercept])
            absorbed += min(holds(slope, intercept, longest[-1]), ordered[i : i + most[k]].sum())
            later = steps - len(longest)
            even = level(slope, intercept, max(work - absorbed, 0) / later) if later else np.inf
        room[k, rank] -= slope[rank] * size
        held[k] += 1
        at.append(k)
    return np.array(at, np.int64), longest


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
