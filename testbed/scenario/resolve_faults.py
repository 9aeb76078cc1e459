"""From the faults of a scenario to those of its plan: what they hit, when, and what forbids them. Pure."""

from typing import Final

from agents.wire_abi import FaultLimit
from testbed.document import Problem
from testbed.errors import UsageError
from testbed.faults.binding import bind
from testbed.faults.effect import Fault as BoundFault
from testbed.faults.flap import Flap
from testbed.faults.link_kinds import LinkFlap
from testbed.faults.node_kinds import HostPause
from testbed.faults.spec import Fault
from testbed.faults.targets import SelectionError, check_fabric, target_fault
from testbed.scenario.plan import PlannedFault
from testbed.scenario.seed import derive_seed
from testbed.scenario.spec import ScenarioSpec
from testbed.topology.clos import Clos
from testbed.units import format_duration_ns

OCCURRENCES_MAX: Final = 10_000
"""Of one fault: beyond this a plan is an accident (a flap every microsecond), not a wish."""


PAUSE_MAX_NS: Final = 8 * 10**9
"""A run takes an agent that is silent for ten seconds for lost."""


def resolve_faults(
    spec: ScenarioSpec, clos: Clos, run_seed: int, problems: list[Problem]
) -> list[PlannedFault]:
    """The faults of a plan, in the order of the file.

    Args:
        spec: of the scenario.
        clos: the fabric.
        run_seed: of the run.
        problems: what does not fit is added here; faults that do not fit are left out.
    """
    planned: dict[int, PlannedFault] = {}
    for index, fault in spec.injected():
        try:
            check_fabric(fault, clos)
            _check_run(fault, spec.end_of(fault))
            planned[index] = _resolve_fault(fault, spec, clos, run_seed)
        except SelectionError as error:
            problems.append(Problem(("spec", "faults", index, "select"), error.message))
        except UsageError as error:
            problems.append(Problem(("spec", "faults", index), error.message))
    problems += _conflicts(planned, clos)
    return list(planned.values())


def _check_run(fault: Fault, end_ns: int | None) -> None:
    if isinstance(fault, HostPause) and (end_ns is None or end_ns - fault.at_ns > PAUSE_MAX_NS):
        raise UsageError(
            "a run gives up an agent that does not answer: pause a host for "
            f"{format_duration_ns(PAUSE_MAX_NS)} at most"
        )


def _resolve_fault(fault: Fault, spec: ScenarioSpec, clos: Clos, run_seed: int) -> PlannedFault:
    pick_seed = derive_seed(run_seed, "fault", fault.id, "pick")
    action = target_fault(fault, clos, pick_seed, derive_seed(run_seed, "fault", fault.id, "data-plane"))
    periods = _periods(fault, spec.end_of(fault), run_seed, spec.end_ns)
    return PlannedFault(**action.shared(), periods=periods)


def _periods(
    fault: Fault, end_ns: int | None, run_seed: int, run_end_ns: int | None
) -> tuple[tuple[int, int | None], ...]:
    """(start, end) of every occurrence; a flap until cleared goes on to the end of the run."""
    if not isinstance(fault, LinkFlap):
        return ((fault.at_ns, end_ns),)
    if end_ns is None:
        if run_end_ns is None:
            raise UsageError(
                "a flap until cleared needs a run that ends by time: give `for`, or every workload a duration"
            )
        end_ns = run_end_ns
    length_ns = end_ns - fault.at_ns
    if length_ns // fault.every_ns > OCCURRENCES_MAX:
        raise UsageError(f"it would flap {length_ns // fault.every_ns} times; at most {OCCURRENCES_MAX}")
    flap = Flap(
        every_ns=fault.every_ns,
        down_ns=fault.down_ns,
        jitter_ratio=fault.jitter_ratio,
        seed=derive_seed(run_seed, "fault", fault.id, "jitter"),
    )
    return tuple((fault.at_ns + start, fault.at_ns + end) for start, end in flap.outages(length_ns))


def _conflicts(planned: dict[int, PlannedFault], clos: Clos) -> list[Problem]:
    """Faults that do the same at the same time, and more at a port than the data plane holds."""
    problems = []
    bound = {index: bind(fault, clos) for index, fault in planned.items()}
    for index, fault in planned.items():
        earlier = [other for other in planned if other < index and _overlap(planned[other], fault)]
        same = [other for other in earlier if bound[other].does_the_same_as(bound[index])]
        if same:
            other = planned[same[0]].fault_id
            problems.append(
                Problem(
                    ("spec", "faults", index),
                    f"it does what {other} does, at the same places and the same time; "
                    "change where, when or how strongly it acts",
                )
            )
        elif _is_crowded([bound[other] for other in earlier], bound[index]):
            problems.append(
                Problem(
                    ("spec", "faults", index),
                    f"{FaultLimit.RULES} others act at one of its ports at the same time: no port holds more",
                )
            )
    return problems


def _overlap(one: PlannedFault, other: PlannedFault) -> bool:
    """Whether they are in force at the same time, pauses between outages included."""
    return _begins_before_end(one, other) and _begins_before_end(other, one)


def _begins_before_end(one: PlannedFault, other: PlannedFault) -> bool:
    end_ns = other.periods[-1][1]
    return end_ns is None or one.periods[0][0] < end_ns


def _is_crowded(others: list[BoundFault], fault: BoundFault) -> bool:
    return any(
        sum(port_id in other.ports() for other in others) >= FaultLimit.RULES for port_id in fault.ports()
    )
