"""How the 32 bits of an EV ride in a packet, so that the far end can reflect them.

    EV   31 ............. 16 | 15 .............. 0
         flow label 15:0     | UDP source port              flow label 19:16 are 0

An ECMP switch hashes both; a structured EV (STEV) is a string of egress selectors, most significant first,
of which each tier reads its own; in SRv6 mode the path is in the outer destination address and switches
ignore the EV.

Source: docs/reference/protocol.md, "EV format".
"""

from collections.abc import Sequence
from typing import Final

from reference.layout import WireError

EV_BITS: Final = 32

_HALF_BITS: Final = 16
_HALF_MASK: Final = (1 << _HALF_BITS) - 1


def reflected_ev(source_port: int, flow_label: int) -> int:
    """The EV that a received packet carries; the top four bits of the flow label do not count."""
    return (flow_label & _HALF_MASK) << _HALF_BITS | source_port


def join_selectors(selectors: Sequence[int], widths: Sequence[int]) -> int:
    """The structured EV of per-hop egress *selectors*, first hop first; unused low bits are 0.

    Args:
        selectors: one per tier.
        widths: bits of each, together at most EV_BITS; `(8, 4, 4)` for example.

    Raises:
        WireError: a selector does not fit, or their number or total width is wrong.
    """
    _check_widths(widths)
    if len(selectors) != len(widths):
        raise WireError(f"{len(selectors)} selectors for {len(widths)} tiers")
    ev, free_bits = 0, EV_BITS
    for selector, width in zip(selectors, widths, strict=True):
        if not 0 <= selector < 1 << width:
            raise WireError(f"selector {selector} does not fit {width} bits")
        free_bits -= width
        ev |= selector << free_bits
    return ev


def split_selectors(ev: int, widths: Sequence[int]) -> tuple[int, ...]:
    """The per-hop selectors in a structured *ev*, first hop first.

    Raises:
        WireError: the widths together exceed EV_BITS.
    """
    _check_widths(widths)
    selectors, free_bits = [], EV_BITS
    for width in widths:
        free_bits -= width
        selectors.append(ev >> free_bits & (1 << width) - 1)
    return tuple(selectors)


def _check_widths(widths: Sequence[int]) -> None:
    if any(width <= 0 for width in widths) or sum(widths) > EV_BITS:
        raise WireError(
            f"selector widths {tuple(widths)} are not positive numbers of together {EV_BITS} bits"
        )
