"""Refusal of loads that this machine or virtual time cannot carry; --overload insists.

The refusal is the commands', not that of the layers below: a program that brings a lab up means what it
writes, such as the benchmark of the guard, which overloads on purpose. And it is lifted by a flag, not by a
file: what is too much depends on the machine, and a scenario is for many.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mrc_testbed import document
from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.document import Document, Kind, Location, Problem
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.preflight import check_live
from mrc_testbed.metrics.capacity import Capacity, known_capacity
from mrc_testbed.scenario.spec.demand import Overload, bench_overload, plan_overload, topology_overload
from mrc_testbed.scenario.spec.load import Scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual.limits import check_ports, problems_of
from mrc_testbed.workloads.load import Load

OverloadOption = Annotated[
    bool,
    typer.Option(
        "--overload",
        help="Warn, instead of refusing, when port rates exceed what this machine can carry.",
    ),
]


class OverloadGate:
    """Admit loads that this machine can carry, and note those that may be late.

    Args:
        insists: whether to let everything through.
        is_virtual: whether it is to run in virtual time.
        known: what was measured of this machine; asked at most once, and only where ports have rates, as it
            reports a measurement that does not count.
    """

    def __init__(
        self,
        *,
        insists: bool,
        is_virtual: bool = False,
        known: Callable[[], Capacity | None] = known_capacity,
    ) -> None:
        self._insists = insists
        self._is_virtual = is_virtual
        self._known = functools.cache(known)
        self._noted: dict[str, list[str]] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """Notes, each text once."""
        return tuple(self._noted)

    def say_warnings(self, settings: Settings) -> None:
        """Print the notes, each text once, with the first scenario it is about."""
        for text, (first, *others) in self._noted.items():
            more = f" and {len(others)} more runs" if others else ""
            say(settings.stderr, f"warning: {first}{more}: {text}")

    def topology(self, spec: TopologySpec, path: Path | None) -> None:
        """Check the fabric of the Topology file at *path*; None for the default one, which has no rates.

        Raises:
            UsageError: even two hosts ask for more than the machine can carry.
        """
        if self._is_virtual:
            check_ports(spec)
            return
        check_live(spec)
        if not spec.is_shaped:
            return
        overload = topology_overload(spec, self._known())
        if overload is not None and path is not None:
            self._weigh(overload, document.load(path, Kind.TOPOLOGY), ("spec", "port_rate"), str(path))

    def plan(self, scenario: Scenario, plan: Plan) -> None:
        """Check a scenario as planned.

        Raises:
            UsageError: it asks for more than the machine can carry, or for what virtual time cannot do.
        """
        self._refuse(scenario, plan)
        if self._is_virtual or not plan.topology.is_shaped:
            return
        overload = plan_overload(plan, self._known())
        if overload is None:
            return
        name = plan.scenario if plan.variant is None else f"{plan.scenario} {plan.variant}"
        with _naming_variant(plan):
            self._weigh(
                overload, scenario.document, _place(scenario, ("spec", "topology", "port_rate")), name
            )

    def saved_plan(self, plan: Plan) -> None:
        """Check a plan that was saved with results.

        Raises:
            UsageError: it asks for more than the machine can carry, or for what virtual time cannot do.
        """
        if problems := self._problems(plan):
            raise UsageError("; ".join(problem.message for problem in problems))
        is_weighed = plan.topology.is_shaped and not self._is_virtual
        overload = plan_overload(plan, self._known()) if is_weighed else None
        if overload is not None and not self._lets_through(overload, plan.scenario):
            raise UsageError(_refusal(overload))

    def bench(self, live: Lab, load: Load, kind: str) -> None:
        """Check a load for a lab that is up.

        Raises:
            UsageError: it asks for more than the machine can carry.
        """
        if not live.spec.is_shaped:
            return
        has_direct_links = any(port.is_direct for port in live.port_table)
        overload = bench_overload(
            live.spec, load, f"bench {kind}", self._known(), has_direct_links=has_direct_links
        )
        if overload is not None and not self._lets_through(overload, f"lab {live.name}"):
            raise UsageError(_refusal(overload))

    def _refuse(self, scenario: Scenario, plan: Plan) -> None:
        problems = [
            Problem(_place(scenario, problem.location), problem.message) for problem in self._problems(plan)
        ]
        if problems:
            with _naming_variant(plan):
                raise scenario.document.usage_error(problems)

    def _problems(self, plan: Plan) -> list[Problem]:
        """Obstacles to a run of a plan; --overload waives one that only takes long."""
        if self._is_virtual:
            return problems_of(plan, insists=self._insists)
        try:
            check_live(plan.topology)
        except UsageError as error:
            return [Problem(("spec", "topology", "nic", "path_mtu"), error.message)]
        return []

    def _weigh(self, overload: Overload, loaded: Document, where: Location, name: str) -> None:
        if not self._lets_through(overload, name):
            raise loaded.usage_error([Problem(where, _refusal(overload))])

    def _lets_through(self, overload: Overload, name: str) -> bool:
        """Return True if the load is admitted, and note it."""
        if overload.is_hopeless and not self._insists:
            return False
        self._noted.setdefault(overload.text, []).append(name)
        return True


def _place(scenario: Scenario, where: Location) -> Location:
    """Location of a key of the topology, or of the scenario where the topology is a file of its own."""
    is_named = isinstance(scenario.spec.topology, str) and where[:2] == ("spec", "topology")
    return where[:2] if is_named else where


@contextmanager
def _naming_variant(plan: Plan) -> Iterator[None]:
    try:
        yield
    except UsageError as error:
        if plan.variant is None:
            raise
        raise UsageError(f"variant {plan.variant}: {error.message}") from error


def _refusal(overload: Overload) -> str:
    return f"{overload.text}; {', '.join(overload.remedies)}, or insist with --overload"
