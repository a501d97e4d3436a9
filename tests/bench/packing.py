"""How near the limit every strategy packs an epoch, on laws of sizes from none to extreme, and how fast we plan.

    python tests/bench/packing.py [--quick] [--json FILE]

13,320 samples of mean 45, 4 a rank in a global batch, exact profiles, intercept 0. Every figure is the epoch's time
over its lower bound: all the work on all the speed, or the biggest sample alone. Ours are "fixed" and "free" with
their windows; after the stroke stands the same time over what can be proved for that window and count of samples
(``lower_bound`` with ``most``): what is left there is all that a better packing could ever gain.
"""

import argparse
import json
import time

import numpy as np

from chronica_hvd.balance import STRATEGIES, make
from chronica_hvd.packing import COUNTS, lower_bound, pack
from chronica_hvd.records import Pool, Profile, StepRecord, World

SAMPLES, MEAN, PER_RANK = 13_320, 45, 4
WINDOWS = (1, 4, 16, 64)


def draw(law, deviation, samples=SAMPLES, seed=0):
    """Whole sizes of at least 1, (samples,)."""
    rng = np.random.default_rng(seed)
    if deviation == 0:
        sizes = np.full(samples, float(MEAN))
    elif law == "normal":
        sizes = rng.normal(MEAN, deviation, samples)
    elif law == "gamma":
        sizes = rng.gamma((MEAN / deviation) ** 2, deviation**2 / MEAN, samples)
    else:
        spread = np.sqrt(np.log1p((deviation / MEAN) ** 2))
        sizes = rng.lognormal(np.log(MEAN) - spread**2 / 2, spread, samples)
    return np.maximum(1, np.rint(sizes))


def machines(ranks, kind):
    """Profiles: all equal, or the second half 2 times slower."""
    slope = np.ones(ranks)
    slope[ranks // 2 :] *= 2 if kind == "half" else 1
    return Profile(slope, np.zeros(ranks))


def epoch_s(strategy, sizes, batch, profile):
    """Seconds of one epoch of a strategy that is told what every step took."""
    world, seconds = World(len(profile.slope)), 0.0
    state, zero = strategy.init(world, 0), np.zeros(len(profile.slope))
    drawn = strategy.window * batch or len(sizes)
    for start in range(0, len(sizes), drawn):
        ids = np.arange(start, min(start + drawn, len(sizes)))
        pool = Pool(ids, sizes[ids], batch)
        while len(pool.ids):
            plans, pool, state = strategy.plan(state, world, profile, pool)
            for plan in plans:
                took = profile.seconds(plan.load)
                seconds += took.max()
                state = strategy.observe(state, StepRecord(0, 0, plan.count, plan.load, took, zero, zero, zero, zero))
    return seconds


def ours(sizes, batch, profile, count, window):
    """Seconds of the epoch as packed, and the seconds that can be proved for this window and count."""
    ranks, steps = len(profile.slope), -(-len(sizes) // batch)
    cells = pack(sizes, batch, World(ranks), profile, count, window)
    load = np.bincount(cells, sizes, minlength=steps * ranks).reshape(steps, ranks)
    edges = np.linspace(0, steps, max(steps // window, 1) + 1).astype(int)
    most = batch * COUNTS[count]
    proved = sum(lower_bound(sizes[a * batch : b * batch], profile, b - a, most) for a, b in zip(edges[:-1], edges[1:]))
    return profile.seconds(load).max(axis=1).sum(), proved


def row(ranks, kind, law, deviation):
    """One line of the table as a dict."""
    sizes, profile, batch = draw(law, deviation), machines(ranks, kind), PER_RANK * ranks
    bound = lower_bound(sizes, profile)
    line = {"ranks": ranks, "machines": kind, "law": law, "deviation": deviation, "realised_dif": sizes.std(ddof=1)}
    others = [name for name in ("even", "boa", "lb_bsp") if name in STRATEGIES]
    line["over_bound"] = {name: epoch_s(make(name), sizes, batch, profile) / bound for name in others}
    for pick in ("nearest", "fit"):
        line["over_bound"][pick] = epoch_s(make("chronica", pick=pick), sizes, batch, profile) / bound
    line["over_proved"] = {}
    for count in COUNTS:
        for window in WINDOWS:
            seconds, proved = ours(sizes, batch, profile, count, window)
            line["over_bound"][f"{count} w{window}"] = seconds / bound
            line["over_proved"][f"{count} w{window}"] = seconds / proved
    return line


def shown(line):
    """One line of the table as text."""
    head = f"{line['ranks']:5} {line['machines']:6}{line['law']:10}{line['deviation']:4}{line['realised_dif']:8.1f}"
    proved = line["over_proved"]
    cells = [f"{v:8.3f}" + (f"/{proved[k]:.3f}" if k in proved else "") for k, v in line["over_bound"].items()]
    return head + "".join(cells)


def heading(line):
    """Names of the columns."""
    names = [f"{name:>14}" if name in line["over_proved"] else f"{name:>8}" for name in line["over_bound"]]
    return f"{'ranks':>5} {'mach.':6}{'law':10}{'sd':>4}{'DIF':>8}" + "".join(names)


def speed(samples, ranks, window, rounds, law="normal", repeats=3):
    """Processor seconds to plan so many samples, the best of some repeats, and how near the limit."""
    sizes, profile, batch = draw(law, 64, samples), machines(ranks, "half"), PER_RANK * ranks
    best = np.inf
    for _ in range(repeats):
        start = time.process_time()
        cells = pack(sizes, batch, World(ranks), profile, "fixed", window, rounds)
        best = min(best, time.process_time() - start)
    load = np.bincount(cells, sizes, minlength=-(-samples // batch) * ranks).reshape(-1, ranks)
    over = profile.seconds(load).max(axis=1).sum() / lower_bound(sizes, profile)
    return {"samples": samples, "ranks": ranks, "window": window, "rounds": rounds, "law": law, "cpu_s": best,
            "over_bound": over}  # fmt: skip


def cases(quick):
    """(ranks, machines, law, deviation) of every line."""
    deviations = (0, 16, 64) if quick else (0, 4, 8, 16, 32, 64, 212, 540)
    for ranks in (8,) if quick else (8, 32, 1000):
        for kind in ("equal", "half"):
            for law in ("normal", "gamma", "lognormal"):
                yield from ((ranks, kind, law, sd) for sd in deviations if sd or law == "normal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="8 ranks, three deviations, a tenth of the samples")
    parser.add_argument("--json", metavar="FILE", help="write every figure there")
    args = parser.parse_args()
    lines = []
    for case in cases(args.quick):
        lines.append(row(*case))
        if len(lines) == 1:
            print(heading(lines[0]))
        print(shown(lines[-1]), flush=True)
    scale = 10 if args.quick else 1
    speeds = [speed(n // scale, 64, 16, 8) for n in (10_000, 100_000, 1_000_000)]
    speeds += [speed(512, 4, 16, 24), speed(1_000_000 // scale, 64, 16, 8, "gamma")]
    speeds += [speed(10_000_000 // scale, 1000, 16, 8, repeats=1)]
    print("\nsamples  ranks  window  rounds  law       cpu_s   over_bound")
    for s in speeds:
        print("{samples:8} {ranks:5} {window:6} {rounds:7}  {law:8}{cpu_s:8.4f} {over_bound:9.4f}".format(**s))
    if args.json:
        with open(args.json, "w") as file:
            json.dump({"epochs": lines, "planning": speeds}, file, indent=1)


if __name__ == "__main__":
    main()
