"""Tables a person reads, from traces: who computed how much, and who waited for whom."""

from __future__ import annotations

import numpy as np
from rich.table import Table


def wait_share(steps: list[dict]) -> np.ndarray:
    """Part of the time that each rank waits for the others, (M,), from a trace's steps; of those it knows both of."""
    wait, step = (np.array([row[key] for row in steps]) for key in ("wait_s", "step_s"))  # (S, M) s
    known = np.isfinite(wait) & np.isfinite(step)
    return wait.sum(axis=0, where=known) / step.sum(axis=0, where=known)


def emulation(header: dict) -> str:
    """ " (EMULATED devices: ...)", or nothing where a trace's devices are real."""
    facts = ", ".join(f"{name}={value}" for name, value in header.get("emulated", {}).items())
    return f" (EMULATED devices: {facts})" if facts else ""


def rank_table(title: str, header: dict, steps: list[dict]) -> Table:
    """One line a rank: samples, load, compute, waiting. header, steps: as ``trace.read`` returns them."""
    table = Table(title=title + emulation(header), title_justify="left", min_width=80)
    table.add_column("rank on host")
    for column in ("samples", "load", "compute s", "wait s", "wait share"):
        table.add_column(column, justify="right")
    sums = {key: np.nansum([row[key] for row in steps], axis=0) for key in ("count", "load", "compute_s", "wait_s")}
    shares = wait_share(steps)
    for rank, facts in enumerate(header["ranks"]):
        samples, load, compute_s, wait_s = (sums[key][rank] for key in sums)
        table.add_row(
            f"{rank} on {facts['host']}", f"{samples:.0f}", f"{load:.0f}", f"{compute_s:.2f}", f"{wait_s:.2f}",
            f"{shares[rank]:.1%}",
        )  # fmt: skip
    return table


def comparison_table(runs: dict[str, tuple[float, float, float]], ideal_s: float, note: str = "") -> Table:
    """One line a run, and the ideal. runs: {name: (s an epoch, wait share of who waits longest, loss at the end)}."""
    table = Table(title="Comparison" + note, title_justify="left", min_width=80)
    for column in ("", "epoch s", "over ideal", "longest wait", "loss after"):
        table.add_column(column, justify="right" if column else "left")
    for name, (epoch_s, wait, loss) in runs.items():
        table.add_row(name, f"{epoch_s:.2f}", f"{epoch_s / ideal_s:.3f}", f"{wait:.0%}", f"{loss:.3f}")
    table.add_row("all work / all speed", f"{ideal_s:.2f}", "1.000", "0%", "")
    return table
