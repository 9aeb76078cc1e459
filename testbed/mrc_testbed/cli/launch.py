"""launch: a program with one rank per host."""

import sys
from contextlib import ExitStack
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from mrc_testbed.cli.bench_options import listed_hosts
from mrc_testbed.cli.interruption import force_end
from mrc_testbed.cli.options import Settings, command
from mrc_testbed.cli.render import say
from mrc_testbed.cli.scenario import show_finished
from mrc_testbed.document import Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.process import is_alive
from mrc_testbed.fabric.ranks import Rank, placed_ranks, run_ranks
from mrc_testbed.fabric.rdma import RdmaTransport
from mrc_testbed.fabric.state import Phase, read_state
from mrc_testbed.scenario.spec.one_workload import one_workload_scenario
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.virtual.compute import HOW_TO_DECLARE, UNDECLARED
from mrc_testbed.virtual.run import run_virtually
from mrc_testbed.workloads.program import STAND_IN_VARIABLE, check_connected

WORKLOAD: Final = "job"

_SIGNALLED: Final = 128


class StandIn(StrEnum):
    """Backends of torch.distributed that mrc-torch can stand in for."""

    GLOO = "gloo"
    NCCL = "nccl"


def register(app: typer.Typer) -> None:
    command(app, "launch", flags=("name", "topology", "seed"), needs_root=True)(launch)


def launch(
    settings: Settings,
    arguments: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="Program and arguments.")],
    ranks: Annotated[
        int | None,
        typer.Option("--ranks", min=1, metavar="NUMBER", help="Number of ranks, on h0, h1 and so on."),
    ] = None,
    hosts: Annotated[
        str, typer.Option("--hosts", metavar="LIST", help="Hosts of the ranks: names with commas, or all.")
    ] = "all",
    stand_in: Annotated[
        StandIn | None,
        typer.Option(
            "--as", help="Give PyTorch scripts that use this backend `mrc` instead; needs mrc-torch."
        ),
    ] = None,
    transport: Annotated[
        RdmaTransport, typer.Option("--transport", help="Transport of the QPs that programs create.")
    ] = RdmaTransport.MRC,
    virtual: Annotated[
        bool,
        typer.Option(
            "--virtual",
            help="Run in virtual time: no lab, no root; for programs that communicate by mrc-torch.",
        ),
    ] = False,
    compute: Annotated[
        str | None,
        typer.Option(
            "--compute",
            metavar="TIME|FILE",
            help="With --virtual: time that each step computes, such as 100ms, or a file of "
            "`python -m mrc_torch.profile`.",
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option("--runs", metavar="FOLDER", help="With --virtual: folder of results (default: runs)."),
    ] = None,
) -> int:
    """Run a program with one rank per host, such as a training job.

    Each rank has RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as
    torchrun sets them, and its host's NIC as RDMA device mrc0. Output has the
    rank in front. When a rank fails, the others are stopped; the command names
    the rank and returns its exit status.

    In virtual time, -t names a Topology file, or a Scenario file whose fabric,
    transport and faults the program gets; time 0 of the faults is the end of
    the first step. Results and report are as of `run`.

    [bold]Examples[/bold]

      mrc-testbed launch -- python train.py
      mrc-testbed launch --ranks 4 -- sh -c 'echo rank $RANK of $WORLD_SIZE'
      mrc-testbed launch --hosts h0,h4 -- ./my-ranks
      mrc-testbed launch --as gloo -- python train.py
      mrc-testbed launch --transport rocev2 -- python train.py
      mrc-testbed launch --virtual --compute 1ms --as nccl -- python train.py
    """
    if virtual:
        return _launch_virtually(settings, arguments, ranks, hosts, stand_in, transport, compute, runs)
    for option, value in (("-t", settings.topology), ("--compute", compute), ("--runs", runs)):
        if value is not None:
            raise UsageError(f"{option}: it is for --virtual; without it, the lab that is up is used")
    given = {} if stand_in is None else {STAND_IN_VARIABLE: stand_in.value}
    with ExitStack() as stack:
        with lab.attach(settings.name) as attached:
            names = _hosts(attached, ranks, hosts)
            if stand_in is not None:
                check_connected(len(names))
            placed = stack.enter_context(placed_ranks(attached, names, arguments, given, transport))
        failure = run_ranks(placed, _write)
    if failure is None:
        return 0
    cause = _cause(attached, placed)
    others = "; the other ranks were ended" if len(placed) > 1 else ""
    say(settings.stderr, f"error: {cause}{failure}{others}")
    return _exit_status(failure.status)


def _cause(attached: Lab, ranks: list[Rank]) -> str:
    """The failure of the lab behind that of a rank, with a semicolon; empty: there is none."""
    now = read_state(attached.paths)
    if now is None or now.phase is not Phase.UP:
        return f"lab {attached.name!r} was removed; "
    agents = {process.node: process.identity for process in attached.state.processes}
    for rank in ranks:
        if agents[rank.host].is_local and not is_alive(agents[rank.host]):
            return f"the NIC agent of rank {rank.number} ({rank.host}) has died; "
    return ""


def _launch_virtually(
    settings: Settings,
    arguments: list[str],
    ranks: int | None,
    hosts: str,
    stand_in: StandIn | None,
    transport: RdmaTransport,
    compute: str | None,
    runs: Path | None,
) -> int:
    if ranks is not None and hosts != "all":
        raise UsageError("--ranks and --hosts: give one of them")
    if transport is not RdmaTransport.MRC:
        raise UsageError("--transport: in virtual time, name it in a Scenario file, and give that with -t")
    if compute is None:
        raise UsageError(f"--{UNDECLARED}", hint=HOW_TO_DECLARE)
    program: dict[str, Tree] = {
        "name": WORKLOAD,
        "kind": "program",
        "command": [*arguments],
        "hosts": ranks or listed_hosts(hosts),
        "compute": compute,
        "as": None if stand_in is None else stand_in.value,
    }
    scenario = one_workload_scenario("launch", program, topology=settings.topology, seed=settings.seed)
    finished = run_virtually(
        resolve(scenario),
        None,
        runs or Path("runs"),
        force=force_end,
        progress=settings.progress,
        say_time=settings.progress.simulate,
        write=_write,
    )
    state = finished.result.recording.programs.get(WORKLOAD)
    if state is not None and state.status == 0 and not state.has_stepped:
        say(settings.stderr, f"note: the program {state.error}")
        return 0
    show_finished(settings, finished, [])
    if state is not None and state.status:
        return _exit_status(state.status)
    return finished.result.verdict.exit_code


def _exit_status(status: int) -> int:
    return status if status > 0 else _SIGNALLED - status


def _hosts(attached: Lab, ranks: int | None, hosts: str) -> list[str]:
    present = [host.name for host in attached.clos.hosts()]
    if ranks is not None:
        if hosts != "all":
            raise UsageError("--ranks and --hosts: give one of them")
        if ranks > len(present):
            raise UsageError(f"--ranks: {ranks}; the lab has {len(present)} hosts, and a host has one rank")
        return present[:ranks]
    return present if hosts == "all" else [attached.clos.node(host.strip()).name for host in hosts.split(",")]


def _write(rank: Rank, is_error: bool, line: bytes) -> None:
    stream = (sys.stderr if is_error else sys.stdout).buffer
    stream.write(b"[%d] %s\n" % (rank.number, line))
    stream.flush()
