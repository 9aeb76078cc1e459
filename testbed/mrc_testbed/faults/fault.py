"""A fault with every name bound, every random choice made and every effect known. Pure."""

from dataclasses import dataclass
from typing import Annotated

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
    """A fault with its places and times."""

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
