"""The MNIST examples run on two ranks and learn, and differ in the marked lines only."""

import difflib
import struct
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = ("mnist_horovod.py", "mnist_chronica.py")


def code(script):
    """Lines of a script below its docstring."""
    return (EXAMPLES / script).read_text().split('"""', 2)[2].splitlines()


@pytest.mark.parametrize("script", SCRIPTS)
def test_learns_digits_on_two_ranks(mpirun, script):
    done = mpirun(2, EXAMPLES / script, "--epochs", 1, "--limit", 1280, timeout=90)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    [line] = [line for line in done.stdout.splitlines() if "test accuracy" in line]
    assert float(line.split()[-1].rstrip("%")) > 50  # one in ten by chance


@pytest.mark.parametrize("script", SCRIPTS)
def test_reads_the_full_files(mpirun, script, tmp_path):
    rng = np.random.default_rng(0)
    for kind, samples in (("train", 9), ("t10k", 5)):
        images = bytes([0, 0, 8, 3]) + struct.pack(">3I", samples, 28, 28) + rng.bytes(samples * 784)
        labels = bytes([0, 0, 8, 1]) + struct.pack(">I", samples) + bytes(range(samples))
        (tmp_path / f"{kind}-images-idx3-ubyte").write_bytes(images)
        (tmp_path / f"{kind}-labels-idx1-ubyte").write_bytes(labels)
    done = mpirun(2, EXAMPLES / script, "--epochs", 2, "--batch", 4, "--data", tmp_path, timeout=90)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    assert "epoch 2: test accuracy" in done.stdout


def test_a_folder_without_the_files_is_named(mpirun, tmp_path):
    done = mpirun(1, EXAMPLES / "mnist_chronica.py", "--data", tmp_path, timeout=60)
    assert done.returncode not in (0, None)
    assert "has neither train-images-idx3-ubyte nor" in done.stderr


def test_every_changed_line_is_marked_and_they_are_few():
    changes = [line for line in difflib.ndiff(*map(code, SCRIPTS)) if line.startswith("+ ") and line[2:].strip()]
    assert 3 <= len(changes) <= 6
    assert [line for line in changes if "# chronica:" not in line] == []
