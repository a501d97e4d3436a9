"""Traces survive writing and reading; tables, pictures and progress say what a made-up trace says."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

from chronica_hvd.records import StepRecord
from chronica_hvd.watch.picture import draw
from chronica_hvd.watch.progress import Progress
from chronica_hvd.watch.table import rank_table, wait_share
from chronica_hvd.watch.trace import TraceWriter, read

RANKS = [{"rank": rank, "host": f"node{rank}"} for rank in range(2)]


def record(step, compute_s=(1.0, 3.0)):
    """Rank 0 computes and then waits for rank 1."""
    compute_s = np.array(compute_s)
    step_s = np.full(2, np.nanmax(compute_s) + 0.5)
    zeros = np.zeros(2)
    return StepRecord(0, step, np.array([5, 3]), np.array([50.0, 30.0]), compute_s, zeros, zeros,
                      step_s - 0.5 - compute_s, step_s)  # fmt: skip


@pytest.fixture
def path(tmp_path):
    """A trace of three steps; rank 1 did not measure the last."""
    path = tmp_path / "deep" / "trace.jsonl"
    writer = TraceWriter(path)
    writer.header(ranks=RANKS, emulated={}, batch=8)
    for step in range(3):
        writer.step(record(step, (1.0, np.nan) if step == 2 else (1.0, 3.0)), predicted_s=np.array([1.1, 2.9]))
    return path


def test_a_trace_reads_back_as_written_nan_included(path):
    header, steps = read(path)
    assert header["ranks"] == RANKS and header["batch"] == 8
    assert [row["step"] for row in steps] == [0, 1, 2]
    np.testing.assert_array_equal(steps[1]["compute_s"], [1.0, 3.0])
    np.testing.assert_array_equal(steps[2]["compute_s"], [1.0, np.nan])
    np.testing.assert_array_equal(steps[0]["predicted_s"], [1.1, 2.9])
    assert "NaN" not in path.read_text()


def test_a_line_cut_short_at_the_end_is_left_out(path):
    path.write_text(path.read_text()[:-20])
    assert len(read(path)[1]) == 2


def test_a_broken_line_in_the_middle_is_named(path):
    lines = path.read_text().splitlines()
    lines[1] = lines[1][:-20]
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match="line 2"):
        read(path)


@pytest.mark.parametrize("schema", [0, 2, None, "1"])
def test_another_schema_is_refused_with_both_numbers(path, schema):
    lines = [json.dumps(json.loads(line) | {"schema": schema}) for line in path.read_text().splitlines()]
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=f"{schema!r}.*reads 1"):
        read(path)


@pytest.mark.parametrize("content", ["", "no json", '{"schema": 1, "kind": "step"}'])
def test_what_is_no_trace_is_refused(tmp_path, content):
    (tmp_path / "other").write_text(content)
    with pytest.raises(ValueError, match="trace"):
        read(tmp_path / "other")


def test_the_table_adds_up_and_names_hosts(path):
    header, steps = read(path)
    text = io.StringIO()
    Console(file=text, width=100).print(rank_table("a run", header, steps[:2]))
    rows = [line.split("│")[1:-1] for line in text.getvalue().splitlines() if " on " in line and "│" in line]
    assert [cell.strip() for cell in rows[0]] == ["0 on node0", "10", "100", "2.00", "4.00", "57.1%"]
    assert [cell.strip() for cell in rows[1]] == ["1 on node1", "6", "60", "6.00", "0.00", "0.0%"]


def test_the_wait_share_leaves_out_what_is_unknown(path):
    np.testing.assert_allclose(wait_share(read(path)[1][:2]), [4 / 7, 0])
    assert np.isfinite(wait_share(read(path)[1])).all()


def test_a_picture_shows_who_waits(path, tmp_path):
    from matplotlib import colors, image

    header, steps = read(path)
    even = [{**row, "compute_s": np.array([2.0, 2.0]), "wait_s": np.zeros(2)} for row in steps[:2]]
    draw(tmp_path / "wait.png", {"a": (header, steps[:2])})
    draw(tmp_path / "even.png", {"a": (header, even)})
    draw(tmp_path / "unknown.png", {"a": (header, steps), "b": (header, even)}, seconds=4.0, note="part")

    from chronica_hvd.watch.picture import WAIT

    waits = np.array(colors.to_rgb(WAIT))
    shown = [(np.abs(image.imread(tmp_path / name)[..., :3] - waits) < 0.01).all(axis=2).sum()
             for name in ("wait.png", "even.png", "unknown.png")]  # fmt: skip
    assert shown[0] > 20 * shown[1]  # the legend is in both
    assert shown[2] > shown[1]


def test_progress_is_one_plain_line_every_few_seconds(monkeypatch):
    monkeypatch.delenv("CHRONICA_TTY", raising=False)
    text, now = io.StringIO(), [0.0]
    progress = Progress(100, "training", file=text, clock=lambda: now[0])
    for done in range(1, 101):
        now[0] = done / 10  # s
        progress.update(done)
    lines = text.getvalue().splitlines()
    assert len(lines) == 2 and "\r" not in text.getvalue()
    assert lines[0] == "training: 50/100, 5 s, about 5 s left"
    assert lines[-1].startswith("training: 100/100")


def test_progress_rewrites_its_line_on_a_terminal(monkeypatch):
    monkeypatch.setenv("CHRONICA_TTY", "1")
    text, now = io.StringIO(), [0.0]
    progress = Progress(100, "training", file=text, clock=lambda: now[0])
    for done in range(1, 101):
        now[0] = done / 10
        progress.update(done)
    assert text.getvalue().count("\n") == 1 and text.getvalue().endswith("\n")
    assert 10 < text.getvalue().count("\r") <= 51


def test_c55_which_rank_is_slow():
    """Rank 0 computes 50 ms, rank 1 200 ms: rank 0 waits 75 % of the time, rank 1's speed is a quarter of its."""
    rows = [{"compute_s": np.array([0.05, 0.2]), "wait_s": np.array([0.15, 0.0]), "step_s": np.array([0.2, 0.2])}] * 5
    assert wait_share(rows) == pytest.approx([0.75, 0])
    from chronica_hvd.sim.cluster import machines_of

    speeds = machines_of([row | {"load": np.array([8.0, 8.0])} for row in rows]).speeds
    assert speeds[1] / speeds[0] == pytest.approx(0.25)
