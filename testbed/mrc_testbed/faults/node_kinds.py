"""Faults of switches, planes and hosts: each kind is one class. Pure."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from mrc_testbed.document.fields import Duration, Ratio, StrictModel
from mrc_testbed.errors import UsageError
from mrc_testbed.faults.effects import AgentDead, Effect, Frozen, RoutesGone, Rule
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.spec_base import AnyFault, NodeFault, Target, dark
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Link, Node
from mrc_testbed.topology.select import select_planes
from mrc_testbed.topology.selector_spec import PlaneSelector
from mrc_testbed.units import format_duration_ns

PAUSE_MAX_NS: Final = 8 * 10**9
"""A run takes an agent that is silent for ten seconds for lost."""


class Blackhole(NodeFault):
    """A switch swallows packets, all or some; its links stay up, and it signals nothing; selects switches."""

    condition: ClassVar[str] = "swallowed packets"

    kind: Literal["blackhole"]
    ratio: Ratio = Field(
        default=1.0,
        gt=0,
        json_schema_extra={"default": "100%"},
        description="Probability that a packet is swallowed; of all by default.",
    )

    def rule(self) -> FrameRule:
        return FrameRule(action="lose", ratio=self.ratio)

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return tuple(
            Rule(port.id, self.rule()) for node in target.nodes for port in target.clos.ports_of(node)
        )


class SwitchDown(NodeFault):
    """A switch is off: all its links are down, and the NICs at it lose their carrier; selects switches."""

    condition: ClassVar[str] = "was away"

    kind: Literal["switch-down"]

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return dark(target.links)


class SwitchReboot(NodeFault):
    """A switch is off and loses its forwarding table; at the end it gets the table, then its links."""

    condition: ClassVar[str] = "was away"

    kind: Literal["switch-reboot"]

    def effects(self, target: Target) -> tuple[Effect, ...]:
        """Its links are dark, its table is gone."""
        return (*dark(target.links), *(RoutesGone(node.name) for node in target.nodes))


class PlaneDown(AnyFault):
    """All links of a plane are down, and every NIC loses the carrier of that port."""

    selects: ClassVar = "plane"
    example: ClassVar[str] = "1"
    condition: ClassVar[str] = "was down"

    kind: Literal["plane-down"]
    select: PlaneSelector = Field(description="The affected planes.")

    def choose(self, clos: Clos, pick_seed: int) -> tuple[tuple[Link, ...], tuple[Node, ...]]:
        """All links of the planes."""
        planes = select_planes(clos, self.select, pick_seed)
        return tuple(link for link in clos.links() if link.plane in planes), ()

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return dark(target.links)


class HostPause(NodeFault):
    """SIGSTOP stops the processes of a host; selects hosts.

    Its NIC continues, as a hardware NIC does: it places and acknowledges arriving data, and sends what the
    SACKs of started messages allow. The host posts no new work, and no timer of its QPs expires.
    """

    acts_on_hosts: ClassVar[bool] = True
    example: ClassVar[str] = "h3"
    condition: ClassVar[str] = "stood still"

    kind: Literal["host-pause"]

    def check_run(self, end_ns: int | None) -> None:
        """Not longer than PAUSE_MAX_NS."""
        if end_ns is None or end_ns - self.at_ns > PAUSE_MAX_NS:
            raise UsageError(
                "a run gives up an agent that does not answer: pause a host for "
                f"{format_duration_ns(PAUSE_MAX_NS)} at most"
            )

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return tuple(Frozen(node.name) for node in target.nodes)


class NicAgentKill(NodeFault):
    """The agent that drives a host's NIC dies; the end of the fault starts a new one; selects hosts.

    The host loses its QPs and memory regions. In a run the flows from and to the host fail and do not
    recover; all other flows continue.
    """

    acts_on_hosts: ClassVar[bool] = True
    example: ClassVar[str] = "h3"
    condition: ClassVar[str] = "had no agent"

    kind: Literal["nic-agent-kill"]

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return tuple(AgentDead(node.name) for node in target.nodes)


class Clear(StrictModel):
    """End faults at this time, before their own end."""

    kind: Literal["clear"]
    at_ns: Duration = Field(alias="at", description="Time of the end, from the end of warm-up.")
    faults: Annotated[list[str], Field(min_length=1)] = Field(description="Ids of the faults.")
