"""EP4DDL (Ji, Zhang, Li, Wei, Wei: J. Supercomputing 78, 2022), as we understand the paper.

Batches stay equal; what changes is the number of CPU threads of each rank, so that step times vary least:

    PV = mean_j (t_j - mean t)^2                        performance variance, s^2
    t_j(p) = t_hat_j * (s + (1 - s) * p_j / p)          Amdahl, s: serial part
    t_hat_j <- (1 - w) t_hat_j + w * t_j                prediction of the next step

    t_j  compute time of rank j, s      p_j  its threads now      p  threads to be chosen

Where we differ: variance alone is also 0 when every rank is as slow as the slowest, so the longest time comes first
and the variance second; an exponential mean stands for the paper's GRU; its branch and bound is not needed, since for
a given longest time each rank's fewest threads are known. On GPUs, where threads matter little, times stay as they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..records import Pool, Profile, StepRecord, World
from .even import Even


def relative_variance(seconds: np.ndarray) -> float:
    """PV over the squared mean, without unit; seconds (M,) s."""
    return float(np.var(seconds) / np.mean(seconds) ** 2)


def amdahl_s(seconds: np.ndarray, now: np.ndarray, threads: np.ndarray, serial: float) -> np.ndarray:
    """Times (M,) s with ``threads`` (M,), from those measured with ``now`` (M,) threads."""
    return seconds * (serial + (1 - serial) * now / threads)


def choose_threads(seconds, now, limits, serial: float, group=None, budgets=None) -> np.ndarray:
    """Threads (M,) with the shortest longest time, and the fewest that reach it.

    seconds: (M,) s, measured with now: (M,) threads. limits: (M,) threads a rank may use. group: (M,) host number of
    each rank, budgets: (hosts,) threads its ranks may use together; None: no shared limit. What cannot be met leaves
    the threads as they are.
    """
    seconds, now, limits = (np.asarray(array, float) for array in (seconds, now, limits))
    steps = np.arange(1, int(limits.max()) + 1)
    times = amdahl_s(seconds[:, None], now[:, None], steps[None, :], serial)  # (M, P) s
    times[steps[None, :] > limits[:, None]] = np.inf
    for longest in np.unique(times[np.isfinite(times)]):
        fits = times <= longest * (1 + 1e-12)
        threads = np.where(fits.any(axis=1), fits.argmax(axis=1) + 1, 0)
        together = 0 if group is None else np.bincount(group, weights=threads) - budgets
        if threads.all() and np.all(together <= 0):
            return threads
    return now.astype(int)


@dataclass(frozen=True)
class ThreadState:
    """Predicted times, and the threads they belong to."""

    seconds: np.ndarray  # (M,) s; nan before the first feedback
    threads: np.ndarray  # (M,) threads now
    limits: np.ndarray  # (M,) threads a rank may use
    group: np.ndarray  # (M,) host number of each rank


@dataclass(frozen=True)
class Ep4ddl(Even):
    """Settings: weight of the ``newest`` step, ``serial`` part, relative variance worth acting on, least gain in it."""

    newest: float = 0.5
    serial: float = 0.1
    threshold: float = 0.01
    gain: float = 0.1

    def init(self, world: World, seed: int = 0) -> ThreadState:
        super().init(world, seed)
        ones, none = np.ones(world.size, int), np.full(world.size, np.nan)
        threads = ones if world.threads is None else np.asarray(world.threads)
        limits = threads if world.max_threads is None else np.asarray(world.max_threads)
        return ThreadState(none, threads, limits, np.arange(world.size) if world.hosts is None else world.hosts)

    def observe(self, state: ThreadState, record: StepRecord) -> ThreadState:
        now = np.where(record.count > 0, record.compute_s, np.nan)
        blend = (1 - self.newest) * state.seconds + self.newest * now
        seconds = np.where(np.isnan(state.seconds), now, np.where(np.isnan(now), state.seconds, blend))
        state = replace(state, seconds=seconds)
        if np.isnan(seconds).any() or relative_variance(seconds) <= self.threshold:
            return state
        return self._change(state)

    def _change(self, state: ThreadState) -> ThreadState:
        cores = np.zeros(state.group.max() + 1)
        np.maximum.at(cores, state.group, state.limits)  # any rank of a host may use all of it, but not all at once
        chosen = choose_threads(state.seconds, state.threads, state.limits, self.serial, state.group, cores)
        after = amdahl_s(state.seconds, state.threads, chosen, self.serial)
        slower = after.max() > state.seconds.max() * (1 + 1e-9)
        if slower or relative_variance(after) > (1 - self.gain) * relative_variance(state.seconds):
            return state
        return replace(state, seconds=after, threads=chosen)

    def plan(self, state: ThreadState, world: World, profile: Profile, pool: Pool):
        plans, left, _ = super().plan(state, world, profile, pool)
        return [replace(plan, threads=state.threads) for plan in plans], left, state
