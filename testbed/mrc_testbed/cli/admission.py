"""Refusal of plans that cannot be carried out, and one line about the load of those that can."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.document.problem import Location, Problem
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.demand import Demand, fabric_demand, plan_demand
from mrc_testbed.scenario.spec.load import Scenario
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import format_time
from mrc_testbed.topology.resolve import check_live
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.virtual import limits

LONG_NS: Final = 600 * 10**9
"""A virtual run of less is not worth a line."""


class Admission:
    """Check plans, and note what the heaviest asks of the machine."""

    def __init__(self, *, is_virtual: bool = False) -> None:
        self._is_virtual = is_virtual
        self._heaviest = Demand()
        self._takes_ns = 0

    @property
    def warning(self) -> str | None:
        """Load or time that may be too much for the machine, in words; None for neither."""
        if self._takes_ns >= LONG_NS:
            return f"virtual time: up to {format_time(self._takes_ns)} on one core, as is assumed"
        return str(self._heaviest) if self._heaviest.is_beyond else None

    def say(self, settings: Settings) -> None:
        if self._takes_ns == 0:
            if self._heaviest.frame_hops_per_s and settings.verbosity >= 0:
                say(settings.stderr, f"load: {self._heaviest}")
        elif self.warning is not None:
            say(settings.stderr, self.warning)

    def topology(self, spec: TopologySpec) -> None:
        """Admit a fabric, which all its hosts may load at once."""
        if self._is_virtual:
            limits.check_ports(spec)
            return
        check_live(spec)
        self._weigh(fabric_demand(spec))

    def plan(self, scenario: Scenario, plan: Plan) -> None:
        """Admit a scenario as planned."""
        problems = [
            Problem(_place(scenario, problem.location), problem.message) for problem in self._problems(plan)
        ]
        if problems:
            with _naming_variant(plan):
                raise scenario.document.usage_error(problems)
        self._weigh_plan(plan)

    def saved_plan(self, plan: Plan) -> None:
        """Admit a plan that was saved with results."""
        if problems := self._problems(plan):
            raise UsageError("; ".join(problem.message for problem in problems))
        self._weigh_plan(plan)

    def _weigh_plan(self, plan: Plan) -> None:
        if self._is_virtual:
            self._takes_ns += limits.duration_ns(plan) or 0
        else:
            self._weigh(plan_demand(plan))

    def _weigh(self, demand: Demand) -> None:
        self._heaviest = max(self._heaviest, demand, key=lambda each: each.frame_hops_per_s)

    def _problems(self, plan: Plan) -> list[Problem]:
        if self._is_virtual:
            return limits.problems_of(plan)
        try:
            check_live(plan.topology)
        except UsageError as error:
            return [Problem(("spec", "topology", "nic", "path_mtu"), error.message)]
        return []


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
