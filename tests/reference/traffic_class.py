"""The traffic class byte: DSCP classes and ECN.

MRC fixes categories, a deployment their code points; these are ours. Data is ECT(0); everything else is not
ECT.

Source: docs/reference/protocol.md, "Traffic classes".
"""

from enum import IntEnum
from typing import NamedTuple, TypeAlias

from mrc_agents import abi

Dscp: TypeAlias = abi.Dscp


class Ecn(IntEnum):
    """Congestion notification bits."""

    NOT_ECT = 0
    ECT0 = 2
    CE = 3


class TrafficClass(NamedTuple):
    """The two parts of the byte. The DSCP is a plain number: other traffic uses values that are not ours."""

    dscp: int
    ecn: int

    @property
    def octet(self) -> int:
        """The byte on the wire."""
        return self.dscp << 2 | self.ecn


def decode_traffic_class(octet: int) -> TrafficClass:
    """The parts of a traffic class byte."""
    return TrafficClass(octet >> 2, octet & 3)
