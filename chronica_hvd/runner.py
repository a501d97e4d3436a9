"""Runs the mpirun line of ``chronica run`` to its end, and says which rank failed and why."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time

from . import launcher

TOLD = re.compile(rb"chronica: rank (\d+) on (\S+) (.+)")  # by the library or by guard/
HIDDEN = re.compile(rb"\x1f[^\n]*\n")  # guard's lines
FINISHED = "ended with exit code 0"  # these two are no failure as such
THROUGH = "is through"  # its script, before what it does at exit
NOTICED = "raised HorovodInternalError"  # another rank is the cause
GRACE_S = 5.0  # for the job to end by itself once a rank failed
KILL_S = 2.0  # between asking it to end and killing it
PR_SET_PDEATHSIG = 1


class Told:
    """What the ranks told of their ends, in order of arrival."""

    def __init__(self) -> None:
        self.ends: list[tuple[int, str, str]] = []  # rank, host, how
        self.failed_at: float | None = None  # monotonic s, the first failure

    def line(self, line: bytes) -> None:
        """Look at one line of stderr."""
        if found := TOLD.search(line):
            rank, host, how = (part.decode(errors="replace").strip() for part in found.groups())
            self.ends.append((int(rank), host, how))
            if how not in (FINISHED, THROUGH) and self.failed_at is None:
                self.failed_at = time.monotonic()

    def finished(self) -> int:
        """Ranks that ended with 0."""
        return sum(how == FINISHED for _, _, how in self.ends)

    def cause(self) -> str:
        """The first failure, but a rank that only noticed another's, or that left with 0, comes later."""
        noticed = {rank for rank, _, how in self.ends if how.startswith(NOTICED)}
        order = sorted(self.ends, key=lambda end: (end[0] in noticed, end[2] in (FINISHED, THROUGH)))
        if not order:
            return "mpirun failed before a rank said why; see its words above"
        rank, host, how = order[0]
        if how in (FINISHED, THROUGH):
            how = "left early: its script ended or called exit"
        return how.partition("RankLeftError: ")[2] or f"rank {rank} on {host} {how}"


def run(line: list[str], added: dict[str, str], ranks: int, timeout_s: float | None = None) -> int:
    """Run the job to its end and return its exit code, never 0 when a rank failed; 124 after ``timeout_s``.

    SIGINT, SIGTERM and SIGHUP reach the job; nothing of it is left behind.
    """
    terminal = {"CHRONICA_TTY": "1"} if sys.stderr.isatty() else {}
    environ = {**os.environ, **terminal, **added, "PATH": launcher.search_path()}
    job = subprocess.Popen(line, env=environ, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=_end_with_us)
    told = Told()
    reader = threading.Thread(target=_tee, args=(job.stderr.fileno(), told), daemon=True)
    reader.start()
    stopped = _forward(job, told)
    in_time = _wait(job, told, timeout_s)
    ended = job.poll() is not None
    _end(job)
    reader.join(1.0)
    if stopped:
        code, why = 128 + stopped[0], f"stopped by {signal.Signals(stopped[0]).name}"
    elif not in_time:
        code, why = 124, f"the job took longer than {timeout_s:g} s and was ended"
    else:
        code, why = _code(job.returncode if ended else 1, told, ranks), told.cause()
    if code:
        print(f"chronica run: {why} (exit code {code})", file=sys.stderr, flush=True)
    return code


def _code(code: int, told: Told, ranks: int) -> int:
    """The job's exit code; 1 where mpirun says 0 though a rank failed or was dropped."""
    if code == 0 and (told.failed_at or 0 < told.finished() < ranks):
        return 1
    return 128 - code if code < 0 else code


def _wait(job, told: Told, timeout_s: float | None) -> bool:
    """Wait for the job, but not for one that hangs after a failure. False: it took longer than ``timeout_s``."""
    begun = time.monotonic()
    while job.poll() is None:
        now = time.monotonic()
        if timeout_s is not None and now - begun > timeout_s:
            return False
        if told.failed_at is not None and now - told.failed_at > GRACE_S:
            return True
        time.sleep(0.02)
    return True


def _tee(source: int, told: Told) -> None:
    """Pass stderr through byte by byte as it comes, but for guard's lines, and let ``told`` see each line."""
    line = held = b""
    while chunk := os.read(source, 65536):
        *lines, line = re.split(rb"[\r\n]", line + chunk)
        line = line[-4096:]
        for whole in lines:
            told.line(whole)
        shown, mark, rest = HIDDEN.sub(b"", held + chunk).partition(b"\x1f")
        held = mark + rest
        _show(shown)


def _show(shown: bytes) -> None:
    try:
        sys.stderr.buffer.write(shown)
        sys.stderr.buffer.flush()
    except OSError:
        pass  # nobody reads any more; the job must not block on that


def _forward(job, told: Told) -> list[int]:
    """Pass signals on to the job, which then has to end; the list holds those that came."""
    came: list[int] = []

    def handler(number, _frame):
        came.append(number)
        told.failed_at = told.failed_at or time.monotonic()
        _signal(job, number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)
    return came


def _signal(job, number: int) -> None:
    try:
        os.killpg(job.pid, number)
    except ProcessLookupError:
        pass


def _end(job) -> None:
    """End mpirun, which ends its ranks; kill what does not go. Guards take their ranks with them."""
    if job.poll() is None:
        job.terminate()
        try:
            job.wait(KILL_S)
        except subprocess.TimeoutExpired:
            pass
    _signal(job, signal.SIGKILL)
    job.wait()


def _end_with_us() -> None:
    """For mpirun before exec: it is told to end if we are killed."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
