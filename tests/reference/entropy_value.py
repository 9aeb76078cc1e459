"""The 32 bits of an EV in a packet, so that the far end can reflect them.

    EV   31 ............. 16 | 15 .............. 0
         flow label 15:0     | UDP source port              flow label 19:16 are 0

An ECMP switch hashes both; a structured EV (STEV) is a string of egress selectors, most significant first,
of which each tier reads its own; in SRv6 mode the path is in the outer destination address and switches
ignore the EV.

Source: docs/reference/protocol.md, "EV format".
"""

from typing import Final

_HALF_BITS: Final = 16
_HALF_MASK: Final = (1 << _HALF_BITS) - 1


def reflected_ev(source_port: int, flow_label: int) -> int:
    """The EV that a received packet carries; the top four bits of the flow label do not count."""
    return (flow_label & _HALF_MASK) << _HALF_BITS | source_port
