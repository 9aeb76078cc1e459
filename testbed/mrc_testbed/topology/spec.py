"""TopologySpec: what a user writes to describe a fabric, with the limits that the values themselves show.

`resolve` checks what shows only on the fabric that they describe.

A value left out that depends on others (the number of EVs, queue sizes) stays None in the model, so that a
stored spec says what the user said; `Clos` computes it.
"""

from math import ceil
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from mrc_agents.algorithms import CC, EV
from mrc_testbed.document.fields import Duration, Rate, Ratio, Size, StrictModel
from mrc_testbed.document.problem import LimitProblems, Location
from mrc_testbed.topology.addressing import PORT_ID_BITS
from mrc_testbed.topology.algorithm import check_cc_algorithm, check_ev_selector
from mrc_testbed.topology.ev import LANE_MASK, UPLINK_MASK
from mrc_testbed.topology.numbering import Numbering, TierSize
from mrc_testbed.topology.probing_spec import ProbingSpec
from mrc_testbed.topology.queue_spec import LinkDelay, QueueSpec
from mrc_testbed.topology.usid import INDEX_COUNT, PLANE_COUNT

FlowControlKind = Literal["none", "pfc", "credits"]

_SomeBytes = Annotated[Size, Field(gt=0)]

PATH_MTUS: Final = (256, 512, 1024, 2048, 4096)
"""Payload bytes per packet that the data plane supports; 4096 in virtual time alone: see Limit.PMTU_MAX."""

EVS_DEFAULT: Final = 128
EVS_MAX: Final = 256
"""EVs of one QP; MRC_EV_MAX of the data plane."""

WINDOW_PACKETS_MAX: Final = 1024
"""PSNs a QP tracks; MRC_PSN_RING of the data plane."""

MEMORY_SEGMENT_BYTES: Final = 1 << 20
"""A NIC's memory is made of segments of this size; MRC_MEMORY_SEGMENT of the data plane."""


class PfcSpec(StrictModel):
    """Priority flow control: a switch pauses the port at the other end of a link when too much data of this
    link waits.
    """

    xoff: _SomeBytes | None = Field(
        default=None,
        description="Waiting data at which the switch sends a pause. Left out: xon plus 4 full frames.",
    )
    xon: Size | None = Field(
        default=None,
        description="Waiting data at which the switch lifts the pause. Left out: the bytes that a link "
        "carries in two of its delays, plus 4 full frames; at most xoff less a byte.",
    )
    headroom: Size | None = Field(
        default=None,
        description="Buffer beyond xoff for data that still arrives; if it is too small, packets are lost. "
        "Left out: the bytes that a link carries in two of its delays, plus 18 full frames.",
    )

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        problems = LimitProblems()
        if self.xoff is not None and self.xon is not None and self.xon >= self.xoff:
            problems.add("xon", self.xon, "xon must be less than xoff")
        problems.raise_if_any("pfc")
        return self


class CreditSpec(StrictModel):
    """Credits, as in InfiniBand: a port sends only as much as the switch at the other end can buffer."""

    buffer: _SomeBytes | None = Field(
        default=None,
        description="Buffer for waiting data of a link; at least a full frame. Left out: the bytes that a "
        "link carries in two of its delays, plus 8 full frames.",
    )


