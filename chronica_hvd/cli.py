"""The ``chronica`` command: parse, one call, print."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys

import typer

app = typer.Typer(help="Horovod training without stragglers.", no_args_is_help=True, add_completion=False)
PROGRAM = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}


@app.command(context_settings=PROGRAM)
def run(
    context: typer.Context,
    ranks: int = typer.Option(..., "-np", "--ranks", min=1, help="Number of ranks."),
    hosts: str = typer.Option(None, "-H", "--hosts", help="HOST:SLOTS,... of several hosts."),
    hostfile: str = typer.Option(None, help="File with the hosts, in the form of the MPI found."),
    slow: str = typer.Option(None, help="EMULATE slower devices: RANK:FACTOR,... as in 2:3.0."),
    device_cost: float = typer.Option(None, min=0, help="EMULATE devices that take so many seconds a size unit."),
    strategy: str = typer.Option(None, help="Balance strategy where the script names none."),
    window: int = typer.Option(None, min=0, help="Steps planned together where the script names none."),
    trace: str = typer.Option(None, help="Trace file where the script names none."),
    timeout: float = typer.Option(None, help="End the job after so many seconds (exit code 124)."),
    rsh: str = typer.Option(None, help="Command that reaches other hosts, instead of ssh."),
    nic: str = typer.Option(None, help="Network interface for MPI."),
    mpi: str = typer.Option("", help="Further words for mpirun."),
    show: bool = typer.Option(False, help="Print the command and do not run it."),
) -> None:
    """Run a training script on several ranks: chronica run -np 4 -- python train.py"""
    from . import launcher

    program = context.args[1:] if context.args[:1] == ["--"] else context.args
    if not program:
        raise typer.BadParameter("no program was given; write it last, as in: chronica run -np 4 -- python train.py")
    given = {"CHRONICA_SLOW": _checked_slow(slow, ranks), "CHRONICA_DEVICE_COST": device_cost,
             "CHRONICA_STRATEGY": strategy, "CHRONICA_WINDOW": window, "CHRONICA_TRACE": trace}  # fmt: skip
    os.environ.update({name: str(value) for name, value in given.items() if value is not None})
    try:
        mpirun = launcher.find_mpirun()
        version = subprocess.run([mpirun, "--version"], capture_output=True, text=True).stdout
        line, added = launcher.command(ranks, program, mpirun=mpirun, version=version, hosts=hosts, hostfile=hostfile,
                                       rsh=rsh, nic=nic, extra=shlex.split(mpi))  # fmt: skip
    except (FileNotFoundError, ValueError) as error:
        sys.exit(f"chronica run: {error}")
    _announce(line, added, ranks, bool(hosts or hostfile))
    if not show:
        sys.exit(launcher.run(line, added, timeout))


@app.command()
def doctor(as_json: bool = typer.Option(False, "--json", help="One JSON object instead of a table.")) -> None:
    """Check the installation; exit code 1 and the remedy for each thing wrong."""
    from . import doctor as checks

    sys.exit(checks.main(as_json))


def _checked_slow(slow: str | None, ranks: int) -> str | None:
    from .train.emulate import parse_slow

    try:
        beyond = [rank for rank in parse_slow(slow or "") if rank >= ranks]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    if beyond:
        raise typer.BadParameter(f"--slow names rank {beyond[0]}, the job has ranks 0 to {ranks - 1}")
    return slow


def _announce(line: list[str], added: dict[str, str], ranks: int, remote: bool) -> None:
    cores = len(os.sched_getaffinity(0))
    print(shlex.join([f"{name}={value}" for name, value in added.items()] + line), file=sys.stderr)
    if ranks > cores and not remote:
        print(f"chronica run: {ranks} ranks on {cores} cores, oversubscribed", file=sys.stderr)
    emulated = {name: os.environ[name] for name in ("CHRONICA_SLOW", "CHRONICA_DEVICE_COST") if os.environ.get(name)}
    if emulated:
        print(f"chronica run: EMULATED devices, {' '.join(f'{k}={v}' for k, v in emulated.items())}", file=sys.stderr)
    sys.stderr.flush()


def main() -> None:
    """Entry point of the ``chronica`` command."""
    app()


if __name__ == "__main__":
    main()
