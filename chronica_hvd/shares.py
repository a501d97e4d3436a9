"""Whole numbers that add up: a total divided over ranks by weight, or so that the slowest rank is soonest done."""

from __future__ import annotations

import heapq

import numpy as np


def largest_remainder(weights, total: int) -> np.ndarray:
    """Whole shares in proportion to weights, (M,) int64 that sum to ``total``; ties go to the lower rank.

    weights: (M,) >= 0; if all are 0 the shares are equal.
    """
    weights = np.asarray(weights, float)
    if weights.ndim != 1 or not len(weights) or not np.all(np.isfinite(weights)) or weights.min() < 0:
        raise ValueError(f"weights must be finite numbers >= 0, one a rank; got {weights.tolist()}")
    if weights.max() == 0:
        weights = np.ones(len(weights))
    scaled = weights / weights.max()
    exact = scaled * (total / scaled.sum())
    shares = np.floor(exact + 1e-9).astype(np.int64)
    first = np.argsort(shares - exact, kind="stable")
    shares[first[: total - shares.sum()]] += 1
    return shares


def min_max_shares(slope, intercept, total: int, low=0, high=None) -> np.ndarray:
    """BOA's whole-number programme (Yang, Kang, Youn 2020, as we understand the paper), solved exactly.

    Minimise ``tau`` with ``slope * n + intercept <= tau``, ``sum n = total``, ``low <= n <= high``.
    Samples cost more the later they come, so taking the cheapest next sample is optimal: a bisection on tau
    takes all but the last few at once, a heap the rest.

    slope: (M,) s per sample >= 0. intercept: (M,) s. low, high: (M,) or one number, samples; high None: no cap.
    Returns (M,) int64 samples. Raises ValueError when the bounds do not let the shares sum to ``total``.
    """
    slope, intercept = np.broadcast_arrays(np.asarray(slope, float), np.asarray(intercept, float))
    low = np.broadcast_to(np.asarray(low, np.int64), slope.shape)
    high = np.broadcast_to(np.asarray(total if high is None else high), slope.shape)
    high = np.minimum(high, total).astype(np.int64)
    if low.sum() > total or high.sum() < total or np.any(low > high):
        raise ValueError(
            f"{total} samples do not fit bounds {low.tolist()} (sum {low.sum()}) to {high.tolist()} "
            f"(sum {high.sum()}); change the batch or the caps"
        )
    shares = _below(slope, intercept, total, low, high)
    heap = [(slope[j] * (shares[j] + 1) + intercept[j], j) for j in np.flatnonzero(shares < high).tolist()]
    heapq.heapify(heap)
    for _ in range(total - int(shares.sum())):
        _, j = heapq.heappop(heap)
        shares[j] += 1
        if shares[j] < high[j]:
            heapq.heappush(heap, (slope[j] * (shares[j] + 1) + intercept[j], j))
    return shares


def _below(slope, intercept, total, low, high):
    """Shares at the largest tau (to rounding) whose shares do not exceed the total: a prefix of the heap's order."""

    def within(tau):
        room = np.maximum(tau - intercept, -1.0)
        with np.errstate(over="ignore"):  # as good as endless
            whole = np.where(slope > 0, room / np.where(slope > 0, slope, 1.0), np.where(room >= 0, np.inf, -1.0))
        return np.clip(np.floor(np.minimum(whole, total)), low, high).astype(np.int64)

    under, over = intercept.min() - 1.0, float(np.max(slope * high + intercept))
    best = low.astype(np.int64)
    for _ in range(60):
        tau = (under + over) / 2
        shares = within(tau)
        if shares.sum() > total:
            over = tau
        else:
            under, best = tau, shares
            if shares.sum() == total:
                break
    return best.copy()
