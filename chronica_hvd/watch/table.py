"""Tables a person reads, from traces: who computed how much, and who waited for whom."""

from __future__ import annotations

import numpy as np
from rich.table import Table


def wait_share(steps: list[dict]) -> np.ndarray:
    """Part of the time that each rank waits for the others, (M,), from a trace's steps."""
    wait, step = (np.array([row[key] for row in steps]) for key in ("wait_s", "step_s"))
    return wait.sum(axis=0) / step.sum(axis=0)


def rank_table(title: str, header: dict, steps: list[dict]) -> Table:
    """One line a rank: samples, load, compute, waiting. header, steps: as ``trace.read`` returns them."""
    table = Table(title=title, title_justify="left")
    table.add_column("rank on host")
    for column in ("samples", "load", "compute s", "wait s", "wait share"):
        table.add_column(column, justify="right")
    sums = {key: np.sum([row[key] for row in steps], axis=0) for key in ("count", "load", "compute_s", "wait_s")}
    shares = wait_share(steps)
    for rank, facts in enumerate(header["ranks"]):
        samples, load, compute_s, wait_s = (sums[key][rank] for key in sums)
        table.add_row(
            f"{rank} on {facts['host']}", f"{samples:.0f}", f"{load:.0f}", f"{compute_s:.2f}", f"{wait_s:.2f}",
            f"{shares[rank]:.1%}",
        )  # fmt: skip
    return table
