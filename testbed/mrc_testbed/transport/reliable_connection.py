"""Reliable connections in a fabric: RoCEv2 and what differs from it in one respect, with parameters that fit.

    rocev2       one path per QP, chosen once; DCQCN
    infiniband   one path per QP; no rate control: the links' credits hold it back. Where switches choose
                 adaptively packets take any path, and the responder places them in any order
    spray-gbn    packets of a QP over all paths in turn; DCQCN

The others take packets in order only; all go back to the first one lost. docs/explanation/transports.md says
how each differs from the real thing.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final, Literal

from mrc_agents.protocol.dcqcn import DcqcnParameters, cnp_interval_ns
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.timing import LATENESS_NS, base_rtt_ns, full_frame_bytes, paced_ns, serialisation_ns
from mrc_testbed.transport.congestion import check_order, nic_rate_bps

RcKind = Literal["rocev2", "infiniband", "spray-gbn"]
RcAlgorithm = Literal["dcqcn", "fixed"]
RC_ALGORITHMS: Final = ("dcqcn", "fixed")

_UNSHAPED_RATE_BPS: Final = 100 * 10**9
_UNSHAPED_RTT_NS: Final = 100_000
_RTO_MIN_NS: Final = 20_000_000
"""Paced."""
_RTO_RTTS: Final = 32
_RTO_WINDOWS: Final = 8
_RETRY_LIMIT: Final = 50


@dataclass(frozen=True, slots=True)
class RcCongestion:
    """The congestion and loss handling of every reliable connection of a run."""

    algorithm: RcAlgorithm  # `dcqcn`, or `fixed`: at line rate until the window is full
    window_packets: int  # full packets under way at most
    parameters: DcqcnParameters  # of DCQCN
    cnp_interval_ns: int  # least time between two congestion notifications of a QP
    rto_ns: int  # retransmission time-out
    any_order: bool = False  # packets may overtake one another

    @property
    def qp_attributes(self) -> dict[str, int | Mapping[str, int]]:
        return {
            "window_packets": self.window_packets,
            "cc": asdict(self.parameters),
            "cnp_interval_ns": self.cnp_interval_ns,
            "rto_ns": self.rto_ns,
            "retry_limit": _RETRY_LIMIT,
            "any_order": int(self.any_order),
        }

    def describe(self) -> str:
        """In a few words, for tables."""
        if self.algorithm == "fixed":
            return f"fixed window of {self.window_packets} packets"
        return f"dcqcn, at most {self.window_packets} packets under way"


def choose_rc_congestion(
    clos: Clos, kind: RcKind, algorithm: str | None = None, *, window_packets: int | None = None
) -> RcCongestion:
    """The congestion control asked for, or what is usual for *kind* where nothing is.

    A QP's line rate is that of the NIC ports its packets take: one, or with `spray-gbn` one in every plane.
    Of NICs with different rates the fastest counts; the time-out goes by the slowest port of the fabric.

    Args:
        algorithm: None: DCQCN on a shaped fabric but for infiniband, else fixed.
        window_packets: None: the topology's.
    """
    check_order(clos, kind)
    if algorithm not in {None, *RC_ALGORITHMS}:
        raise UsageError(f"cc: {algorithm!r} is not for {kind}; {' or '.join(RC_ALGORITHMS)} is accepted")
    rate_bps, rtt_ns = _line_rate_bps(clos, kind), _rtt_ns(clos)
    if algorithm == "dcqcn" and not clos.spec.is_shaped:
        raise UsageError(
            "cc: dcqcn needs ports with a rate", hint="give the topology a port_rate, or use cc: fixed"
        )
    usual: RcAlgorithm = "fixed" if not clos.spec.is_shaped or kind == "infiniband" else "dcqcn"
    chosen: RcAlgorithm = "dcqcn" if (algorithm or usual) == "dcqcn" else "fixed"
    if not clos.spec.is_shaped:
        rate_bps = _UNSHAPED_RATE_BPS
    window_packets = window_packets or clos.spec.nic.window_packets
    return RcCongestion(
        algorithm=chosen,
        window_packets=window_packets,
        parameters=DcqcnParameters.scaled(
            rate_bps, rtt_ns, full_frame_bytes(clos), is_fixed=chosen == "fixed"
        ),
        cnp_interval_ns=cnp_interval_ns(rtt_ns),
        rto_ns=rto_ns(clos, window_packets, LATENESS_NS),
        any_order=clos.is_adaptive,
    )


def rto_ns(clos: Clos, window_packets: int, lateness_ns: int) -> int:
    """The retransmission time-out of a QP with that window.

    Args:
        window_packets: full packets under way at most.
        lateness_ns: of timers and of what processes packets; 0 in a simulation.
    """
    slowest_bps = min(port_rates_bps(clos)) or _UNSHAPED_RATE_BPS
    return max(
        paced_ns(_RTO_MIN_NS, clos, lateness_ns),
        _RTO_RTTS * _rtt_ns(clos),
        _RTO_WINDOWS * window_packets * serialisation_ns(full_frame_bytes(clos), slowest_bps),
    )


def _rtt_ns(clos: Clos) -> int:
    return base_rtt_ns(clos) if clos.spec.is_shaped else _UNSHAPED_RTT_NS


def _line_rate_bps(clos: Clos, kind: RcKind) -> int:
    """Rate at which a QP may begin; 0 if unshaped."""
    if kind == "spray-gbn":
        return nic_rate_bps(clos)
    return max(port_rates_bps(clos)[: 2 * clos.numbering.host_link_count : 2])
