"""The hash of an ECMP switch: over addresses, flow label and ports, seeded per switch.

Each step takes one 64-bit word in: state = (state ^ word) * 0x9e3779b97f4a7c15; state ^= state >> 32. The
first state has the fabric's seed in its high and the switch's node id in its low half; the result is the high
half of state * 0xbf58476d1ce4e5b9.

Source: docs/reference/protocol.md, "Forwarding modes"; mrc_agents/switch/bpf/forward_ecmp.h is its twin.
"""

from ipaddress import IPv6Address
from typing import Final, NamedTuple

_WORD_MASK: Final = (1 << 64) - 1
_STEP: Final = 0x9E3779B97F4A7C15
_LAST: Final = 0xBF58476D1CE4E5B9


class FlowKey(NamedTuple):
    """The input of the hash: the header fields that all packets of a flow have in common."""

    # source, destination: of the only IPv6 header
    source: IPv6Address
    destination: IPv6Address
    flow_label: int  # 20 bits
    # source_port, destination_port: UDP
    source_port: int
    destination_port: int


def flow_hash(seed: int, node_id: int, flow: FlowKey) -> int:
    """32 bits, the same for all packets of *flow* at the switch *node_id* of a fabric with that *seed*."""
    words = [flow.flow_label << 32 | flow.source_port << 16 | flow.destination_port]
    for address in (flow.source, flow.destination):
        words += divmod(int(address), 1 << 64)
    state = seed << 32 | node_id
    for word in words:
        state = (state ^ word) * _STEP & _WORD_MASK
        state ^= state >> 32
    return (state * _LAST & _WORD_MASK) >> 32


def hash_share(value: int, count: int) -> int:
    """Which of *count* equal links a hash of 32 bits falls on, 0 to count - 1."""
    return value * count >> 32
