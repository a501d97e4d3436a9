"""Loaded first by a rank's Python: tells of the exception or the exit that ends it. Leaves nothing to its children."""

import os
import sys
import threading


def _leave_no_trace() -> None:
    """Take this folder out of the path again, and let the sitecustomize that it hid come next."""
    folder = os.path.dirname(__file__)
    sys.path[:] = [entry for entry in sys.path if entry != folder]
    rest = [entry for entry in os.environ.pop("PYTHONPATH", "").split(os.pathsep) if entry != folder]
    if any(rest):
        os.environ["PYTHONPATH"] = os.pathsep.join(rest)
    this = sys.modules.pop(__name__)
    try:
        import sitecustomize  # noqa: F401
    except ImportError:
        sys.modules[__name__] = this


def _tell(told: str) -> None:
    """Of an exception, and of the script's end before Horovod shuts down: then others fail, and seem to be first."""
    before, process = sys.excepthook, os.getpid()

    def tell(how: str) -> None:
        if os.getpid() == process:  # not in a forked worker
            os.write(2, f"{told}{how}\n".encode(errors="replace"))

    def raised(kind, error, trace):
        before(kind, error, trace)
        tell(f"raised {kind.__name__}: {(str(error).splitlines() or [''])[0]}")

    sys.excepthook = raised
    register = getattr(threading, "_register_atexit", lambda _: None)  # atexit itself is too late
    register(lambda: tell("is through"))


if "CHRONICA_TOLD" in os.environ:
    _tell(os.environ.pop("CHRONICA_TOLD"))
    _leave_no_trace()
