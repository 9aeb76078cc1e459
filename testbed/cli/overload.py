"""Refuses what this machine cannot carry, before anything changes; --overload insists.

The refusal is the commands', not that of the layers below: a program that brings a lab up means what it
writes, such as the benchmark of the guard, which overloads on purpose. And it is lifted by a flag, not by a
file: what is too much depends on the machine, and a scenario is for many.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from testbed import document
from testbed.cli.options import Settings
from testbed.cli.render import say
from testbed.document import Document, Kind, Location, Problem
from testbed.errors import UsageError
from testbed.fabric.live import Lab
from testbed.metrics.capacity import Capacity, known_capacity
from testbed.scenario.spec.demand import Overload, bench_overload, plan_overload, topology_overload
from testbed.scenario.spec.load import Scenario
from testbed.scenario.spec.plan import Plan
from testbed.topology.spec import TopologySpec
from testbed.workloads.load import Load

OverloadOption = Annotated[
    bool,
    typer.Option(
        "--overload",
        help="Warn, rather than refuse, when the ports' rates ask for more than this machine can carry.",
    ),
]


class OverloadGate:
    """Lets through what this machine can carry, and notes what it may carry late.

    Args:
        insists: whether to let everything through.
        known: what was measured of this machine; asked at most once, and only where ports have rates, as it
            reports a measurement that does not count.
    """

    def __init__(self, *, insists: bool, known: Callable[[], Capacity | None] = known_capacity) -> None:
        self._insists = insists
        self._known = functools.cache(known)
        self._noted: dict[str, list[str]] = {}

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was noted, each text once."""
        return tuple(self._noted)

    def say_warnings(self, settings: Settings) -> None:
        """Prints what was noted, each text once, with the scenario it was noted of first."""
        for text, (first, *others) in self._noted.items():
            more = f" and {len(others)} more runs" if others else ""
            say(settings.stderr, f"warning: {first}{more}: {text}")

    def topology(self, spec: TopologySpec, path: Path | None) -> None:
        """Weighs the fabric of the Topology file at *path*; None for the default one, which has no rates.

        Raises:
            UsageError: even two hosts ask for more than the machine can carry.
        """
        if not spec.is_shaped:
            return
        overload = topology_overload(spec, self._known())
        if overload is not None and path is not None:
            self._weigh(overload, document.load(path, Kind.TOPOLOGY), ("spec", "port_rate"), str(path))

    def plan(self, scenario: Scenario, plan: Plan) -> None:
        """Weighs a scenario as planned.

        Raises:
            UsageError: its workloads ask for more than the machine can carry.
        """
        if not plan.topology.is_shaped:
            return
        overload = plan_overload(plan, self._known())
        if overload is None:
            return
        is_named = isinstance(scenario.spec.topology, str)
        where: Location = ("spec", "topology") if is_named else ("spec", "topology", "port_rate")
        name = plan.scenario if plan.variant is None else f"{plan.scenario} {plan.variant}"
        try:
            self._weigh(overload, scenario.document, where, name)
        except UsageError as error:
            if plan.variant is None:
                raise
            raise UsageError(f"variant {plan.variant}: {error.message}") from error

    def saved_plan(self, plan: Plan) -> None:
        """Weighs a plan that was saved with results.

        Raises:
            UsageError: its workloads ask for more than the machine can carry.
        """
        overload = plan_overload(plan, self._known()) if plan.topology.is_shaped else None
        if overload is not None and not self._lets_through(overload, plan.scenario):
            raise UsageError(_refusal(overload))

    def bench(self, live: Lab, load: Load, kind: str) -> None:
        """Weighs what a lab that is up is about to be loaded with.

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

    def _weigh(self, overload: Overload, loaded: Document, where: Location, name: str) -> None:
        if not self._lets_through(overload, name):
            raise loaded.usage_error([Problem(where, _refusal(overload))])

    def _lets_through(self, overload: Overload, name: str) -> bool:
        """Whether it may be; then it is noted."""
        if overload.is_hopeless and not self._insists:
            return False
        self._noted.setdefault(overload.text, []).append(name)
        return True


def _refusal(overload: Overload) -> str:
    return f"{overload.text}; {', '.join(overload.remedies)}, or insist with --overload"
