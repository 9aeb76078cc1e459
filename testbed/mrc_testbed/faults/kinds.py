"""Faults of links, and of the packets that cross them: each kind is one class. Pure."""

import re
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mrc_agents.abi import FaultLimit
from mrc_testbed.document.fields import Duration, Rate, Ratio
from mrc_testbed.errors import UsageError
from mrc_testbed.faults.effects import Drained, Effect, Hold, IcrcChecked, Loaded, RateShare
from mrc_testbed.faults.rule import EV_MASK_ALL, FrameRule
from mrc_testbed.faults.schedule import Flap
from mrc_testbed.faults.spec_base import BothWaysFault, FrameFault, LinkFault, Target, dark, egress_ports
from mrc_testbed.faults.traffic import plan_loads
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Link, Node
from mrc_testbed.units import format_rate_bps, format_ratio

_EV_PATTERN = r"0x[0-9a-fA-F]{1,8}"
_EV_COPY_BITS = 16
_FLIPPED_DEFAULT = 1


def _check_ev(text: str) -> str:
    if not re.fullmatch(_EV_PATTERN, text):
        raise UsageError(f"{text!r} is no entropy value: write it like 0x10020003")
    return text


class LinkDown(LinkFault):
    """A fabric or host link forwards nothing in the chosen direction; both ends keep their carrier."""

    condition: ClassVar[str] = "was down"

    kind: Literal["link-down"]

    def rule(self) -> FrameRule:
        return FrameRule(action="down")


class LinkFlap(LinkFault):
    """A link goes down and comes back, again and again."""

    condition: ClassVar[str] = "flapped"

    kind: Literal["link-flap"]
    every_ns: Duration = Field(alias="every", gt=0, description="Time from one outage to the next.")
    down_ns: Duration = Field(alias="down", gt=0, description="Length of each outage of the link.")
    jitter_ratio: Ratio = Field(
        default=0.0,
        alias="jitter",
        json_schema_extra={"default": "0%"},
        description="Each outage starts later by up to this share of `every`, drawn from the seed.",
    )

    @model_validator(mode="after")
    def _check_occurrences_stay_apart(self) -> Self:
        if self.down_ns + round(self.jitter_ratio * self.every_ns) > self.every_ns:
            msg = "`down` plus `jitter` of `every` must fit into `every`, or one down runs into the next"
            raise ValueError(msg)
        return self

    def rule(self) -> FrameRule:
        return FrameRule(action="down")

    def flap(self, seed: int) -> Flap:
        return Flap(self.every_ns, self.down_ns, self.jitter_ratio, seed)


class NicPortDown(BothWaysFault):
    """A NIC port loses its carrier, and the NIC sees this; selects host links only, in both directions."""

    condition: ClassVar[str] = "was down"
    example: ClassVar[str] = "h0:2"

    kind: Literal["nic-port-down"]

    def choose(self, clos: Clos, pick_seed: int) -> tuple[tuple[Link, ...], tuple[Node, ...]]:
        """The links, all of hosts."""
        links, nodes = super().choose(clos, pick_seed)
        for link in links:
            if not link.is_host_link:
                raise UsageError(
                    f"nic-port-down takes the carrier of a NIC port, but {link.name} joins two switches; "
                    "select host links, such as {between: [host, t0]}, or use link-down"
                )
        return links, nodes

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return dark(target.links)


class Loss(FrameFault):
    """A link loses packets at random, each with the same probability."""

    condition: ClassVar[str] = "lost packets"

    kind: Literal["loss"]
    ratio: Ratio = Field(gt=0, description="Probability that a packet is lost.")

    def rule(self) -> FrameRule:
        return FrameRule(action="lose", ratio=self.ratio, traffic=self.traffic)


