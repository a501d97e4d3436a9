"""Laws given as text: sample sizes (``gamma:45:64``, a file) and noise (``bernoulli:0.1:10``, ``fault:2:3@50-90``)."""

from __future__ import annotations

import numpy as np

SIZE_LAWS = (
    "normal:MEAN:SD",
    "gamma:MEAN:SD",
    "lognormal:MEAN:SD",
    "constant:SIZE",
    "FILE (.npy or one number a line)",
)
NOISE_LAWS = ("bernoulli:P:FACTOR", "shiftexp:ALPHA", "pareto:SHAPE", "fault:RANK:FACTOR@STEP-STEP")


def draw_sizes(law: str, samples: int, rng: np.random.Generator) -> np.ndarray:
    """Sizes of ``samples`` samples, (n,) size units, at least 1 from a law; a file's own numbers as they are.

    Raises ValueError that lists the laws.
    """
    name, *numbers = law.split(":")
    try:
        values = [float(number) for number in numbers]
        if name == "constant":
            (size,) = values
            return np.full(samples, size)
        if name in ("normal", "gamma", "lognormal"):
            mean, deviation = values
            return np.maximum(1.0, _draw(name, mean, deviation, samples, rng))
        return np.load(law).astype(float) if law.endswith(".npy") else np.loadtxt(law, ndmin=1)
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"sizes given as {law!r} ({error}); allowed are {', '.join(SIZE_LAWS)}") from None


def _draw(name: str, mean: float, deviation: float, samples: int, rng: np.random.Generator) -> np.ndarray:
    if deviation == 0:
        return np.full(samples, mean)
    if name == "normal":
        return rng.normal(mean, deviation, samples)
    if name == "gamma":
        shape = (mean / deviation) ** 2
        return rng.gamma(shape, mean / shape, samples)
    sigma2 = np.log1p((deviation / mean) ** 2)
    return rng.lognormal(np.log(mean) - sigma2 / 2, np.sqrt(sigma2), samples)


def parse_noise(law: str):
    """``factors(step, ranks, rng) -> (ranks,)``: how many times longer each rank computes in that step.

    Raises ValueError that lists the laws.
    """
    name, _, rest = law.partition(":")
    try:
        if name == "bernoulli":
            chance, factor = map(float, rest.split(":"))
            return lambda step, ranks, rng: np.where(rng.random(ranks) < chance, factor, 1.0)
        if name == "shiftexp":
            alpha = float(rest)
            return lambda step, ranks, rng: 1 - alpha + alpha * rng.exponential(1.0, ranks)
        if name == "pareto":
            shape = float(rest)  # scaled to a mean of 1
            return lambda step, ranks, rng: (1 + rng.pareto(shape, ranks)) * (shape - 1) / shape
        if name == "fault":
            who, _, steps = rest.partition("@")
            rank, factor = int(who.split(":")[0]), float(who.split(":")[1])
            first, last = map(int, steps.split("-"))
            return lambda step, ranks, rng: np.where((np.arange(ranks) == rank) & (first <= step <= last), factor, 1.0)
    except (ValueError, IndexError):
        pass
    raise ValueError(f"noise given as {law!r}; allowed are {', '.join(NOISE_LAWS)}")
