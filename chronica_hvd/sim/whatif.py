"""``chronica plan``: what another batch, strategy, window or set of ranks would take, from one recorded run."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..balance import make
from ..planner import Planner
from ..records import World
from .cluster import Cluster, Result, machines_of, simulate

PROBE_STEPS = 400  # steps simulated for a forecast


@dataclass(frozen=True)
class Recording:
    """What a trace tells: machines, sizes, and what a step costs beside its slowest rank."""

    cluster: Cluster
    quantiles: np.ndarray  # (Q,) size units, evenly spaced quantiles of the sample sizes
    other_s: float  # s per step beside the compute of the slowest rank: reduction, update, data
    samples: int
    batch: int
    strategy: str
    window: int
    measured_step_s: float  # s, median of the recorded steps


@dataclass(frozen=True)
class Change:
    """What is to be different; None: as recorded."""

    batch: int | None = None
    strategy: str | None = None
    window: int | None = None
    drop: tuple[int, ...] = ()  # ranks left out
    add: tuple[int, ...] = ()  # one more rank like each of these
    price: float = 0.0  # per rank and hour


def recording_of(header: dict, steps: list[dict]) -> Recording:
    """Read a trace (``watch.trace.read``). Raises ValueError if it lacks what a forecast needs."""
    if "size_quantiles" not in header or len(steps) < 3:
        raise ValueError(
            f"the trace has {len(steps)} steps and {'its' if 'size_quantiles' in header else 'no'} sizes; a forecast "
            f"needs 3 steps or more, recorded by chronica.DataLoader(trace=...)"
        )
    later = steps[2:]  # the first steps warm up
    compute = np.array([np.nanmax(row["compute_s"]) for row in later])
    whole = np.array([np.nanmax(row["step_s"]) for row in later])
    return Recording(
        machines_of(later), np.asarray(header["size_quantiles"], float), float(np.median(whole - compute)),
        header["samples"], header["batch"], header["strategy"], header["window"], float(np.median(whole)),
    )  # fmt: skip


def forecast(recording: Recording, change: Change = Change()) -> dict:
    """Predicted ``step_s``, ``epoch_s``, ``wait_share`` (M,), ``price_per_epoch`` and ``ranks`` after a change.

    Raises ValueError for ranks that the trace does not have, or if none is left.
    """
    cluster = _ranks(recording.cluster, change)
    batch = change.batch or recording.batch
    steps = -(-recording.samples // batch)
    samples = min(recording.samples, PROBE_STEPS * batch)
    places = (np.arange(samples) + 0.5) / samples * (len(recording.quantiles) - 1)
    sizes = np.interp(places, np.arange(len(recording.quantiles)), recording.quantiles)
    run = _simulate(recording, change, sizes, batch, cluster)
    step_s = float(np.mean(run.compute_s.max(axis=1))) + recording.other_s
    ranks = len(cluster.speeds)
    return {
        "ranks": ranks,
        "batch": batch,
        "step_s": step_s,
        "epoch_s": step_s * steps,
        "wait_share": [round(float(share), 4) for share in run.wait_share],
        "price_per_epoch": change.price * ranks * step_s * steps / 3600,
    }


def missed(recording: Recording) -> float:
    """Forecast of the recorded run over what was recorded, minus 1."""
    return forecast(recording)["step_s"] / recording.measured_step_s - 1


def _ranks(cluster: Cluster, change: Change) -> Cluster:
    known = len(cluster.speeds)
    if bad := [rank for rank in (*change.drop, *change.add) if not 0 <= rank < known]:
        raise ValueError(f"rank {bad[0]} was named, the trace has ranks 0 to {known - 1}")
    kept = [rank for rank in range(known) if rank not in change.drop] + list(change.add)
    if not kept:
        raise ValueError("every rank is dropped; leave at least one")
    per_step = np.broadcast_to(cluster.step_s, known)
    return replace(cluster, speeds=cluster.speeds[kept], step_s=per_step[kept])


def _simulate(recording: Recording, change: Change, sizes: np.ndarray, batch: int, cluster: Cluster) -> Result:
    name = change.strategy or recording.strategy
    window = change.window or (recording.window if name == recording.strategy == "chronica" else None)
    settings = {"window": window} if window and name == "chronica" else {}
    return simulate(Planner(sizes, batch, World(len(cluster.speeds)), make(name, **settings)), cluster)
