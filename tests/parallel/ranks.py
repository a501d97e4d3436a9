"""Runs a test's body on several ranks: ``@parallel(3)`` starts the function under mpirun, once for each rank."""

from __future__ import annotations

import importlib.util
import sys


def parallel(ranks: int, timeout: float = 60, **env):
    """Decorator: the body runs on every rank, asserts and all; a hang or a failing rank fails this test alone."""

    def wrap(body):
        def test(mpirun):
            done = mpirun(ranks, __file__, body.__code__.co_filename, body.__name__, env=env, timeout=timeout)
            assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"

        test.__name__, test.__doc__, test.__module__, test.body = (
            body.__name__,
            body.__doc__,
            body.__module__,
            body,
        )
        return test

    return wrap


if __name__ == "__main__":
    path, name = sys.argv[1:]
    sys.path.insert(0, str(path).rpartition("/")[0])
    spec = importlib.util.spec_from_file_location("body", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    getattr(module, name).body()
