"""Cases of people who launch jobs, by their id; and how a job ends when one rank fails."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import chronica_hvd.train.session as session

TRAIN = """
import os, signal, sys, time, torch
import chronica_hvd as chronica
chronica.init()
w = torch.nn.Parameter(torch.zeros(1))
optimizer = chronica.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("w", w)])
loader = chronica.DataLoader(torch.utils.data.TensorDataset(torch.ones(4000, 1)), 4)
for step, (x,) in enumerate(loader):
    if step == 5 and chronica.rank() == 1:
        print("AT", time.time(), flush=True)
        FAULT
    optimizer.zero_grad()
    (w * x).mean().backward()
    optimizer.step()
    time.sleep(0.005)
"""
PLAIN_LOADER = TRAIN.replace("enumerate(loader)", "enumerate([(torch.ones(2, 1),)] * 1000)")
STOCK = """
import os, signal, sys, time, torch
import horovod.torch as hvd
hvd.init()
for step in range(1000):
    if step == 5 and hvd.rank() == 1:
        print("AT", time.time(), flush=True)
        FAULT
    hvd.allreduce(torch.ones(1), name="x")
    time.sleep(0.005)
"""
MPI_ONLY = """
import os, signal, time
from mpi4py import MPI
if MPI.COMM_WORLD.rank == 1:
    print("AT", time.time(), flush=True)
    FAULT
MPI.COMM_WORLD.Barrier()  # waits for ever
"""
BEFORE_LOADER = """
import os, signal, time, torch, chronica_hvd as chronica
chronica.init()
if chronica.rank() == 1:
    print("AT", time.time(), flush=True)
    FAULT
chronica.DataLoader(torch.ones(8), 4)  # waits for every rank's arguments
"""


def write(tmp_path, text):
    path = tmp_path / "train.py"
    path.write_text(text)
    return path


def test_c64_two_worlds_are_refused_with_the_likely_cause():
    class Mpi:
        class COMM_WORLD:
            rank, size = 1, 2

    class Horovod:
        rank, size = staticmethod(lambda: 0), staticmethod(lambda: 1)

    with pytest.raises(RuntimeError, match="MPI sees rank 1 of 2, Horovod rank 0 of 1.*another MPI"):
        session._check_world(Mpi, Horovod)


def test_c64_an_mpirun_of_another_mpi_is_refused(tmp_path):
    """Then every process is alone: as one started by itself, though two were asked for."""
    script = write(tmp_path, "import chronica_hvd as chronica\nchronica.init()\n")
    environ = {**os.environ, "CHRONICA_RANKS": "2"}
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=90, env=environ)
    assert done.returncode != 0
    assert "started 2 ranks, but Horovod and mpi4py see 1" in done.stderr


@pytest.mark.parametrize("first, second", [("horovod.torch", "mpi4py.MPI"), ("mpi4py.MPI", "horovod.torch")])
def test_c65_either_import_order_and_mpi_lives_on_after_horovods_shutdown(mpirun, tmp_path, first, second):
    script = write(
        tmp_path,
        f"import importlib\nimportlib.import_module('{first}') if 'horovod' in '{first}' else None\n"
        "import chronica_hvd as chronica\nchronica.init()\n"
        f"importlib.import_module('{second}')\n"
        "import horovod.torch as hvd\nfrom mpi4py import MPI\n"
        "hvd.shutdown()\nassert MPI.COMM_WORLD.allreduce(1) == 2\n",
    )
    done = mpirun(2, script)
    assert done.returncode == 0, done.stderr


def test_c71_threads_and_affinity_are_set_and_in_the_trace(mpirun, tmp_path):
    script = write(
        tmp_path,
        "import sys, torch, chronica_hvd as chronica\nchronica.init()\n"
        "list(chronica.DataLoader(torch.utils.data.TensorDataset(torch.ones(8)), 4, trace=sys.argv[1]))\n",
    )
    done = mpirun(2, script, tmp_path / "trace.jsonl", env={"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stderr
    header = json.loads((tmp_path / "trace.jsonl").read_text().splitlines()[0])
    cores = sorted(os.sched_getaffinity(0))
    assert [(rank["threads"], rank["affinity"]) for rank in header["ranks"]] == [(1, cores)] * 2


RAISES = ("raise ValueError('broken part')", "rank 1 on {host} raised ValueError: broken part (exit code 1)")
LEAVES = ("exit(0)", "rank 1 on {host} left the job")
VANISHES = ("os._exit(0)", "rank 1 on {host} left early: its script ended or called exit (exit code 1)")
KILLED = ("os.kill(os.getpid(), signal.SIGKILL)", "rank 1 on {host} was killed by SIGKILL (exit code 137)")


@pytest.mark.parametrize(
    "script, fault, said",
    [
        *((TRAIN, *fault) for fault in (RAISES, LEAVES, VANISHES, KILLED)),
        (PLAIN_LOADER, *RAISES),
        (PLAIN_LOADER, *LEAVES),
        (BEFORE_LOADER, *RAISES),
        (BEFORE_LOADER, *LEAVES),
        (STOCK, *RAISES),
        (STOCK, LEAVES[0], "rank 1 on {host} left early: its script ended or called exit (exit code 1)"),
        (STOCK, *KILLED),
        (MPI_ONLY, *RAISES),
        (MPI_ONLY, *VANISHES),
    ],
)
def test_c73_a_rank_that_fails_or_leaves_ends_the_job_and_is_named(mpirun, tmp_path, script, fault, said):
    done = mpirun(3, write(tmp_path, script.replace("FAULT", fault)))
    fault_at = float(done.stdout.split("AT ")[1].split()[0])
    assert time.time() - fault_at < 10
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith(f"chronica run: {said.format(host=os.uname().nodename)}"), (
        done.stderr
    )


def test_c75_the_table_at_the_start_names_rank_host_device_and_batch(mpirun, tmp_path):
    script = write(
        tmp_path,
        "import torch, chronica_hvd as chronica\nchronica.init()\n"
        "list(chronica.DataLoader(torch.utils.data.TensorDataset(torch.ones(10)), 5, strategy='even'))\n",
    )
    done = mpirun(2, script)
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in done.stderr.splitlines() if "│" in line]
    host = os.uname().nodename
    assert [row[:3] + row[-1:] for row in rows] == [["0", host, "cpu", "3"], ["1", host, "cpu", "2"]]


@pytest.mark.parametrize("tool", ["horovodrun", "mpirun"])
def test_other_launchers_work_as_well(tmp_path, tool):
    program = Path(sys.executable).parent / tool
    if not program.exists():
        pytest.skip(f"no {tool} beside this Python")
    words = ["--allow-run-as-root", "--oversubscribe", "--bind-to", "none"] if tool == "mpirun" else []
    script = write(tmp_path, TRAIN.replace("FAULT", "pass").replace("4000", "40"))
    line = [program, "-np", "2", *words, sys.executable, script]
    environ = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1",
               "OMPI_MCA_mpi_yield_when_idle": "1"}  # fmt: skip
    done = subprocess.run(line, capture_output=True, text=True, timeout=90, env=environ)
    assert done.returncode == 0, done.stderr
    assert "2 ranks, global batch 4" in done.stdout + done.stderr


def test_a_script_without_a_launcher_runs_as_one_rank(tmp_path):
    script = write(tmp_path, TRAIN.replace("FAULT", "pass").replace("4000", "40"))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
