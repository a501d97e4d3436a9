"""``chronica doctor``: is this installation able to train, and if not, what to do."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from . import launcher

SETUP = "run launch/setup"
PROBE_S = 60.0  # longest wait for two ranks to start
PROBE = """
import json
import chronica_hvd as chronica
chronica.init()
import horovod.torch as hvd
from mpi4py import MPI
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "libmpi.so" in line}
facts = {"mpi_size": MPI.COMM_WORLD.size, "horovod_size": hvd.size(), "threads": MPI.Query_thread() == MPI.THREAD_MULTIPLE,
         "horovod_threads": bool(hvd.mpi_threads_supported()), "libmpi": sorted(libraries),
         "library": MPI.Get_library_version().split(",")[0].strip(), "nccl": bool(hvd.nccl_built())}
if chronica.rank() == 0:
    print("PROBE " + json.dumps(facts), flush=True)
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
    from rich.table import Table

    table = Table()
    for column in ("", "check", "found", "what to do"):
        table.add_column(column, overflow="fold")
    for check in checks:
        table.add_row("ok" if check.ok else "[bold red]NO[/]", check.name, check.found, check.remedy)
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
    usable, quota = len(os.sched_getaffinity(0)), _quota()
    limit = "" if quota is None else f", CPU quota {quota:g} cores"
    found = f"{usable} usable of {os.cpu_count()}{limit}; ranks beyond that are oversubscribed, never bound"
    return Check("cores", True, found)


def _quota() -> float | None:
    """Cores that a control group allows (version 2 or 1), None for no limit."""
    try:
        limit, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        try:
            base = Path("/sys/fs/cgroup/cpu")
            limit, period = ((base / f"cpu.cfs_{part}_us").read_text().strip() for part in ("quota", "period"))
        except OSError:
            return None
    return None if limit in ("max", "-1") else int(limit) / int(period)


def _horovod_torch() -> Check:
    program = "import torch, horovod.torch as h; print(torch.__version__, 'MPI' if h.mpi_built() else 'no MPI')"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PROBE_S)
    ok = done.returncode == 0 and "no MPI" not in done.stdout
    found = (
        f"for torch {done.stdout.strip()}" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["?"])[-1]
    )
    remedy = "" if ok else f"Horovod was built for another torch or without MPI: remove .venv and {SETUP}"
    return Check("Horovod built", ok, found, remedy)


def _two_ranks() -> list[Check]:
    """Start two ranks for real: do MPI and Horovod share one world, and does MPI have threads?"""
    program = [sys.executable, "-m", "chronica_hvd.cli", "run", "-np", "2", "--timeout", str(PROBE_S)]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("CHRONICA_")}
    done = subprocess.run([*program, "--", sys.executable, "-c", PROBE], capture_output=True, text=True, env=environ)
    lines = [line for line in done.stdout.splitlines() if line.startswith("PROBE ")]
    if done.returncode or not lines:
        reason = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return [Check("two ranks", False, reason, f"mpi4py and Horovod must use one MPI: {SETUP}")]
    facts = json.loads(lines[0].removeprefix("PROBE "))
    one = facts["mpi_size"] == facts["horovod_size"] == 2 and len(facts["libmpi"]) == 1
    world = f"MPI {facts['mpi_size']}, Horovod {facts['horovod_size']} ranks, {facts['library']}, {facts['libmpi']}"
    threads = facts["threads"] and facts["horovod_threads"]
    return [
        Check("one MPI world", one, world, "" if one else f"mpi4py and Horovod load different MPIs: {SETUP}"),
        Check(
            "THREAD_MULTIPLE", threads, str(threads), "" if threads else f"this MPI was built without threads: {SETUP}"
        ),
        Check("GPU reduction", True, "NCCL" if facts["nccl"] else "through MPI (built without NCCL)"),
    ]
