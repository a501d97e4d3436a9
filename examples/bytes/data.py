"""Real data that every machine has: the functions of the Python standard library, as bytes.

python examples/bytes/data.py        how many there are and how long
"""

from __future__ import annotations

import ast
import sysconfig
import warnings
from pathlib import Path

import numpy as np

SKIPPED = {"site-packages", "dist-packages", "test", "tests", "idle_test", "lib2to3", "__pycache__"}


def functions(limit: int | None = None, shortest: int = 40, longest: int = 4000) -> list[bytes]:
    """Sources of the running interpreter's own functions, none twice, always the same for one interpreter.

    The files are taken in an order drawn once, and no more of them than the limit needs. Lengths in bytes.
    """
    root = Path(sysconfig.get_path("stdlib"))
    paths = [path for path in sorted(root.rglob("*.py")) if SKIPPED.isdisjoint(path.relative_to(root).parts)]
    found: dict[bytes, None] = {}
    for index in np.random.default_rng(0).permutation(len(paths)):
        texts = _functions_of(paths[index])
        found.update(dict.fromkeys(text for text in texts if shortest <= len(text) <= longest))
        if limit and len(found) >= limit:
            break
    return list(found)[:limit]


def _functions_of(path: Path) -> list[bytes]:
    text = path.read_bytes()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return []
    lines = text.splitlines(keepends=True)
    nodes = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [b"".join(lines[node.lineno - 1 : node.end_lineno]) for node in nodes]


class Functions:
    """A data set of map style: sample i is function i as (bytes,) uint8; ``read`` remembers what was asked for."""

    def __init__(self, texts: list[bytes]):
        self.texts, self.read = texts, []
        self.sizes = np.array([len(text) for text in texts])

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> np.ndarray:
        self.read.append(index)
        return np.frombuffer(self.texts[index], np.uint8)


def describe(sizes: np.ndarray) -> str:
    """One line: number, range, quartiles and DIF (standard deviation) of the lengths."""
    quartiles = ", ".join(f"{quartile:.0f}" for quartile in np.quantile(sizes, (0.25, 0.5, 0.75)))
    return (
        f"{len(sizes)} functions, {sizes.sum() / 1e6:.2f} MB, {sizes.min()} to {sizes.max()} bytes, "
        f"quartiles {quartiles}, DIF {sizes.std(ddof=1):.0f}"
    )


if __name__ == "__main__":
    print(describe(Functions(functions()).sizes))
