"""The table at the start of a job: which rank runs where, on what, with how much."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.table import Table


def print_start(ranks: list[dict], count, strategy: str, batch: int, emulated: dict, file=None) -> None:
    """One line a rank. ranks: as the trace's header has them; count: (M,) samples of the first step."""
    table = Table()
    for column in ("rank", "host", "device", "threads", "first batch"):
        table.add_column(column, justify="right" if column in ("rank", "threads", "first batch") else "left")
    for rank, samples in zip(ranks, count):
        row = (rank["rank"], rank["host"], rank["device"], rank["threads"], int(samples))
        table.add_row(*map(str, row))
    console = Console(file=file or sys.stderr, soft_wrap=True)
    console.print(f"chronica_hvd: {len(ranks)} ranks, global batch {batch}, strategy {strategy}", highlight=False)
    console.print(table)
    if emulated:
        console.print(f"EMULATED devices: {', '.join(f'{key}={value}' for key, value in emulated.items())}")
