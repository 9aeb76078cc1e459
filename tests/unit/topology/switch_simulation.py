"""Stateless switches and NICs on plain integers, working from forwarding tables as the data plane does.

It shares no code with the model but the tables under test and the wiring of ports (port id ^ 1): a wrong idea
in the model cannot agree with itself here.
"""

from dataclasses import dataclass, field

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.forwarding import fib_entries

BLOCK = 0xFCBB0000
FIB_LOCAL = 0x7FFFFFFF
HOP_LIMIT = 64


@dataclass
class Outcome:
    """The outcome of a packet."""

    host: int | None = None  # host number of the NIC that took it; None if it was dropped
    last_node: str = ""  # name of the node that took or dropped it
    link_ids: list[int] = field(default_factory=list)  # the links it crossed, in order
    addresses: list[int] = field(default_factory=list)  # outer destination address on each of those links


class SwitchSimulation:
    """A fabric that moves one packet at a time.

    Args:
        clos: gives wiring and forwarding tables; a table is made when a packet first meets its switch.
    """

    def __init__(self, clos: Clos) -> None:
        self._clos = clos
        self._tables: dict[str, dict[int, int]] = {}

    def send(self, host: int, plane: int, address: int) -> Outcome:
        """The outcome of a packet from port *plane* of *host* with outer destination *address*."""
        outcome = Outcome()
        hit = 2 * (host * self._clos.spec.planes + plane) + 1
        for _ in range(HOP_LIMIT):
            egress = hit - 1
            outcome.link_ids.append(egress // 2)
            outcome.addresses.append(address)
            ingress = self._clos.port(egress ^ 1)
            outcome.last_node = ingress.node.name
            if not ingress.node.is_switch:
                own = 3 << 14 | plane << 10 | ingress.node.index % self._clos.numbering.hosts_per_t0
                if address == BLOCK << 96 | own << 80:
                    outcome.host = ingress.node.index
                return outcome
            hit = self._look_up(ingress.node.name, ingress.plane, address)
            if hit == FIB_LOCAL:
                address = BLOCK << 96 | (address << 16) & (1 << 96) - 1
                hit = self._look_up(ingress.node.name, ingress.plane, address)
            if hit in {0, FIB_LOCAL}:
                return outcome
        raise AssertionError(f"a loop: {outcome}")

    def _look_up(self, name: str, plane: int, address: int) -> int:
        if address >> 96 != BLOCK:
            return 0
        usid = address >> 80 & 0xFFFF
        if usid >> 10 & 15 != plane:
            return 0
        if name not in self._tables:
            self._tables[name] = dict(fib_entries(self._clos, self._clos.node(name)))
        return self._tables[name].get(usid >> 14 << 10 | usid & 1023, 0)
