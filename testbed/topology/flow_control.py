"""Flow control of links, hop by hop: what a user writes about it, and what follows for each link.

    flow_control: pfc                        or credits, or none
    pfc: {xoff: 60KiB, xon: 40KiB, headroom: 60KiB}
    credits: {buffer: 60KiB}

Buffers are those of a switch's ingress, one per link that leads there. They count what waits in the switch,
whatever port it is to leave by. Left out, they follow from what a link holds while a message and its answer
cross it, and from the length of a full frame:

    PFC       0 ------- xon ------- xoff ------------------------- room
                 2 delays     4 frames    2 delays and 18 frames: headroom for what comes before
                 4 frames                 the pause is heard
    credits   0 ------------------- room: 2 delays and 8 frames

Source: docs/queue-engine.md, "Lossless modes"; IEEE 802.1Qbb for PFC.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from testbed.topology import timing
from testbed.topology.limit import LimitProblems
from testbed.topology.port_selection import overriding_delays_ns
from testbed.units import Size

if TYPE_CHECKING:
    from testbed.topology.clos import Clos
    from testbed.topology.spec import TopologySpec

FlowControlKind = Literal["none", "pfc", "credits"]

TRANSIT_FRAMES: Final = 16
"""Frames that may be sent to a switch that has not looked at them yet; MRC_LOSSLESS_TRANSIT_MAX of the data
plane. The headroom has room for them."""

_WORKING_FRAMES: Final = 4
"""Waiting frames with which a switch resumes its sender: it is not to run dry before they come."""

_HYSTERESIS_FRAMES: Final = 4
_HEADROOM_FRAMES: Final = TRANSIT_FRAMES + 2
"""One that was being sent when the pause came, one that was when it was said."""

_CREDIT_FRAMES: Final = 8
_CONFIG = ConfigDict(extra="forbid", frozen=True, strict=True)
_SomeBytes = Annotated[Size, Field(gt=0)]


class PfcSpec(BaseModel):
    """Priority flow control: a switch pauses the port at the other end of a link when too much of what came
    by it waits.
    """

    model_config = _CONFIG

    xoff: _SomeBytes | None = Field(
        default=None,
        description="Waiting data with which a pause is sent. Left out: xon and 4 full frames more.",
    )
    xon: Size | None = Field(
        default=None,
        description="Waiting data with which the pause is lifted. Left out: what a link carries in two of "
        "its delays, and 4 full frames; at most xoff less a byte.",
    )
    headroom: Size | None = Field(
        default=None,
        description="Room beyond xoff for what still comes; too little of it loses packets. Left out: what a "
        "link carries in two of its delays, and 18 full frames.",
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        problems = LimitProblems()
        if self.xoff is not None and self.xon is not None and self.xon >= self.xoff:
            problems.add("xon", self.xon, "xon must be less than xoff")
        problems.raise_if_any("pfc")
        return self


class CreditSpec(BaseModel):
    """Credits, as InfiniBand has them: a port sends only what the switch at the other end has room for."""

    model_config = _CONFIG

    buffer: _SomeBytes | None = Field(
        default=None,
        description="Room for data that came by a link and waits; at least a full frame. Left out: what a "
        "link carries in two of its delays, and 8 full frames.",
    )


@dataclass(frozen=True, slots=True)
class LinkBuffer:
    """The ingress buffer behind a link, for data.

    Attributes:
        xoff_bytes: PFC: with so much waiting the sender is paused; 0 for credits.
        xon_bytes: PFC: with no more than this it goes on; 0 for credits.
        room_bytes: all of it.
    """

    xoff_bytes: int
    xon_bytes: int
    room_bytes: int


def link_buffers(clos: "Clos") -> tuple[LinkBuffer, ...]:
    """The buffer at the far end of every port's link, by port id; empty without flow control."""
    if clos.spec.flow_control == "none":
        return ()
    delays_ns, usual_ns = overriding_delays_ns(clos), clos.spec.link_delay
    return tuple(
        _link_buffer(clos, rate_bps, delays_ns.get(port_id // 2, usual_ns))
        for port_id, rate_bps in enumerate(clos.port_rates_bps)
    )


def switch_room_bytes(clos: "Clos") -> int:
    """Most data that can wait in one switch, hence at one of its ports; 0 without flow control."""
    buffers = link_buffers(clos)
    if not buffers:
        return 0
    spec = clos.spec
    ports = max(spec.hosts_per_t0 + clos.numbering.uplink_count, spec.t0 * spec.uplinks_per_pair)
    return ports * max(buffer.room_bytes for buffer in buffers)


def check_flow_control(spec: "TopologySpec", clos: "Clos", problems: LimitProblems) -> None:
    """Adds to *problems* what contradicts itself or has no effect."""
    kind = spec.flow_control
    for key, given, needed in (("pfc", spec.pfc, "pfc"), ("credits", spec.credits, "credits")):
        for name, value in given.model_dump(exclude_none=True).items():
            if kind != needed:
                problems.add(
                    f"{key}.{name}", value, f"{key}.{name} has no effect without flow_control: {needed}"
                )
    if kind == "none":
        return
    if not spec.is_shaped:
        problems.add(
            "flow_control", kind, "flow_control has no effect in an unshaped fabric; give port_rate too"
        )
        return
    given_queue = spec.queue.settings()
    if given_queue.get("trim.enabled"):
        problems.add(
            "queue.trim.enabled",
            True,
            f"a fabric with flow_control: {kind} holds packets back; it never trims",
        )
    if "data_buffer" in given_queue:
        where = "pfc.xoff and pfc.headroom" if kind == "pfc" else "credits.buffer"
        problems.add(
            "queue.data_buffer",
            spec.queue.data_buffer,
            f"with flow_control: {kind} a packet waits in the buffer of the link it came by; set {where}",
        )
    frame_bytes = timing.full_frame_bytes(clos)
    if kind == "credits" and spec.credits.buffer is not None and spec.credits.buffer < frame_bytes:
        problems.add(
            "credits.buffer",
            spec.credits.buffer,
            f"a full frame has {frame_bytes} bytes, so none could ever be sent into {spec.credits.buffer}",
        )


def _link_buffer(clos: "Clos", rate_bps: int, delay_ns: int) -> LinkBuffer:
    spec, frame_bytes = clos.spec, timing.full_frame_bytes(clos)
    held_bytes = rate_bps * 2 * delay_ns // (8 * 10**9)
    if spec.flow_control == "credits":
        return LinkBuffer(0, 0, spec.credits.buffer or held_bytes + _CREDIT_FRAMES * frame_bytes)
    pfc = spec.pfc
    xon_bytes = pfc.xon if pfc.xon is not None else held_bytes + _WORKING_FRAMES * frame_bytes
    xoff_bytes = pfc.xoff or xon_bytes + _HYSTERESIS_FRAMES * frame_bytes
    headroom_bytes = pfc.headroom if pfc.headroom is not None else held_bytes + _HEADROOM_FRAMES * frame_bytes
    return LinkBuffer(xoff_bytes, min(xon_bytes, xoff_bytes - 1), xoff_bytes + headroom_bytes)
