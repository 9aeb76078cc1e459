"""Pure composition of faults: from the faults that act to what holds at each place of the lab.

A rule at a port belongs to one fault and is put there and taken away alone. Whatever several faults share (a
port's rate, a carrier, a switch's routes, a host) is never changed as a difference: every change recomputes
it from the whole set that acts, so overlapping faults cannot wipe one another, and clearing the last one
restores the healthy value exactly. The result depends on the set only, not on the order in which its members
came.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from testbed.faults.rule import FrameRule
from testbed.faults.traffic import RawLoad

_Place = TypeVar("_Place", int, str)


@dataclass(frozen=True, slots=True)
class PortEffect:
    """What a fault does to the frames that leave one port.

    Attributes:
        port_id: egress port of the impaired direction.
        rule: what is done.
    """

    port_id: int
    rule: FrameRule


@dataclass(frozen=True, slots=True)
class PortRate:
    """How much of a port's rate a fault leaves.

    Attributes:
        port_id: egress port of the impaired direction.
        ratio: share of the rate, above 0, at most 1.
    """

    port_id: int
    ratio: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault with every name bound: what it does, where.

    Attributes:
        fault_id: name by which it is cleared and shown in events and metrics.
        kind: the kind the user wrote, such as `link-down`.
        detail: what tells it from others of its kind, for people.
        seed: of its random decisions.
        links, nodes: names of those concerned, for people and metrics.
        effects: what happens to frames.
        rates: what is left of ports' rates.
        held_ports: ports whose far end lets no data come.
        carrier_ports: switch-side ports whose interface goes down, so that the NIC at the far end really
            loses its carrier.
        unrouted_switches: node names of switches that have lost their forwarding tables.
        drained_links: ids of links that hosts are to keep off.
        frozen_hosts: hosts whose processes stand still.
        agentless_hosts: hosts whose NIC agent is dead.
        loads: background traffic.
    """

    fault_id: str
    kind: str
    seed: int
    detail: str = ""
    links: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    effects: tuple[PortEffect, ...] = ()
    rates: tuple[PortRate, ...] = ()
    held_ports: tuple[int, ...] = ()
    carrier_ports: tuple[int, ...] = ()
    unrouted_switches: tuple[str, ...] = ()
    drained_links: tuple[int, ...] = ()
    frozen_hosts: tuple[str, ...] = ()
    agentless_hosts: tuple[str, ...] = ()
    loads: tuple[RawLoad, ...] = ()

    def ports(self) -> frozenset[int]:
        """Ports at which it has a rule."""
        return frozenset(effect.port_id for effect in self.effects)

    @property
    def corrupts(self) -> bool:
        """Whether it damages packets, which takes NICs that notice."""
        return any(effect.rule.action == "corrupt" for effect in self.effects)

    def does_the_same_as(self, other: "Fault") -> bool:
        """Whether both do the very same thing at the very same places, whatever their names and seeds."""
        return self.deeds() == other.deeds()

    def deeds(self) -> tuple[object, ...]:
        """All that it does and where, comparable."""
        return (
            frozenset(self.effects),
            frozenset(self.rates),
            frozenset(self.held_ports),
            frozenset(self.carrier_ports),
            frozenset(self.unrouted_switches),
            frozenset(self.drained_links),
            frozenset(self.frozen_hosts),
            frozenset(self.agentless_hosts),
            frozenset(self.loads),
        )


@dataclass(frozen=True, slots=True)
class SharedState:
    """What holds where faults share a place; the default is a healthy place.

    Attributes:
        rate_ratios: port id -> share of its rate that is left.
        senders: port id -> whether the far end lets it send data.
        carriers: port id -> whether its interface is to be up.
        routes: switch -> whether it has its forwarding table.
        drained: links that are drained and those that are so no more; None: no business of this fault.
        running: host -> whether its processes run.
        agents: host -> whether its NIC agent is to live.
        checks_icrc: whether NICs are to check the iCRC; None: no business of this fault.
    """

    rate_ratios: dict[int, float]
    senders: dict[int, bool]
    carriers: dict[int, bool]
    routes: dict[str, bool]
    running: dict[str, bool]
    agents: dict[str, bool]
    checks_icrc: bool | None = None
    drained: tuple[frozenset[int], frozenset[int]] | None = None


def compose(acting: Iterable[Fault], concerned: Fault) -> SharedState:
    """What holds, under all faults of *acting*, at the shared places of the fault *concerned*.

    Rates multiply: half of a half is a quarter. Everything else is down while one fault wants it down.
    """
    faults = sorted(acting, key=lambda fault: fault.fault_id)
    ratios = {rate.port_id: 1.0 for rate in concerned.rates}
    for fault in faults:
        for rate in fault.rates:
            if rate.port_id in ratios:
                ratios[rate.port_id] *= rate.ratio
    return SharedState(
        rate_ratios=ratios,
        senders=_untouched(concerned.held_ports, (fault.held_ports for fault in faults)),
        carriers=_untouched(concerned.carrier_ports, (fault.carrier_ports for fault in faults)),
        routes=_untouched(concerned.unrouted_switches, (fault.unrouted_switches for fault in faults)),
        running=_untouched(concerned.frozen_hosts, (fault.frozen_hosts for fault in faults)),
        checks_icrc=any(fault.corrupts for fault in faults) if concerned.corrupts else None,
        agents=_untouched(concerned.agentless_hosts, (fault.agentless_hosts for fault in faults)),
        drained=_drained(faults, concerned) if concerned.drained_links else None,
    )


def _drained(faults: Iterable[Fault], concerned: Fault) -> tuple[frozenset[int], frozenset[int]]:
    drained = frozenset(link for fault in faults for link in fault.drained_links)
    return drained, frozenset(concerned.drained_links) - drained


def _untouched(places: Iterable[_Place], taken: Iterable[Iterable[_Place]]) -> dict[_Place, bool]:
    down = {place for some in taken for place in some}
    return {place: place not in down for place in places}
