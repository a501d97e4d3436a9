"""How long a step must be for so much work, and how many whole samples a step holds without gaps."""

from __future__ import annotations

import numpy as np

from .records import Profile


def positive(profile) -> Profile:
    """Slopes that can be divided by: a rank that costs nothing costs a billionth of the slowest."""
    slope = np.asarray(profile.slope, float)
    least = 1e-9 * slope.max() if slope.max() > 0 else 1e-12
    return Profile(np.maximum(slope, least), np.asarray(profile.intercept, float))


def level(profile: Profile, work: float) -> float:
    """Time (s) at which ranks that all work until then have done ``work`` size units (water filling); slopes > 0."""
    order = np.argsort(profile.intercept, kind="stable")
    slope, start = profile.slope[order], profile.intercept[order]
    reached = (work + np.cumsum(start / slope)) / np.cumsum(1 / slope)  # (M,) with the first 1, 2, ... ranks at work
    return float(reached[np.argmax(reached <= np.append(start[1:], np.inf))])


def holds(profile: Profile, time: float) -> float:
    """Size units that all ranks have done by ``time`` (s); the inverse of ``level``."""
    return float(np.sum(np.maximum(time - profile.intercept, 0) / profile.slope))


def whole_counts(samples: int, steps: int, least: int, most: int, profile: Profile, size: float) -> np.ndarray:
    """Samples of each step, (K,) int64, so that whole samples of one size fill the ranks of every step well.

    A step of n samples takes the n-th smallest of the times at which the ranks finish their 1st, 2nd, ... sample.
    The lower hull of these times over n holds the numbers worth having; the mean number is mixed from the two
    nearest of them, and one step has what is left.
    """
    mean, own = samples / steps, np.maximum(profile.slope * size, 1e-300)
    longest = level(profile, 2 * mean * size) + own.max()
    each = np.clip((longest - profile.intercept) / own, 0, 2 * mean + 1).astype(np.int64)
    rank = np.repeat(np.arange(len(own)), each)
    nth = np.arange(len(rank)) - np.repeat(np.cumsum(each) - each, each) + 1
    times = np.sort(own[rank] * nth + profile.intercept[rank])
    low, high = max(least, int(mean / 2), 1), min(most, int(2 * mean), len(times))
    if not low <= mean <= high:
        return equal_counts(samples, steps)
    numbers = np.arange(low, high + 1)
    times = np.maximum(times[numbers - 1], np.max(own + profile.intercept))
    below, above = _hull_about(numbers, times, mean)
    count = np.full(steps, below)
    count[: int((samples - below * steps) // max(above - below, 1))] = above
    count[-1] += samples - count.sum()
    return count


def equal_counts(samples, steps):
    """Samples of each step, (K,) int64, equal but for one."""
    return samples // steps + (np.arange(steps) < samples % steps)


def _hull_about(numbers, times, mean):
    """The two neighbouring numbers on the lower hull of times over numbers between which the mean lies."""
    hull: list[int] = []
    for i in range(len(numbers)):
        while len(hull) > 1 and _above(numbers, times, hull[-2], hull[-1], i):
            hull.pop()
        hull.append(i)
    on_hull = numbers[hull]
    at = min(int(np.searchsorted(on_hull, mean, side="right")), len(on_hull) - 1)
    return int(on_hull[max(at - 1, 0)]), int(on_hull[at])


def _above(numbers, times, a, b, c):
    """Whether point b is above the line from a to c; points on the line stay, they are nearer to the mean."""
    rise, line = times[b] - times[a], times[c] - times[a]
    return rise * (numbers[c] - numbers[a]) > line * (numbers[b] - numbers[a]) + 1e-9 * times[c]
