"""Which sample goes to which step and rank, so that the sum of the steps' longest rank times is least.

A step that holds one giant sample is long anyway, so the giants share as few long steps as possible, each on its
own rank, and the other samples fill those steps up. In order: choose how long each step shall be, deal the samples
to the steps, trade between steps until their loads fit, place each step's samples longest first on the rank that
would be done soonest, then trade samples (swaps and moves) between the fullest and the emptiest cells.

Words: a cell is one rank in one step, cell = step * M + rank; a window is the steps between which samples may be
exchanged; all times are ``slope * load + intercept``, the intercept once a step. Sizes in size units, times in s.
"""

from __future__ import annotations

import numpy as np

from .dealing import deal
from .levels import equal_counts, level, positive
from .records import Profile, World
from .trades import Cells, trade

COUNTS = {"fixed": 1, "free": 2}  # most samples of a step, in batches
CHUNK = 65536  # samples packed at once: enough to keep array operations busy, few enough for the cache
BLOCKS = 64  # the ranks of a step are filled in at least so many blocks
PATIENCE = 3  # rounds in a row without a trade after which the others are left out
SLACK = 1e-3  # of a step's time; nearer than this to the target is near enough


def lower_bound(sizes, profile: Profile, steps: int = 1, most: int = 0) -> float:
    """Seconds that no plan of ``steps`` steps can beat: all the work on all the speed, or the biggest sample alone.

    most: samples a step may hold, 0: any number. Where given, the step of the biggest sample holds the biggest
    ``most`` samples at best, and all the other work takes its time besides.
    """
    sizes, profile = np.asarray(sizes, float), positive(profile)
    if not len(sizes):
        return 0.0
    biggest, later = profile.seconds(sizes.max()).min(), steps - 1
    bounds = [level(_over(profile, steps), sizes.sum()), biggest + later * profile.intercept.min()]
    if most and later:
        others = np.sort(sizes)[: max(len(sizes) - most, 0)].sum()
        bounds.append(biggest + level(_over(profile, later), others))
    return float(max(bounds))


def _over(profile, steps):
    """The profile of several steps taken as one."""
    return Profile(profile.slope, steps * profile.intercept)


