"""``chronica run``: the line it builds for each MPI, and how a job ends."""

import os
import signal
import subprocess
import sys
import time

import pytest

from chronica_hvd import launcher

OPEN_MPI_4 = "mpirun (Open MPI) 4.1.8\n"
OPEN_MPI_5 = "mpirun (Open MPI) 5.0.11\n"
HYDRA = "HYDRA build details:\n    Version:                                 4.3.2\n"
CHRONICA = [sys.executable, "-m", "chronica_hvd.cli", "run"]


def line(version, ranks=4, environ=None, **options):
    words, added = launcher.command(
        ranks, ["python", "x.py"], mpirun="/opt/mpi/bin/mpirun", version=version, environ=environ or {}, **options
    )
    assert words[:3] == ["/opt/mpi/bin/mpirun", "-np", str(ranks)] and words[-2:] == ["python", "x.py"]
    return " ".join(words), added


def test_open_mpi_4_yields_does_not_bind_and_oversubscribes():
    words, added = line(OPEN_MPI_4)
    assert "--bind-to none --oversubscribe" in words
    assert added["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert "-x OMPI_MCA_mpi_yield_when_idle" in words


def test_c67_open_mpi_5_gets_the_options_it_understands():
    words, _ = line(OPEN_MPI_5)
    assert "--map-by :OVERSUBSCRIBE" in words and "--oversubscribe" not in words and " -bind-to" not in words


def test_mpich_gets_no_word_of_open_mpi():
    words, added = line(HYDRA, hosts="a,b", nic="eth1")
    assert "-hosts a,b" in words and "-iface eth1" in words
    assert "--" not in words and not any(name.startswith("OMPI") for name in added)


@pytest.mark.parametrize(
    "version, agent", [(OPEN_MPI_4, "OMPI_MCA_plm_rsh_agent"), (OPEN_MPI_5, "PRTE_MCA_plm_ssh_agent")]
)
def test_hosts_go_by_slot_and_threads_are_left_to_them(version, agent):
    words, added = line(version, hosts="a:2,b:2", rsh="myssh", nic="eth1")
    assert "--map-by slot" in words and "-H a:2,b:2" in words
    assert added[agent] == "myssh" and added["OMPI_MCA_btl_tcp_if_include"] == "eth1"
    assert "OMP_NUM_THREADS" not in added


def test_threads_and_settings_travel(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert line(OPEN_MPI_4)[1]["OMP_NUM_THREADS"] == "2"
    words, added = line(OPEN_MPI_4, environ={"OMP_NUM_THREADS": "5", "HOROVOD_CYCLE_TIME": "2", "HOME": "/x"})
    assert "OMP_NUM_THREADS" not in added
    assert "-x HOROVOD_CYCLE_TIME" in words and "-x OMP_NUM_THREADS" in words and "-x HOME" not in words


def test_another_mpi_is_refused_by_name():
    with pytest.raises(ValueError, match="Open MPI 4 and 5 and MPICH"):
        launcher.flavour("Spectrum 3")


def chronica_run(*words, timeout=60, **popen):
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([*CHRONICA, *words], capture_output=True, text=True, timeout=timeout, env=environ, **popen)


def test_the_exit_code_is_the_jobs_and_the_line_is_printed():
    done = chronica_run("-np", "1", "--", sys.executable, "-c", "import sys; sys.exit(7)")
    assert done.returncode == 7
    assert "-np 1 --bind-to none" in done.stderr.splitlines()[0]


def test_c70_more_ranks_than_cores_run_and_it_says_so():
    ranks = len(os.sched_getaffinity(0)) + 2
    done = chronica_run("-np", str(ranks), "--", sys.executable, "-c", "print('here')")
    assert done.returncode == 0 and done.stdout.count("here") == ranks
    assert "oversubscribed" in done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (["--slow", "5:2", "--", "python"], "names rank 5, the job has ranks 0 to 1"),
        (["--slow", "fast", "--", "python"], "RANK:FACTOR"),
        (["--slow", "1:0", "--", "python"], "factors are above 0"),
        ([], "no program was given"),
    ],
)
def test_bad_words_are_refused(words, said):
    done = chronica_run("-np", "2", *words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())


def test_emulation_is_announced_and_passed_on():
    program = "import os; print(os.environ['CHRONICA_SLOW'], os.environ['CHRONICA_DEVICE_COST'])"
    done = chronica_run("-np", "1", "--slow", "0:3", "--device-cost", "0.5", "--", sys.executable, "-c", program)
    assert done.stdout.split() == ["0:3", "0.5"]
    assert "EMULATED" in done.stderr


def alive(marker):
    """Process numbers whose command line holds the marker."""
    found = subprocess.run(["ps", "-eo", "pid,args"], capture_output=True, text=True).stdout.splitlines()
    return [text.split()[0] for text in found if marker in text and " -c " in text]


def test_a_frozen_job_ends_by_its_time_limit_and_leaves_nothing():
    marker = f"frozen_{os.getpid()}"
    program = f"import os, signal; {marker} = 1; os.kill(os.getpid(), signal.SIGSTOP)"
    done = chronica_run("-np", "2", "--timeout", "4", "--", sys.executable, "-c", program)
    assert done.returncode == 124
    assert "took longer than 4 s" in done.stderr.splitlines()[-1]
    assert not alive(marker)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_signals_end_the_job_and_leave_nothing(number):
    marker = f"sleeper_{os.getpid()}_{int(number)}"
    program = f"import time; {marker} = 1; print('up', flush=True); time.sleep(100)"
    job = subprocess.Popen([*CHRONICA, "-np", "2", "--", sys.executable, "-c", program], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert job.stdout.readline() == "up\n"
    job.send_signal(number)
    _, err = job.communicate(timeout=30)
    assert job.returncode == 128 + number
    assert signal.Signals(number).name in err.splitlines()[-1]
    deadline = time.monotonic() + 5
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not alive(marker)
