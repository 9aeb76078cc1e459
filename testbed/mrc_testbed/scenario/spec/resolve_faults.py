"""From the faults of a scenario to those of its plan: what they hit, when, and what forbids them. Pure."""

import hashlib
from dataclasses import replace
from typing import Final

from mrc_agents.abi import FaultLimit
from mrc_testbed.document.problem import Problem
from mrc_testbed.errors import UsageError
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.rule import FLAP_PLACE, mix_seed
from mrc_testbed.faults.spec import SelectionError, target_fault
from mrc_testbed.faults.spec_base import AnyFault
from mrc_testbed.scenario.spec.scenario_spec import ScenarioSpec
from mrc_testbed.topology.clos import Clos

OCCURRENCES_MAX: Final = 10_000
"""Limit of one fault: more is an accident (a flap every microsecond), not a wish."""


def resolve_faults(
    spec: ScenarioSpec, clos: Clos, run_seed: int, problems: list[Problem]
) -> list[ScheduledFault]:
    """The faults of a plan, in the order of the file.

    Args:
        problems: what does not fit is added here; faults that do not fit are left out.
    """
    planned: dict[int, ScheduledFault] = {}
    for index, fault in spec.injected():
        try:
            fault.check_run(spec.end_of(fault))
            planned[index] = _resolve_fault(fault, spec, clos, run_seed)
        except SelectionError as error:
            problems.append(Problem(("spec", "faults", index, "select"), error.message))
        except UsageError as error:
            problems.append(Problem(("spec", "faults", index), error.message))
    problems += _conflicts(planned)
    return list(planned.values())


def _resolve_fault(fault: AnyFault, spec: ScenarioSpec, clos: Clos, run_seed: int) -> ScheduledFault:
    pick_seed = derive_seed(run_seed, "fault", fault.id, "pick")
    target = target_fault(fault, clos, pick_seed, derive_seed(run_seed, "fault", fault.id, "data-plane"))
    return replace(target, periods=_periods(fault, spec.end_of(fault), run_seed, spec.end_ns))


def _periods(
    fault: AnyFault, end_ns: int | None, run_seed: int, run_end_ns: int | None
) -> tuple[tuple[int, int | None], ...]:
    """(start, end) of every occurrence; a flap until cleared goes on to the end of the run."""
    flap = fault.flap(mix_seed(derive_seed(run_seed, "fault", fault.id, "jitter"), FLAP_PLACE))
    if flap is None:
        return ((fault.at_ns, end_ns),)
    if end_ns is None:
        if run_end_ns is None:
            raise UsageError(
                "a flap until cleared needs a run that ends by time: give `for`, or every workload a duration"
            )
        end_ns = run_end_ns
    length_ns = end_ns - fault.at_ns
    if length_ns // flap.every_ns > OCCURRENCES_MAX:
        raise UsageError(f"it would flap {length_ns // flap.every_ns} times; at most {OCCURRENCES_MAX}")
    periods = tuple((fault.at_ns + start, fault.at_ns + end) for start, end in flap.outages(length_ns))
    if not periods:
        raise UsageError(
            "its jitter puts the first outage beyond its end: give a longer `for`, or less jitter"
        )
    return periods


def _conflicts(planned: dict[int, ScheduledFault]) -> list[Problem]:
    """Faults that do the same at the same time, and more at a port than the data plane holds."""
    problems = []
    for index, fault in planned.items():
        earlier = [other for other in planned if other < index and _overlap(planned[other], fault)]
        same = [other for other in earlier if planned[other].does_the_same_as(fault)]
        if same:
            other = planned[same[0]].fault_id
            problems.append(
                Problem(
                    ("spec", "faults", index),
                    f"it does what {other} does, at the same places and the same time; "
                    "change where, when or how strongly it acts",
                )
            )
        elif _is_crowded([planned[other] for other in earlier], fault):
            problems.append(
                Problem(
                    ("spec", "faults", index),
                    f"{FaultLimit.RULES} others act at one of its ports at the same time: no port holds more",
                )
            )
    return problems


def _overlap(one: ScheduledFault, other: ScheduledFault) -> bool:
    """Return True if they are in force at the same time, pauses between outages included."""
    return _begins_before_end(one, other) and _begins_before_end(other, one)


def _begins_before_end(one: ScheduledFault, other: ScheduledFault) -> bool:
    end_ns = other.periods[-1][1]
    return end_ns is None or one.periods[0][0] < end_ns


def _is_crowded(others: list[ScheduledFault], fault: ScheduledFault) -> bool:
    return any(sum(port_id in other.ports for other in others) >= FaultLimit.RULES for port_id in fault.ports)


def derive_seed(run_seed: int, *names: str) -> int:
    """64 bits for one purpose, independent of those for any other."""
    text = "/".join((str(run_seed), *names))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")
