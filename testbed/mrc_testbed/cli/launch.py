"""launch: a program with one rank per host."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import Annotated, Final

import typer

from mrc_testbed.cli.bench_options import ReportOption, listed_hosts
from mrc_testbed.cli.interruption import force_end
from mrc_testbed.cli.options import COMMANDS, Settings, TraceOption, command
from mrc_testbed.cli.output import OutputError
from mrc_testbed.cli.render import say
from mrc_testbed.cli.report import show_finished
from mrc_testbed.cli.trace_folder import prepare_trace, traced, write_trace
from mrc_testbed.cli.typed_run import RUNS, TypedRun, carry_out, typed_plans
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.process import is_alive
from mrc_testbed.fabric.ranks import Rank
from mrc_testbed.fabric.rdma import RdmaTransport
from mrc_testbed.fabric.state import Phase, read_state
from mrc_testbed.scenario.measure.recording import Journal
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.run.stage import lab_for_run
from mrc_testbed.scenario.spec.one_workload import one_workload_scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.virtual.limits import HOW_TO_DECLARE, UNDECLARED
from mrc_testbed.workloads.job_ring import running_jobs

WORKLOAD: Final = "job"

_SIGNALLED: Final = 128

_TIMEOUT: Final = "100000h"
"""So long that whoever waits for a program ends it before."""


class StandIn(StrEnum):
    """Backends of torch.distributed that mrc-torch can stand in for."""

    GLOO = "gloo"
    NCCL = "nccl"


@command(COMMANDS, "launch", flags=("name", "topology", "seed"), needs_root=True)
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
    report: ReportOption = False,
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="FOLDER", help="Keep results and report, in this folder.")
    ] = None,
    trace: TraceOption = None,
) -> int:
    """Run a program with one rank per host, such as a training job.

    Each rank has RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, as
    torchrun sets them, and its host's NIC as RDMA device mrc0. Output has the
    rank in front. When a rank fails, the others are stopped; the command names
    the rank and returns its exit status.

    Uses the lab that is up; with -t SCENARIO one of its own, with the fabric,
    transport and faults of that file: time 0 of the faults is the end of the
    first step. With -t, --virtual, --report or --runs, results and report are
    as of `run`, and shown on stderr.

    [bold]Examples[/bold]

      mrc-testbed launch -- python train.py
      mrc-testbed launch --ranks 4 -- sh -c 'echo rank $RANK of $WORLD_SIZE'
      mrc-testbed launch --hosts h0,h4 -- ./my-ranks
      mrc-testbed launch --as gloo --report -- python train.py
      mrc-testbed launch -t faults.yaml -- python train.py
      mrc-testbed launch --transport rocev2 -- python train.py
      mrc-testbed launch --virtual --compute 1ms --as nccl -- python train.py
      mrc-testbed launch --as gloo --trace job -- python train.py
    """
    if ranks is not None and hosts != "all":
        raise UsageError("--ranks and --hosts: give one of them")
    if virtual and compute is None:
        raise UsageError(f"--{UNDECLARED}", hint=HOW_TO_DECLARE)
    if compute is not None and not virtual:
        raise UsageError("--compute: it is for --virtual; elsewhere steps compute as long as they do")
    program: dict[str, Tree] = {
        "name": WORKLOAD,
        "kind": "program",
        "command": [*arguments],
        "hosts": ranks or listed_hosts(hosts),
        "compute": compute,
        "as": None if stand_in is None else stand_in.value,
    }
    if trace is not None:
        prepare_trace(trace)
    if not virtual:
        program["timeout"] = _TIMEOUT
    with ExitStack() as stack:
        attached = None
        if not virtual and settings.topology is None:
            attached = stack.enter_context(lab.attach(settings.name))
            taken = {job.name for job in running_jobs(attached.state_dir)}
            program["name"] = next(name for name in _names() if name not in taken)
        scenario = one_workload_scenario(
            "launch",
            program,
            transport=None if transport is RdmaTransport.MRC else {"kind": transport.value},
            topology=settings.topology if attached is None else attached.spec,
            seed=settings.seed,
        )
        [plan] = typed_plans(settings, scenario, attached, is_virtual=virtual)
        plan = plan if trace is None else traced(plan)
        if not virtual:
            plan = _with_steps_if_any(plan)
            if attached is None:
                made = lab_for_run(plan.topology, name=settings.name, progress=settings.progress)
                attached = stack.enter_context(made)

        def write(rank: Rank, is_error: bool, line: bytes) -> None:
            settings.progress.hide()
            _write(rank, is_error, line)

        is_kept = report or virtual or settings.topology is not None
        done = carry_out(
            settings,
            plan,
            scenario.document.text,
            attached,
            stack.enter_context(catching_signals(force_end)),
            runs=runs or (RUNS if is_kept else None),
            journal=Journal(),
            progress=settings.progress,
            show=write,
            agents_may_fail=True,
        )
        if trace is not None:
            write_trace(settings, trace, done.recording, attached)
        return _ended(settings, done, attached)


def _names() -> Iterator[str]:
    """Names of jobs that run in one lab at once."""
    yield WORKLOAD
    yield from (f"{WORKLOAD}-{number}" for number in count(2))


def _with_steps_if_any(plan: Plan) -> Plan:
    """The plan of a program that may report steps, or not; times of faults are from the first one on."""
    [job] = plan.workloads
    if plan.faults or job.program is None:
        return plan
    return replace(plan, workloads=(replace(job, program=replace(job.program, reports_steps=None)),))


def _ended(settings: Settings, done: TypedRun, attached: Lab | None) -> int:
    """Show results that are kept, say why a program failed; the exit status."""
    state, verdict = done.recording.programs.get(done.workload.name), done.verdict
    if state is not None and state.status == 0 and state.error and not state.has_stepped:
        say(settings.stderr, f"note: the program {state.error}")
        return 0
    if done.finished is not None:
        show_finished(replace(settings, stdout=settings.stderr), done.finished, [])
    if state is not None and state.status:
        [job] = done.recording.plan.workloads
        cause = "" if attached is None else _cause(attached, job.sources)
        others = "; the other ranks were ended" if len(job.sources) > 1 else ""
        say(settings.stderr, f"error: {cause}{state.error}{others}")
        return state.status if state.status > 0 else _SIGNALLED - state.status
    if done.finished is None and verdict.status is Status.ERROR:
        raise done.error or TestbedError(verdict.reason)
    if done.finished is None and verdict.status is Status.INTERRUPTED:
        say(settings.stderr, verdict.reason)
    return 0 if verdict.status is Status.UNTRUSTED else verdict.exit_code


def _cause(attached: Lab, hosts: Sequence[str]) -> str:
    """The failure of the lab behind that of a rank, with a semicolon; empty: there is none."""
    now = read_state(attached.paths)
    if now is None or now.phase is not Phase.UP:
        return f"lab {attached.name!r} was removed; "
    agents = {process.node: process.identity for process in attached.state.processes}
    for number, host in enumerate(hosts):
        if agents[host].is_local and not is_alive(agents[host]):
            return f"the NIC agent of rank {number} ({host}) has died; "
    return ""


def _write(rank: Rank, is_error: bool, line: bytes) -> None:
    stream = (sys.stderr if is_error else sys.stdout).buffer
    try:
        stream.write(b"[%d] %s\n" % (rank.number, line))
        stream.flush()
    except OutputError as error:
        raise TestbedError(str(error)) from error
