"""Step time over stock Horovod when there is nothing to balance: equal ranks, equal sizes, 4 million parameters.

    python tests/bench/overhead.py [-np 2] [--quick] [--json FILE]

Both run in one job, in blocks of steps that take turns, each with its own model, data loader and optimizer; the
figure is the median over pairs of neighbouring blocks.
"""

import argparse
import json
import subprocess
import sys
import time

import numpy as np


def network(torch):
    """Three layers, 4.2 million parameters."""
    torch.manual_seed(0)
    layer = torch.nn.Linear
    return torch.nn.Sequential(layer(784, 1536), torch.nn.ReLU(), layer(1536, 1792), torch.nn.ReLU(), layer(1792, 128))


def steps_of(loader, model, optimizer, loss_of, epochs):
    """Endless steps of an ordinary training loop; yields after each."""
    for epoch in range(epochs):
        loader.set_epoch(epoch) if hasattr(loader, "set_epoch") else loader.sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            loss_of(model(x), y).backward()
            optimizer.step()
            yield


def turns(hvd, runs: dict, blocks: int, block: int) -> dict[str, list[float]]:
    """Let the runs take turns in blocks of steps; seconds a step of each block, without the first, which warms up."""
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(blocks + 1):
        for name in sorted(runs, reverse=turn % 2 == 0):
            hvd.barrier()
            begun = time.perf_counter()
            for _ in range(block):
                next(runs[name])
            hvd.barrier()
            if turn:
                seconds[name].append((time.perf_counter() - begun) / block)
    return seconds


def inside(blocks: int, block: int, batch: int, path: str | None) -> None:
    """The job of one rank."""
    import horovod.torch as hvd
    import torch

    import chronica_hvd as chronica

    chronica.init()
    data = torch.utils.data.TensorDataset(torch.randn(batch * block, 784), torch.randint(128, (batch * block,)))
    loss_of = torch.nn.functional.cross_entropy
    epochs = blocks + 2
    sampler = torch.utils.data.DistributedSampler(data, hvd.size(), hvd.rank())
    stock_loader = torch.utils.data.DataLoader(data, batch // hvd.size(), sampler=sampler)
    ours_loader = chronica.DataLoader(data, batch)
    runs = {}
    for name, loader, wrap in (
        ("stock", stock_loader, hvd.DistributedOptimizer),
        ("chronica", ours_loader, chronica.DistributedOptimizer),
    ):
        model = network(torch)
        parameters = [(f"{name}.{key}", value) for key, value in model.named_parameters()]
        optimizer = wrap(torch.optim.SGD(model.parameters(), lr=1e-3), parameters)
        runs[name] = steps_of(loader, model, optimizer, loss_of, epochs)
    seconds = turns(hvd, runs, blocks, block)
    if hvd.rank() == 0:
        report(seconds, hvd.size(), path)


def report(seconds: dict, ranks: int, path: str | None) -> None:
    """Print the table a person reads; write the JSON."""
    stock, ours = (np.array(seconds[name]) for name in ("stock", "chronica"))
    ratio = ours / stock
    result = {
        "ranks": ranks,
        "stock_step_ms": 1e3 * float(np.median(stock)),
        "chronica_step_ms": 1e3 * float(np.median(ours)),
        "ratio": float(np.median(ratio)),
        "ratio_quartiles": [float(q) for q in np.quantile(ratio, (0.25, 0.75))],
        "pairs": len(ratio),
    }
    low, high = result["ratio_quartiles"]
    print(
        f"{ranks} ranks: stock {result['stock_step_ms']:.2f} ms, chronica {result['chronica_step_ms']:.2f} ms a step; "
        f"ratio {result['ratio']:.4f} (quartiles {low:.3f} to {high:.3f} of {len(ratio)} pairs)"
    )
    if path:
        with open(path, "w") as file:
            json.dump(result, file, indent=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-np", type=int, default=2)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--batch", type=int, default=128, help="global batch")
    parser.add_argument("--json")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    blocks, block = (12, 10) if args.quick else (40, 20)
    if args.inside:
        return inside(blocks, block, args.batch, args.json)
    command = [
        sys.executable,
        "-m",
        "chronica_hvd.cli",
        "run",
        "-np",
        str(args.np),
        "--",
        sys.executable,
        __file__,
    ]
    sys.exit(subprocess.call([*command, "--inside", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
