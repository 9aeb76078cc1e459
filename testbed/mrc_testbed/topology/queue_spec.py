"""The entries of queues and delays of ports in a topology: for the whole fabric, by tier, by link.

    queue:
      ecn: {max: 40KiB}                            every port that marks
      overrides:
        - at: t1                                   ports of T1 switches
          data_buffer: 200KiB
          rate: 50Mbit
        - select: {links: h0:2}                    one link, at one of its ends
          at: t0
          ecn: {last_hop: true}
    link_delays:
      - select: {links: {plane: 0, between: [t0, t1]}}
        delay: 50us

A key that is left out has the value of an earlier override, then of the fabric, then the default.
"""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mrc_testbed.document.fields import Duration, Rate, Ratio, Size, StrictModel
from mrc_testbed.document.problem import LimitProblems
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.selector_spec import LinkSelector

LinkMode = Literal["veth", "direct"]
_SomeBytes = Annotated[Size, Field(gt=0)]


class EcnSpec(StrictModel):
    """Congestion marks on data packets: none up to `min` waiting bytes, on every packet from `max` on, and in
    between at random with a linearly growing probability.
    """

    enabled: bool | None = Field(
        default=None, description="true: ports mark. Left out: true, unless there is flow control."
    )
    min: Size | None = Field(
        default=None,
        description="Waiting data up to which no packet is marked. Left out: 0.2 times the bandwidth-delay "
        "product.",
    )
    max: _SomeBytes | None = Field(
        default=None,
        description="Waiting data from which every packet is marked. Left out: 0.8 times the "
        "bandwidth-delay product.",
    )
    probability: Ratio | None = Field(
        default=None, description="Share of packets marked just below `max`. Left out: 100%."
    )
    last_hop: bool | None = Field(
        default=None,
        description="true: T0 ports to hosts mark too. Left out: false, because senders would take an "
        "incast for a congested path.",
    )


class TrimSpec(StrictModel):
    """Trimming: if too much data waits, a switch cuts a data packet to its headers, sent as control."""

    enabled: bool | None = Field(
        default=None,
        description="true: switch ports trim; false: they drop at data_buffer. Left out: true, unless there "
        "is flow control.",
    )
    threshold: _SomeBytes | None = Field(
        default=None,
        description="Waiting data above which packets are trimmed. Left out: the bandwidth-delay product, "
        "1.5 times that on T0 ports to hosts.",
    )


class PortQueueSpec(StrictModel):
    """The settings of the queues of a port."""

    data_buffer: _SomeBytes | None = Field(
        default=None,
        description="Buffer for data packets at a port. Left out: 5 times the port's rate times the idle "
        "RTT across a T1, and at least one window of full packets.",
    )
    control_buffer: _SomeBytes | None = Field(
        default=None,
        description="Buffer for SACKs, probes and trimmed packets at a port. Left out: 1024 SACKs.",
    )
    links: LinkMode | None = Field(
        default=None,
        description="Path of frames to a switch. veth: through the interfaces. direct: inside the data "
        "plane, with half the work; with and without port_rate. A link with a capture or a fault uses veth "
        "meanwhile. Left out: veth.",
    )
    ecn: EcnSpec = Field(default=EcnSpec.model_construct(), description="Congestion marks of switch ports.")
    trim: TrimSpec = Field(default=TrimSpec.model_construct(), description="Trimming of switch ports.")

    def settings(self) -> dict[str, Any]:
        """The keys that were given, dotted, with their values."""
        buffers = {
            "data_buffer": self.data_buffer,
            "control_buffer": self.control_buffer,
            "links": self.links,
        }
        marks = {f"ecn.{key}": value for key, value in self.ecn}
        trims = {f"trim.{key}": value for key, value in self.trim}
        return {key: value for key, value in (buffers | marks | trims).items() if value is not None}

    @model_validator(mode="after")
    def _check_thresholds(self) -> Self:
        problems = LimitProblems()
        if self.ecn.min is not None and self.ecn.max is not None and self.ecn.min >= self.ecn.max:
            problems.add("ecn.min", self.ecn.min, "ecn.min must be less than ecn.max")
        if self.data_buffer is not None and (self.trim.threshold or 0) > self.data_buffer:
            problems.add("trim.threshold", self.trim.threshold, "trim.threshold must be at most data_buffer")
        problems.raise_if_any("queue")
        return self


class QueueOverride(PortQueueSpec):
    """Other settings for some ports: the ports of the selected links, at the end that `at` names."""

    select: LinkSelector | None = Field(default=None, description="Links. Left out: all.")
    at: Tier | None = Field(
        default=None, description="The end of a link, by its node: host, t0, t1 or t2. Left out: both ends."
    )
    rate: Rate | None = Field(
        default=None,
        description="The rate of these ports, at most port_rate. Theory, buffers, thresholds and congestion "
        "control use this rate. Left out: port_rate.",
    )

    def settings(self) -> dict[str, Any]:
        """The keys that were given, dotted, with their values."""
        rate = {} if self.rate is None else {"rate": self.rate}
        return super().settings() | rate

    @property
    def needs_rate(self) -> bool:
        """Return True if it says more than how frames get to a switch, which unshaped links know too."""
        return bool(self.settings().keys() - {"links"})

    @model_validator(mode="after")
    def _check_something_is_selected(self) -> Self:
        if self.select is None and self.at is None:
            raise ValueError("an override needs the ports it is for: give select, at or both")
        if not self.settings():
            raise ValueError("an override without a setting changes nothing")
        return self


class QueueSpec(PortQueueSpec):
    """The two queues of every port of a shaped fabric, control before data. The bandwidth-delay product is
    the port's rate times the idle RTT across a T1, but at least 16 full packets.
    """

    drainer: Literal["auto", "precise", "eco"] = Field(
        default="auto",
        description="Mode of the drainer, the process that sends frames. auto: it sleeps when it can. "
        "precise: it never sleeps, and needs a core of its own. eco: it wakes up at most every 100us; "
        "frames leave up to 100us late, and it saves most of a core.",
    )
    drainers: int = Field(
        default=1,
        ge=1,
        le=8,
        description="Number of drainers, each on a core of its own; they share the planes, or the links.",
    )
    overrides: list[QueueOverride] = Field(
        default_factory=list,
        description="Ports with other settings; the last entry that selects a port applies, key by key.",
    )


class LinkDelay(StrictModel):
    """A different propagation delay for some links."""

    select: LinkSelector = Field(description="The links.")
    delay: Duration = Field(description="Propagation delay, one way.")
