"""The demo from end to end, small: what it writes and says, and that its data and batches are what they claim."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from chronica_hvd.watch.trace import read

BYTES = Path(__file__).parents[2] / "examples" / "bytes"
SAMPLES, BATCH, STEPS = 290, 32, 10  # two samples in the last step, so two of four ranks repeat one
FIGURES = {
    "stock_epoch_s", "chronica_epoch_s", "ideal_epoch_s", "speedup", "efficiency", "gradient_error",
    "each_sample_once", "plan_wait_share", "emulated", "stock_loss", "chronica_loss",
}  # fmt: skip


def module(name):
    """A file of the demo, which is a folder of scripts and no package."""
    spec = importlib.util.spec_from_file_location(f"bytes_{name}", BYTES / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """(folder, what was printed) of one small demo."""
    out = tmp_path_factory.mktemp("demo")
    line = [sys.executable, BYTES / "compare.py", "--functions", SAMPLES, "--epochs", 1, "--batch", BATCH, "--out", out]
    environ = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(list(map(str, line)), env=environ, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return out, done


pytestmark = pytest.mark.timeout(300)


def test_summary_has_the_figures_and_the_mathematics_is_that_of_one_process(demo):
    facts = json.loads((demo[0] / "summary.json").read_text())
    assert FIGURES <= facts.keys()
    assert facts["gradient_error"] <= 1e-6
    assert facts["each_sample_once"] is True
    assert facts["repeated_with_weight_zero"] == [2]
    assert facts["emulated"]["slow"] == [1, 1, 2, 3]
    assert facts["efficiency"] == pytest.approx(facts["ideal_epoch_s"] / facts["chronica_epoch_s"])
    assert facts["speedup"] == pytest.approx(facts["stock_epoch_s"] / facts["chronica_epoch_s"])


def test_our_trace_has_every_sample_and_byte_once_and_slow_ranks_get_less(demo):
    header, steps = read(demo[0] / "trace.jsonl")
    sizes = [len(text) for text in module("data").functions(SAMPLES)]
    epoch = [row for row in steps if row["epoch"] == 0]
    assert [row["count"].sum() for row in epoch] == [BATCH] * (STEPS - 1) + [SAMPLES % BATCH]
    assert sum(row["load"].sum() for row in epoch) == sum(sizes)
    late = np.sum([row["load"] for row in epoch[3:-1]], axis=0)
    assert late[0] + late[1] > 1.5 * (late[2] + late[3])  # 2.4 by their speeds
    assert header["emulated"]["slow"] == "2:2,3:3"


def test_stock_trace_has_equal_counts(demo):
    _, steps = read(demo[0] / "trace_stock.jsonl")
    assert len(steps) == STEPS
    assert all((row["count"] == row["count"][0]).all() for row in steps)
    assert all(row["count"][0] == BATCH / 4 for row in steps[:-1])


def test_every_table_and_the_run_say_what_is_emulated(demo):
    out, done = demo
    for title in ("stock Horovod (EMULATED", "chronica_hvd (EMULATED", "Comparison (EMULATED"):
        assert title in done.stdout
    assert "DIF" in done.stdout
    assert (out / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_progress_comes_from_one_rank(demo):
    lines = demo[1].stderr.splitlines()
    for name in ("stock Horovod", "chronica_hvd"):
        assert sum(line.startswith(f"{name}: {STEPS}/{STEPS},") for line in lines) == 1


def test_the_data_is_the_same_each_time_none_twice_and_of_very_different_lengths():
    functions = module("data").functions
    texts = functions(600)
    assert len(set(texts)) == 600
    assert texts[:50] == functions(50)
    assert all(text.lstrip().startswith((b"def ", b"async def ")) for text in texts)
    sizes = [len(text) for text in texts]
    assert min(sizes) >= 40
    assert max(sizes) > 50 * min(sizes)


def test_packing_predicts_each_byte_from_the_eight_before_it_within_its_function():
    texts = [np.arange(1, 12, dtype=np.uint8), np.array([50, 60], np.uint8)]
    contexts, targets = module("model").pack(texts)
    assert targets.tolist() == [*range(1, 12), 50, 60]
    assert contexts[0].tolist() == [0] * 8
    assert contexts[10].tolist() == list(range(3, 11))
    assert contexts[11].tolist() == [0] * 8
    assert contexts[12].tolist() == [0] * 7 + [50]
