"""The traffic class byte: DSCP classes, ECN, and how both pass through the SRv6 tunnel.

MRC fixes categories, a deployment their code points; these are ours. Data is ECT(0); everything else is not
ECT. The outer header starts as a copy of the inner one. At the end of the tunnel the outer DSCP wins,
because a switch that trims rewrites it there, and ECN is combined so that no mark is lost.

Source: docs/reference/protocol.md, "Traffic classes"; RFC 6040 section 4.2.
"""

from enum import IntEnum
from typing import NamedTuple

from reference.layout import WireError


class Dscp(IntEnum):
    """Class of a packet."""

    NO_TRIM = 0
    TRIMMABLE = 4
    TRIMMABLE_RETX = 8
    TRIMMED = 12
    TRIMMED_LASTHOP = 16
    CONTROL = 46

    @property
    def is_trimmed(self) -> bool:
        """Whether a switch has cut the payload off."""
        return self in {Dscp.TRIMMED, Dscp.TRIMMED_LASTHOP}

    @property
    def is_trimmable(self) -> bool:
        """Whether a switch may cut the payload off instead of dropping the packet."""
        return self in {Dscp.TRIMMABLE, Dscp.TRIMMABLE_RETX}

    @property
    def is_control(self) -> bool:
        """Whether the packet waits in the control queue, before data."""
        return self is Dscp.CONTROL or self.is_trimmed


class Ecn(IntEnum):
    """Congestion notification bits."""

    NOT_ECT = 0
    ECT1 = 1
    ECT0 = 2
    CE = 3


class TrafficClass(NamedTuple):
    """The two parts of the byte. The DSCP is a plain number: other traffic uses values that are not ours."""

    dscp: int
    ecn: Ecn

    @property
    def octet(self) -> int:
        """The byte on the wire."""
        return self.dscp << 2 | self.ecn


def decode_traffic_class(octet: int) -> TrafficClass:
    """The parts of a traffic class byte."""
    return TrafficClass(octet >> 2, Ecn(octet & 3))


def decapsulate(inner: TrafficClass, outer: TrafficClass) -> TrafficClass:
    """The traffic class of the inner packet once the *outer* header is gone.

    Raises:
        WireError: CE outside a packet that is not ECT: such a packet is dropped.
    """
    if outer.ecn is Ecn.CE and inner.ecn is Ecn.NOT_ECT:
        raise WireError("congestion marked on a packet that does not take marks")
    ecn = inner.ecn
    if outer.ecn is Ecn.CE or (outer.ecn is Ecn.ECT1 and inner.ecn is Ecn.ECT0):
        ecn = outer.ecn
    return TrafficClass(outer.dscp, ecn)
