"""Congestion control of a fabric's QPs: its NICs' algorithm where ports have a rate, else a fixed window."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from mrc_agents.algorithms import CC, FIXED, names_of
from mrc_agents.protocol.cc_profile import BASE_RTT_MIN_NS, CcLink, CcProfile, Setting, derive_profile
from mrc_agents.protocol.sizes import write_nominal_bytes
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_queue import is_lossy
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.timing import base_rtt_ns
from mrc_testbed.units import format_duration_ns

QpAttribute = int | str | Mapping[str, Setting]


@dataclass(frozen=True, slots=True)
class CongestionControl:
    algorithm: str  # that of the NICs, or `fixed`
    window_packets: int  # full packets that the window, or the largest one, lets go
    # parameters of the algorithm by standard name; the others follow from the fabric
    settings: Mapping[str, Setting] = field(default_factory=dict)

    @property
    def qp_attributes(self) -> dict[str, QpAttribute]:
        if self.algorithm == FIXED:
            return {"cc": FIXED, "window_packets": self.window_packets}
        return {"cc": self.algorithm, "cc_profile": dict(self.settings)}

    def describe(self) -> str:
        """In a few words, for tables."""
        if self.algorithm == FIXED:
            return f"fixed window of {self.window_packets} packets"
        return f"{self.algorithm}, window of up to {self.window_packets} packets"


def nic_rate_bps(clos: Clos, host: int | None = None) -> int:
    """Rate of a host's NIC, all its ports together: what one QP's window has to fill; 0 if unshaped.

    Args:
        host: number. None: the host with the fastest NIC.
    """
    rates_bps = port_rates_bps(clos)
    hosts = range(clos.numbering.host_count) if host is None else (host,)
    return max(
        sum(rates_bps[2 * clos.numbering.host_link_id(each, plane)] for plane in range(clos.spec.planes))
        for each in hosts
    )


def is_trimming(clos: Clos) -> bool:
    """Return True if switches trim packets instead of dropping them."""
    return clos.spec.is_shaped and bool(clos.spec.queue.settings().get("trim.enabled", is_lossy(clos)))


def fabric_profile(clos: Clos, settings: Mapping[str, Setting] | None = None) -> CcProfile:
    """The CC profile of a shaped fabric's QPs."""
    of_nics = clos.spec.nic.cc
    if not clos.spec.is_shaped:
        raise UsageError(
            f"cc: {of_nics} needs ports with a rate: without one there is no bandwidth-delay product",
            hint="give the topology a port_rate, or use cc: fixed",
        )
    mtu_bytes = clos.spec.nic.path_mtu
    idle_rtt_ns = base_rtt_ns(clos)
    if "base_rtt" not in (settings or {}) and idle_rtt_ns < BASE_RTT_MIN_NS:
        raise UsageError(
            f"cc: {of_nics} assumes idle RTTs of {format_duration_ns(BASE_RTT_MIN_NS)} or more, and "
            f"here it is {format_duration_ns(idle_rtt_ns)}: lower port_rate, or use cc: fixed"
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
        algorithm: that of the fabric's NICs, or `fixed`. None: the former on a shaped fabric unless a window
            is given, else the latter.
        window_packets: of a fixed window; None for the topology's.
        settings: parameters of the algorithm by standard name.
    """
    check_order(clos, "mrc")
    of_nics = clos.spec.nic.cc
    if algorithm not in {None, of_nics, FIXED}:
        known = names_of(CC)
        if algorithm in known:
            raise UsageError(
                f"cc: {algorithm!r}, but the NICs of this fabric have {of_nics}",
                hint=f"give its topology nic: {{cc: {algorithm}}}",
            )
        raise UsageError(f"cc: {algorithm!r}; {', '.join((*known, FIXED))} are accepted")
    is_adaptive = bool(settings) or (clos.spec.is_shaped and window_packets is None)
    if algorithm == FIXED or (algorithm is None and not is_adaptive):
        if settings:
            raise UsageError("cc_profile: the window is fixed, and has none; use window")
        return CongestionControl(FIXED, window_packets or clos.spec.nic.window_packets)
    if window_packets is not None:
        raise UsageError(f"window: it is for cc: fixed; {of_nics} has max_cwnd in its cc_profile")
    profile = fabric_profile(clos, settings)
    packets = max(1, -(-profile.max_cwnd_bytes // write_nominal_bytes(profile.mtu_bytes)))
    return CongestionControl(of_nics, packets, dict(settings or {}))


_ANY_ORDER: Final = "infiniband"
"""The transport whose responder places packets in any order and takes no gap for a loss."""


def check_order(clos: Clos, transport: str) -> None:
    """Return if packets of *transport* may overtake one another, or no switch of the fabric lets them."""
    if not clos.is_adaptive or transport == _ANY_ORDER:
        return
    why = (
        "mrc chooses paths itself, and takes what is overtaken on its path for lost"
        if transport == "mrc"
        else f"{transport} takes packets in order only"
    )
    raise UsageError(
        f"{why}, but switches with uplink_choice: adaptive let packets overtake one another; "
        f"use kind: {_ANY_ORDER}, or uplink_choice: hash"
    )
