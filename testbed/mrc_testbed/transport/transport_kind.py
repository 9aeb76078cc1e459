"""The transports, each with the congestion control that goes with it. docs/explanation/transports.md compares
them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, get_args

from pydantic import AfterValidator

from mrc_agents.algorithms import CC, FIXED, names_of
from mrc_agents.protocol.cc_profile import Setting
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.algorithm import check_algorithm
from mrc_testbed.topology.clos import Clos
from mrc_testbed.transport.congestion import CongestionControl, choose_congestion_control
from mrc_testbed.transport.reliable_connection import RC_ALGORITHMS, RcCongestion, choose_rc_congestion

TransportKind = Literal["mrc", "rocev2", "infiniband", "spray-gbn"]
TRANSPORT_KINDS: Final[tuple[TransportKind, ...]] = get_args(TransportKind)

GoneKind = Literal["tcp", "mptcp"]
"""Those of the hosts' own kernels, which plans of 0.3 name."""


@dataclass(frozen=True, slots=True)
class GoneCongestion:
    """The congestion control of such a transport."""

    tcp_algorithm: str  # as the kernel names it

    def describe(self) -> str:
        """In a few words, for tables."""
        return f"the kernel's {self.tcp_algorithm}"


def refuse_gone(kind: object) -> object:
    """*kind*, unless it is a transport that is gone."""
    if kind in get_args(GoneKind):
        raise UsageError(
            f"{kind} is gone since 0.4; use {', '.join(TRANSPORT_KINDS[:-1])} or {TRANSPORT_KINDS[-1]}; "
            "the kernel's TCP carries gloo and mpirun over the management network "
            "(docs/explanation/transports.md)"
        )
    return kind


def any_algorithms() -> tuple[str, ...]:
    """The congestion control of all transports, by name."""
    return tuple(dict.fromkeys((*names_of(CC), FIXED, *RC_ALGORITHMS)))


AnyAlgorithm = Annotated[str, AfterValidator(lambda name: check_algorithm(name, any_algorithms()))]

AnyCongestion = CongestionControl | RcCongestion


def choose_congestion(
    clos: Clos,
    kind: TransportKind,
    algorithm: str | None = None,
    *,
    window_packets: int | None = None,
    evs: int | None = None,
    settings: Mapping[str, Setting] | None = None,
) -> AnyCongestion:
    """The congestion control asked for, or what is usual for the transport on this fabric.

    Args:
        algorithm: by name; None: the usual one.
        window_packets: of a fixed window; None: the topology's.
        evs: of a QP, when asked for.
        settings: parameters of MRC's algorithm that differ from those that follow from the fabric.
    """
    if kind == "mrc":
        return choose_congestion_control(clos, algorithm, window_packets=window_packets, settings=settings)
    if settings:
        raise UsageError(f"cc_profile: parameters of mrc's congestion control, which {kind} does not have")
    if evs is not None and kind != "spray-gbn":
        raise UsageError(f"evs: a QP of {kind} has one path; use qps for more of them")
    return choose_rc_congestion(clos, kind, algorithm, window_packets=window_packets)
