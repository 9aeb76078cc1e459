"""Congestion control of a fabric's QPs: NSCC where ports have a rate, else a fixed window."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from agents.protocol.cc_profile import (
    BASE_RTT_MIN_NS,
    CC_ALGORITHMS,
    CcLink,
    CcProfile,
    Setting,
    derive_profile,
)
from agents.protocol.sizes import write_nominal_bytes
from testbed.errors import UsageError
from testbed.topology.clos import Clos
from testbed.topology.port_queue import is_lossy
from testbed.topology.port_selection import port_rates_bps
from testbed.topology.timing import base_rtt_ns
from testbed.transport.overtaking import check_order
from testbed.units import format_duration_ns

CcAlgorithm = Literal["nscc", "fixed"]
QpAttribute = int | str | Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class CongestionControl:
    """What every QP of a run does about congestion.

    Attributes:
        algorithm: `nscc` or `fixed`.
        window_packets: full packets that the window, or the largest one, lets go.
        settings: parameters of NSCC by standard name; the others follow from the fabric.
    """

    algorithm: CcAlgorithm
    window_packets: int
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def qp_attributes(self) -> dict[str, QpAttribute]:
        """What a QP is created with."""
        if self.algorithm == "fixed":
            return {"cc": "fixed", "window_packets": self.window_packets}
        return {"cc": "nscc", "cc_profile": dict(self.settings)}

    def describe(self) -> str:
        """In a few words, for tables."""
        if self.algorithm == "fixed":
            return f"fixed window of {self.window_packets} packets"
        return f"nscc, window of up to {self.window_packets} packets"


def nic_rate_bps(clos: Clos, host: int | None = None) -> int:
    """Rate of a host's NIC, all its ports together: what one QP's window has to fill; 0 if unshaped.

    Args:
        clos: the fabric.
        host: number. None: the host with the fastest NIC.
    """
    rates_bps = port_rates_bps(clos)
    hosts = range(clos.numbering.host_count) if host is None else (host,)
    return max(
        sum(rates_bps[2 * clos.numbering.host_link_id(each, plane)] for plane in range(clos.spec.planes))
        for each in hosts
    )


def is_trimming(clos: Clos) -> bool:
    """Whether switches trim packets instead of dropping them."""
    return clos.spec.is_shaped and bool(clos.spec.queue.settings().get("trim.enabled", is_lossy(clos)))


def fabric_profile(clos: Clos, settings: Mapping[str, Setting] | None = None) -> CcProfile:
    """The CC profile of a shaped fabric's QPs.

    Raises:
        UsageError: a setting is out of range, or the fabric is unshaped.
    """
    if not clos.spec.is_shaped:
        raise UsageError(
            "cc: nscc needs ports with a rate: without one there is no bandwidth-delay product",
            hint="give the topology a port_rate, or use cc: fixed",
        )
    mtu_bytes = clos.spec.nic.path_mtu
    idle_rtt_ns = base_rtt_ns(clos)
    if "base_rtt" not in (settings or {}) and idle_rtt_ns < BASE_RTT_MIN_NS:
        raise UsageError(
            f"cc: nscc reckons with idle RTTs of {format_duration_ns(BASE_RTT_MIN_NS)} or more, and here it"
            f" is {format_duration_ns(idle_rtt_ns)}: lower port_rate, or use cc: fixed"
        )
    link = CcLink(nic_rate_bps(clos), idle_rtt_ns, mtu_bytes, is_trimming=is_trimming(clos))
    return derive_profile(link, settings)


def choose_congestion_control(
    clos: Clos,
    algorithm: str | None = None,
    *,
    window_packets: int | None = None,
    settings: Mapping[str, Setting] | None = None,
) -> CongestionControl:
    """The congestion control asked for, or what fits the fabric where nothing is.

    Args:
        clos: the fabric.
        algorithm: one of CC_ALGORITHMS. None: NSCC on a shaped fabric unless a window is given, else fixed.
        window_packets: of a fixed window; None for the topology's.
        settings: parameters of NSCC by standard name.

    Raises:
        UsageError: what is asked for does not go together, or a setting is out of range.
    """
    check_order(clos, "mrc")
    if algorithm not in {None, *CC_ALGORITHMS}:
        raise UsageError(f"cc: {algorithm!r}; {' or '.join(CC_ALGORITHMS)} is accepted")
    is_adaptive = bool(settings) or (clos.spec.is_shaped and window_packets is None)
    if algorithm == "fixed" or (algorithm is None and not is_adaptive):
        if settings:
            raise UsageError("cc_profile: parameters of nscc, but the window is fixed; use window")
        return CongestionControl("fixed", window_packets or clos.spec.nic.window_packets)
    if window_packets is not None:
        raise UsageError("window: it is for cc: fixed; nscc has max_cwnd in its cc_profile")
    profile = fabric_profile(clos, settings)
    packets = max(1, -(-profile.max_cwnd_bytes // write_nominal_bytes(profile.mtu_bytes)))
    return CongestionControl("nscc", packets, dict(settings or {}))
