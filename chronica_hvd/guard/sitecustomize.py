"""Loaded first by a rank's Python: tells of the exception that ends it. Leaves nothing to child processes."""

import os
import sys


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


def _tell_exceptions(told: str) -> None:
    before = sys.excepthook

    def tell(kind, error, trace):
        before(kind, error, trace)
        first = (str(error).splitlines() or [""])[0]
        os.write(2, f"{told}raised {kind.__name__}: {first}\n".encode(errors="replace"))

    sys.excepthook = tell


if "CHRONICA_TOLD" in os.environ:
    _tell_exceptions(os.environ.pop("CHRONICA_TOLD"))
    _leave_no_trace()
