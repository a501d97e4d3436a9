"""``chronica doctor``: says what is there, and for each thing wrong what to do."""

import json
import os
import subprocess
import sys
import venv

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
