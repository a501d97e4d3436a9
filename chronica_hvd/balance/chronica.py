"""Chronica, version one: packing of a window."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..packing import pack
from ..records import Pool, Profile, World
from .even import Even, step_plan


@dataclass(frozen=True)
class Chronica(Even):
    window: int = 16  # steps planned together
    pick: str = "pack"
    count: str = "fixed"

    def plan(self, state, world: World, profile: Profile, pool: Pool):
        step, rank = np.divmod(pack(pool.sizes, pool.batch, world, profile, self.count), world.size)
        plans = []
        for k in range(pool.steps):
            mine = step == k
            plans.append(step_plan(pool.ids[mine], pool.sizes[mine], rank[mine], profile))
        return plans, Pool(pool.ids[:0], pool.sizes[:0], pool.batch), state
