"""The effects of faults on a lab, one class each: the place, and how it comes into force and ends.

A rule belongs to one fault. Every other effect is shared: whatever several faults want of one place (a port's
rate, a carrier, a switch's routes, a host) is settled from all of them that act, never as a difference, so
overlapping faults cannot wipe one another, and clearing the last one restores the healthy value exactly. The
result depends on the set only, not on the order in which its members came.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Annotated, Any, ClassVar, Literal, Protocol

from pydantic import Field

from mrc_testbed.faults.rule import LOSING_ACTIONS, FrameRule
from mrc_testbed.faults.traffic import RawLoad

Place = tuple[type, int | str]
"""A class of shared effects, and the port or node that they act on."""


class FaultedLab(Protocol):
    """The lab that effects change. Each call returns when it has happened; each may be repeated."""

    def set_rate(self, port_id: int, ratio: float) -> None:
        """Lets a port transmit at that share of the rate that the topology gives it."""

    def set_held(self, port_id: int, *, is_held: bool) -> None:
        """Lets the far end of a port's link hold the port's data back, or leave that to its buffer."""

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Brings the port's interface up or down."""

    def set_routes(self, switch: str, *, is_present: bool) -> None:
        """Set the forwarding table of a switch, or remove it."""

    def set_running(self, host: str, *, is_running: bool) -> None:
        """Lets the processes of a host run, or stand still; its NIC goes on."""

    def kill_agent(self, host: str) -> None:
        """Kills the NIC agent of a host, if it runs."""

    def set_icrc(self, *, is_checked: bool) -> None:
        """Has all NICs check the iCRC of packets, or do as the topology says."""


@dataclass(frozen=True, slots=True)
class Rule:
    """The rule for frames that leave one port; the data plane begins and ends it by itself."""

    begin_order: ClassVar[int] = 1
    end_order: ClassVar[int] = 2

    port_id: int
    rule: FrameRule
    type: Literal["rule"] = "rule"

    @property
    def is_losing(self) -> bool:
        """Return True if the receiver can use no frame that is hit."""
        return self.rule.action in LOSING_ACTIONS


@dataclass(frozen=True, slots=True)
class SharedEffect(ABC):
    """An effect that is settled from all that act at its place, which its first field names."""

    begin_order: ClassVar[int] = 2
    end_order: ClassVar[int] = 0

    @property
    def place(self) -> Place:
        return type(self), getattr(self, fields(self)[0].name)

    @abstractmethod
    def settle(self, lab: FaultedLab, acting: Sequence[Any]) -> None:
        """Set its place to the combination of all effects *acting* there."""


@dataclass(frozen=True, slots=True)
class IcrcChecked(SharedEffect):
    """NICs check the iCRC, so that they notice damaged packets."""

    begin_order: ClassVar[int] = 0
    end_order: ClassVar[int] = 4

    type: Literal["icrc-checked"] = "icrc-checked"

    def settle(self, lab: FaultedLab, acting: Sequence[Any]) -> None:
        lab.set_icrc(is_checked=bool(acting))


@dataclass(frozen=True, slots=True)
class RateShare(SharedEffect):
    """The part of a port's rate that is left, above 0, at most 1; shares multiply."""

    port_id: int
    ratio: float
    type: Literal["rate-share"] = "rate-share"

    def settle(self, lab: FaultedLab, acting: Sequence["RateShare"]) -> None:
        lab.set_rate(self.port_id, prod(sorted(effect.ratio for effect in acting)))


@dataclass(frozen=True, slots=True)
class Hold(SharedEffect):
    """The far end of a port's link lets no data come."""

    port_id: int
    type: Literal["hold"] = "hold"

    def settle(self, lab: FaultedLab, acting: Sequence[Any]) -> None:
        lab.set_held(self.port_id, is_held=bool(acting))


@dataclass(frozen=True, slots=True)
class RoutesGone(SharedEffect):
    """A switch has lost its forwarding table."""

    switch: str
    type: Literal["routes-gone"] = "routes-gone"

    def settle(self, lab: FaultedLab, acting: Sequence[Any]) -> None:
        lab.set_routes(self.switch, is_present=not acting)