class BurstLoss(FrameFault):
    """A link loses packets in bursts: it changes between a good and a bad state (Gilbert-Elliott)."""

    condition: ClassVar[str] = "lost packets"

    kind: Literal["burst-loss"]
    ratio: Ratio = Field(gt=0, lt=1, description="Share of packets lost in the long run.")
    burst: Annotated[float, Field(ge=1, le=1e6)] = Field(
        description="Mean length of the bad state, in packets."
    )
    within_ratio: Ratio = Field(
        default=1.0,
        alias="within",
        gt=0,
        json_schema_extra={"default": "100%"},
        description="Probability of loss in the bad state; in the good state nothing is lost.",
    )

    @model_validator(mode="after")
    def _check_ratios(self) -> Self:
        if self.ratio >= self.within_ratio:
            raise ValueError(
                f"`ratio` {format_ratio(self.ratio)} must be below `within` "
                f"{format_ratio(self.within_ratio)}: it is the share over good and bad times"
            )
        if self._begins > 1.0:
            raise ValueError(
                f"bursts of {self.burst:g} packets are too short for a ratio of "
                f"{format_ratio(self.ratio)}: give longer ones"
            )
        return self

    @property
    def _begins(self) -> float:
        """Chance that a burst begins with a packet."""
        bad = self.ratio / self.within_ratio
        return bad / (1.0 - bad) / self.burst

    def rule(self) -> FrameRule:
        """Those are lost that a bad state meets."""
        return FrameRule(
            action="lose",
            ratio=0.0,
            burst_ratio=self.within_ratio,
            burst_begins=self._begins,
            burst_ends=1.0 / self.burst,
            traffic=self.traffic,
        )


class EvLoss(FrameFault):
    """A link loses the packets of one entropy value, or of all EVs of one path; other packets pass."""

    condition: ClassVar[str] = "lost packets of some EVs"

    kind: Literal["ev-loss"]
    ev: Annotated[str, AfterValidator(_check_ev)] = Field(
        description="The EV, such as `0x10020003`: plane 4 bits, uplink 12 bits, copy 16 bits."
    )
    copies: Literal["one", "all"] = Field(
        default="one", description="`all`: every EV of the same path, whatever its copy number."
    )
    ratio: Ratio = Field(
        default=1.0,
        gt=0,
        json_schema_extra={"default": "100%"},
        description="Probability that one of these packets is lost.",
    )

    def rule(self) -> FrameRule:
        mask = EV_MASK_ALL if self.copies == "one" else EV_MASK_ALL >> _EV_COPY_BITS << _EV_COPY_BITS
        return FrameRule(
            action="lose", ratio=self.ratio, traffic=self.traffic, ev=int(self.ev, 16), ev_mask=mask
        )


class Corrupt(FrameFault):
    """Bits flip on a link, between BTH and iCRC; the receiver finds a bad iCRC and drops the packet."""

    condition: ClassVar[str] = "corrupted packets"

    kind: Literal["corrupt"]
    ratio: Ratio = Field(gt=0, description="Probability that a packet is damaged.")
    bits: Annotated[int, Field(ge=1, le=FaultLimit.FLIPPED_MAX)] = Field(
        default=_FLIPPED_DEFAULT, description="Neighbouring bits that flip in a damaged packet; at most 32."
    )

    def rule(self) -> FrameRule:
        return FrameRule(action="corrupt", ratio=self.ratio, traffic=self.traffic, flipped_bits=self.bits)

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return (IcrcChecked(), *super().effects(target))


class Duplicate(FrameFault):
    """Packets arrive twice, the copy right behind the original; shaped fabrics only."""

    needs_queue: ClassVar[bool] = True
    condition: ClassVar[str] = "duplicated packets"

    kind: Literal["duplicate"]
    ratio: Ratio = Field(gt=0, description="Probability that a packet arrives twice.")

    def check_fabric(self, clos: Clos) -> None:
        """Not with credits."""
        super().check_fabric(clos)
        if clos.spec.flow_control == "credits":
            raise UsageError(
                "with flow_control: credits the far end has room for every packet once, not twice"
            )

    def rule(self) -> FrameRule:
        return FrameRule(action="duplicate", ratio=self.ratio, traffic=self.traffic)


