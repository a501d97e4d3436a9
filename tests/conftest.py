"""Fixtures of the whole suite."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest


@pytest.fixture
def mpirun():
    """``mpirun(ranks, script, *args, env=None, timeout=100)``: runs it under ``chronica run``; a CompletedProcess.

    The script is a file, or Python code of several lines.
    A job over its time is ended with all its ranks and fails this test alone.
    """

    def run(ranks: int, script, *args, env: dict | None = None, timeout: float = 100):
        launcher = [sys.executable, "-m", "chronica_hvd.cli", "run", "-np", str(ranks), "--", sys.executable]
        code = ["-c"] if "\n" in str(script) else []
        line = [*launcher, *code, *map(str, (script, *args))]
        environ = {**os.environ, "OMP_NUM_THREADS": "1", **(env or {})}
        job = subprocess.Popen(
            line, env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            out, err = job.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            job.send_signal(signal.SIGTERM)  # the launcher ends its ranks
            try:
                out, err = job.communicate(timeout=10)
            except subprocess.TimeoutExpired:
                os.killpg(job.pid, signal.SIGKILL)  # mpirun notices, and its ranks with it
                out, err = job.communicate()
            pytest.fail(f"{' '.join(line)}\ntook longer than {timeout} s\n{out}\n{err}")
        return subprocess.CompletedProcess(line, job.returncode, out, err)

    return run
