"""Trades samples between cells until none is over its time: the second half of packing.

A cell is one rank in one step. Every cell that is over looks, for each of its samples, at slightly smaller ones
elsewhere in the window (samples are sorted by size once, so these are its neighbours) and at an empty cell that it
could give the sample to outright; it makes the one trade that leaves the worse of the two cells best off. All cells
trade at once, each at most once a round; the fewer are over, the more neighbours each looks at.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LOOKS = (3, 64)  # neighbours looked at for each sample: at least, at most
MOVE_EVERY = 3  # rounds; in the others samples are only swapped, which finds most
FOCUS = 0.5  # cells trade that are over by this share of the worst of their step
GOLDEN = 0.6180339887498949


@dataclass
class Cells:
    """C cells and the n samples they hold, sorted by (window, size); trades change holder, over and count in place."""

    ranks: int  # M; cell = step * M + rank
    key: np.ndarray  # (n,) size units, plus an offset that sets the windows apart
    first: np.ndarray  # (n,) place of the first sample of the same window
    sizes: np.ndarray  # (n,) size units
    holder: np.ndarray  # (n,) int64 cell of each sample
    rate: np.ndarray  # (C,) s per size unit in that cell
    over: np.ndarray  # (C,) s above the cell's target; negative: room
    slack: np.ndarray  # (C,) s above the target that is good enough
    count: np.ndarray  # (C,) samples held
    least: np.ndarray  # (C,) samples it must keep
    most: np.ndarray  # (C,) samples it may hold
    group: np.ndarray  # (C,) cells among which a sample may move without one coming back, ascending
    step_most: int  # samples a step may come to hold by moves

    def longest(self) -> np.ndarray:
        """(K,) s over target of the worst cell of each step."""
        return self.over.reshape(-1, self.ranks).max(axis=1)


def trade(cells: Cells, turn: int) -> int:
    """One round of trades; returns their number. turn: number of the round, varies who is looked at."""
    worst = np.repeat(cells.longest(), cells.ranks)
    mine = np.flatnonzero((cells.over > np.maximum(cells.slack, worst * FOCUS))[cells.holder])
    if not len(mine):
        return 0
    here = cells.holder[mine]
    after, back = _best_swap(cells, mine, here, turn)
    moved, target = _best_move(cells, mine, here) if turn % MOVE_EVERY == 0 else (np.inf, here)
    move = moved < after
    there, after = np.where(move, target, cells.holder[back]), np.minimum(after, moved)
    chosen = _one_each(here, there, cells.over[here] - after, cells.slack[here] / 8, len(cells.over))
    _apply(cells, here[chosen], there[chosen], mine[chosen], np.where(move, -1, back)[chosen])
    return len(chosen)


def _worse(cells, here, there, load):
    """Seconds over target of the worse of two cells after ``load`` size units went from here to there."""
    return np.maximum(cells.over[here] - cells.rate[here] * load, cells.over[there] + cells.rate[there] * load)


def _best_swap(cells, mine, here, turn):
    """For each sample the best of some smaller ones in its window: (s over after the swap, that sample)."""
    reach = (2 * cells.over[here] + 4 * cells.slack[here]) / cells.rate[here]
    low = np.maximum(np.searchsorted(cells.key, cells.key[mine] - reach), cells.first[mine])
    looks = int(np.clip(len(cells.sizes) // len(mine), *LOOKS))
    spots = (np.arange(looks) + turn * GOLDEN % 1) / looks
    near = low + (spots[:, None] * (mine - low)).astype(np.int64)  # (looks, len(mine))
    after = _worse(cells, here, cells.holder[near], cells.sizes[mine] - cells.sizes[near])
    best, each = after.argmin(0), np.arange(len(mine))
    return after[best, each], near[best, each]


def _best_move(cells, mine, here):
    """For each sample a cell of its group with room, the fullest cell meeting the emptiest: (s over after it, cell)."""
    order = np.argsort(cells.group * (2 * np.ptp(cells.over) + 1) + cells.over)
    size = np.bincount(cells.group)
    end = np.cumsum(size)
    place = np.empty(len(order), np.int64)
    place[order] = end[cells.group[order]] - 1 - np.arange(len(order))  # 0: the fullest of its group
    there = order[(end - size)[cells.group[here]] + place[here]]
    crowded = cells.count.reshape(-1, cells.ranks).sum(1) >= cells.step_most
    may = (cells.count[here] > cells.least[here]) & (cells.count[there] < cells.most[there])
    may &= ~crowded[there // cells.ranks] | (here // cells.ranks == there // cells.ranks)
    return np.where(may, _worse(cells, here, there, cells.sizes[mine]), np.inf), there


def _one_each(here, there, gain, least_gain, cells):
    """Places of the trades to make: best gain first, no cell in two of them."""
    order = np.flatnonzero(gain > least_gain)
    order = order[np.argsort(-gain[order])]
    both = np.column_stack([here[order], there[order]]).ravel()
    first = np.empty(cells, np.int64)
    first[both[::-1]] = np.arange(len(both))[::-1]  # the last one written stays
    free = first[both] == np.arange(len(both))
    return order[free[0::2] & free[1::2]]


def _apply(cells, here, there, mine, back):
    swap = back >= 0
    load = cells.sizes[mine] - np.where(swap, cells.sizes[back], 0.0)
    cells.holder[mine], cells.holder[back[swap]] = there, here[swap]
    cells.over[here] -= cells.rate[here] * load
    cells.over[there] += cells.rate[there] * load
    cells.count[here[~swap]] -= 1
    cells.count[there[~swap]] += 1
