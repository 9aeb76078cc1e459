"""exec | logs | restart | shell."""

import os
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.render import say, show
from mrc_testbed.cli.suggestion import hosts, nodes
from mrc_testbed.errors import AgentError, UsageError, did_you_mean
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.agent_process import log_lines
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.mpi import program_environment
from mrc_testbed.fabric.process import marked_environment
from mrc_testbed.fabric.rdma import RdmaTransport, named_command, rdma_command
from mrc_testbed.fabric.repair import Repair
from mrc_testbed.fabric.runtime import enter_command
from mrc_testbed.faults.attendance import repair_faults, under_faults


@command(COMMANDS, "exec", flags=("name",), needs_root=True)
def execute(
    settings: Settings,
    node: Annotated[str, typer.Argument(autocompletion=nodes, help="Name of a switch or host.")],
    arguments: Annotated[list[str], typer.Argument(metavar="-- COMMAND...", help="Program and arguments.")],
    rdma: Annotated[
        bool, typer.Option("--rdma", help="Give the program the host's NIC as RDMA device mrc0.")
    ] = False,
    transport: Annotated[
        RdmaTransport | None,
        typer.Option(
            "--transport", help="With --rdma: transport of the QPs that the program creates (default: mrc)."
        ),
    ] = None,
) -> int:
    """Run a program in a node and return its exit status.

    On a host, names of hosts are addresses of the management network, which
    faults do not touch.

    [bold]Examples[/bold]

      mrc-testbed exec h0 -- ip -br link
      mrc-testbed exec h0 -- ping -c 1 h1
      mrc-testbed exec p0-t0-0 -- bpftool net
      mrc-testbed exec h1 --rdma -- ib_write_bw -d mrc0 &
      mrc-testbed exec h0 --rdma -- ib_write_bw -d mrc0 h1
      mrc-testbed exec h0 --rdma --transport rocev2 -- ib_write_bw -d mrc0 h1
    """
    if transport is not None and not rdma:
        raise UsageError("--transport: it is for programs with --rdma")
    chosen = transport or RdmaTransport.MRC
    environment = marked_environment(settings.name)
    with ExitStack() as stack:
        with lab.attach(settings.name) as attached:
            name = attached.clos.node(node).name
            container = attached.state.containers.get(name)
            enter = enter_command(attached.name, name, container.pid if container else None)
            if rdma:
                enter += stack.enter_context(rdma_command(attached, name, chosen))
                environment = program_environment(settings.name, chosen)
            elif not attached.clos.node(name).is_switch:
                others = [host.name for host in attached.clos.hosts() if host.name in arguments]
                enter += stack.enter_context(named_command(attached, name, others))
        return subprocess.run([*enter, *arguments], env=environment, check=False).returncode


@command(COMMANDS, "logs", flags=("name",), needs_root=True)
def logs(
    settings: Settings,
    source: Annotated[
        str, typer.Argument(metavar="[NAME]", autocompletion=hosts, help="A host, `drainer` or `reaper`.")
    ] = "",
    tail: Annotated[
        int, typer.Option("--tail", min=1, metavar="LINES", help="Lines from the end of each.")
    ] = 20,
) -> None:
    """Show logs of agents and lab processes (default: all).

    [bold]Examples[/bold]

      mrc-testbed logs h3
      mrc-testbed logs --tail 2
    """
    with lab.attach(settings.name) as attached:
        files = _log_files(attached)
    if source and source not in files:
        known = ", ".join(files)
        raise UsageError(f"there is no log of {source!r}{did_you_mean(source, files)} (there are: {known})")
    lines = {}
    for name, path in files.items():
        if source in {"", name}:
            try:
                lines[name] = log_lines(path)[-tail:]
            except AgentError as error:
                if source:
                    raise
                say(settings.stderr, f"{name}: {error}")  # one host's mischief leaves the others readable
    items = [{"source": name, "path": str(files[name]), "lines": text} for name, text in lines.items()]
    show(
        settings,
        "Logs",
        {"logs": items},
        lambda: "\n".join(f"{name}: {line}" for name, text in lines.items() for line in text),
        lines="logs",
    )


@command(COMMANDS, "restart", flags=("name",), needs_root=True)
def restart(
    settings: Settings,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[HOST...]", autocompletion=hosts, help="Names of hosts.")
    ] = None,
) -> None:
    """Restart NIC agents (default: every failed process).

    Without a name: starts agents and drainers that died, resumes those that a
    signal stopped, brings ports up with their XDP program, MTU and MAC, clears
    faults that are overdue, and starts the fault reaper if it is needed. An agent
    that is restarted has lost its QPs and memory. Agents that a fault stopped or
    killed are left alone. `up` repairs a lab in the same way.

    [bold]Examples[/bold]

      mrc-testbed restart
      mrc-testbed restart h3
    """
    hosts = tuple(names or ())
    done = lab.restart(settings.name, hosts, faults=under_faults(settings.name))
    faults = [] if hosts else repair_faults(settings.name)
    show(
        settings,
        "Restart",
        {
            "hosts": [{"host": host} for host in done.restarted],
            "resumed": list(done.resumed),
            "drainers": done.drainers,
            "ports": list(done.ports),
            "faults": faults,
        },
        lambda: "\n".join([*describe_repair(done), *faults]) or "every process and port of the lab works",
        lines="hosts",
    )


def describe_repair(done: Repair) -> list[str]:
    """Describe a repair, one sentence per part."""
    lines = []
    if done.restarted:
        lines.append(f"agents restarted: {', '.join(done.restarted)}")
    if done.resumed:
        lines.append(f"agents resumed: {', '.join(done.resumed)}")
    if done.drainers:
        lines.append(f"queue drainers started again: {done.drainers}")
    if done.ports:
        lines.append(f"ports put right: {', '.join(done.ports)}")
    return lines


@command(COMMANDS, "shell", flags=("name",), needs_root=True)
def shell(settings: Settings) -> None:
    """Open Mininet's shell on a lab.

    It runs commands in nodes and shows links. The lab stays when it ends.

    [bold]Examples[/bold], typed at its prompt

      nodes
      h0 ip -br addr
      p0-t0-0 ip -6 route
    """
    from mrc_testbed.mininet_net import open_shell  # noqa: PLC0415 - Mininet takes a quarter of a second

    with lab.attach(settings.name) as attached:
        say(settings.stderr, f"lab {attached.name}; `help` lists commands, `exit` leaves")
        open_shell(attached)


def _log_files(attached: Lab) -> dict[str, Path]:
    paths = attached.paths
    files = {host.name: paths.agent_log(host.name) for host in attached.clos.hosts()}
    files |= {"drainer": paths.drainer_log, "reaper": paths.faults / "reaper.log"}
    return {source: path for source, path in files.items() if os.path.lexists(path)}