class Delay(FrameFault):
    """Every packet takes longer, in the same order; shaped fabrics only."""

    needs_queue: ClassVar[bool] = True
    condition: ClassVar[str] = "was delayed"

    kind: Literal["delay"]
    by_ns: Duration = Field(alias="by", gt=0, description="Additional delay of packets.")
    jitter_ratio: Ratio = Field(
        default=0.0,
        alias="jitter",
        json_schema_extra={"default": "0%"},
        description="Each delay is longer or shorter by up to this share of `by`; packets keep their order.",
    )

    def rule(self) -> FrameRule:
        return FrameRule(
            action="delay",
            traffic=self.traffic,
            time_ns=self.by_ns,
            jitter_ns=round(self.jitter_ratio * self.by_ns),
        )


class Reorder(FrameFault):
    """A link holds some packets back, and later packets overtake them; shaped fabrics only."""

    needs_queue: ClassVar[bool] = True
    condition: ClassVar[str] = "reordered packets"

    kind: Literal["reorder"]
    ratio: Ratio = Field(gt=0, description="Probability that a packet is held back.")
    by_ns: Duration = Field(alias="by", gt=0, description="Time that a packet is held back.")

    def rule(self) -> FrameRule:
        return FrameRule(action="reorder", ratio=self.ratio, traffic=self.traffic, time_ns=self.by_ns)


class SlowLink(LinkFault):
    """A link runs at a reduced rate and signals nothing; shaped fabrics only."""

    needs_queue: ClassVar[bool] = True
    condition: ClassVar[str] = "was slow"

    kind: Literal["slow-link"]
    to_ratio: Ratio = Field(alias="to", gt=0, lt=1, description="Remaining share of the rate.")

    @property
    def detail(self) -> str:
        return f"to {format_ratio(self.to_ratio)}"

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return tuple(RateShare(port.id, self.to_ratio) for port in egress_ports(target.links, self.direction))


class PauseStorm(LinkFault):
    """The far end of a link stops all data, like a NIC that sends pause frames forever; flow control only.

    The sender holds its data back. Packets behind it fill the buffers of its switch, and so on backwards.
    Control packets pass. In the direction a-to-b, b sends the pauses.
    """

    needs_queue: ClassVar[bool] = True
    needs_flow_control: ClassVar[bool] = True
    condition: ClassVar[str] = "was paused"

    kind: Literal["pause-storm"]

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return tuple(Hold(port.id) for port in egress_ports(target.links, self.direction))


class Drain(BothWaysFault):
    """Hosts deny the EVs that cross a link, as before maintenance; packets in flight still arrive.

    The end of the fault allows the EVs again, except those that another drain still denies. It needs EVs
    that name a path: forwarding srv6 or stev. The last active EV of a QP stays in use.
    """

    condition: ClassVar[str] = "was drained"

    kind: Literal["drain"]

    def check_fabric(self, clos: Clos) -> None:
        """Only where EVs name paths."""
        super().check_fabric(clos)
        if clos.spec.forwarding == "ecmp":
            raise UsageError(
                "with forwarding: ecmp no EV names a path that could be denied; use srv6 or stev"
            )

    def effects(self, target: Target) -> tuple[Effect, ...]:
        return tuple(Drained(link.id) for link in target.links)


class Congestion(LinkFault):
    """Background traffic without congestion control loads links; shaped fabrics only.

    Its packets are as large as full data packets, and switches do not trim them. For background traffic
    over MRC, use a second workload with its own hosts.
    """

    needs_queue: ClassVar[bool] = True
    condition: ClassVar[str] = "was congested"

    kind: Literal["congestion"]
    rate_bps: Rate = Field(alias="rate", description="Load on each link in each chosen direction.")
    towards: str | None = Field(
        default=None,
        description="A host: the packets travel to it over one path and load every link on their way. Only "
        "for links of hosts with direction a-to-b. Left out: the far end of the link drops the packets.",
    )

    @property
    def detail(self) -> str:
        where = f" towards {self.towards}" if self.towards else ""
        return f"of {format_rate_bps(self.rate_bps)}{where}"

    def effects(self, target: Target) -> tuple[Effect, ...]:
        ports = egress_ports(target.links, self.direction)
        return tuple(map(Loaded, plan_loads(target.clos, ports, self.rate_bps, self.towards, target.seed)))
