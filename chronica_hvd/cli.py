"""The ``chronica`` command: parse, one call, print."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys

import typer

app = typer.Typer(help="Horovod training without stragglers.", no_args_is_help=True, add_completion=False)
PROGRAM = {"allow_extra_args": True, "allow_interspersed_args": False}  # what follows the options is the program's


@app.command(context_settings=PROGRAM)
def run(
    context: typer.Context,
    ranks: int = typer.Option(..., "-np", "-n", "--ranks", min=1, help="Number of ranks."),
    hosts: str = typer.Option(None, "-H", "--hosts", help="HOST:SLOTS,... of several hosts."),
    hostfile: str = typer.Option(None, help="File with the hosts, in the form of the MPI found."),
    slow: str = typer.Option(None, help="EMULATE slower devices: RANK:FACTOR,... as in 2:3.0."),
    device_cost: float = typer.Option(None, help="EMULATE devices that take so many seconds a size unit."),
    strategy: str = typer.Option(None, help="Balance strategy where the script names none."),
    window: int = typer.Option(None, min=0, help="Steps planned together where the script names none; 0: an epoch."),
    trace: str = typer.Option(None, help="Trace file where the script names none."),
    timeout: float = typer.Option(None, help="End the job after so many seconds (exit code 124)."),
    rsh: str = typer.Option(None, help="Command that reaches other hosts, instead of ssh."),
    nic: str = typer.Option(None, help="Network interface for MPI."),
    mpi: str = typer.Option("", help="Further words for mpirun."),
    show: bool = typer.Option(False, help="Print the command and do not run it."),
) -> None:
    """Run a training script on several ranks: chronica run -np 4 -- python train.py"""
    from . import launcher, runner

    program = context.args[1:] if context.args[:1] == ["--"] else context.args
    if not program:
        raise typer.BadParameter("no program was given; write it last, as in: chronica run -np 4 -- python train.py")
    given = {"CHRONICA_RANKS": ranks, "CHRONICA_SLOW": _checked_slow(slow, ranks), "CHRONICA_WINDOW": window,
             "CHRONICA_DEVICE_COST": _checked_cost(device_cost), "CHRONICA_STRATEGY": _checked_strategy(strategy),
             "CHRONICA_TRACE": trace}  # fmt: skip
    settings = {name: str(value) for name, value in given.items() if value is not None}
    os.environ.update(settings)
    try:
        mpirun = launcher.find_mpirun()
        version = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
        line, added = launcher.command(ranks, program, mpirun=mpirun, version=version, hosts=hosts, hostfile=hostfile,
                                       rsh=rsh, nic=nic, extra=shlex.split(mpi))  # fmt: skip
    except (FileNotFoundError, ValueError) as error:
        sys.exit(f"chronica run: {error}")
    _announce(line, settings | added, ranks, launcher.slots(hosts) if hosts else None if hostfile else launcher.cores())
    if not show:
        sys.exit(runner.run(line, added, ranks, timeout))


@app.command()
def doctor(as_json: bool = typer.Option(False, "--json", help="One JSON object instead of a table.")) -> None:
    """Check the installation; exit code 1 and the remedy for each thing wrong."""
    from . import doctor as checks

    sys.exit(checks.main(as_json))


@app.command()
def simulate(
    workers: int = typer.Option(None, min=1, help="Virtual machines; as many as --speeds names if not given."),
    speeds: str = typer.Option(None, help="Relative speeds, as in 1,1,2,2 (more is faster); equal if not given."),
    machines: str = typer.Option(None, help="Take the machines from this recorded trace.jsonl instead."),
    sizes: str = typer.Option("gamma:45:64", help="normal|gamma|lognormal:MEAN:SD, constant:SIZE, or a file."),
    samples: int = typer.Option(13_320, min=1, help="Samples of an epoch, where --sizes is a law."),
    batch: int = typer.Option(32, min=1, help="Global batch, samples."),
    strategy: str = typer.Option(None, help="Strategies, as in even,chronica; all if not given."),
    window: int = typer.Option(None, min=1, help="Steps that chronica plans together."),
    noise: list[str] = typer.Option(
        [], help="bernoulli:P:FACTOR, shiftexp:ALPHA, pareto:SHAPE, fault:RANK:FACTOR@STEP-STEP; may be repeated."
    ),
    unit_cost: float = typer.Option(1e-3, min=0, help="s per size unit at speed 1."),
    step_cost: float = typer.Option(0.0, min=0, help="s per step whatever the load."),
    gradient_bytes: float = typer.Option(0.0, min=0, help="Bytes reduced in a step (ring all-reduce)."),
    latency: float = typer.Option(0.0, min=0, help="s per message."),
    bandwidth: float = typer.Option(1e9, min=1, help="Bytes per s of a link."),
    serial: float = typer.Option(1.0, min=0, max=1, help="Part of the compute that more CPU threads do not speed up."),
    max_threads: int = typer.Option(1, min=1, help="CPU threads a machine may use (for ep4ddl)."),
    epochs: int = typer.Option(1, min=1),
    seed: int = typer.Option(0),
    as_json: bool = typer.Option(False, "--json", help="One JSON object instead of a table."),
) -> None:
    """Run the balance strategies on a virtual cluster; nothing is trained and no other machine is needed."""
    from .sim.compare import Question, answer, cluster_of
    from .sim.tables import print_strategies

    try:
        cluster = cluster_of(workers, speeds, machines, noise, unit_s=unit_cost, step_s=step_cost, serial=serial,
                             gradient_bytes=gradient_bytes, latency_s=latency, bandwidth=bandwidth)  # fmt: skip
        names = {"strategies": tuple(strategy.split(","))} if strategy else {}
        settings = {"window": window} if window else {}
        report = answer(Question(cluster, sizes, samples, batch, **names, settings=settings, epochs=epochs, seed=seed,
                                 max_threads=max_threads))  # fmt: skip
    except (ValueError, OSError) as error:
        sys.exit(f"chronica simulate: {error}")
    print(json.dumps(report)) if as_json else print_strategies(report)


@app.command()
def plan(
    profile: str = typer.Option(..., help="trace.jsonl of a short recorded run."),
    batch: int = typer.Option(None, min=1, help="Another global batch."),
    strategy: str = typer.Option(None, help="Another strategy."),
    window: int = typer.Option(None, min=1, help="Another window of chronica."),
    drop: list[int] = typer.Option([], help="Leave this rank out; may be repeated."),
    add: list[int] = typer.Option([], help="One more rank like this one; may be repeated."),
    price: float = typer.Option(0.0, min=0, help="Price per rank and hour."),
    as_json: bool = typer.Option(False, "--json", help="One JSON object instead of a table."),
) -> None:
    """What would another batch, strategy, window or set of ranks take? Forecast from one recorded run."""
    from .sim.tables import print_forecasts
    from .sim.whatif import Change, forecast, missed, recording_of
    from .watch.trace import read

    try:
        recording = recording_of(*read(profile))
        change = Change(batch, strategy, window, tuple(drop), tuple(add), price)
        report = {
            "missed": missed(recording),
            "recorded": forecast(recording, Change(price=price)),
            "changed": forecast(recording, change),
        }
    except (ValueError, OSError) as error:
        sys.exit(f"chronica plan: {error}")
    print(json.dumps(report)) if as_json else print_forecasts(report)


def _checked_slow(slow: str | None, ranks: int) -> str | None:
    from .train.emulate import parse_slow

    try:
        factors = parse_slow(slow or "")
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if beyond := [rank for rank in factors if rank >= ranks]:
        raise typer.BadParameter(
            f"--slow names rank {beyond[0]}, the job has ranks 0 to {ranks - 1}; name one of these, or raise -np"
        )
    if float("inf") in factors.values():
        raise typer.BadParameter(f"--slow {slow} never ends; allowed are finite factors above 0, as in 2:3.0")
    return slow


def _checked_cost(cost: float | None) -> float | None:
    if cost is not None and not 0 < cost < float("inf"):
        raise typer.BadParameter(
            f"--device-cost {cost} was given; allowed is a number of seconds a size unit above 0, as in 2e-5"
        )
    return cost


def _checked_strategy(name: str | None) -> str | None:
    if name is not None:
        from .balance import STRATEGIES

        if name not in STRATEGIES:
            raise typer.BadParameter(f"--strategy {name} was given; allowed are {', '.join(STRATEGIES)}")
    return name


def _announce(line: list[str], settings: dict[str, str], ranks: int, room: int | None) -> None:
    """The command, and what is out of the ordinary. room: ranks that have a core of their own, where known."""
    print(*(f"{name}={_quoted(value)}" for name, value in settings.items()), *map(_quoted, line), file=sys.stderr)
    if room is not None and ranks > room:
        print(f"chronica run: {ranks} ranks on {room} cores or slots, oversubscribed", file=sys.stderr)
    emulated = {name: os.environ[name] for name in ("CHRONICA_SLOW", "CHRONICA_DEVICE_COST") if os.environ.get(name)}
    if emulated:
        print(f"chronica run: EMULATED devices, {' '.join(f'{k}={v}' for k, v in emulated.items())}", file=sys.stderr)
    sys.stderr.flush()


def _quoted(word: str) -> str:
    """For the shell, on one line."""
    if "\n" not in word:
        return shlex.quote(word)
    return "$'" + word.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def main() -> None:
    """Entry point of the ``chronica`` command."""
    app()


if __name__ == "__main__":
    main()
