"""Real slowness, nothing emulated: two ranks on a core each; a busy process takes half the core of one of them.

    python tests/bench/contended.py [--quick] [--json FILE]

The planner finds the ratio by itself. Both splits run in one job, in blocks of steps that take turns; the figure is
the median over pairs of neighbouring blocks. An even split lasts as long as half the batch on half a core, the best
one as long as the batch on one and a half: 1.5 times faster is the limit.
"""

import argparse
import json
import os
import subprocess
import sys

import numpy as np
from overhead import network, steps_of, turns

BUSY = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile os.getppid() == int(sys.argv[2]): pass"


def inside(blocks: int, block: int, batch: int, path: str | None) -> None:
    """The job of one rank."""
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    core = sorted(os.sched_getaffinity(0))[rank]
    os.sched_setaffinity(0, {core})
    neighbour = subprocess.Popen([sys.executable, "-c", BUSY, str(core), str(os.getpid())]) if rank == 1 else None
    import horovod.torch as hvd
    import torch

    import chronica_hvd as chronica

    chronica.init()
    data = torch.utils.data.TensorDataset(torch.randn(batch * block, 784), torch.randint(128, (batch * block,)))
    runs = {}
    for name in ("even", "chronica"):
        model = network(torch)
        parameters = [(f"{name}.{key}", value) for key, value in model.named_parameters()]
        optimizer = chronica.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1e-3), parameters)
        loader = chronica.DataLoader(data, batch, strategy=name)
        runs[name] = steps_of(loader, model, optimizer, torch.nn.functional.cross_entropy, blocks + 2)
    seconds = turns(hvd, runs, blocks, block)
    if neighbour:
        neighbour.kill()
        neighbour.wait()
    if rank == 0:
        report(seconds, loader.session.weight / batch, path)


def report(seconds: dict, share: float, path: str | None) -> None:
    """Print the figures; write the JSON."""
    even, ours = (np.array(seconds[name]) for name in ("even", "chronica"))
    ratio = even / ours
    result = {
        "even_step_ms": 1e3 * float(np.median(even)),
        "chronica_step_ms": 1e3 * float(np.median(ours)),
        "faster": float(np.median(ratio)),
        "quartiles": [float(quartile) for quartile in np.quantile(ratio, (0.25, 0.75))],
        "free_rank_share": share,
        "pairs": len(ratio),
    }
    low, high = result["quartiles"]
    print(
        f"one of two ranks has half a core: even {result['even_step_ms']:.1f} ms, chronica "
        f"{result['chronica_step_ms']:.1f} ms a step, {result['faster']:.3f} times faster (quartiles {low:.2f} to "
        f"{high:.2f} of {len(ratio)} pairs; the limit is 1.5); the free rank computed {share:.0%} of the last batch"
    )
    if path:
        with open(path, "w") as file:
            json.dump(result, file, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--batch", type=int, default=256, help="global batch")
    parser.add_argument("--json")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.inside:
        return inside(*((6, 10) if args.quick else (20, 20)), args.batch, args.json)
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("contended: this process may use one core only; two are needed")
    line = [sys.executable, "-m", "chronica_hvd.cli", "run", "-np", "2", "--", sys.executable, __file__, "--inside"]
    sys.exit(subprocess.call([*line, *sys.argv[1:]]))


if __name__ == "__main__":
    main()
