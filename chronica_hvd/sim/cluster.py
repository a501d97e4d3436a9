"""Simulated synchronous training: every step lasts as long as its slowest rank, plus the reduction.

Assumptions: a rank's compute time is ``(load / speed * unit_s + step_s) * noise``; nothing overlaps the ring
all-reduce; plans arrive with the same lead as in training where it is not calm (the plan of step s knows the records up
to s - 2, and the second step waits for the first feedback); planning itself takes no time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..costs import CostFit
from ..planner import Planner
from ..records import StepPlan, StepRecord

LEAD = 2


@dataclass(frozen=True)
class Cluster:
    """Virtual machines and the network between them."""

    speeds: np.ndarray  # (M,) relative to one another, more is faster
    unit_s: float = 1e-3  # s per size unit at speed 1
    step_s: float | np.ndarray = 0.0  # s per step whatever the load; one number or (M,)
    noises: tuple = ()  # functions of ``laws.parse_noise``
    gradient_bytes: float = 0.0  # bytes reduced in a step
    latency_s: float = 0.0  # s per message
    bandwidth: float = 1e9  # bytes per s of a link
    serial: float = 1.0  # part of the compute that more CPU threads do not speed up; 1: threads do not matter

    def compute_s(self, plan: StepPlan, step: int, rng: np.random.Generator) -> np.ndarray:
        """Compute time of one step of a plan, (M,) s; one thread is the speed given."""
        seconds = plan.load * self.unit_s / self.speeds + self.step_s
        if plan.threads is not None:
            seconds = seconds * (self.serial + (1 - self.serial) / plan.threads)
        for noise in self.noises:
            seconds = seconds * noise(step, len(seconds), rng)
        return seconds

    @property
    def reduce_s(self) -> float:
        """Ring all-reduce: 2 (M - 1) messages of 1/M of the gradient each."""
        ranks = len(self.speeds)
        return 2 * (ranks - 1) * (self.latency_s + self.gradient_bytes / ranks / self.bandwidth)


@dataclass
class Result:
    """What a simulated run measured."""

    compute_s: np.ndarray  # (steps, M) s
    load: np.ndarray  # (steps, M) size units
    reduce_s: float  # s per step
    epochs: int
    plans: list = field(repr=False)

    @property
    def epoch_s(self) -> float:
        """Mean seconds of an epoch."""
        return float(self.compute_s.max(axis=1).sum() + self.reduce_s * len(self.compute_s)) / self.epochs

    @property
    def wait_share(self) -> np.ndarray:
        """Part of the time each rank waits for slower ones, (M,)."""
        makespan = self.compute_s.max(axis=1, keepdims=True)
        return (makespan - self.compute_s).sum(axis=0) / (makespan.sum() + self.reduce_s * len(self.compute_s))


def simulate(planner: Planner, cluster: Cluster, epochs: int = 1, seed: int = 0, change=None) -> Result:
    """Run ``epochs`` epochs. change: {step: speeds (M,)} for machines that change for good."""
    rng = np.random.default_rng(seed)
    compute, loads, plans = [], [], []
    zero = np.zeros(len(cluster.speeds))
    for epoch in range(epochs):
        planner.start(epoch)
        unseen: list[StepRecord] = []
        for step in range(planner.steps):
            keep = LEAD - 1 if step > 1 else 0  # the second step waits for the first feedback
            while len(unseen) > keep:
                planner.observe(unseen.pop(0))
            plan, at = planner.next(), len(compute)
            if change and at in change:
                cluster = replace(cluster, speeds=np.asarray(change[at], float))
            seconds = cluster.compute_s(plan, at, rng)
            wait = seconds.max() - seconds + cluster.reduce_s
            unseen.append(StepRecord(epoch, step, plan.count, plan.load, seconds, zero, zero, wait, seconds + wait))
            compute.append(seconds)
            loads.append(plan.load)
            plans.append(plan)
        for record in unseen:
            planner.observe(record)
    return Result(np.array(compute), np.array(loads), cluster.reduce_s, epochs, plans)


def ideal_s(sizes: np.ndarray, cluster: Cluster, steps: int) -> float:
    """Total work over total speed, what every step costs anyway charged to the speeds, in s per epoch."""
    speeds = np.asarray(cluster.speeds)
    per_step = np.broadcast_to(cluster.step_s, speeds.shape)  # (M,) s
    own = (sizes.sum() * cluster.unit_s + steps * np.sum(per_step * speeds)) / speeds.sum()
    return float(own + steps * cluster.reduce_s)


def machines_of(steps: list[dict], costs: CostFit | None = None) -> Cluster:
    """The cluster that a trace was recorded on: speeds in size units per s, seconds a step of each rank."""
    costs = costs or CostFit(history=max(64, len(steps)), half_life=1e9)
    state = costs.init(len(steps[0]["load"]))
    for row in steps:
        state = costs.observe(state, row["load"], row["compute_s"])
    profile = costs.profile(state)
    return Cluster(1 / np.maximum(profile.slope, 1e-300), unit_s=1.0, step_s=profile.intercept)
