"""Ranks that own different data: which of it an epoch uses, in which order, and which step takes what.

Nothing can be given to another rank, so a step takes of each rank in proportion to what it has left, and what is left
to decide is which of a rank's samples go together. (Chronica's system model: each worker samples its own partition.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .records import Pool, Profile, World
from .shares import largest_remainder

ENDS = ("last", "first")


@dataclass(frozen=True)
class Placement:
    """Who owns which samples. At the start those of rank 0 have the first numbers, then those of rank 1, and so on."""

    owner: np.ndarray  # (n,) rank of each sample
    used: np.ndarray  # (M,) samples of each rank in one epoch

    @staticmethod
    def of(counts, batch: int, ends: str = "last", shares=None) -> Placement:
        """counts: (M,) samples that each rank owns, also 0.

        ends: "last" uses every sample; "first" takes the same of each rank in every step until one has too few.

        shares: (M,) samples of a step that "first" takes of each rank; None: equal, together the batch. Raises
        ValueError if no rank has a sample, or "first" makes no step.
        """
        counts = np.asarray(counts, np.int64)
        shares = largest_remainder(np.ones(len(counts)), batch) if shares is None else np.asarray(shares, np.int64)
        if ends not in ENDS:
            raise ValueError(f"ends={ends!r} was given; allowed are {', '.join(map(repr, ENDS))}")
        steps = int(np.min((counts // np.maximum(shares, 1))[shares > 0]))
        used = counts if ends == "last" else shares * steps
        if not used.sum():
            raise ValueError(
                f"the ranks own {counts.tolist()} samples, which makes no step of a global batch of {batch} with "
                f"ends={ends!r}; give them data, a smaller batch or ends='last'"
            )
        return Placement(np.repeat(np.arange(len(counts)), counts), used)

    def moved(self, owner: np.ndarray) -> Placement:
        """The same samples, all used, with other owners (n,)."""
        return Placement(owner, np.bincount(owner, minlength=len(self.used)))


def placed_order(order: np.ndarray, placement: Placement) -> np.ndarray:
    """The samples of an epoch, (sum used,), any stretch of which holds of each rank in proportion to what it uses.

    order: (n,) all samples in the order of the epoch; a rank's own samples keep it.
    """
    owner = placement.owner[order]
    grouped = np.argsort(owner, kind="stable")
    counts = np.bincount(owner, minlength=len(placement.used))  # (M,)
    nth = np.arange(len(order)) - np.repeat(np.cumsum(counts) - counts, counts)
    used = np.repeat(placement.used, counts)
    place = np.where(nth < used, (nth + 0.5) / np.maximum(used, 1), np.inf)
    return order[grouped[np.argsort(place, kind="stable")[: placement.used.sum()]]]


def placed_cells(pool: Pool, world: World, profile: Profile, by_size: bool) -> np.ndarray:
    """Cell (step * M + rank) of each of the pool's samples, (n,), every sample on the rank that owns it.

    by_size: samples that are long go where little is yet; otherwise each rank's come as dealt.
    """
    count = _step_counts(np.bincount(pool.owner, minlength=world.size), pool.batch, pool.steps)
    step, height = np.zeros(len(pool.ids), np.int64), np.zeros(pool.steps)  # height: s, the longest rank so far
    for rank in range(world.size):
        mine = np.flatnonzero(pool.owner == rank)
        if by_size:
            step[mine], load = _level_steps(pool.sizes[mine], count[:, rank], height)
            height = np.maximum(height, profile.slope[rank] * load + profile.intercept[rank])
        else:
            step[mine] = np.repeat(np.arange(pool.steps), count[:, rank])
    return step * world.size + pool.owner


def _step_counts(have: np.ndarray, batch: int, steps: int) -> np.ndarray:
    """Samples (K, M) that each step takes of each rank; the rows sum to the batch, the columns to ``have``."""
    count, left = np.zeros((steps, len(have)), np.int64), have.copy()
    for step in range(steps):
        count[step] = largest_remainder(left, min(batch, left.sum()))
        left -= count[step]
    return count


def _level_steps(sizes: np.ndarray, count: np.ndarray, height: np.ndarray):
    """Step of each of one rank's samples (n,) and load of each step (K,), levelled.

    count: (K,) samples of each step. height: (K,) s of what the ranks before need; long meets long.
    """
    order = np.lexsort([-height, -count])  # steps with most samples first, among those the longest first
    room, load = count[order].copy(), np.zeros(len(count))
    bins = np.zeros(len(sizes), np.int64)
    longest_first, done = np.argsort(-sizes, kind="stable"), 0
    while done < len(sizes):
        open_bins = np.flatnonzero(room > 0)
        emptiest = open_bins[np.argsort(load[open_bins], kind="stable")]
        taken = longest_first[done : done + len(emptiest)]
        bins[taken] = emptiest[: len(taken)]
        load[emptiest[: len(taken)]] += sizes[taken]
        room[emptiest[: len(taken)]] -= 1
        done += len(taken)
    place = _long_meets_long(load, count[order])
    loads = np.zeros(len(count))
    loads[order[place]] = load
    return order[place][bins], loads


def _long_meets_long(load: np.ndarray, count: np.ndarray) -> np.ndarray:
    """Where each bin (K,) goes among the bins of equal count: the fullest first."""
    return np.argsort(np.lexsort([-load, -count]), kind="stable")
