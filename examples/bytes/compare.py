"""Train the same model on four unequal ranks twice, stock Horovod first, and show who waited for whom.

    launch/demo [--quick] [--out DIR]

The devices are EMULATED (this is for one machine): a rank sleeps until a device of the given speed would be done.
Writes trace.jsonl, trace_stock.jsonl, summary.json and picture.png.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
from data import describe, functions
from rich.console import Console

from chronica_hvd.watch.picture import draw
from chronica_hvd.watch.table import comparison_table, emulation, rank_table, wait_share
from chronica_hvd.watch.trace import read

HERE = Path(__file__).parent
SLOW = (1.0, 1.0, 2.0, 3.0)  # how many times slower each rank is
UNIT_S = 6e-5  # s a byte on a device that is not slow


def train(script: str, out: Path, kind: str, args) -> tuple[dict, dict, list[dict]]:
    """Run one of the two scripts; returns its report and its trace."""
    trace, report = out / f"trace{kind}.jsonl", out / f"report{kind}.json"
    slow = ",".join(f"{rank}:{factor:g}" for rank, factor in enumerate(SLOW) if factor != 1)
    line = [sys.executable, "-m", "chronica_hvd.cli", "run", "-np", str(len(SLOW)), "--slow", slow]
    line += ["--device-cost", str(UNIT_S), "--", sys.executable, HERE / script, "--functions", args.functions]
    line += ["--epochs", args.epochs, "--batch", args.batch, "--trace", trace, "--report", report]
    terminal = {"CHRONICA_TTY": "1"} if sys.stderr.isatty() else {}
    code = subprocess.call(list(map(str, line)), env=os.environ | terminal)
    if code:
        sys.exit(code)
    facts = json.loads(report.read_text())
    report.unlink()
    return facts, *read(trace)


def summary(stock: dict, ours: dict, steps: list[dict], work: float, args) -> dict:
    """The figures of summary.json. work: size units of an epoch."""
    ideal_s = work * UNIT_S / sum(1 / factor for factor in SLOW)
    stock_s, ours_s = float(np.mean(stock["epoch_s"])), float(np.mean(ours["epoch_s"]))
    plan_s, step_s = (np.sum([row[key] for row in steps], axis=0) for key in ("plan_s", "step_s"))  # (M,) s
    return {
        "stock_epoch_s": stock_s,
        "chronica_epoch_s": ours_s,
        "ideal_epoch_s": ideal_s,
        "speedup": stock_s / ours_s,
        "efficiency": ideal_s / ours_s,
        **{name: ours[name] for name in ours if "error" in name},
        "each_sample_once": all(ours["each_sample_once"]),
        "plan_wait_share": float((plan_s / step_s).max()),
        "stock_loss": stock["loss"],
        "chronica_loss": ours["loss"],
        "epochs": args.epochs,
        "steps": len(steps) // args.epochs,
        "repeated_with_weight_zero": ours["repeated"],
        "emulated": {"slow": SLOW, "device_cost_s_per_byte": UNIT_S, "what": "devices, by sleeping to a deadline"},
    }


def show(console: Console, facts: dict, runs: dict) -> None:
    """Tables of both runs, and what they come to."""
    figures = {}
    for (name, trace), key in zip(runs.items(), ("stock", "chronica")):
        console.print(rank_table(name, *trace))
        figures[name] = facts[f"{key}_epoch_s"], wait_share(trace[1]).max(), facts[f"{key}_loss"]
    console.print(comparison_table(figures, facts["ideal_epoch_s"], emulation(runs["chronica_hvd"][0])))
    console.print(
        f"{facts['speedup']:.2f} times faster than stock, {facts['efficiency']:.1%} of the ideal. Each sample once: "
        f"{facts['each_sample_once']}. Waited for plans: {facts['plan_wait_share']:.2%} of the time.\nGradient against "
        f"one process: {facts['gradient_error']:.0e} off in float64; in float32 {facts['gradient_error_float32']:.0e}, "
        f"where one process itself is {facts['one_process_error_float32']:.0e} off by rounding.",
        highlight=False,
    )


def draw_beginning(path: Path, facts: dict, runs: dict, steps: int = 12) -> None:
    """The picture of the first so many steps of stock Horovod, and of ours in the same time."""
    titles = [f"{name}: {facts[f'{key}_epoch_s']:.0f} s an epoch" for name, key in zip(runs, ("stock", "chronica"))]
    draw(path, dict(zip(titles, runs.values())), steps * facts["stock_epoch_s"] / facts["steps"], "the first steps")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one epoch of 2,016 functions, under two minutes")
    parser.add_argument("--out", type=Path, default=Path("out"))
    parser.add_argument("--functions", type=int, help="samples of an epoch")
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--batch", type=int, default=32)
    args = parser.parse_args()
    args.functions = args.functions or (2016 if args.quick else 6144)
    args.epochs = args.epochs or (1 if args.quick else 2)
    args.out.mkdir(parents=True, exist_ok=True)
    console = Console(soft_wrap=True)
    sizes = np.array([len(text) for text in functions(args.functions)])
    console.print(f"Data: Python's standard library, {describe(sizes)}", highlight=False)

    stock, *stock_trace = train("train_stock.py", args.out, "_stock", args)
    ours, *our_trace = train("train_chronica.py", args.out, "", args)
    in_epochs = [row for row in our_trace[1] if row["epoch"] < args.epochs]  # without the gradient check's steps
    facts = summary(stock, ours, in_epochs, float(sizes.sum()), args)
    (args.out / "summary.json").write_text(json.dumps(facts, indent=1) + "\n")
    runs = {"stock Horovod": stock_trace, "chronica_hvd": [our_trace[0], in_epochs]}
    show(console, facts, runs)
    draw_beginning(args.out / "picture.png", facts, runs)
    console.print(f"{args.out}: trace.jsonl trace_stock.jsonl summary.json picture.png", highlight=False)
    if facts["gradient_error"] > 1e-6 or not facts["each_sample_once"]:
        sys.exit("compare: the gradient is off or a sample was not used exactly once; that is a bug, please report it")


if __name__ == "__main__":
    main()
