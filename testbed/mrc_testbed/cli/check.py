"""check: name slow and dead hosts, paths and links."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import typer

from mrc_testbed.check.figures import CheckFigures
from mrc_testbed.check.judgement import Finding, judge
from mrc_testbed.check.live_site import LiveSite
from mrc_testbed.check.measuring import CheckExtent, measure
from mrc_testbed.check.site import Site
from mrc_testbed.cli.check_report import health_document, health_text
from mrc_testbed.cli.exit_codes import ExitCode
from mrc_testbed.cli.options import DEFAULT_SEED, Settings, command
from mrc_testbed.cli.render import show
from mrc_testbed.cli.suggestion import hosts as host_names
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric import lab
from mrc_testbed.topology.clos import Clos
from mrc_testbed.units import parse_size_bytes
from mrc_testbed.virtual.check_site import virtual_site

SCHEMA_VERSION: Final = 1
DEFAULT_REPETITIONS: Final = 16
DEFAULT_PAIRS: Final = 240


def register(app: typer.Typer) -> None:
    command(app, "check", flags=("name", "topology", "seed"), needs_root=True)(check)


def check(
    settings: Settings,
    hosts: Annotated[
        str,
        typer.Argument(
            metavar="[HOSTS]", autocompletion=host_names, help="Host names with commas (default: all)."
        ),
    ] = "all",
    size: Annotated[str, typer.Option("--size", metavar="SIZE", help="Payload of a message.")] = "64KiB",
    repetitions: Annotated[
        int,
        typer.Option(
            "--repetitions", min=1, max=10_000, metavar="NUMBER", help="Messages of a pair, and barriers."
        ),
    ] = DEFAULT_REPETITIONS,
    pairs: Annotated[
        int,
        typer.Option("--pairs", min=2, metavar="NUMBER", help="Ordered pairs of hosts to measure, about."),
    ] = DEFAULT_PAIRS,
    virtual: Annotated[
        bool, typer.Option("--virtual", help="Check a lab in virtual time: no lab, no root; exact.")
    ] = False,
) -> int:
    """Check a lab for slow and dead hosts, paths and links, and name them.

    Probes every path, sends RDMA WRITEs between the pairs of hosts, runs
    all-reduces over all hosts and barriers; then finds the hosts, links and
    switches that explain what is slow or dead. With more hosts than 16, only some
    pairs are measured; each host is in several. The exit status is 4 when
    something is slow or dead.

    With --virtual, -t names a Topology file, or a Scenario file whose faults are
    in force from the beginning.

    [bold]Examples[/bold]

      mrc-testbed check
      mrc-testbed check h0,h1,h4 --size 1MiB -o json
      mrc-testbed check --virtual -t gray-blackhole.yaml
    """
    if settings.topology is not None and not virtual:
        raise UsageError("-t: it is for --virtual; without it, the lab that is up is checked")
    seed = DEFAULT_SEED if settings.seed is None else settings.seed
    options = CheckExtent(parse_size_bytes(size), repetitions, pairs, seed)
    with _site(settings, seed, is_virtual=virtual) as site:
        measured = measure(site, _chosen(site.clos, hosts), options, settings.progress)
    findings = judge(measured)
    document: dict[str, Any] = {
        "lab": None if virtual else settings.name,
        "seed": seed,
        "size_bytes": options.size_bytes,
        "repetitions": repetitions,
        **health_document(measured, findings),
    }
    _show(settings, document, measured, findings)
    return ExitCode.EXPECTATION_FAILED if findings else ExitCode.PASS


def _show(
    settings: Settings, document: dict[str, Any], measured: CheckFigures, findings: list[Finding]
) -> None:
    show(
        settings,
        "HealthCheck",
        SCHEMA_VERSION,
        document,
        lambda: health_text(measured, findings),
        lines="findings",
    )


@contextmanager
def _site(settings: Settings, seed: int, *, is_virtual: bool) -> Iterator[Site]:
    if is_virtual:
        with virtual_site(settings.topology, seed) as site:
            yield site
    else:
        with lab.attach(settings.name) as attached:
            yield LiveSite(attached)


def _chosen(clos: Clos, hosts: str) -> list[str]:
    """Hosts of a list with commas, each once."""
    if hosts == "all":
        names = [host.name for host in clos.hosts()]
    else:
        nodes = [clos.node(name.strip()) for name in hosts.split(",")]
        for node in nodes:
            if node.is_switch:
                raise UsageError(f"{node.name} is a switch: give hosts")
        names = list(dict.fromkeys(node.name for node in nodes))
    if len(names) < 2:
        raise UsageError(f"{len(names)} host: a check takes two or more")
    return names