class NicSpec(StrictModel):
    """The NIC of every host."""

    memory: Size = Field(
        default=16 << 20,
        description="Memory that can be registered for RDMA, a multiple of 1MiB, at most 4GiB. For programs "
        "on a host it is what is there at start; it grows.",
    )
    evs: Annotated[int, Field(ge=1, le=EVS_MAX)] | None = Field(
        default=None,
        description="Entropy values of a QP, including backups; a multiple of the planes, at most 256. Left "
        "out: 128, rounded down to a multiple of the planes.",
    )
    backup_share: Ratio = Field(
        default=0.25,
        lt=1,
        description="Share of the EVs kept as backups, to replace bad EVs of the same plane. At least one "
        "EV of a plane is active; of two or more, at least one is a backup unless the share is 0%.",
    )
    cc: Annotated[str, AfterValidator(check_cc_algorithm)] = Field(
        default=CC.usual,
        description="Congestion control of MRC QPs without a fixed window: nscc, aimd, or your own "
        "(docs/guide/your-own-congestion-control.md). A scenario's transport.cc has priority.",
    )
    ev_selector: Annotated[str, AfterValidator(check_ev_selector)] = Field(
        default=EV.usual,
        description="Selector of the EV of an MRC QP's next packet: shuffle, round_robin, reps, or your own "
        "(docs/guide/your-own-congestion-control.md). A scenario's transport.ev_selector has priority.",
    )
    path_state: Literal["nic", "qp"] = Field(
        default="nic",
        description="Scope of the state of a lossy path. nic: all QPs of a NIC share it. qp: each QP has "
        "its own. With forwarding ecmp it is always qp, because EVs name no paths.",
    )
    probe_successes: int = Field(
        default=3,
        ge=1,
        le=255,
        description="Answered EV probes in a row that bring an EV back into use. 1 is faster if loss is "
        "random; 3 keeps a very lossy path out of use.",
    )
    window_packets: int = Field(
        default=64,
        ge=1,
        le=WINDOW_PACKETS_MAX,
        description="Packets a QP may have in flight over all planes.",
    )
    path_mtu: Size = Field(
        default=2048,
        description="Payload bytes per packet: 256B, 512B, 1KiB or 2KiB; with --virtual 4KiB, too.",
    )
    delay: Duration = Field(
        default=0,
        description="Time that a frame spends in the NIC that sends it, and again in the one that receives "
        "it, besides its time on the port; a constant of the model. Needs port_rate.",
    )
    icrc: Literal["off", "on"] = Field(
        default="off",
        description="on: NICs compute and check the invariant CRC of every packet. An unshaped flow is "
        "about three times slower with it. Faults that corrupt packets turn it on while they are active.",
    )
    qps_max: int = Field(
        default=32, ge=1, le=1024, description="QPs a NIC can hold; each takes about 100 KiB."
    )
    retry_limit: int = Field(
        default=12,
        ge=0,
        le=1000,
        description="Time-outs and refusals in a row, without progress, that an MRC QP survives. If every "
        "link loses one packet in ten, 12 in a row are not rare.",
    )

    @model_validator(mode="after")
    def _check_sizes(self) -> Self:
        problems = LimitProblems()
        if self.path_mtu not in PATH_MTUS:
            problems.add(
                "path_mtu",
                self.path_mtu,
                f"a path MTU of {self.path_mtu} bytes: use 256B, 512B, 1KiB, 2KiB or 4KiB",
            )
        if not MEMORY_SEGMENT_BYTES <= self.memory <= 4 << 30 or self.memory % MEMORY_SEGMENT_BYTES:
            problems.add(
                "memory", self.memory, f"{self.memory} bytes of memory: use a multiple of 1MiB up to 4GiB"
            )
        problems.raise_if_any("nic")
        return self


class TierSpec(StrictModel):
    """A tier of switches. The first entry is T0, which joins hosts; T1s join T0s to pods, T2s join pods."""

    joins: int = Field(ge=1, description="Hosts at a T0, T0s in a pod, or pods in the fabric.")
    switches: int = Field(
        default=1,
        ge=1,
        description="Switches of this tier that each switch below has links to; 1 in T0. A pod has so many "
        "T1s, and each of them so many T2s, which it shares with its like in other pods.",
    )
    links: int = Field(default=1, ge=1, description="Parallel links between two switches; 1 in T0.")


