"""Forecasts from a recorded run, checked on runs of the virtual cluster whose truth is known."""

import numpy as np
import pytest

from chronica_hvd.planner import Planner
from chronica_hvd.records import World
from chronica_hvd.sim.cluster import Cluster, simulate
from chronica_hvd.sim.laws import draw_sizes
from chronica_hvd.sim.whatif import Change, forecast, missed, recording_of

CLUSTER = Cluster(np.array([100.0, 100, 50, 30]), unit_s=1.0, step_s=0.5)
OTHER_S = 0.3
SIZES = draw_sizes("gamma:45:64", 1600, np.random.default_rng(0))


def run(cluster=CLUSTER, strategy="even", batch=32):
    return simulate(Planner(SIZES, batch, World(len(cluster.speeds)), strategy), cluster)


def recorded(strategy="even"):
    result = run(strategy=strategy)
    steps = [
        {"load": load, "compute_s": compute_s, "step_s": np.full(4, compute_s.max() + OTHER_S)}
        for load, compute_s in zip(result.load, result.compute_s)
    ]
    header = {"samples": 1600, "batch": 32, "strategy": strategy, "window": 16 if strategy == "chronica" else 1}
    return recording_of(header | {"size_quantiles": np.quantile(SIZES, np.linspace(0, 1, 257))}, steps)


def truth(result):
    return result.compute_s.max(axis=1).mean() + OTHER_S


@pytest.mark.parametrize("strategy, within", [("even", 0.1), ("chronica", 0.03)])
def test_the_recorded_run_itself_is_met(strategy, within):
    assert abs(missed(recorded(strategy))) < within


def test_another_strategy_is_foreseen():
    seen = forecast(recorded(), Change(strategy="chronica"))
    assert seen["step_s"] == pytest.approx(truth(run(strategy="chronica")), rel=0.03)
    assert max(seen["wait_share"]) < 0.1


def test_ranks_dropped_and_added():
    profile = recorded("chronica")
    fewer = Cluster(CLUSTER.speeds[:3], unit_s=1.0, step_s=0.5)
    assert forecast(profile, Change(drop=(3,)))["step_s"] == pytest.approx(truth(run(fewer, "chronica")), rel=0.04)
    more = Cluster(np.append(CLUSTER.speeds, [100.0, 100.0]), unit_s=1.0, step_s=0.5)
    seen = forecast(profile, Change(add=(0, 0), price=3.0))
    assert seen["step_s"] == pytest.approx(truth(run(more, "chronica")), rel=0.04)
    assert seen["price_per_epoch"] == pytest.approx(3.0 * 6 * seen["epoch_s"] / 3600)


def test_another_batch():
    seen = forecast(recorded("chronica"), Change(batch=64))
    assert seen["step_s"] == pytest.approx(truth(run(strategy="chronica", batch=64)), rel=0.04)
    assert seen["epoch_s"] == pytest.approx(25 * seen["step_s"])


def test_what_cannot_be_foreseen_is_said():
    with pytest.raises(ValueError, match="rank 7 was named, the trace has ranks 0 to 3"):
        forecast(recorded(), Change(drop=(7,)))
    with pytest.raises(ValueError, match="leave at least one"):
        forecast(recorded(), Change(drop=(0, 1, 2, 3)))
    with pytest.raises(ValueError, match="3 steps or more"):
        recording_of({"size_quantiles": [1]}, [])
