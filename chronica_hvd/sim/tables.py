"""What ``chronica simulate`` and ``chronica plan`` print for a person."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def print_strategies(report: dict) -> None:
    """One line a strategy. report: of ``compare.answer``."""
    dif = f"realised DIF {report['realised_dif']:.1f}"
    table = Table(title=f"SIMULATED; ideal {report['ideal_s']:.2f} s an epoch, {dif}", title_justify="left")
    for column in ("strategy", "epoch s", "over ideal", "mean wait", "longest wait"):
        table.add_column(column, justify="left" if column == "strategy" else "right")
    for name, facts in report["strategies"].items():
        waits = facts["wait_share"]
        mean, longest = sum(waits) / len(waits), max(waits)
        table.add_row(name, f"{facts['epoch_s']:.2f}", f"{facts['over_ideal']:.4f}", f"{mean:.1%}", f"{longest:.1%}")
    Console(soft_wrap=True).print(table)


def print_forecasts(report: dict) -> None:
    """As recorded and as changed, side by side. report: ``{"missed", "recorded", "changed"}`` of forecasts."""
    table = Table()
    for column in ("", "ranks", "batch", "step s", "epoch s", "longest wait", "price an epoch"):
        table.add_column(column, justify="right" if column else "left")
    for name in ("recorded", "changed"):
        facts = report[name]
        price = f"{facts['price_per_epoch']:.4f}" if facts["price_per_epoch"] else "-"
        step_s, epoch_s, longest = (
            f"{facts['step_s']:.4f}",
            f"{facts['epoch_s']:.2f}",
            f"{max(facts['wait_share']):.1%}",
        )
        table.add_row(name, str(facts["ranks"]), str(facts["batch"]), step_s, epoch_s, longest, price)
    console = Console(soft_wrap=True)
    console.print(table)
    console.print(f"FORECAST; on the recorded run itself it is off by {report['missed']:+.1%} a step", highlight=False)
