"""The virtual cluster: laws, the clock, the same planner as in training."""

import numpy as np
import pytest

from chronica_hvd.balance import STRATEGIES
from chronica_hvd.planner import Planner
from chronica_hvd.records import World
from chronica_hvd.sim.cluster import Cluster, ideal_s, machines_of, simulate
from chronica_hvd.sim.compare import Question, answer
from chronica_hvd.sim.laws import draw_sizes, parse_noise


def run(strategy, speeds=(1, 1, 2, 3), samples=2000, batch=32, epochs=1, change=None, **settings):
    sizes = draw_sizes("gamma:45:64", samples, np.random.default_rng(0))
    cluster = Cluster(np.array(speeds, float), **settings)
    planner = Planner(sizes, batch, World(len(speeds)), strategy)
    result = simulate(planner, cluster, epochs, change=change)
    return result, ideal_s(sizes, cluster, planner.steps)


@pytest.mark.parametrize("law", ["normal", "gamma", "lognormal"])
def test_laws_have_their_mean_and_deviation(law):
    sizes = draw_sizes(f"{law}:500:64", 200_000, np.random.default_rng(0))
    assert sizes.mean() == pytest.approx(500, rel=0.01)
    assert sizes.std() == pytest.approx(64, rel=0.02)
    assert sizes.min() >= 1


def test_sizes_from_files(tmp_path):
    np.save(tmp_path / "a.npy", [3, 4])
    (tmp_path / "a.txt").write_text("3\n4\n")
    for name in ("a.npy", "a.txt"):
        assert draw_sizes(str(tmp_path / name), 9, None).tolist() == [3, 4]
    with pytest.raises(ValueError, match="gamma:MEAN:SD"):
        draw_sizes("gama:3:4", 9, np.random.default_rng(0))


def test_noise_laws():
    rng = np.random.default_rng(0)
    slow = np.array([parse_noise("bernoulli:0.1:10")(0, 100, rng) for _ in range(1000)])
    assert set(slow.flat) == {1.0, 10.0}
    assert np.mean(slow == 10) == pytest.approx(0.1, abs=0.01)
    for law in ("shiftexp:0.5", "pareto:3"):
        assert np.mean([parse_noise(law)(0, 100, rng) for _ in range(2000)]) == pytest.approx(1, abs=0.02)
    fault = parse_noise("fault:2:3@5-6")
    assert [fault(step, 4, rng)[2] for step in (4, 5, 6, 7)] == [1, 3, 3, 1]
    assert fault(5, 4, rng).tolist() == [1, 1, 3, 1]
    for bad in ("bernoulli:0.1", "fault:2", "storm:3"):
        with pytest.raises(ValueError, match="shiftexp:ALPHA"):
            parse_noise(bad)


def test_even_waits_for_the_slowest_and_chronica_does_not():
    even, ideal = run("even")
    ours, _ = run("chronica")
    assert even.epoch_s > 1.7 * ideal
    assert 1 <= ours.epoch_s / ideal < 1.05
    assert even.wait_share[3] > 0.6 and ours.wait_share.max() < 0.08


def test_equal_machines_and_sizes_cost_nothing():
    cluster = Cluster(np.ones(4), step_s=0.01, gradient_bytes=1e6, latency_s=1e-4)
    planner = Planner(np.ones(400), 40, World(4))
    assert simulate(planner, cluster).epoch_s == pytest.approx(ideal_s(np.ones(400), cluster, 10))


def test_ring_all_reduce_by_latency_and_bandwidth():
    cluster = Cluster(np.ones(4), gradient_bytes=8e6, latency_s=1e-3, bandwidth=1e9)
    assert cluster.reduce_s == pytest.approx(2 * 3 * (1e-3 + 2e6 / 1e9))


def test_a_change_of_speed_is_balanced_within_ten_steps():
    result, _ = run("chronica", (1, 1, 1, 1), 64 * 200, 64, change={60: (1, 1, 1, 1 / 3)})
    over = result.compute_s.max(axis=1) / (result.load.sum(axis=1) * 1e-3 / (3 + 1 / 3))
    assert over[60] > 1.5
    assert over[70:].mean() < 1.05


def test_same_seed_same_run():
    first, second = (run("chronica", noises=(parse_noise("shiftexp:0.5"),))[0] for _ in range(2))
    assert np.array_equal(first.compute_s, second.compute_s)


def test_strategies_side_by_side():
    """The thesis' cluster: 8 workers, four twice as fast; what each strategy can see decides its place."""
    cluster = Cluster(np.array([1.0] * 4 + [2.0] * 4))
    report = answer(Question(cluster, samples=3000, epochs=2))
    over = {name: facts["over_ideal"] for name, facts in report["strategies"].items()}
    assert list(over) == list(STRATEGIES)
    assert 1 <= over["chronica"] < 1.05 < over["boa"] < over["even"]
    assert over["lb_bsp"] < over["even"] and over["ep4ddl"] == pytest.approx(over["even"])
    assert all(len(facts["wait_share"]) == 8 for facts in report["strategies"].values())
    assert report["realised_dif"] == pytest.approx(64, rel=0.1)


def test_threads_help_ep4ddl_where_they_matter():
    cluster = Cluster(np.array([1.0, 2.0]), serial=0.1)
    report = answer(Question(cluster, "constant:10", 400, 8, ("even", "ep4ddl"), max_threads=4))
    assert report["strategies"]["ep4ddl"]["epoch_s"] < 0.5 * report["strategies"]["even"]["epoch_s"]


def test_machines_from_a_recorded_run():
    cluster = Cluster(np.array([100.0, 50.0]), unit_s=1.0, step_s=np.array([0.1, 0.2]))
    planner = Planner(draw_sizes("gamma:45:64", 400, np.random.default_rng(0)), 8, World(2), "even")
    run = simulate(planner, cluster)
    found = machines_of([{"load": load, "compute_s": compute_s} for load, compute_s in zip(run.load, run.compute_s)])
    assert found.speeds == pytest.approx(cluster.speeds, rel=0.01)
    assert found.step_s == pytest.approx(cluster.step_s, rel=0.05)
