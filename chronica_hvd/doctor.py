"""``chronica doctor``: is this installation able to train, and if not, what to do."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass

from . import launcher

SETUP = "run launch/setup"
PROBE_S = 60.0  # longest wait for two ranks to start
PROBE = """
import json, sys
import chronica_hvd as chronica
chronica.init()
import horovod.torch as hvd
from mpi4py import MPI
facts = {
    "ranks": [MPI.COMM_WORLD.size, hvd.size()],
    "threads": MPI.Query_thread() == MPI.THREAD_MULTIPLE and bool(hvd.mpi_threads_supported()),
    "libraries": sorted({line.split()[-1] for line in open("/proc/self/maps") if "libmpi.so" in line}),
    "version": MPI.Get_library_version().split(",")[0].strip(),
    "nccl": bool(hvd.nccl_built()),
}
if chronica.rank() == 0:
    sys.stdout.write("PROBE " + json.dumps(facts) + "\\n")
"""


@dataclass(frozen=True)
class Check:
    """One thing looked at. remedy: what to do, empty where all is well."""

    name: str
    ok: bool
    found: str
    remedy: str = ""


def diagnose() -> list[Check]:
    """All checks; a check that needs another one that failed is left out."""
    checks = [_python(), *_packages(), _mpirun(), _cores()]
    if all(check.ok for check in checks):
        checks += [_horovod_torch(), *_two_ranks()]
    return checks


def main(as_json: bool) -> int:
    """Print the checks; 0 if all is well, else 1."""
    checks = diagnose()
    ok = all(check.ok for check in checks)
    if as_json:
        print(json.dumps({"ok": ok, "checks": [asdict(check) for check in checks]}, indent=1))
    else:
        _print(checks)
    return 0 if ok else 1


def _print(checks: list[Check]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table()
    for column in ("", "check", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for check in checks:
        table.add_row("ok" if check.ok else "[bold red]NO[/]", check.name, escape(check.found), check.remedy)
    Console().print(table)


def _python() -> Check:
    found, ok = platform.python_version(), sys.version_info >= (3, 10)
    return Check("Python", ok, found, "" if ok else f"needed is 3.10 or newer: {SETUP} --python PATH")


def _packages() -> list[Check]:
    return [_package(name) for name in ("chronica_hvd", "torch", "mpi4py", "horovod", "numpy", "scipy")]


def _package(name: str) -> Check:
    try:
        return Check(name, True, importlib.metadata.version(name))
    except importlib.metadata.PackageNotFoundError:
        return Check(name, False, "not installed", SETUP)


def _mpirun() -> Check:
    try:
        path = launcher.find_mpirun()
        text = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=20).stdout
        return Check("mpirun", True, f"{' '.join(map(str, launcher.flavour(text)))} at {path}")
    except (FileNotFoundError, ValueError, subprocess.TimeoutExpired) as error:
        return Check("mpirun", False, str(error), SETUP)


def _cores() -> Check:
    usable, quota = len(os.sched_getaffinity(0)), launcher.core_quota()
    limit = "" if quota is None else f", CPU quota {quota:g} cores"
    found = (
        f"{usable} usable of {os.cpu_count()}{limit}: {launcher.cores()} slots, more ranks oversubscribe; no binding"
    )
    return Check("cores", True, found)


def _horovod_torch() -> Check:
    program = (
        "import torch, horovod.torch as h; print(torch.__version__, 'with' if h.mpi_built() else 'without', 'MPI')"
    )
    remedy = f"Horovod was built for another torch or without MPI: remove .venv and {SETUP}"
    try:
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PROBE_S)
    except subprocess.TimeoutExpired:
        return Check("Horovod built", False, f"importing it took longer than {PROBE_S:g} s", remedy)
    if done.returncode:
        return Check("Horovod built", False, (done.stderr.strip().splitlines() or ["it crashed"])[-1], remedy)
    ok = "without MPI" not in done.stdout
    return Check("Horovod built", ok, f"for torch {done.stdout.strip()}", "" if ok else remedy)


def _two_ranks() -> list[Check]:
    """Start two ranks for real: do MPI and Horovod share one world, and does MPI have threads?"""
    program = [sys.executable, "-m", "chronica_hvd.cli", "run", "-np", "2", "--timeout", str(PROBE_S)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CHRONICA_")}
    done = subprocess.run([*program, "--", sys.executable, "-c", PROBE], capture_output=True, text=True, env=environ)
    lines = [line for line in done.stdout.splitlines() if line.startswith("PROBE ")]
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return [Check("one MPI world", False, reason, f"mpirun, mpi4py and Horovod must be of one MPI: {SETUP}")]
    return _judge(json.loads(lines[0].removeprefix("PROBE ")))


def _judge(facts: dict) -> list[Check]:
    """What the two ranks found, as checks."""
    mpi, horovod = facts["ranks"]
    remedy = ""
    if mpi != 2:
        remedy = f"mpirun starts another MPI than the one that mpi4py loads: {SETUP}"
    elif horovod != mpi or len(facts["libraries"]) != 1:
        remedy = f"mpi4py and Horovod load different MPIs: {SETUP}"
    found = f"mpi4py {mpi}, Horovod {horovod} of 2 ranks; {facts['version']}, {' and '.join(facts['libraries'])}"
    threads, advice = facts["threads"], f"take an MPI built with threads: {SETUP}"
    return [
        Check("one MPI world", not remedy, found, remedy),
        Check("THREAD_MULTIPLE", threads, "yes" if threads else "no", "" if threads else advice),
        Check("GPU reduction", True, "NCCL" if facts["nccl"] else "through MPI (Horovod built without NCCL)"),
    ]
