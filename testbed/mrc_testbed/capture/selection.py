"""Which ports a capture is about, and on whose side each frame is shown.

    selected            captured egress ports             shown as
    h0:2                h0:2                               sent by h0:2
                        p2-t0-0:0, its far end             received by h0:2
    both ends           both                               sent, each by its own end

So every frame appears once, however many ports are selected.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Port


@dataclass(frozen=True, slots=True)
class Selection:
    """The ports of a capture."""

    ports: tuple[Port, ...]  # those selected, in the order of their ids: the interfaces of the file
    # by id of an egress port whose frames are captured, the position in `ports` they belong to
    shown_at: dict[int, int]

    def is_outbound(self, egress_id: int) -> bool:
        """Return True if frames that leave by *egress_id* are sent, not received, by the port shown."""
        return self.ports[self.shown_at[egress_id]].id == egress_id


def select_ports(clos: Clos, places: Sequence[str], plane: int | None = None) -> Selection:
    """The ports that *places* name: `h0` all ports of a node, `p0-t0-0:4` one port; none: all of the lab.

    Args:
        places: names of nodes and ports.
        plane: only ports of that plane.
    """
    if plane is not None and not 0 <= plane < clos.spec.planes:
        raise UsageError(f"there is no plane {plane}: the lab has planes 0 to {clos.spec.planes - 1}")
    found = {port.id: port for port in _named_ports(clos, places) if plane in {None, port.plane}}
    if not found:
        raise UsageError(f"{', '.join(places)} has no port in plane {plane}")
    ports = tuple(found[port_id] for port_id in sorted(found))
    shown_at = {port.peer_id: position for position, port in enumerate(ports)}
    shown_at |= {port.id: position for position, port in enumerate(ports)}
    return Selection(ports, shown_at)


def _named_ports(clos: Clos, places: Sequence[str]) -> Iterable[Port]:
    if not places:
        yield from clos.ports()
    for place in places:
        if ":" in place:
            yield clos.port(place)
        else:
            yield from clos.ports_of(clos.node(place))