@dataclass(frozen=True, slots=True)
class Frozen(SharedEffect):
    """The processes of a host stand still."""

    host: str
    type: Literal["frozen"] = "frozen"

    def settle(self, lab: FaultedLab, acting: Sequence[Any]) -> None:
        lab.set_running(self.host, is_running=not acting)


@dataclass(frozen=True, slots=True)
class AgentDead(SharedEffect):
    """The NIC agent of a host is dead; another one is started without the lock, see `HostRequests`."""

    begin_order: ClassVar[int] = 3
    end_order: ClassVar[int] = 1

    host: str
    type: Literal["agent-dead"] = "agent-dead"

    def settle(self, lab: FaultedLab, acting: Sequence[Any]) -> None:
        if acting:
            lab.kill_agent(self.host)


@dataclass(frozen=True, slots=True)
class CarrierDown(SharedEffect):
    """A switch-side port is down, so that the NIC at the far end really loses its carrier.

    Last and first in order, because a carrier takes milliseconds: nothing else waits for it.
    """

    begin_order: ClassVar[int] = 4
    end_order: ClassVar[int] = 3

    port_id: int
    type: Literal["carrier-down"] = "carrier-down"

    def settle(self, lab: FaultedLab, acting: Sequence[Any]) -> None:
        lab.set_carrier(self.port_id, is_up=not acting)


@dataclass(frozen=True, slots=True)
class Drained:
    """Hosts keep off a link; they are asked to without the lock, see `HostRequests`."""

    link_id: int
    type: Literal["drained"] = "drained"


@dataclass(frozen=True, slots=True)
class Loaded:
    """Links carry background traffic, made by a process of the fault's own."""

    load: RawLoad
    type: Literal["load"] = "load"


Effect = Annotated[
    Rule | IcrcChecked | RateShare | Hold | RoutesGone | Frozen | AgentDead | CarrierDown | Drained | Loaded,
    Field(discriminator="type"),
]


@dataclass(frozen=True, slots=True)
class HostRequests:
    """The requests to hosts where faults share them. Responses are awaited, so no lock is held meanwhile."""

    drained: frozenset[int] = frozenset()  # ids of links whose paths hosts are to deny
    # ids of links whose paths they are to allow again, unless one of `drained` is on them too
    freed: frozenset[int] = frozenset()
    revived: frozenset[str] = frozenset()  # hosts whose NIC agent is to run again
    # hosts that stand still or have no agent now, and are asked when they run again
    absent: frozenset[str] = frozenset()


def requests_of(acting: Iterable[Effect], concerned: Iterable[Effect]) -> HostRequests:
    """The requests to hosts on behalf of a fault."""
    acting, concerned = tuple(acting), tuple(concerned)
    all_drained = frozenset(effect.link_id for effect in acting if isinstance(effect, Drained))
    own_drained = frozenset(effect.link_id for effect in concerned if isinstance(effect, Drained))
    killed, own_killed = (
        frozenset(effect.host for effect in effects if isinstance(effect, AgentDead))
        for effects in (acting, concerned)
    )
    revived = own_killed - killed
    return HostRequests(
        drained=all_drained if own_drained or revived else frozenset(),  # a new agent knows none
        freed=own_drained - all_drained,
        revived=revived,
        absent=absent_hosts(acting),
    )


def absent_hosts(acting: Iterable[Effect]) -> frozenset[str]:
    """Hosts whose agent does not answer because of faults: it stands still, or is dead."""
    return frozenset(effect.host for effect in acting if isinstance(effect, Frozen | AgentDead))


def by_place(acting: Iterable[Effect]) -> Mapping[Place, list[Any]]:
    """The shared effects at each place; none at every other."""
    found: defaultdict[Place, list[Any]] = defaultdict(list)
    for effect in acting:
        if isinstance(effect, SharedEffect):
            found[effect.place].append(effect)
    return found
