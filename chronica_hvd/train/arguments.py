"""The loader's arguments, checked: alike on all ranks, or a clear error on all of them at once."""

from __future__ import annotations

import dataclasses
import os
import zlib

import numpy as np

from ..placed import Placement
from ..records import World
from ..work import KINDS

CHOICES = {"weight": ("count", "size"), "placement": ("shared", "local"), "cost": KINDS}


def check_alike(session, given: dict) -> list[dict]:
    """Every rank's arguments, rank 0 first. Raises ValueError on all ranks where they differ.

    A name that begins with "own " may differ.
    """
    every = session.allgather(given)
    for name in given:
        for rank, other in enumerate(every):
            if other[name] != every[0][name] and not name.startswith("own "):
                raise ValueError(
                    f"{name} is {other[name]} on rank {rank} ({session.ranks[rank]['host']}) and {every[0][name]} on "
                    f"rank 0 ({session.ranks[0]['host']}); give every rank's loader the same arguments"
                )
    return every


def check_names(**given: str) -> None:
    """Raises ValueError for a word that is not among those of CHOICES."""
    for name, word in given.items():
        if word not in CHOICES[name]:
            raise ValueError(f"{name}={word!r} was given; allowed are {', '.join(map(repr, CHOICES[name]))}")


def place(counts: list[int], batch: int, batch_size, ends: str, max_samples) -> Placement:
    """Who owns what where each rank has its own data. Raises ValueError for arguments that it leaves no room for."""
    listed = np.ndim(batch_size) > 0
    if listed and ends == "last":
        raise ValueError(
            f"batch_size={list(batch_size)} was given with placement='local'; each step takes of each rank in "
            f"proportion to its data, so give the global batch {batch}, or ends='first'"
        )
    if max_samples is not None:
        raise ValueError("max_samples was given with placement='local', where no sample can go to another rank")
    return Placement.of(counts, batch, ends, batch_size if listed else None)


def settings_of(strategy) -> str:
    """A strategy in words that are the same on every rank."""
    return repr(strategy) if dataclasses.is_dataclass(strategy) else type(strategy).__name__


def digest(values: np.ndarray | None) -> str:
    """A short word for an array, to compare it between ranks."""
    return "none" if values is None else f"{len(values)} numbers with checksum {zlib.crc32(values.tobytes()):08x}"


def checked_sizes(sizes, samples: int) -> np.ndarray:
    """(samples,) float64. Raises ValueError for another shape, or a size that is not finite and above 0."""
    if sizes is None:
        return np.ones(samples)
    sizes = np.asarray(sizes, float)
    if sizes.shape != (samples,):
        raise ValueError(
            f"sizes of shape {sizes.shape} were given for {samples} samples; allowed is one number a sample"
        )
    if not (np.isfinite(sizes) & (sizes > 0)).all():
        at = int(np.flatnonzero(~(np.isfinite(sizes) & (sizes > 0)))[0])
        raise ValueError(f"sizes[{at}] = {sizes[at]}; every size is a finite number above 0")
    return sizes


def batch_and_strategy(batch_size, strategy, window, ranks: int):
    """(global batch, strategy object) of what the user gave. Raises ValueError."""
    from ..balance import make

    if np.ndim(batch_size):
        shares = tuple(int(share) for share in batch_size)
        if len(shares) != ranks:
            raise ValueError(f"{len(shares)} batch sizes were given for {ranks} ranks; give one for each rank")
        if min(shares) < 0 or sum(shares) < 1:
            raise ValueError(f"batch sizes {shares} were given; none may be negative and one must be above 0")
        return sum(shares), make("even", shares=shares)
    if int(batch_size) < 1:
        raise ValueError(f"batch_size={batch_size} was given; allowed is a global batch of at least 1 sample")
    strategy = strategy or os.environ.get("CHRONICA_STRATEGY", "chronica")
    window = window or os.environ.get("CHRONICA_WINDOW")
    return int(batch_size), make(strategy, **({"window": int(window)} if window else {}))


def world_of(ranks: list[dict], max_samples, batch: int) -> World:
    """Ranks, memory caps, threads and hosts for the planner. Raises ValueError for caps that the batch does not fit."""
    hosts = {name: number for number, name in enumerate(dict.fromkeys(rank["host"] for rank in ranks))}
    threads, cores = np.array([[rank["threads"], len(rank["affinity"])] for rank in ranks]).T
    if max_samples is not None:
        max_samples = np.asarray(max_samples)
        if max_samples.shape != (len(ranks),) or max_samples.min() < 1 or max_samples.sum() < batch:
            raise ValueError(
                f"max_samples={max_samples.tolist()} was given for {len(ranks)} ranks and a global batch of {batch}; "
                f"give one number of at least 1 for each rank, together at least the batch"
            )
    where = np.array([hosts[rank["host"]] for rank in ranks])
    return World(len(ranks), max_count=max_samples, threads=threads, max_threads=cores, hosts=where)
