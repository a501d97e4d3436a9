"""What a sample costs where time is not linear in its size: ``work = size + bend * size**2`` (attention).

    t = a_j * (S1 + bend * S2) + b_j      S1, S2: sums of s and s**2 over the samples of rank j in a step

Each rank has a line of its own (``costs``); the bend is one for all, because it belongs to the model that is trained.
It is looked for on a grid and only believed when it explains the timings clearly better than the straight line, so
that noise does not bend anything.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import numpy as np

KINDS = ("auto", "affine", "attention")
TRIED = np.geomspace(0.01, 100, 33)  # bend times typical size
FINER = np.geomspace(0.75, 1.33, 25)  # times the best of those
LEAST_STEPS = 16  # steps seen before a bend is looked for
BETTER = 0.7  # "auto" bends when the clipped squared misses fall below this part
HISTORY = 128  # steps remembered
MOVED = 0.1  # relative change of the bend that is worth planning anew
ROUNDING = 1e-6  # relative misses not worth explaining
TINY = 1e-300


@dataclass(frozen=True)
class Fitted:
    """A cost model and how well it explains the timings it was fitted to."""

    kind: str  # "affine" or "attention"
    bend: float  # per size unit
    r2: np.ndarray  # (M,) part of each rank's variance explained; nan where its times do not vary
    worst: float  # largest relative miss of any step on any rank

    def __str__(self) -> str:
        r2 = "unknown" if np.isnan(self.r2).all() else f"{np.nanmin(self.r2):.3f} or more on every rank"
        square = f" + {self.bend:.3g} * size squared" if self.bend else ""
        return f"{self.kind}, time goes with size{square}; R squared {r2}, worst miss of a step {self.worst:.0%}"


def fit_work(kind: str, sums: np.ndarray, squares: np.ndarray, seconds: np.ndarray) -> Fitted:
    """The bend that explains the timings best.

    kind: one of KINDS. sums, squares: (H, M) of sizes and of their squares in a step. seconds: (H, M) s; nan: not seen.
    """
    scale = 1 / max(float(squares.sum()) / max(float(sums.sum()), TINY), TINY)  # 1 over the size of a typical unit
    straight = _misses(sums, seconds)
    bend, miss = 0.0, straight
    if kind != "affine" and len(sums) >= LEAST_STEPS:
        for tried in (TRIED, FINER):
            bend, miss = _best(tried * (bend or scale), sums, squares, seconds)
        if kind == "auto" and _clipped(miss) + seconds.size * ROUNDING**2 >= BETTER * _clipped(straight):
            bend, miss = 0.0, straight
    return Fitted("attention" if bend else "affine", bend, *_quality(miss, seconds))


def _best(bends: np.ndarray, sums, squares, seconds) -> tuple[float, np.ndarray]:
    """Of these bends the one that misses least, and its misses (H, M)."""
    misses = [_misses(sums + bend * squares, seconds) for bend in bends]
    best = int(np.argmin([_clipped(miss) for miss in misses]))
    return float(bends[best]), misses[best]


def _misses(work: np.ndarray, seconds: np.ndarray) -> np.ndarray:
    """What each rank's own straight line over the work misses, (H, M), relative to its mean time."""
    seen = np.isfinite(seconds)
    number = np.maximum(seen.sum(0), 1)
    time = np.where(seen, seconds, 0.0)
    dx = np.where(seen, work - np.where(seen, work, 0.0).sum(0) / number, 0.0)
    dy = np.where(seen, time - time.sum(0) / number, 0.0)
    slope = np.maximum((dx * dy).sum(0), 0) / np.maximum((dx * dx).sum(0), TINY)
    return (dy - slope * dx) / np.maximum(time.sum(0) / number, TINY)


def _clipped(miss: np.ndarray) -> float:
    """Sum of squares in which no miss counts more than three typical ones."""
    size = np.abs(miss)
    return float((np.minimum(size, 3 * np.median(size) + 1e-12) ** 2).sum())


def _quality(miss: np.ndarray, seconds: np.ndarray):
    """(R squared of each rank (M,), worst relative miss)."""
    mean = np.nanmean(seconds, axis=0)
    spread = np.nansum((seconds - mean) ** 2, axis=0)
    left = (miss**2).sum(0) * mean**2
    known = spread > 1e-12 * len(seconds) * mean**2
    return np.where(known, 1 - left / np.where(known, spread, 1.0), np.nan), float(np.abs(miss).max())


class Bend:
    """Keeps the last steps' sums and finds the bend again when there are twice as many, then every HISTORY steps."""

    def __init__(self, kind: str):
        if kind not in KINDS:
            raise ValueError(f"cost={kind!r} was given; allowed are {', '.join(map(repr, KINDS))}")
        self.kind, self._next, self._seen = kind, LEAST_STEPS, 0
        self.fitted: Fitted | None = None
        self.rows: deque[tuple] = deque(maxlen=HISTORY)  # (sums (M,), squares (M,), seconds (M,)) of each step

    @property
    def value(self) -> float:
        """Today's bend; 0: work is size."""
        return self.fitted.bend if self.fitted else 0.0

    def observe(self, sums: np.ndarray, squares: np.ndarray, seconds: np.ndarray) -> bool:
        """One more step, (M,) each; whether the bend has clearly changed."""
        if self.kind == "affine":
            return False
        self.rows.append((sums, squares, seconds))
        self._seen += 1
        if self._seen < self._next:
            return False
        self._next = self._seen + min(self._seen, HISTORY)
        before, self.fitted = self.fitted, fit_work(self.kind, *map(np.array, zip(*self.rows)))
        old, new = before.bend if before else 0.0, self.fitted.bend
        if abs(new - old) <= MOVED * max(new, old):
            self.fitted = before or self.fitted
            return False
        return True
