"""The header of a link probe, which a host sends to switches and back to itself.

    BTH 12   LPH 16

Its opcode, 0xE0, is none of MRC's: the packet is of no concern to anybody but its sender.

Source: docs/reference/protocol.md, "Link probes".
"""

from dataclasses import dataclass
from typing import ClassVar

from reference.layout import Header, Layout


@dataclass(frozen=True, slots=True)
class Lph(Header):
    """Link probe, 16 bytes.

    Args:
        path: which of its probe paths the sender chose.
        round: number of the probe on this path.
        sent_ns: the sender's clock.
    """

    path: int
    round: int
    sent_ns: int

    LAYOUT: ClassVar = Layout("path:32 round:32 sent_ns:64")
