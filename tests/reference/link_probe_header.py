"""The header of a link probe, whose opcode, 0xE0, is none of MRC's: it concerns nobody but its sender.

Source: docs/reference/protocol.md, "Link probes".
"""

from reference.layout import Header


class Lph(Header, layout="path:32 round:32 sent_ns:64"):
    path: int
    round: int
    sent_ns: int