def pack(
    sizes,
    batch: int,
    world: World,
    profile: Profile,
    count: str = "fixed",
    window: int = 0,
    rounds: int = 24,
    steps: int = 0,
) -> np.ndarray:
    """The cell of every sample, (n,) int64; ``divmod(cells, M)`` is (step, rank).

    sizes: (n,) size units, as dealt. count: "fixed" puts exactly ``batch`` samples in each step (the last may be
    short), "free" keeps that number on average, about twice it at most. window: steps between which samples may be
    exchanged; 1: none, each batch stays as dealt; 0: all. rounds: of trades; 10 come to within 1 %, 24 closer. steps:
    how many to make; 0: ``ceil(n / batch)``, and "fixed" can make no other number. Every rank gets
    ``world.min_count`` samples in each step that has so many, and at most ``world.max_count``. Raises ValueError for
    an unknown count, a batch that the caps cannot hold, and samples that do not fit the steps.
    """
    sizes, profile = np.asarray(sizes, float), positive(profile)
    quota = _quota(len(sizes), batch, steps)
    most = _most(len(sizes), batch, world, count)
    if quota.max(initial=0) > max(most, batch) or not most and len(quota) != -(-len(sizes) // batch):
        raise ValueError(f"{len(sizes)} samples do not make {steps} steps of {batch} with {count} counts")
    edges = np.linspace(0, len(quota), max(len(quota) // window, 1) + 1 if window else 2).astype(int)
    ends = np.append(0, np.cumsum(quota))  # (steps + 1,) where in sizes each step begins as dealt
    per_chunk = max(1, CHUNK * (len(edges) - 1) // max(len(sizes), 1))
    cells = np.empty(len(sizes), np.int64)
    for first in range(0, len(edges) - 1 if len(quota) else 0, per_chunk):
        some = edges[first : first + per_chunk + 1]
        part = slice(ends[some[0]], ends[some[-1]])
        quotas = np.split(quota[some[0] : some[-1]], some[1:-1] - some[0])
        cells[part] = some[0] * world.size + _pack_windows(sizes[part], quotas, most, profile, world, rounds)
    return cells


def _quota(samples, batch, steps):
    """Samples of each step as dealt, (K,): full batches and a short last one; alike where steps are prescribed."""
    needed = -(-samples // batch)
    if steps and steps != needed:
        return equal_counts(samples, steps)
    return np.minimum(batch, samples - batch * np.arange(needed))


def _most(samples, batch, world, count):
    """How many samples a step may have; 0: just its batch."""
    if count not in COUNTS:
        raise ValueError(f"unknown count {count!r}; choose one of {', '.join(COUNTS)}")
    most = batch * COUNTS[count]
    if world.max_count is not None:
        most = min(most, int(np.sum(world.max_count)))
        if most < min(batch, samples):
            caps = np.asarray(world.max_count).tolist()
            raise ValueError(f"a batch of {batch} does not fit the caps {caps}, {most} in all; lower the batch")
    return most if most > batch else 0


def _pack_windows(sizes, quotas, most, profile, world, rounds):
    """Cells of several windows at once; quotas: for each window the samples of its steps as dealt."""
    least = min(quotas[0][0], world.size * world.min_count)
    edges = np.append(0, np.cumsum([quota.sum() for quota in quotas]))  # (windows + 1,)
    step, target, league = np.empty(len(sizes), np.int64), [], []
    for w, quota in enumerate(quotas):
        dealt, times = deal(sizes[edges[w] : edges[w + 1]], quota, least, most, profile)
        step[edges[w] : edges[w + 1]] = dealt + len(target)
        target, league = target + times.tolist(), league + [w] * len(times)
    cell = _place(sizes, step, len(target), profile, world.max_count)
    _seat_everyone(cell, sizes, len(target), world)
    group = np.array(league) if most else np.arange(len(target))
    cell = _trade(sizes, cell, edges, np.array(target), group, most, profile, world, rounds)
    return _in_dealt_order(cell, sizes, len(target), world.size, 0 if most else quotas[0][0])


def _in_dealt_order(cell, sizes, steps, ranks, batch):
    """The same cells with the steps in the order in which their biggest samples were dealt, a short one last."""
    step, rank = np.divmod(cell, ranks)
    order, dealt = np.argsort(sizes, kind="stable"), np.full(steps, len(sizes))
    dealt[step[order]] = order  # the biggest of each step is written last
    dealt[np.bincount(step, minlength=steps) < batch] = len(sizes)
    place = np.empty(steps, np.int64)
    place[np.argsort(dealt, kind="stable")] = np.arange(steps)
    return place[step] * ranks + rank


def _place(sizes, step, steps, profile, caps):
    """Cell of every sample, (n,): in each step longest first, each to the rank that is then done first.

    All steps advance together; where a step has no sample left its row goes on with samples of size 0. With many
    ranks a block of samples is placed at once, on as many ranks, the longest on the first of them.
    """
    ranks = len(profile.slope)
    block = max(1, ranks // BLOCKS) if caps is None else 1
    order = np.argsort(step * (sizes.max() + 1) - sizes)
    quota = np.bincount(step, minlength=steps)
    place = np.arange(len(sizes)) - np.repeat(np.cumsum(quota) - quota, quota)
    turns = -(-quota.max() // block)
    queue, chosen = np.zeros((turns, steps, block)), np.empty((turns, steps, block), np.int64)
    queue[place // block, step[order], place % block] = sizes[order]
    time, held = np.tile(profile.intercept, (steps, 1)), np.zeros((steps, ranks), np.int64)
    row = np.arange(steps)[:, None]
    for turn, size in enumerate(queue):
        done = time + profile.slope * size[:, :1]
        if caps is not None:
            done[held >= caps] = np.inf
        rank = chosen[turn] = _first_done(done, block)
        time[row, rank] += profile.slope[rank] * size
        held[row, rank] += 1
    cell = np.empty(len(sizes), np.int64)
    cell[order] = step[order] * ranks + chosen[place // block, step[order], place % block]
    return cell


def _first_done(done, count):
    """The ranks that are done first in each step, soonest first, (K, count); done: (K, M) s."""
    if count == 1:
        return done.argmin(axis=1)[:, None]
    first = np.argpartition(done, count - 1, axis=1)[:, :count]
    return np.take_along_axis(first, np.take_along_axis(done, first, 1).argsort(axis=1), 1)


def _seat_everyone(cell, sizes, steps, world):
    """Give ranks with too few samples, in steps that have enough, the smallest of the rank that has most."""
    held = np.bincount(cell, minlength=steps * world.size).reshape(steps, world.size)
    short = np.maximum(world.min_count - held, 0)
    for k in np.flatnonzero(short.any(1) & (held.sum(1) >= world.min_count * world.size)):
        mine = np.flatnonzero(cell // world.size == k)
        mine = mine[np.argsort(sizes[mine], kind="stable")]
        for rank in np.repeat(np.arange(world.size), short[k]):
            sample = mine[np.argmax(held[k][cell[mine] % world.size] > world.min_count)]
            held[k, cell[sample] % world.size] -= 1
            held[k, rank] += 1
            cell[sample] = k * world.size + rank


def _trade(sizes, cell, edges, target, group, most, profile, world, rounds):
    """Cells after trades, (n,); target: (K,) s; group: (K,) steps between which samples may move, not only swap."""
    ranks, steps = world.size, len(target)
    window = np.repeat(np.arange(len(edges) - 1), np.diff(edges))
    key = window * (2 * sizes.max() + 1) + sizes
    order = np.argsort(key)
    load = np.bincount(cell, sizes, minlength=steps * ranks).reshape(steps, ranks)
    held = np.bincount(cell, minlength=steps * ranks)
    caps = len(sizes) if world.max_count is None else world.max_count
    cells = Cells(
        ranks=ranks,
        key=key[order],
        first=edges[window],
        sizes=sizes[order],
        holder=cell[order],
        rate=np.tile(profile.slope, steps),
        over=(profile.seconds(load) - target[:, None]).ravel(),
        slack=np.repeat(SLACK * target, ranks),
        count=held,
        least=np.minimum(world.min_count, held),
        most=np.tile(np.broadcast_to(caps, ranks), steps),
        group=np.repeat(group, ranks),
        step_most=most,
    )
    cell[order] = _after_trades(cells, rounds)
    return cell


def _after_trades(cells, rounds):
    """Holders (n,) at the best moment of these rounds: a round may lengthen some steps before it pays."""
    best, least, idle = cells.holder.copy(), cells.longest().sum(), 0
    for turn in range(rounds):
        idle = 0 if trade(cells, turn) else idle + 1
        if idle == PATIENCE:
            break
        total = cells.longest().sum()
        if total < least:
            best, least = cells.holder.copy(), total
    return best
