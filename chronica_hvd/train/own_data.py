"""Ranks that each have data of their own: one numbering for all, a ghost for who has none, and moves between epochs."""

from __future__ import annotations

import warnings

import numpy as np


class OwnData:
    """A rank's own samples under their numbers in the whole; number -1 is the ghost.

    The ghost is a sample for steps in which the rank has none: Horovod's reductions need every rank, and a forward
    pass needs a sample of the right shape. It weighs nothing.
    """

    def __init__(self, session, data, counts: list[int]):
        self.session, self.data = session, data
        first = sum(counts[: session.rank])
        self.at = {first + index: index for index in range(counts[session.rank])}  # number -> the data set's own index
        giver = int(np.argmax(counts))
        lacking = min(counts) == 0
        offered = session.allgather(data[0] if lacking and session.rank == giver else None)[giver] if lacking else None
        self.ghost = data[0] if self.at else offered
        if not self.at:
            host = session.ranks[session.rank]["host"]
            warnings.warn(f"rank {session.rank} on {host} has no data; it takes part with weight 0", stacklevel=3)

    def __len__(self) -> int:
        return len(self.at)

    def __getitem__(self, number: int):
        return self.ghost if number < 0 else self.data[self.at[number]]

    def move(self, before: np.ndarray, after: np.ndarray) -> None:
        """Give and take what changes owners; before, after: (n,) rank of each sample. Called by all ranks."""
        me, ranks = self.session.rank, range(self.session.size)
        going = np.flatnonzero((before == me) & (after != me))
        parcels: list[list[tuple]] = [[] for _ in ranks]
        for number in going.tolist():
            parcels[after[number]].append((number, self.data.give(self.at.pop(number))))
        for parcel in self.session.exchange(parcels):
            self.at.update((number, self.data.take(sample)) for number, sample in parcel)


def check_can_move(data, placement: str, ends: str) -> None:
    """Raises ValueError where samples cannot move between ranks."""
    if placement != "local" or ends != "last":
        raise ValueError(
            f"migrate=True was given with placement={placement!r} and ends={ends!r}; samples move between ranks that "
            f"own them and use all: placement='local', ends='last'"
        )
    if missing := [name for name in ("give", "take") if not callable(getattr(data, name, None))]:
        raise ValueError(
            f"migrate=True needs a data set with give(index), which returns a sample and forgets it, and take(sample), "
            f"which keeps it and returns its index; {type(data).__name__} has no {' and no '.join(missing)}"
        )
