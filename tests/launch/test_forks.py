"""Forked children of a rank, as a loader's workers are, are not taken for the rank itself."""

import os
import subprocess
import sys

WORKER_THEN_LEAVES = """
import multiprocessing, os
from mpi4py import MPI
comm = MPI.COMM_WORLD
if comm.rank == 0:
    worker = multiprocessing.get_context("fork").Process(target=print)
    worker.start()
    worker.join()
comm.Barrier()
if comm.rank == 1:
    os._exit(0)
comm.Barrier()  # waits for ever
"""
CHILD_RAISES = """
import os
child = os.fork()
if child == 0:
    raise ValueError("a child's own affair")
assert os.waitpid(child, 0)[1] != 0
print("done")
"""


def chronica_run(program):
    line = [sys.executable, "-m", "chronica_hvd.cli", "run", "-np", "2", "--timeout", "60", "--"]
    return subprocess.run([*line, sys.executable, "-c", program], capture_output=True, text=True, timeout=90)


def test_a_worker_that_ended_is_not_named_for_the_rank_that_left():
    done = chronica_run(WORKER_THEN_LEAVES)
    assert done.returncode not in (0, 124)
    assert done.stderr.splitlines()[-1].startswith(f"chronica run: rank 1 on {os.uname().nodename} left early")


def test_an_exception_in_a_child_that_its_rank_copes_with_is_no_failure():
    done = chronica_run(CHILD_RAISES)
    assert done.returncode == 0 and done.stdout.count("done") == 2, done.stderr
