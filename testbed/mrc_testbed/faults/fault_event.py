"""The record of a fault, with times. Pure."""

import dataclasses
from dataclasses import dataclass
from typing import Any, Literal

from mrc_testbed.faults.fault import ScheduledFault

Action = Literal["applied", "cleared"]


@dataclass(frozen=True, slots=True)
class PortAccount:
    """The effect of a fault on the frames that left one port, since it began to act there."""

    port_id: int  # the egress port
    met: int  # frames of those it is about
    count: int  # frames it hit; of background traffic, frames it sent
    data_count: int  # those of them that carried data: not SACKs, not probes
    # first_ns, last_ns: CLOCK_MONOTONIC of the first and the last that carried data; 0 if none did
    first_ns: int
    last_ns: int


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """A fault as it was really done; times are CLOCK_MONOTONIC."""

    action: Action  # the fault began or ceased to act; a flap of a run does both at each outage
    fault_id: str  # its id
    kind: str  # its kind
    links: tuple[str, ...]  # names of those concerned
    before_ns: int  # just before the first place changed
    after_ns: int  # just after the last place changed
    detail: str = ""  # what distinguishes it from others of its kind; may be empty
    nodes: tuple[str, ...] = ()  # names of those it was selected by, if it was
    is_hidden: bool = False  # whether people are to find it
    is_losing: bool = False  # whether a frame that it hits is lost
    is_outage: bool = False  # whether its links are down, rather than impaired
    accounts: tuple[PortAccount, ...] = ()  # with `cleared`, what it did at each port while it acted

    def as_record(self) -> dict[str, Any]:
        return {"time_ns": self.after_ns, "event": f"fault-{self.action}", **dataclasses.asdict(self)}


def event_of(
    fault: ScheduledFault,
    action: Action,
    before_ns: int,
    after_ns: int,
    accounts: tuple[PortAccount, ...] = (),
) -> FaultEvent:
    """The event of *fault* having begun or ended."""
    return FaultEvent(
        action,
        fault.fault_id,
        fault.kind,
        fault.links,
        before_ns,
        after_ns,
        detail=fault.detail,
        nodes=fault.nodes,
        is_hidden=fault.is_hidden,
        is_losing=fault.is_losing,
        is_outage=fault.is_outage,
        accounts=accounts,
    )