class TopologySpec(StrictModel):
    """A Clos of two or three tiers in several planes: every host has one NIC port to a T0 of each plane."""

    planes: int = Field(
        default=4, ge=1, le=PLANE_COUNT, description="Planes, hence ports of a NIC; at most 16."
    )
    t0: int = Field(default=2, ge=1, description="T0 switches per plane.")
    t1: int = Field(default=2, ge=1, description="T1 switches per plane.")
    hosts_per_t0: int = Field(default=4, ge=1, description="Hosts at a T0; the same hosts in every plane.")
    uplinks_per_pair: int = Field(default=1, ge=1, description="Parallel links between a T0 and a T1.")
    tiers: Annotated[list[TierSpec], Field(min_length=2, max_length=3)] | None = Field(
        default=None,
        description="The tiers of a plane, T0 first, instead of t0, t1, hosts_per_t0 and uplinks_per_pair. "
        "Three need forwarding srv6 or ecmp.",
    )
    forwarding: Literal["srv6", "stev", "ecmp"] = Field(
        default="srv6",
        description="The choice of a path. srv6: the sender writes it into an outer header. stev: each tier "
        "reads a field of the EV. ecmp: each switch hashes the EV and the addresses.",
    )
    hash_seed: int = Field(
        default=0,
        ge=0,
        lt=1 << 32,
        description="Seed of the switches' hashes, each of which also depends on the switch; needs ecmp.",
    )
    uplink_choice: Literal["hash", "adaptive"] = Field(
        default="hash",
        description="The choice of an ecmp switch among equal links. hash: by the packet's addresses and "
        "EV. adaptive: for each packet the link with the least data to send, as InfiniBand switches do; "
        "needs ecmp and port_rate, and a transport that accepts packets in any order: infiniband.",
    )
    port_rate: Rate | None = Field(
        default=None,
        description="Rate of every port, NIC ports included, such as 100Mbit. Left out: unshaped, frames "
        "are forwarded at once.",
    )
    link_delay: Duration = Field(
        default=0, description="Propagation delay of every link, one way; needs port_rate."
    )
    link_delays: list[LinkDelay] = Field(
        default_factory=list,
        description="Links with a delay other than link_delay; the last entry of a link applies.",
    )
    queue: QueueSpec = Field(
        default=QueueSpec.model_construct(), description="Queues of every port; need port_rate."
    )
    flow_control: FlowControlKind = Field(
        default="none",
        description="Protection of a switch's buffers against overflow. none: the switch drops or trims "
        "packets. pfc: it pauses the sending port. credits: the sending port waits for buffer space. Needs "
        "port_rate; acts on data, never on control packets.",
    )
    pfc: PfcSpec = Field(
        default=PfcSpec.model_construct(), description="Thresholds of PFC; need flow_control: pfc."
    )
    credits: CreditSpec = Field(
        default=CreditSpec.model_construct(), description="Buffers of credits; need flow_control: credits."
    )
    nic: NicSpec = Field(
        default=NicSpec.model_construct(), description="The NIC of every host: memory, EVs, window."
    )
    probing: ProbingSpec | None = Field(
        default=None,
        description="Permanent link probes; `{}` for the defaults. Left out: only during `probe links`.",
    )

    @property
    def is_shaped(self) -> bool:
        """Return True if ports have a rate, and with it queues and delay."""
        return self.port_rate is not None

    @property
    def numbering(self) -> Numbering:
        """The counts of the fabric, whichever form they were given in."""
        if self.tiers is not None:
            return Numbering(
                self.planes, tuple(TierSize(tier.joins, tier.switches, tier.links) for tier in self.tiers)
            )
        t1 = TierSize(self.t0, self.t1, self.uplinks_per_pair)
        return Numbering(self.planes, (TierSize(self.hosts_per_t0), t1))

    @property
    def evs(self) -> int:
        """EVs of a QP over all planes, backups included."""
        if self.nic.evs is not None:
            return self.nic.evs
        return EVS_DEFAULT // self.planes * self.planes

    @property
    def evs_per_plane(self) -> int:
        """EVs of a QP in each plane, backups included."""
        return self.evs // self.planes

    @property
    def backup_evs_per_plane(self) -> int:
        share = self.nic.backup_share
        wanted = max(1, round(self.evs_per_plane * share)) if share > 0 else 0
        return min(wanted, self.evs_per_plane - 1)

    @property
    def active_evs_per_plane(self) -> int:
        """EVs of a QP in each plane that start active; at least one."""
        return self.evs_per_plane - self.backup_evs_per_plane

    @model_validator(mode="after")
    def _check_limits(self) -> Self:
        problems = LimitProblems()
        for key, count, what in self._counts_of_usids():
            if count > INDEX_COUNT:
                problems.add(
                    key, count, f"{what} is {count}, but a uSID has room for {INDEX_COUNT} of them per plane"
                )
        self._check_tiers(problems)
        ports = self.numbering.port_count
        if not problems and ports > 1 << PORT_ID_BITS:
            problems.add(
                "planes", ports, f"the fabric has {ports} ports; MAC addresses number {1 << PORT_ID_BITS}"
            )
        if self.numbering.host_count < 2:
            problems.add(
                "hosts_per_t0", 1, "a fabric with a single host carries nothing; give it at least two"
            )
        if self.evs < self.planes or self.evs % self.planes:
            problems.add(
                "nic.evs",
                self.evs,
                f"{self.evs} EVs cannot be shared equally by {self.planes} planes; "
                f"use a multiple of {self.planes}, such as {max(1, self.evs // self.planes) * self.planes}",
            )
        if self.hash_seed and self.forwarding != "ecmp":
            problems.add("hash_seed", self.hash_seed, "hash_seed has no effect without forwarding: ecmp")
        self._check_uplink_choice(problems)
        lanes = self.numbering.tiers[1].lanes
        if self.forwarding == "stev" and lanes > LANE_MASK + 1:
            problems.add(
                "uplinks_per_pair" if self.tiers is None else ("tiers", 1, "links"),
                lanes,
                f"{lanes} parallel links, but a structured EV has room for {LANE_MASK + 1}",
            )
        if not self.is_shaped:
            self._check_nothing_needs_a_rate(problems)
        self._check_probing(problems)
        problems.raise_if_any("topology")
        return self

    def _counts_of_usids(self) -> tuple[tuple[str | Location, int, str], ...]:
        """The place in the file, number and name of what uSIDs count."""
        if self.tiers is None:
            return (
                ("t0", self.t0 * self.uplinks_per_pair, "t0 x uplinks_per_pair"),
                ("t1", self.t1 * self.uplinks_per_pair, "t1 x uplinks_per_pair"),
                ("hosts_per_t0", self.hosts_per_t0, "hosts_per_t0"),
            )
        number, pods, t1 = self.numbering, self.numbering.downlinks[2:], self.numbering.tiers[1]
        return (
            (("tiers", 0, "joins"), number.hosts_per_t0, "the number of hosts at a T0"),
            (("tiers", 1, "joins"), number.groups[0] * t1.lanes, "T0s x links"),
            (
                ("tiers", 1, "switches"),
                number.uplinks[0] + sum(pods),
                "uplinks of a T0 and downlinks of a T2",
            ),
            (("tiers", 2, "switches"), number.uplinks[1], "uplinks of a T1"),
        )[: len(self.tiers) + 1]

    def _check_tiers(self, problems: LimitProblems) -> None:
        if self.tiers is None:
            return
        for key in ("t0", "t1", "hosts_per_t0", "uplinks_per_pair"):
            value = getattr(self, key)
            if value != type(self).model_fields[key].default:
                problems.add(key, value, f"tiers says it already; leave {key} out")
        for key, count in (("switches", self.tiers[0].switches), ("links", self.tiers[0].links)):
            if count != 1:
                problems.add(
                    ("tiers", 0, key), count, f"a host has one link to a T0 of each plane: {key} is 1"
                )
        paths = self.numbering.way_count(2)
        if paths > UPLINK_MASK + 1:
            room = f"an EV has room for {UPLINK_MASK + 1}"
            problems.add("tiers", paths, f"a plane has {paths} paths between pods, but {room}")
        if len(self.tiers) > 2 and self.forwarding == "stev":
            problems.add(
                "forwarding", "stev", "a structured EV names the links of two tiers; use srv6 or ecmp"
            )

    def _check_uplink_choice(self, problems: LimitProblems) -> None:
        if self.uplink_choice != "adaptive":
            return
        if self.forwarding != "ecmp":
            by = "the source route" if self.forwarding == "srv6" else "the EV"
            problems.add(
                "uplink_choice",
                self.uplink_choice,
                f"with forwarding: {self.forwarding} {by} names the uplink; adaptive needs forwarding: ecmp",
            )
        if not self.is_shaped:
            problems.add(
                "uplink_choice",
                self.uplink_choice,
                "adaptive compares what waits at ports, and in an unshaped fabric nothing waits; give "
                "port_rate too",
            )

    def _check_nothing_needs_a_rate(self, problems: LimitProblems) -> None:
        for key, value in {
            "link_delay": self.link_delay,
            "link_delays": self.link_delays,
            "nic.delay": self.nic.delay,
            "queue.overrides": [override for override in self.queue.overrides if override.needs_rate],
            "queue.drainer": self.queue.drainer != "auto" and self.queue.drainer,
            "queue.drainers": self.queue.drainers > 1 and self.queue.drainers,
            **{f"queue.{key}": value for key, value in self.queue.settings().items() if key != "links"},
        }.items():
            if value:
                problems.add(key, value, f"{key} has no effect in an unshaped fabric; give port_rate too")

    def _check_probing(self, problems: LimitProblems) -> None:
        probing = self.probing
        if probing is None:
            return
        if self.forwarding != "srv6":
            problems.add(
                "probing", None, f"link probes are source routes: they need srv6, not {self.forwarding}"
            )
        count, hosts = self.numbering.uplink_count, self.numbering.hosts_per_t0
        if probing.uplinks_per_host(count) * hosts < count:
            problems.add(
                "probing.t1_share",
                probing.t1_share,
                f"{hosts} hosts of a T0 that probe {probing.t1_share:.0%} of its {count} uplinks "
                f"leave some unprobed; use at least {ceil(100 / hosts)}%",
            )
