"""The papers' tables again, on the virtual cluster: Chronica's Table IV and its heterogeneous headline figures.

    python tests/bench/papers.py [--quick] [--json FILE] [--write docs/results.md]

SIMULATED machines: no GPU, no network; time is proportional to work. What can be compared is the ratio of strategies
on the same samples, not seconds.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from chronica_hvd.sim.cluster import Cluster
from chronica_hvd.sim.compare import Question, answer

DIFS = (0, 4, 8, 16, 32, 64)
PAPER = {  # Chronica, Table IV: s per epoch, ResNet-50, 8 equal GPUs; TensorFlow is our "even"
    "even": (234, 263, 295, 334, 423, 578),
    "boa": (232, 242, 251, 283, 343, 426),
    "ep4ddl": (235, 260, 289, 338, 431, 584),
    "chronica": (231, 235, 236, 237, 243, 247),
}
HEADLINES = ((8, "2.55 (thesis)"), (32, "3.19 (paper)"))  # workers, and times faster than EP4DDL


def table_four(law: str, samples: int) -> dict[str, list[float]]:
    """Time per unit of work over that of ``chronica`` without imbalance, for each DIF."""
    ratios: dict[str, list[float]] = {name: [] for name in PAPER}
    base = None
    for dif in DIFS:
        report = answer(Question(Cluster(np.ones(8)), f"{law}:45:{dif}", samples, 32, tuple(PAPER)))
        for name, facts in report["strategies"].items():
            ratios[name].append(facts["over_ideal"])
        base = base or report["strategies"]["chronica"]["over_ideal"]
    return {name: [value / base for value in values] for name, values in ratios.items()}


def headline(workers: int, samples: int) -> dict:
    """Half of the workers twice as fast, gamma sizes with DIF 64, four samples a worker and step."""
    cluster = Cluster(np.repeat([1.0, 2.0], workers // 2))
    names = ("even", "lb_bsp", "boa", "ep4ddl", "chronica")
    report = answer(Question(cluster, "gamma:45:64", samples, 4 * workers, names))
    ours = report["strategies"]["chronica"]["epoch_s"]
    faster = {name: facts["epoch_s"] / ours for name, facts in report["strategies"].items()}
    over_ideal = report["strategies"]["chronica"]["over_ideal"]
    return {"workers": workers, "dif": report["realised_dif"], "over_ideal": over_ideal, "faster_than": faster}


def markdown(tables: dict, headlines: list[dict]) -> str:
    """The tables as docs/results.md holds them."""
    lines = ["### Chronica's Table IV: time over `chronica` without imbalance, 8 equal workers, batch 32", ""]
    lines += [
        "| strategy | from | " + " | ".join(f"DIF {dif}" for dif in DIFS) + " |",
        "| --- " * (len(DIFS) + 2) + "|",
    ]
    for name, seconds in PAPER.items():
        lines.append(f"| {name} | paper | " + " | ".join(f"{s / PAPER['chronica'][0]:.2f}" for s in seconds) + " |")
        for law, ratios in tables.items():
            lines.append(f"| | {law}, simulated | " + " | ".join(f"{value:.3f}" for value in ratios[name]) + " |")
    lines += [
        "",
        "### Unequal workers, half of them twice as fast, gamma sizes: `chronica` is so many times faster than",
        "",
    ]
    names = list(headlines[0]["faster_than"])[:-1]
    lines += ["| workers | realised DIF | chronica over ideal | " + " | ".join(names) + " | paper, over ep4ddl |"]
    lines += ["| --- " * (len(names) + 4) + "|"]
    for row, (_, paper) in zip(headlines, HEADLINES):
        cells = " | ".join(f"{row['faster_than'][name]:.2f}" for name in names)
        lines.append(f"| {row['workers']} | {row['dif']:.1f} | {row['over_ideal']:.4f} | {cells} | {paper} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    parser.add_argument("--write", type=Path, help="replace the tables between the marks in this file")
    args = parser.parse_args()
    samples = 3_200 if args.quick else 13_320
    tables = {law: table_four(law, samples) for law in ("normal", "gamma")}
    headlines = [headline(workers, samples) for workers, _ in HEADLINES]
    text = markdown(tables, headlines)
    print(text)
    if args.json:
        Path(args.json).write_text(json.dumps({"table_four": tables, "headlines": headlines}, indent=1))
    if args.write:
        before, _, rest = args.write.read_text().partition("<!-- papers -->\n")
        args.write.write_text(f"{before}<!-- papers -->\n{text}<!-- end -->{rest.partition('<!-- end -->')[2]}")


if __name__ == "__main__":
    main()
