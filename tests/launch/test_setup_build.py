"""What decides how Horovod is built, and what goes into our own wheel."""

import importlib.util
import os
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
probe = runpy.run_path(str(ROOT / "launch/probe.py"))


@pytest.mark.parametrize(
    ("source", "standard"),
    [
        ("common_cflags += ['-std=c++14', '-fPIC']", 14),
        ("cflags = ['-fPIC', '-std=c++17'] + extra\ncuda = ['-std=c++17']", 17),
        ("cuda_cflags = ['-std=c++20']\n# '-sycl-std=2020'", 20),
        ("cflags = ['-fPIC']", 17),
    ],
)
def test_standard_follows_torch(source, standard):
    assert probe["cxx_standard"](source) == standard


def test_standard_of_this_torch():
    torch = importlib.util.find_spec("torch")
    if torch is None:
        pytest.skip("no torch here")
    builder = Path(torch.origin).parent / "utils/cpp_extension.py"
    assert probe["cxx_standard"](builder.read_text()) in (14, 17, 20, 23)


@pytest.mark.parametrize(
    ("version", "name"),
    [
        ("mpirun (Open MPI) 4.1.8\n\nReport bugs to ...", "OpenMPI4.1.8"),
        ("mpirun (Open MPI) 5.0.11\n", "OpenMPI5.0.11"),
        ("HYDRA build details:\n    Version:                                 4.3.2\n", "MPICH4.3.2"),
    ],
)
def test_mpi_is_told_apart(version, name):
    assert probe["mpi_name"](version) == name


def test_unknown_mpi_is_refused():
    with pytest.raises(ValueError, match="neither Open MPI nor MPICH.*PATH"):
        probe["mpi_name"]("Some MPI 1.0")


def test_nccl_prefers_the_copy_torch_loads(tmp_path):
    header = tmp_path / "site/nvidia/nccl/include/nccl.h"
    other = tmp_path / "home/include/nccl.h"
    for file in (header, other):
        file.parent.mkdir(parents=True)
        file.touch()
    environ = {"HOROVOD_NCCL_HOME": str(tmp_path / "home")}
    assert probe["nccl"](tmp_path / "site", environ) == (str(header.parent), str(header.parents[1] / "lib"))
    assert probe["nccl"](tmp_path, environ) == (str(other.parent), str(tmp_path / "home/lib"))


@pytest.mark.parametrize("standard", ["17", "20"])
def test_toolchain_raises_the_standard(tmp_path, standard):
    """A project that insists on C++14, as Horovod does, is compiled as the newer standard."""
    cmake = shutil.which("cmake", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    if cmake is None or not shutil.which("c++"):
        pytest.skip("no cmake or no compiler here")
    (tmp_path / "a.cc").write_text(f"static_assert(__cplusplus / 100 == 20{standard});")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 2.8.12...3.21)\nproject(old CXX)\n"
        "set(CMAKE_CXX_STANDARD 14)\nadd_library(a OBJECT a.cc)\n"
    )
    toolchain = {
        "CMAKE_TOOLCHAIN_FILE": str(ROOT / "launch/horovod-toolchain.cmake"),
        "CHRONICA_CXX_STANDARD": standard,
    }
    for command in ([cmake, "-S", ".", "-B", "b"], [cmake, "--build", "b"]):
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **toolchain}, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr


def test_wheel_holds_every_module(tmp_path):
    """The tests import the clone; this is what a user of `pip install .` gets."""
    for name in ("setup.py", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(ROOT / "chronica_hvd", tmp_path / "chronica_hvd", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["-q", "--no-deps", "--no-build-isolation", "-w", "out"]
    wheel = [sys.executable, "-m", "pip", "wheel", *options, "."]
    subprocess.run(wheel, cwd=tmp_path, check=True, capture_output=True)
    with ZipFile(next((tmp_path / "out").glob("*.whl"))) as file:
        inside = {name for name in file.namelist() if name.startswith("chronica_hvd/")}
        scripts = next(file.read(name) for name in file.namelist() if name.endswith("entry_points.txt"))
    source = {str(p.relative_to(tmp_path)) for p in (tmp_path / "chronica_hvd").rglob("*") if p.is_file()}
    assert inside == source
    assert b"chronica = chronica_hvd.cli:main" in scripts
