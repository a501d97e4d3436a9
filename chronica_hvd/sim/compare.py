"""``chronica simulate``: the strategies side by side on one virtual cluster."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ..balance import STRATEGIES, make
from ..planner import Planner
from ..records import World
from ..watch.trace import read
from .cluster import Cluster, ideal_s, machines_of, simulate
from .laws import draw_sizes, parse_noise


@dataclass(frozen=True)
class Question:
    """What is asked: machines, data, and what to compare."""

    cluster: Cluster
    sizes: str = "gamma:45:64"  # a law of ``laws.draw_sizes``
    samples: int = 13_320  # of an epoch, where the law is not a file
    batch: int = 32  # global batch, samples
    strategies: tuple[str, ...] = tuple(STRATEGIES)
    settings: dict = field(default_factory=dict)  # of strategies that have them, such as window
    epochs: int = 1
    seed: int = 0
    max_threads: int = 1  # CPU threads a worker may use


def answer(question: Question) -> dict:
    """``{"ideal_s", "realised_dif", "strategies": {NAME: {"epoch_s", "over_ideal", "wait_share"}}}``.

    ideal_s: total work over total speed, s per epoch; realised_dif: standard deviation of the sizes drawn, size
    units; wait_share: (M,) part of the time each worker waits for slower ones. Every strategy sees the same sizes,
    the same order and the same noise.
    """
    sizes = draw_sizes(question.sizes, question.samples, np.random.default_rng([question.seed, 1]))
    steps = -(-len(sizes) // question.batch)
    ideal = ideal_s(sizes, question.cluster, steps)
    runs = {name: _run(name, sizes, question) for name in question.strategies}
    return {
        "ideal_s": ideal,
        "realised_dif": float(sizes.std(ddof=1)) if len(sizes) > 1 else 0.0,
        "strategies": {
            name: {
                "epoch_s": run.epoch_s,
                "over_ideal": run.epoch_s / ideal,
                "wait_share": [round(float(share), 6) for share in run.wait_share],
            }
            for name, run in runs.items()
        },
    }


def cluster_of(workers, speeds, machines, noises, **settings) -> Cluster:
    """The cluster that the command line describes. Raises ValueError where its words do not fit together."""
    noise = tuple(parse_noise(law) for law in noises)
    if machines:
        if workers or speeds:
            raise ValueError("--machines takes the speeds from the trace; leave --workers and --speeds out")
        found = machines_of(read(machines)[1])
        kept = {key: value for key, value in settings.items() if key not in ("unit_s", "step_s")}
        return replace(found, noises=noise, **kept)
    values = np.array([float(speed) for speed in speeds.split(",")]) if speeds else np.ones(workers or 8)
    if workers and len(values) != workers:
        raise ValueError(f"--workers {workers} but {len(values)} speeds were given; name one speed for each worker")
    if not (np.isfinite(values) & (values > 0)).all():
        raise ValueError(f"speeds {speeds} were given; every speed is a number above 0")
    return Cluster(values, noises=noise, **settings)


def _run(name: str, sizes: np.ndarray, question: Question):
    workers = len(question.cluster.speeds)
    limit = np.full(workers, question.max_threads)
    world = World(workers, threads=np.ones(workers, int), max_threads=limit)
    known = {key: value for key, value in question.settings.items() if name == "chronica" or key != "window"}
    planner = Planner(sizes, question.batch, world, make(name, **known), seed=question.seed)
    return simulate(planner, question.cluster, question.epochs, question.seed)
