"""Trades samples between groups until none is over its target: the fullest swaps with, or gives to, the emptiest.

A group is whatever holds samples: a step, or one rank in one step. Groups trade only within their league (the steps
of a window, the ranks of a step). In a round every group meets one partner, all pairs at once; a pair makes the one
trade that leaves the worse of the two best off. For each sample of the fuller group the best counterpart in the
emptier one is the nearest to ``size - gap``, found by binary search, so a round costs O(n log n) whatever the groups.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass
class Groups:
    """Groups and what they hold; ``trade`` changes member, over and count in place."""

    sizes: np.ndarray  # (n,) size units
    member: np.ndarray  # (n,) int64 group of each sample
    rate: np.ndarray  # (C,) s per size unit in that group
    over: np.ndarray  # (C,) s above the group's target; negative: room
    count: np.ndarray  # (C,) samples held
    least: np.ndarray  # (C,) samples it must keep
    most: np.ndarray  # (C,) samples it may hold


def trade(groups: Groups, league: np.ndarray, moves: bool, shift: int, slack: float) -> int:
    """One round; returns the number of trades made.

    league: (C,) int64. moves: a sample may also change sides without one coming back. shift: which of the emptier
    groups the fullest meets. slack: s over target that is good enough to be left alone.
    """
    full, empty = _pairs(groups.over, league, shift, slack)
    if not len(full):
        return 0
    pair = np.full(len(groups.over), -1)
    pair[full] = np.arange(len(full))
    give = np.flatnonzero(pair[groups.member] >= 0)
    give = give[np.argsort(pair[groups.member[give]], kind="stable")]
    deal = pair[groups.member[give]]
    pair[full], pair[empty] = -1, np.arange(len(full))
    take = np.flatnonzero(pair[groups.member] >= 0)
    after, back = _best_counterpart(groups, full, empty, give, deal, take, pair[groups.member[take]])
    if moves:
        may = (groups.count[full] > groups.least[full]) & (groups.count[empty] < groups.most[empty])
        moved = np.where(may[deal], _worse(groups, full[deal], empty[deal], groups.sizes[give]), np.inf)
        after, back = np.minimum(after, moved), np.where(moved <= after, -1, back)
    best = np.full(len(full), np.inf)
    np.minimum.at(best, deal, after)
    won = np.flatnonzero((after == best[deal]) & (after < groups.over[full][deal] - slack / 8))
    won = won[np.append(True, deal[won][1:] != deal[won][:-1])] if len(won) else won
    _apply(groups, full[deal[won]], empty[deal[won]], give[won], back[won])
    return len(won)


def _pairs(over, league, shift, slack):
    """Who meets whom: in each league the fullest with the emptiest, turned by ``shift`` places."""
    order = np.lexsort((over, league))
    length = np.bincount(league)
    start = np.cumsum(length) - length
    place = np.arange(len(order)) - start[league[order]]
    half = length[league[order]] // 2
    rank_from_top = length[league[order]] - 1 - place
    upper = np.flatnonzero(rank_from_top < half)
    partner = start[league[order[upper]]] + (rank_from_top[upper] + shift) % half[upper]
    full, empty = order[upper], order[partner]
    wants = (over[full] > slack) & (over[full] > over[empty])
    return full[wants], empty[wants]


def _worse(groups, full, empty, load):
    """Seconds over target of the worse of two groups after ``load`` went from the fuller to the emptier."""
    return np.maximum(
        groups.over[full] - groups.rate[full] * load, groups.over[empty] + groups.rate[empty] * load
    )


def _best_counterpart(groups, full, empty, give, deal, take, side):
    """For each sample of ``give`` the best swap: (what is over after it, the sample that comes back)."""
    if not len(take):
        return np.full(len(give), np.inf), np.full(len(give), -1)
    span = 2 * groups.sizes.max() + 1
    key = side * span + groups.sizes[take]
    order = np.argsort(key)
    key, take, side = key[order], take[order], side[order]
    gap = (groups.over[full] - groups.over[empty]) / (groups.rate[full] + groups.rate[empty])
    wanted = np.clip(groups.sizes[give] - gap[deal], 0, None) + deal * span
    place = np.searchsorted(key, wanted)
    after, back = np.full(len(give), np.inf), np.full(len(give), -1)
    for near in (place - 1, place):
        near = np.clip(near, 0, len(take) - 1)
        same = side[near] == deal
        load = groups.sizes[give] - groups.sizes[take[near]]
        result = np.where(same, _worse(groups, full[deal], empty[deal], load), np.inf)
        back = np.where(result < after, take[near], back)
        after = np.minimum(after, result)
    return after, back


def _apply(groups, full, empty, give, back):
    swap = back >= 0
    load = groups.sizes[give] - np.where(swap, groups.sizes[back], 0.0)
    groups.member[give], groups.member[back[swap]] = empty, full[swap]
    groups.over[full] -= groups.rate[full] * load
    groups.over[empty] += groups.rate[empty] * load
    groups.count[full[~swap]] -= 1
    groups.count[empty[~swap]] += 1
