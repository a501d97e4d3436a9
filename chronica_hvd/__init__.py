"""Horovod training without stragglers. Importing this loads neither torch, Horovod nor MPI."""

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "init": "train.session",
    "rank": "train.session",
    "size": "train.session",
    "local_rank": "train.session",
    "DataLoader": "train.loader",
    "DistributedOptimizer": "train.optimizer",
    "weighted_allreduce": "train.weights",
    "broadcast_parameters": "train.session",
    "broadcast_optimizer_state": "train.session",
}
__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(f".{_HOME[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__():
    return __all__
