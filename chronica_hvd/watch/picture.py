"""A picture of who waited when: one strip a rank, compute and waiting on one time axis, one panel a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from .table import emulation

COMPUTE, WAIT, OTHER = "#2a6f97", "#f4a259", "#e5e5e5"


def draw(path, runs: dict[str, tuple[dict, list[dict]]], seconds: float | None = None, note: str = "") -> None:
    """Write a PNG. runs: {title: (header, steps)} as ``trace.read`` returns them; seconds: how much of the time."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.patches import Patch

    figure, panels = pyplot.subplots(len(runs), 1, sharex=True, squeeze=False, figsize=(11, 1.2 + 2.2 * len(runs)))
    for panel, (title, (header, steps)) in zip(panels[:, 0], runs.items()):
        _strips(panel, header, steps, seconds)
        panel.set_title(title + emulation(header), loc="left", fontsize=11)
    panels[-1, 0].set_xlabel("seconds of training" + (f" ({note})" if note else ""))
    colours = (("compute", COMPUTE), ("waiting for slower ranks", WAIT), ("data, plan, update", OTHER))
    handles = [Patch(color=colour, label=label) for label, colour in colours]
    figure.legend(handles=handles, loc="upper right", ncols=3, frameon=False, fontsize=9)
    figure.tight_layout(rect=(0, 0, 1, 0.95))
    Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _strips(panel, header: dict, steps: list[dict], seconds: float | None) -> None:
    ranks = len(header["ranks"])
    columns = ([row[key] for row in steps] for key in ("compute_s", "wait_s", "step_s"))
    compute, wait, step = (np.nan_to_num(column) for column in columns)  # (S, M) s; what is unknown is not drawn
    ends = np.cumsum(step, axis=0)
    for rank in range(ranks):
        begin = ends[:, rank] - step[:, rank]
        begun = begin + np.maximum(0.0, step[:, rank] - compute[:, rank] - wait[:, rank])
        shown = begin < (seconds or np.inf)
        spans = (
            (OTHER, begin, step[:, rank]),
            (COMPUTE, begun, compute[:, rank]),
            (WAIT, begun + compute[:, rank], wait[:, rank]),
        )
        for colour, left, width in spans:
            panel.broken_barh(list(zip(left[shown], width[shown])), (ranks - rank - 0.9, 0.8), facecolors=colour)
    panel.set_yticks(np.arange(ranks) + 0.5, [f"rank {rank}" for rank in reversed(range(ranks))])
    panel.set_ylim(0, ranks)
    panel.set_xlim(0, seconds or ends[-1].max())
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
    panel.tick_params(axis="y", length=0)
