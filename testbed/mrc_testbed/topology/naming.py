"""Names of nodes, ports, links and interfaces: the only place that writes or reads them.

node       h3   p0-t0-2   p0-t1-5
port       h3:0   p0-t0-2:7                       node, then the port's index within it
link       h3:0~p0-t0-0:3   p0-t0-2:7~p0-t1-5:2   its two ports, the lower node first
interface  plane0 (NIC)   down3, up5 (switch)      the name inside the node
"""

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PORT_GRAMMAR: Final = "<node>:<port index>, such as h0:2"
LINK_GRAMMAR: Final = "<port>~<port>, such as h0:2~p2-t0-0:0"

LINK_SEPARATOR: Final = "~"
PORT_SEPARATOR: Final = ":"

_INDEX: Final = r"(0|[1-9][0-9]{0,6})"
_HOST: Final = re.compile(f"h{_INDEX}")
_SWITCH: Final = re.compile(f"p{_INDEX}-(t[012])-{_INDEX}")
_LOOSE_SWITCH: Final = re.compile(r"[a-z]*[-_ ]?(\d+)[-_ ]*(?:t|tier)[-_]?([012])[-_ ]*(\d+)", re.IGNORECASE)
_LOOSE_HOST: Final = re.compile(r"h[a-z]*[-_ ]?(\d+)", re.IGNORECASE)


class Tier(StrEnum):
    HOST = "host"
    T0 = "t0"
    T1 = "t1"
    T2 = "t2"

    @property
    def level(self) -> int:
        """Number of a tier of switches."""
        return SWITCH_TIERS.index(self)


SWITCH_TIERS: Final = (Tier.T0, Tier.T1, Tier.T2)


@dataclass(frozen=True, slots=True)
class NodeName:
    tier: Tier
    plane: int | None  # plane of a switch; None for a host
    index: int  # host number, or index of the switch within plane and tier

    def __str__(self) -> str:
        if self.tier is Tier.HOST:
            return f"h{self.index}"
        return f"p{self.plane}-{self.tier}-{self.index}"


def parse_node_name(text: str) -> NodeName | None:
    """The parts of a node name; None if it is none. The node need not exist."""
    if match := _HOST.fullmatch(text):
        return NodeName(Tier.HOST, None, int(match[1]))
    if match := _SWITCH.fullmatch(text):
        return NodeName(Tier(match[2]), int(match[1]), int(match[3]))
    return None


def guess_node_name(text: str) -> NodeName | None:
    """The node that a misspelt name probably means, from its digits and tier; None without a clue."""
    if match := _LOOSE_SWITCH.fullmatch(text.strip()):
        return NodeName(SWITCH_TIERS[int(match[2])], int(match[1]), int(match[3]))
    if match := _LOOSE_HOST.fullmatch(text.strip()):
        return NodeName(Tier.HOST, None, int(match[1]))
    return None


def split_port_name(text: str) -> tuple[str, int] | None:
    """Node name and port index of a port name; None if it is not of that form."""
    node, separator, index = text.rpartition(PORT_SEPARATOR)
    if not separator or not node or not re.fullmatch(_INDEX, index):
        return None
    return node, int(index)


def split_link_name(text: str) -> tuple[str, str] | None:
    """The two port names of a link name; None if it is not of that form."""
    lower, separator, upper = text.partition(LINK_SEPARATOR)
    if not separator or LINK_SEPARATOR in upper:
        return None
    return lower, upper


def port_name(node_name: str, port_index: int) -> str:
    return f"{node_name}{PORT_SEPARATOR}{port_index}"
