"""A fault with every name bound, every random choice made and every effect known; its record. Pure."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import Field

from mrc_testbed.faults.effects import (
    AgentDead,
    CarrierDown,
    Drained,
    Effect,
    IcrcChecked,
    Loaded,
    RoutesGone,
    Rule,
)
from mrc_testbed.faults.spec_base import FAULT_ID_PATTERN, Direction
from mrc_testbed.faults.traffic import RawLoad
from mrc_testbed.topology.clos import Clos


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledFault:
    # name by which it is cleared and shown in events and metrics
    fault_id: Annotated[str, Field(pattern=FAULT_ID_PATTERN)]  # the ledger names a file by it
    kind: str  # as written
    seed: int  # 64 bits for random decisions in the data plane; differs between faults of one run
    detail: str = ""  # what distinguishes it from others of its kind, for people; may be empty
    links: tuple[str, ...] = ()  # names of the links concerned, in topology order
    nodes: tuple[str, ...] = ()  # names of the nodes it was selected by; empty when it was selected by links
    direction: Direction = "both"  # a is the lower end of a link, b the upper
    is_hidden: bool = False  # people are to find it, and no page, metric or list shows it
    effects: tuple[Effect, ...] = ()  # what it does
    # (start_ns, end_ns) of each occurrence on a run's own time axis (0 = end of warm-up); a flap has many,
    # other kinds have one; end None: until the run is over. Empty for a fault added by hand
    periods: tuple[tuple[int, int | None], ...] = ()

    @property
    def rules(self) -> tuple[Rule, ...]:
        return tuple(effect for effect in self.effects if isinstance(effect, Rule))

    @property
    def loads(self) -> tuple[RawLoad, ...]:
        return tuple(effect.load for effect in self.effects if isinstance(effect, Loaded))

    @property
    def ports(self) -> frozenset[int]:
        """Ports at which it has a rule."""
        return frozenset(rule.port_id for rule in self.rules)

    @property
    def is_losing(self) -> bool:
        """Return True if frames that it hits are lost."""
        return any(rule.is_losing for rule in self.rules)

    @property
    def is_outage(self) -> bool:
        """Return True if links are down, rather than impaired."""
        return any(rule.rule.action == "down" for rule in self.rules)

    @property
    def kills_agents(self) -> bool:
        """Return True if NIC agents die, and with them the QPs of their hosts."""
        return any(isinstance(effect, AgentDead) for effect in self.effects)

    @property
    def asks_hosts(self) -> bool:
        """Return True if agents have to respond, or processes to start or end, at its begin or end."""
        return any(isinstance(effect, Drained | AgentDead | Loaded) for effect in self.effects)

    @property
    def ends_in_kernel(self) -> bool:
        """Return True if the data plane ends by itself all of it that can be seen."""
        return all(isinstance(effect, Rule | IcrcChecked) for effect in self.effects)

    def does_the_same_as(self, other: "ScheduledFault") -> bool:
        """Return True if both do the very same at the very same places, whatever their names and seeds."""
        return frozenset(self.effects) == frozenset(other.effects)

    def broken_links(self, clos: Clos) -> frozenset[str]:
        """Names of the links on which packets get lost, all or some, in any direction."""
        ports = {rule.port_id for rule in self.rules if rule.is_losing}
        for effect in self.effects:
            if isinstance(effect, CarrierDown):
                ports.add(effect.port_id)
            elif isinstance(effect, RoutesGone):
                ports |= {port.id for port in clos.ports_of(clos.node(effect.switch))}
        return frozenset(clos.link(port_id // 2).name for port_id in ports)


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
