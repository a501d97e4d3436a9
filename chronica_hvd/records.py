"""The nouns of the project. Shapes use M ranks; sizes and loads are in the user's size units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np


@dataclass(frozen=True)
class World:
    """Who takes part, and how much a rank may be given in one step."""

    size: int  # M, ranks
    min_count: int = 1  # samples a rank gets in every step, where the batch allows it
    max_count: np.ndarray | None = None  # (M,) samples, memory caps; None: no caps
    threads: np.ndarray | None = None  # (M,) CPU threads at the start; None: one each
    max_threads: np.ndarray | None = None  # (M,) CPU threads a rank may use; None: those of the start
    hosts: np.ndarray | None = None  # (M,) host number of each rank; None: one host each


@dataclass(frozen=True)
class Profile:
    """Cost of one step on each rank: ``slope * load + intercept`` (Chronica's performance indicators)."""

    slope: np.ndarray  # (M,) s per size unit, >= 0
    intercept: np.ndarray  # (M,) s per step, >= 0

    def seconds(self, load: np.ndarray) -> np.ndarray:
        """Predicted compute time, (..., M) s, of loads (..., M); the intercept is charged once a step."""
        return self.slope * load + self.intercept

    @staticmethod
    def unknown(size: int) -> Profile:
        """Before the first feedback: a = 1, b = 0, so time equals load."""
        return Profile(np.ones(size), np.zeros(size))


@dataclass(frozen=True)
class Pool:
    """Samples not yet planned, in the order in which the seed dealt them."""

    ids: np.ndarray  # (n,) int64 sample numbers
    sizes: np.ndarray  # (n,) size units
    batch: int  # global batch, samples of one step over all ranks
    owed: int | None = None  # steps to make of them, where free counts were planned before; None: by the batch
    owner: np.ndarray | None = None  # (n,) rank that alone can read each sample; None: every rank can read all

    @property
    def steps(self) -> int:
        """Steps these samples make; the last one may be short."""
        return -(-len(self.ids) // self.batch) if self.owed is None else self.owed

    def part(self, which) -> Pool:
        """The pool of some of the samples. which: an index or mask over them."""
        owner = None if self.owner is None else self.owner[which]
        return Pool(self.ids[which], self.sizes[which], self.batch, None, owner)


@dataclass(frozen=True)
class StepPlan:
    """Who computes what in one step."""

    samples: tuple[np.ndarray, ...]  # M arrays (n_j,) int64 sample numbers
    load: np.ndarray  # (M,) size units
    predicted_s: np.ndarray  # (M,) s
    threads: np.ndarray | None = None  # (M,) CPU threads to use from now on; None: unchanged

    @cached_property
    def count(self) -> np.ndarray:
        """(M,) samples of each rank."""
        return np.array([len(ids) for ids in self.samples])


@dataclass(frozen=True)
class StepRecord:
    """What really happened in one step, on every rank."""

    epoch: int
    step: int
    count: np.ndarray  # (M,) samples computed
    load: np.ndarray  # (M,) size units computed
    compute_s: np.ndarray  # (M,) s, forward and backward, without any waiting
    data_s: np.ndarray  # (M,) s, waiting for the data loader
    plan_s: np.ndarray  # (M,) s, waiting for the plan
    wait_s: np.ndarray  # (M,) s, waiting for the other ranks in the reduction
    step_s: np.ndarray  # (M,) s, from one step's start to the next one's
