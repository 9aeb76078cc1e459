"""The meaning of the data plane's counters: which are drops, of which kind, under which label. Pure.

A counter added to mrc_agents/include/mrc/abi.h finds its place here by its name: DROP_* is a reason to drop,
TX_* and RX_* a kind of packet, CWND_* a reason to change a window. A test fails for one that fits nowhere.
"""

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import Final

from mrc_agents.abi import NicCounter, PortCounter

_DROP: Final = "DROP_"

NIC_DROPS: Final = tuple(counter for counter in NicCounter if counter.name.startswith(_DROP))
"""Packets that a NIC received and refused."""

PORT_DROPS: Final = tuple(counter for counter in PortCounter if counter.name.startswith(_DROP))
"""Frames lost at a port, on either side of it."""

LINK_DROPS: Final = (
    PortCounter.DROP_LINK_DOWN,
    PortCounter.DROP_LOSS,
    PortCounter.DROP_QUEUE_FULL,
    PortCounter.DROP_CONTROL_FULL,
    PortCounter.DROP_POOL_EMPTY,
)
"""Frames lost while they left by the port; all other drops are of frames that came in by it."""

SWITCH_DROPS: Final = tuple(counter for counter in PORT_DROPS if counter not in LINK_DROPS)
"""Frames that came in by the port and could not be forwarded."""

TX_KINDS: Final[Mapping[IntEnum, str]] = {
    NicCounter.TX_DATA: "data",
    NicCounter.TX_SACK: "sack",
    NicCounter.TX_ACK: "ack",
    NicCounter.TX_NAK: "nak",
    NicCounter.TX_NACK: "nack",
    NicCounter.TX_CNP: "cnp",
    NicCounter.TX_PROBE: "probe",
    NicCounter.TX_LINK_PROBE: "link_probe",
    NicCounter.TX_PORT_STATUS: "port_status",
    NicCounter.TX_PROBE_RESPONSE: "probe_answer",
}
"""Packets a NIC sends; `data` contains the retransmissions."""

RX_KINDS: Final[Mapping[IntEnum, str]] = {
    NicCounter.RX_DATA: "data",
    NicCounter.RX_SACK: "sack",
    NicCounter.RX_ACK: "ack",
    NicCounter.RX_NAK: "nak",
    NicCounter.RX_NACK: "nack",
    NicCounter.RX_CNP: "cnp",
    NicCounter.RX_TRIMMED: "trimmed",
    NicCounter.RX_PROBE: "probe",
    NicCounter.RX_LINK_PROBE: "link_probe",
    NicCounter.RX_PROBE_RESPONSE: "probe_answer",
    NicCounter.RX_PORT_STATUS: "port_status",
}
"""Packets a NIC accepts; `data` contains the duplicates."""

RETRANSMIT_REASONS: Final[Mapping[IntEnum, str]] = {
    NicCounter.TX_RETRANSMIT_SACK: "sack",
    NicCounter.TX_RETRANSMIT_TIMEOUT: "timeout",
    NicCounter.TX_RETRANSMIT_NACK: "nack",
    NicCounter.TX_RETRANSMIT_ACK: "ack",
    NicCounter.TX_RETRANSMIT_TAIL: "tail",
}
"""Reasons for which a packet was declared lost."""


_CWND: Final = "CWND_"

CWND_REASONS: Final[Mapping[IntEnum, str]] = {
    counter: counter.name.removeprefix(_CWND).lower()
    for counter in NicCounter
    if counter.name.startswith(_CWND)
}
"""Reasons for which a congestion window changed."""


def reason_label(drop: IntEnum) -> str:
    """Value of the label `reason` for a counter of drops, such as `link_down`."""
    return drop.name.removeprefix(_DROP).lower()


def by_reason(drops: Iterable[IntEnum]) -> dict[IntEnum, str]:
    """Counters of drops with their value of the label `reason`."""
    return {drop: reason_label(drop) for drop in drops}
