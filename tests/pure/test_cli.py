"""``chronica simulate`` and ``chronica plan`` as a user calls them."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from chronica_hvd.balance import STRATEGIES
from chronica_hvd.cli import app
from chronica_hvd.records import StepRecord
from chronica_hvd.watch.trace import TraceWriter


def call(*words):
    return CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture
def trace(tmp_path):
    """A recorded run of two ranks, 100 and 50 size units a second."""
    writer, rng = TraceWriter(tmp_path / "trace.jsonl"), np.random.default_rng(0)
    quantiles = np.quantile(rng.gamma(2, 20, 400), np.linspace(0, 1, 257))
    writer.header(ranks=[{}, {}], samples=400, batch=8, strategy="even", window=1, size_quantiles=quantiles)
    for step in range(50):
        load, none = rng.gamma(8, 20, 2), np.zeros(2)
        compute_s = load / (100, 50)
        record = StepRecord(0, step, np.array([4, 4]), load, compute_s, none, none, none, none + compute_s.max())
        writer.step(record, compute_s)
    return tmp_path / "trace.jsonl"


def test_simulate_json_is_one_object():
    done = call(
        "simulate", "--workers", 4, "--speeds", "1,1,2,3", "--samples", 600, "--noise", "fault:1:3@5-9", "--json"
    )
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and set(report) == {"ideal_s", "realised_dif", "strategies"}
    assert list(report["strategies"]) == list(STRATEGIES)
    for facts in report["strategies"].values():
        assert set(facts) == {"epoch_s", "over_ideal", "wait_share"} and len(facts["wait_share"]) == 4


def test_simulate_prints_a_table_and_takes_machines_from_a_trace(trace):
    done = call("simulate", "--machines", trace, "--samples", 400, "--strategy", "even,chronica")
    assert done.exit_code == 0 and "SIMULATED" in done.stdout and "chronica" in done.stdout and "boa" not in done.stdout


@pytest.mark.parametrize(
    "words, said",
    [
        (["--strategy", "fast"], "unknown strategy 'fast'"),
        (["--speeds", "1,0"], "above 0"),
        (["--workers", 3, "--speeds", "1,2"], "--workers 3 but 2 speeds"),
        (["--sizes", "gama:1:2"], "gamma:MEAN:SD"),
        (["--noise", "storm"], "bernoulli:P:FACTOR"),
        (["--machines", "/nowhere"], "/nowhere"),
    ],
)
def test_simulate_refuses_with_what_is_allowed(words, said):
    done = call("simulate", *words)
    assert done.exit_code == 1 and said in str(done.exception.code if done.exception else "") + done.output


def test_plan_tells_what_would_be(trace):
    done = call("plan", "--profile", trace, "--strategy", "chronica", "--add", 0, "--price", 2, "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 0 and set(report) == {"missed", "recorded", "changed"}
    assert report["changed"]["ranks"] == 3 and report["changed"]["epoch_s"] < report["recorded"]["epoch_s"]
    assert "off by" in call("plan", "--profile", trace).stdout
    assert call("plan", "--profile", trace, "--drop", 5).exit_code == 1
