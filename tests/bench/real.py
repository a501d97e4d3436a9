"""Real Horovod on EMULATED devices against the simulator, strategy by strategy: is an epoch as long as it says?

    python tests/bench/real.py [--quick] [--json FILE]

Four ranks, speeds 1, 1, 1/2 and 1/3, gamma sizes of DIF 64, global batch 32. A device sleeps until a machine of its
speed would be done; loader, plans, weights and reductions are real. Each strategy runs one epoch.
"""

import argparse
import json
import os
import subprocess
import sys
import time

import numpy as np

from chronica_hvd.balance import STRATEGIES
from chronica_hvd.planner import Planner
from chronica_hvd.records import World
from chronica_hvd.sim.cluster import Cluster, ideal_s, simulate
from chronica_hvd.sim.laws import draw_sizes

SLOW = np.array([1.0, 1.0, 2.0, 3.0])  # how many times slower each rank is
UNIT_S = 8e-4  # s a size unit on a device that is not slow
BATCH = 32


def sizes_of(steps: int) -> np.ndarray:
    """(steps * BATCH,) size units."""
    return draw_sizes("gamma:45:64", steps * BATCH, np.random.default_rng(0))


def inside(steps: int, path: str) -> None:
    """The job of one rank: an epoch of each strategy, in seconds."""
    import horovod.torch as hvd
    import torch

    import chronica_hvd as chronica

    chronica.init()
    sizes, epoch_s = sizes_of(steps), {}
    for name in STRATEGIES:
        weight = torch.nn.Parameter(torch.zeros(1))
        optimizer = chronica.DistributedOptimizer(torch.optim.SGD([weight], lr=0.1), [(f"{name}.w", weight)])
        loader = chronica.DataLoader(torch.ones(len(sizes)), BATCH, sizes, weight="size", strategy=name)
        hvd.barrier()
        begun = time.perf_counter()
        for batch in loader:
            optimizer.zero_grad()
            (weight * batch).mean().backward()
            optimizer.step()
        hvd.barrier()
        epoch_s[name] = time.perf_counter() - begun
    if hvd.rank() == 0:
        with open(path, "w") as file:
            json.dump(epoch_s, file)


def report(steps: int, epoch_s: dict[str, float], path: str | None) -> None:
    """Print measured beside simulated; write the JSON."""
    sizes, cluster = sizes_of(steps), Cluster(1 / SLOW, UNIT_S)
    ideal, result = ideal_s(sizes, cluster, steps), {}
    print(f"EMULATED devices, {steps} steps; ideal {ideal:.1f} s an epoch, DIF {sizes.std(ddof=1):.0f}")
    for name, measured in epoch_s.items():
        simulated = simulate(Planner(sizes, BATCH, World(len(SLOW)), name), cluster).epoch_s
        result[name] = {"measured_s": measured, "simulated_s": simulated, "over_ideal": measured / ideal}
        print(
            f"{name:10} measured {measured:7.2f} s, simulated {simulated:7.2f} s ({measured / simulated - 1:+.1%}), "
            f"over ideal {measured / ideal:.3f}"
        )
    if path:
        with open(path, "w") as file:
            json.dump({"ideal_s": ideal, "steps": steps, "strategies": result}, file, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="40 steps instead of 200")
    parser.add_argument("--json")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    args = parser.parse_args()
    steps = 40 if args.quick else 200
    if args.inside:
        return inside(steps, args.inside)
    measured = f"real_{os.getpid()}.json"
    slow = ",".join(f"{rank}:{factor}" for rank, factor in enumerate(SLOW))
    line = [sys.executable, "-m", "chronica_hvd.cli", "run", "-np", str(len(SLOW)), "--slow", slow]
    line += ["--device-cost", str(UNIT_S), "--", sys.executable, __file__, "--inside", measured]
    code = subprocess.call(line + (["--quick"] if args.quick else []))
    if code:
        sys.exit(code)
    with open(measured) as file:
        epoch_s = json.load(file)
    os.remove(measured)
    report(steps, epoch_s, args.json)


if __name__ == "__main__":
    main()
