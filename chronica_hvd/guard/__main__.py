"""Parent of one rank's program: tells how it ended, whatever program it is and whichever MPI started it.

``python -I -S chronica_hvd/guard PROGRAM ...``. Every MPI words a rank's end differently, or not at all: MPICH ends a
job with 0 when a rank left by ``os._exit(0)``. What is told goes to stderr, which every MPI brings from every host, as
a line that ``chronica run`` keeps for itself.
"""

import ctypes
import os
import signal
import socket
import subprocess
import sys

HIDDEN = "\x1f"  # begins a line that is for chronica run alone
RANK_NAMES = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
PR_SET_PDEATHSIG = 1


def die_with_parent() -> None:
    """From now on the kernel kills this process when its parent is gone."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def environment(told: str) -> dict[str, str]:
    """The program's: sitecustomize.py of this folder comes first and tells of exceptions."""
    path = [os.path.dirname(os.path.abspath(__file__)), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path), "CHRONICA_TOLD": told}


def main(program: list[str]) -> int:
    """Run the program; its exit code, 128 + n for signal n."""
    rank = next((os.environ[name] for name in RANK_NAMES if name in os.environ), "0")
    told = f"{HIDDEN}chronica: rank {rank} on {socket.gethostname()} "
    asked = []
    die_with_parent()  # mpirun; and the program with us

    def pass_on(number, _frame):
        asked.append(number)
        child.send_signal(number)

    try:
        child = subprocess.Popen(program, env=environment(told), close_fds=False, preexec_fn=die_with_parent)
    except OSError as error:
        os.write(2, f"{told}could not start {program[0]!r}: {error.strerror}\n".encode())
        return 127
    for number in (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2):  # MPI sends these to the whole group
        signal.signal(number, lambda *_: None)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, pass_on)
    code = child.wait()
    how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    if not asked:  # else somebody else's end is the cause
        os.write(2, f"{told}{how}\n".encode())
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
