"""``chronica doctor``: says what is there, and for each thing wrong what to do."""

import json
import os
import subprocess
import sys
import venv

import pytest
import typer

import chronica_hvd
from chronica_hvd import doctor


def run(*words, python=sys.executable, **environ):
    line = [python, "-m", "chronica_hvd.cli", "doctor", *words]
    return subprocess.run(line, capture_output=True, text=True, timeout=100, env={**os.environ, **environ})


def test_a_working_installation_is_found_well():
    done = run("--json")
    report = json.loads(done.stdout)
    assert done.returncode == 0 and report["ok"]
    names = [check["name"] for check in report["checks"]]
    assert {"torch", "mpirun", "Horovod built", "one MPI world", "THREAD_MULTIPLE", "cores"} <= set(names)


def test_each_thing_wrong_has_a_remedy(monkeypatch, capsys):
    monkeypatch.setattr(doctor.importlib.metadata, "version", lambda name: _missing(name))
    assert doctor.main(as_json=True) == 1
    report = json.loads(capsys.readouterr().out)
    wrong = [check for check in report["checks"] if not check["ok"]]
    assert len(wrong) == 6 and all("launch/setup" in check["remedy"] for check in wrong)


def _missing(name):
    raise doctor.importlib.metadata.PackageNotFoundError(name)


@pytest.mark.parametrize(
    "ranks, libraries, remedy",
    [
        ([2, 2], ["a"], ""),
        ([1, 1], ["a"], "mpirun starts another MPI"),
        ([2, 1], ["a"], "mpi4py and Horovod load different MPIs"),
        ([2, 2], ["a", "b"], "mpi4py and Horovod load different MPIs"),
    ],
)
def test_two_worlds_are_told_apart(ranks, libraries, remedy):
    facts = {"ranks": ranks, "libraries": libraries, "threads": True, "version": "Open MPI", "nccl": False}
    world = doctor._judge(facts)[0]
    assert world.ok == (not remedy) and world.remedy.startswith(remedy)
    assert not doctor._judge({**facts, "threads": False})[1].ok


def test_a_horovod_that_does_not_load_is_reported(monkeypatch):
    monkeypatch.setattr(doctor.sys, "executable", "/bin/false")
    assert not doctor._horovod_torch().ok
    monkeypatch.setattr(doctor.subprocess, "run", _hangs)
    check = doctor._horovod_torch()
    assert not check.ok and "took longer" in check.found and "launch/setup" in check.remedy


def _hangs(*words, timeout, **_):
    raise subprocess.TimeoutExpired(words, timeout)


def test_the_table_for_people_shows_what_to_do(capsys):
    doctor._print([doctor.Check("x", False, "[/tmp]", "do this")])
    shown = capsys.readouterr().out
    assert "NO" in shown and "[/tmp]" in shown and "do this" in shown


def test_it_works_where_torch_mpi_and_horovod_are_missing(tmp_path):
    """An environment with nothing but what a plain install brings, here by path."""
    venv.create(tmp_path / "bare", with_pip=False)
    homes = {os.path.dirname(os.path.dirname(module.__file__)) for module in (typer, chronica_hvd)}
    hide = tmp_path / "hide"
    hide.mkdir()
    (hide / "sitecustomize.py").write_text(
        "import importlib.metadata as m\nreal = m.version\n"
        "def version(name):\n"
        "    if name in ('torch', 'mpi4py', 'horovod'): raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
    )
    done = run(
        "--json",
        python=str(tmp_path / "bare/bin/python"),
        PYTHONPATH=f"{os.pathsep.join([str(hide), *homes])}",
        PATH="/bin",
    )
    report = json.loads(done.stdout)
    wrong = {check["name"] for check in report["checks"] if not check["ok"]}
    assert done.returncode == 1 and {"torch", "mpi4py", "horovod", "mpirun"} <= wrong
