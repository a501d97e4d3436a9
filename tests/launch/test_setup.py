"""launch/setup: quick when nothing changed, one line for what is missing. Nothing here builds anything."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
USED = "bash sh sed cat cksum dirname mkdir grep tail flock uname rm".split()


@pytest.fixture
def clone(tmp_path):
    """A folder with what launch/setup reads; beside it `machine`, a PATH of our own with c++ and make."""
    folder = tmp_path / "clone"
    shutil.copytree(ROOT / "launch", folder / "launch")
    shutil.copy(ROOT / "setup.py", folder)
    machine = tmp_path / "machine"
    machine.mkdir()
    for tool in USED:
        if found := shutil.which(tool):
            (machine / tool).symlink_to(found)
    for tool in ("c++", "make"):
        program(machine / tool, "exit 0")
    program(machine / "python3", f'exec "{Path(sys.base_prefix, "bin", "python3")}" "$@"')
    return folder


def program(path, script):
    """An executable shell script."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def setup(folder, *options):
    """launch/setup with nothing cached and only the fixture's machine in PATH, as a finished process."""
    return subprocess.run(
        ["launch/setup", *options], cwd=folder, env=bare(folder), capture_output=True, text=True, timeout=60
    )


def bare(folder):
    return {"PATH": str(folder.parent / "machine"), "CHRONICA_CACHE": str(folder.parent / "cache")}


def refused(result):
    """The one line launch/setup ended with."""
    assert result.returncode == 1, result
    assert result.stderr.startswith("launch/setup: "), result.stderr
    assert result.stderr.count("\n") == 1, result.stderr
    assert not result.stdout
    return result.stderr


@pytest.mark.skipif(not os.access(ROOT / ".venv/chronica.stamp", os.W_OK), reason="not set up here")
def test_again_is_nothing():
    again = [ROOT / "launch/setup", "--dev"]
    subprocess.run(again, check=True, capture_output=True)
    written = (ROOT / ".venv/chronica.stamp").stat().st_mtime_ns
    second = subprocess.run(again, check=True, capture_output=True, text=True)
    assert second.stderr.endswith(".venv is as it should be\n")
    assert (ROOT / ".venv/chronica.stamp").stat().st_mtime_ns == written


def test_help_names_every_option(clone):
    result = setup(clone, "--help")
    assert result.returncode == 0
    for option in ("--torch", "--python", "--system-mpi", "--wheel-mpi", "--dev"):
        assert option in result.stdout


@pytest.mark.parametrize(
    ("missing", "options", "says"),
    [
        ("c++", (), ("c++", "apt-get install build-essential")),
        ("make", (), ("make", "apt-get install build-essential")),
        ("python3", (), ("python3", "--python PATH")),
        ("mpirun", ("--system-mpi",), ("mpirun", "apt-get install openmpi-bin")),
    ],
)
def test_what_is_missing_is_named(clone, missing, options, says):
    (clone.parent / "machine" / missing).unlink(missing_ok=True)
    line = refused(setup(clone, *options))
    assert all(word in line for word in says), line
    assert not (clone / ".venv").exists()


@pytest.mark.parametrize(
    ("script", "says"),
    [
        ('[ "$1" = -V ] && echo Python 3.8.1; exit 1', ("Python 3.8.1", "3.10", "--python")),
        ('case $2 in *ensurepip*) exit 1;; esac; exec "$0.real" "$@"', ("apt-get install python3-venv",)),
        ('case $2 in *sysconfig*) exit 1;; esac; exec "$0.real" "$@"', ("Python.h", "python3-dev")),
    ],
)
def test_unfit_python_is_named(clone, script, says):
    python = clone.parent / "machine/python3"
    python.rename(f"{python}.real")
    program(python, script)
    line = refused(setup(clone))
    assert all(word in line for word in says), line


@pytest.mark.parametrize("options", [("--tourch",), ("--torch",), ("--python", "/no/such/python")])
def test_bad_options(clone, options):
    assert options[-1] in refused(setup(clone, *options))


def test_foreign_folder_is_left_alone(clone):
    (clone / ".venv").mkdir()
    (clone / ".venv/precious").write_text("mine")
    assert "move it away" in refused(setup(clone))
    assert (clone / ".venv/precious").read_text() == "mine"


def test_one_at_a_time(clone):
    (clone / "build").mkdir()
    with open(clone / "build/setup.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        second = subprocess.Popen(
            ["launch/setup", "--no-such"], cwd=clone, env=bare(clone), stderr=subprocess.PIPE, text=True
        )
        assert "waiting for another launch/setup" in second.stderr.readline()
    assert "--no-such" in second.stderr.readline()
    assert second.wait() == 1
    second.stderr.close()


@pytest.mark.skipif(not Path(sys.prefix, "bin/ompi_info").exists(), reason="not the MPI of a wheel")
def test_the_wheels_mpi_starts_without_ssh(tmp_path):
    """Containers have none, and Open MPI as it comes then refuses to start even on one machine."""
    for tool in ("sh", "bash", "env", "true", "false", "dirname", "readlink", "uname"):
        (tmp_path / tool).symlink_to(shutil.which(tool))
    environ = {"PATH": str(tmp_path), "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    mpirun = [Path(sys.prefix, "bin/mpirun"), "--oversubscribe", "-np", "2", "true"]
    done = subprocess.run(mpirun, env=environ, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
