"""Ranks whose timings do not tell them apart count as equal, so that noise moves no samples between equal machines.

One sample too many on one rank lengthens the whole step, so shares that follow the noise of the timings cost more
than the equal ones they replace. Real differences, above the error of the fit, stay.
"""

from __future__ import annotations

import numpy as np

from .records import Profile

SIGMAS = 3.0  # two ranks differ when their times do by this many standard errors
FIRST = 0.05  # relative error of a rank's very first timing; it fades with the square of the steps seen


def standard_error(scatter: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Relative standard error (M,) of a rank's fitted time, from the timings' relative scatter (M,) and number (M,)."""
    return np.sqrt((scatter**2 + (FIRST / steps) ** 2) / steps)


def pooled(profile: Profile, load: np.ndarray, error: np.ndarray) -> Profile:
    """The profile with one line for each group of ranks that cannot be told apart.

    load: (M,) size units at which the lines are compared, their mean. error: (M,) relative standard error of each line.
    A group holds the ranks within SIGMAS standard errors of its fastest.
    """
    seconds = profile.seconds(load.mean())
    group, mean = np.zeros(len(seconds), np.int64), error.mean()
    first = -np.inf
    for number, rank in enumerate(np.argsort(seconds, kind="stable")):
        if seconds[rank] > first * (1 + SIGMAS * np.sqrt(2) * mean):
            first, opened = seconds[rank], number
        group[rank] = opened
    if len(np.unique(group)) == len(group):
        return profile
    members = np.maximum(np.bincount(group, minlength=len(group)), 1)
    slope = np.bincount(group, profile.slope, len(group)) / members
    intercept = np.bincount(group, profile.intercept, len(group)) / members
    return Profile(slope[group], intercept[group])
