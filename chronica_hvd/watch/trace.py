"""trace.jsonl: everything that happened, one JSON object a line; first the run, then one line a step.

    {"schema": 1, "kind": "run", "ranks": [{"rank", "host", "device", "threads", "affinity", ...}], "emulated": {}, ...}
    {"schema": 1, "kind": "step", "epoch": 0, "step": 0, "count": [...], "load": [...], "compute_s": [...], ...}

Arrays have one number a rank; unknown is null.
"""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import numpy as np

from ..records import StepRecord

SCHEMA = 1


class TraceWriter:
    """Writes a trace; every line is on disk when the call returns."""

    def __init__(self, path):
        Path(path).absolute().parent.mkdir(parents=True, exist_ok=True)
        self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - open as long as the run

    def header(self, **facts) -> None:
        """What does not change during the run."""
        self._line({"schema": SCHEMA, "kind": "run", **facts})

    def step(self, record: StepRecord, predicted_s) -> None:
        """One step. predicted_s: (M,) s, what the plan expected."""
        self._line({"schema": SCHEMA, "kind": "step", **dataclasses.asdict(record), "predicted_s": predicted_s})

    def _line(self, fields: dict) -> None:
        self._file.write(json.dumps(_plain(fields), allow_nan=False) + "\n")
        self._file.flush()


def read(path) -> tuple[dict, list[dict]]:
    """(header, steps) of a trace; arrays come as (M,) float64, null as nan; a line cut short at the end is left out.

    Raises ValueError for a file that is no trace or has another schema.
    """
    rows = []
    lines = Path(path).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
        except json.JSONDecodeError as error:
            if number == len(lines) and number > 1:
                break
            raise ValueError(f"{path}, line {number}: not a line of a trace ({error})") from None
        if not isinstance(row, dict) or row.get("schema") != SCHEMA:
            raise ValueError(f"{path}, line {number}: schema {_schema(row)!r} was found, this version reads {SCHEMA}")
        rows.append(row)
    if not rows or rows[0].get("kind") != "run":
        raise ValueError(f"{path} does not begin with a line of kind 'run'; is it a trace.jsonl?")
    return rows[0], [_arrays(row) for row in rows[1:]]


def _schema(row):
    return row.get("schema") if isinstance(row, dict) else None


def _arrays(row: dict) -> dict:
    return {key: np.array(value, float) if isinstance(value, list) else value for key, value in row.items()}


def _plain(value):
    """What JSON can say: lists for arrays, null for nan."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
