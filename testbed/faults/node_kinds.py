"""Faults of switches, planes and hosts, as a user writes them. Pure."""

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from testbed.faults.spec_base import AnyFault, NodeFault
from testbed.topology.selector import PlaneSelector
from testbed.units import Duration

HOST_KINDS: Final = frozenset({"host-pause", "nic-agent-kill"})
"""Kinds that act on hosts; those of other nodes act on switches."""


class Blackhole(NodeFault):
    """A switch forwards nothing, though its links are up and nobody is told; selects switches."""

    kind: Literal["blackhole"]


class SwitchDown(NodeFault):
    """A switch is off: all its links are down, and NICs at it lose their carrier; selects switches."""

    kind: Literal["switch-down"]


class SwitchReboot(NodeFault):
    """A switch is off and forgets its forwarding table; back with its links, it gets the table again."""

    kind: Literal["switch-reboot"]


class PlaneDown(AnyFault):
    """All links of a plane are down, and every NIC loses the carrier of that port."""

    kind: Literal["plane-down"]
    select: PlaneSelector = Field(description="The planes it acts on.")


class HostPause(NodeFault):
    """The processes of a host stand still, as if stopped by SIGSTOP; selects hosts.

    Its NIC goes on, as one in hardware would: it places and acknowledges what arrives, and sends what the
    SACKs of messages already begun allow. Nothing new is posted, and no timer of its QPs runs out.
    """

    kind: Literal["host-pause"]


class NicAgentKill(NodeFault):
    """The agent that drives a host's NIC is killed; its end starts it anew; selects hosts.

    The QPs and memory regions of the host are gone with it. In a run the flows from and to the host fail and
    stay failed; all others go on.
    """

    kind: Literal["nic-agent-kill"]


class Clear(BaseModel):
    """Ends faults at that time, before they would end by themselves."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["clear"]
    at_ns: Duration = Field(alias="at", description="When, from the end of warm-up.")
    faults: Annotated[list[str], Field(min_length=1)] = Field(description="Ids of the faults.")
