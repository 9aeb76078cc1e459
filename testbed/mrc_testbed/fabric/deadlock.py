"""Finds ports that flow control holds for ever, because each waits for another of them. Pure.

A port is held until enough of what it sent before has left the switch at the other end of its link. What
waits there at ports that are held themselves does not leave. So the ports of a deadlock are the largest set
of held ports of which none could go on even if every port outside the set sent all it has.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class HeldPort:
    """A port with data to send that flow control does not let it send."""

    since_ns: int  # when it became so, CLOCK_MONOTONIC
    # data it sent that waits at the far end, by the id of the port where it waits
    waiting_bytes: Mapping[int, int]
    enough_bytes: int  # it goes on when no more than this waits there


@dataclass(frozen=True, slots=True)
class Deadlock:
    """Ports that will never send data again."""

    port_ids: tuple[int, ...]  # all of them, sorted
    cycle: tuple[int, ...]  # some of them, each waiting for the next and the last for the first
    since_ns: int  # when the last port of the cycle came to a stop, CLOCK_MONOTONIC


def find_deadlock(held: Mapping[int, HeldPort]) -> Deadlock | None:
    """The deadlock among held ports, by port id; None when every port can still go on.

    If the ports were held all the time while they were looked at, the answer is right, whatever other ports
    did meanwhile.
    """
    stuck = dict(held)
    while True:
        free = [port_id for port_id, port in stuck.items() if _stuck_bytes(port, stuck) <= port.enough_bytes]
        if not free:
            break
        for port_id in free:
            del stuck[port_id]
    if not stuck:
        return None
    cycle = _cycle(stuck)
    return Deadlock(tuple(sorted(stuck)), cycle, max(stuck[port_id].since_ns for port_id in cycle))


def _stuck_bytes(port: HeldPort, stuck: Mapping[int, HeldPort]) -> int:
    return sum(waiting for port_id, waiting in port.waiting_bytes.items() if port_id in stuck)


def _cycle(stuck: Mapping[int, HeldPort]) -> tuple[int, ...]:
    """Follows each port to the one where most of its data waits, until one comes again."""
    walk: list[int] = []
    port_id = min(stuck)
    while port_id not in walk:
        walk.append(port_id)
        waiting = {other: count for other, count in stuck[port_id].waiting_bytes.items() if other in stuck}
        port_id = max(sorted(waiting), key=lambda other: waiting[other])
    cycle = walk[walk.index(port_id) :]
    first = cycle.index(min(cycle))
    return (*cycle[first:], *cycle[:first])
