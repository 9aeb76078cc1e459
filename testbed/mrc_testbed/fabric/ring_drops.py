"""Frames lost because the receive ring of a veth was full: a loss of this machine, not of the fabric."""

from pathlib import Path
from typing import Final

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.doorbell import DOORBELL
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import entered

_DEVICES: Final = Path("/proc/thread-self/net/dev")
_HEADER_LINES: Final = 2
_RX_DROPPED: Final = 3


def ring_drops(lab: Lab) -> int:
    """Frames lost in receive rings since the lab was made, over all its ports.

    A veth counts them as dropped at the end that could not take them (XDP_DROP is counted elsewhere). Every
    node is entered, so ask at the ends of a run, not in it.
    """
    return sum(_drops(lab.namespace(node.name)) for node in (*lab.clos.switches(), *lab.clos.hosts()))


def _drops(namespace: Path) -> int:
    with entered(namespace):
        try:
            text = _DEVICES.read_text(encoding="ascii")
        except OSError as error:
            raise FabricError(f"interfaces of {namespace} cannot be read: {error.strerror}") from error
    return parse_dropped(text)


def parse_dropped(text: str) -> int:
    """Frames dropped on receipt by all interfaces of a /proc/net/dev but a doorbell, which nobody needed."""
    lines = (line.partition(":") for line in text.splitlines()[_HEADER_LINES:])
    return sum(int(counts.split()[_RX_DROPPED]) for name, _, counts in lines if name.strip() != DOORBELL)
