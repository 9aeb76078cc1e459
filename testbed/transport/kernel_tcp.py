"""The kernel's own TCP and MPTCP as transports of a fabric: which congestion control they use.

    tcp     a connection per QP, in one plane; the path in it by a hash of the flow
    mptcp   a connection per QP, with a subflow in every plane

docs/explanation/transports.md says how each differs from the real thing.
"""

from dataclasses import dataclass
from typing import Final, Literal

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos

KernelKind = Literal["tcp", "mptcp"]

TCP_ALGORITHMS: Final = ("cubic", "reno", "dctcp", "bbr")
"""Algorithms that a kernel may have; the hosts of a lab know which ones theirs has."""

DEFAULT_TCP_ALGORITHM: Final = "cubic"


@dataclass(frozen=True, slots=True)
class TcpCongestion:
    """The congestion control of every connection of a run."""

    tcp_algorithm: str  # as the kernel names it

    @property
    def algorithm(self) -> str:
        """The same, as those of other transports are asked."""
        return self.tcp_algorithm

    def describe(self) -> str:
        """In a few words, for tables."""
        return f"the kernel's {self.tcp_algorithm}"


def choose_tcp_congestion(
    clos: Clos, kind: KernelKind, algorithm: str | None = None, *, window_packets: int | None = None
) -> TcpCongestion:
    """The congestion control asked for, or cubic.

    Raises:
        UsageError: it is none of TCP's, or the fabric cannot carry the kernel's packets.
    """
    if algorithm not in {None, *TCP_ALGORITHMS}:
        raise UsageError(f"cc: {algorithm!r} is not for {kind}; {', '.join(TCP_ALGORITHMS)} are accepted")
    if window_packets is not None:
        raise UsageError(f"window: {kind} has the kernel's windows; leave it out")
    if clos.spec.forwarding == "stev":
        raise UsageError(
            f"kind: {kind} needs forwarding: srv6 or ecmp; with stev switches read the path from EVs, "
            "which the kernel's packets do not have"
        )
    return TcpCongestion(algorithm or DEFAULT_TCP_ALGORITHM)
