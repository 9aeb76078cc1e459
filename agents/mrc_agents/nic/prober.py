"""When to probe EVs that are ASSUMED_BAD: soon after they fell, then more rarely; quickly while answers come.

Only timing is decided here. The kernel counts answers and brings the EV back (docs/reference/protocol.md, "EV
probes").
"""

import heapq
from collections.abc import Iterable, Sequence

from mrc_agents.abi import EvState, Qp

_FALL_FACTOR = 4


def excess_falls(own: int, all_falls: Sequence[int]) -> int:
    """Times that a path fell beyond what is expected: 0 for the first, or when all paths fall alike."""
    expected = 2 * sum(all_falls) // max(1, len(all_falls))
    return max(0, own - 1 - expected)


class ProbeSchedule:
    """Deadlines of the next probe of each bad EV.

    The first probe leaves at once. An EV that keeps coming back to lose again, more often than others, as on
    a link that drops some packets, is left alone first, four times longer each time.

    Args:
        base_ns: a round-trip time.
        ceiling_ns: of the time between two probes of an EV.
    """

    def __init__(self, base_ns: int, ceiling_ns: int) -> None:
        self._base_ns = base_ns
        self._ceiling_ns = ceiling_ns
        self._queue: list[tuple[int, int, int]] = []
        self._spacing_ns: dict[tuple[int, int], int] = {}

    def add(self, qp_index: int, ev_index: int, excess: int, now_ns: int) -> None:
        """An EV has become bad; *excess* is `excess_falls` of its path."""
        pause_ns = min(self._base_ns * _FALL_FACTOR ** min(excess, 16), self._ceiling_ns) if excess else 0
        is_new = (qp_index, ev_index) not in self._spacing_ns
        self._spacing_ns[qp_index, ev_index] = max(pause_ns, self._base_ns)
        if is_new:
            heapq.heappush(self._queue, (now_ns + pause_ns, qp_index, ev_index))

    def hasten(self, evs: Iterable[tuple[int, int]], now_ns: int) -> None:
        """Makes the next probe of these bad EVs, as (QP index, EV index), due at once."""
        chosen = set(evs) & self._spacing_ns.keys()
        self._queue = [(now_ns if entry[1:] in chosen else entry[0], *entry[1:]) for entry in self._queue]
        heapq.heapify(self._queue)
        self._spacing_ns |= dict.fromkeys(chosen, self._base_ns)

    def remove_qp(self, qp_index: int) -> None:
        self._queue = [entry for entry in self._queue if entry[1] != qp_index]
        heapq.heapify(self._queue)
        self._spacing_ns = {key: value for key, value in self._spacing_ns.items() if key[0] != qp_index}

    def next_deadline_ns(self) -> int | None:
        """When the next probe is due; None when no EV is bad."""
        return self._queue[0][0] if self._queue else None

    def due(self, now_ns: int) -> dict[int, list[int]]:
        """EVs whose probe is due, by QP index; each must come back through `reschedule`."""
        found: dict[int, list[int]] = {}
        while self._queue and self._queue[0][0] <= now_ns:
            _, qp_index, ev_index = heapq.heappop(self._queue)
            found.setdefault(qp_index, []).append(ev_index)
        return found

    def reschedule(self, qp_index: int, ev_indices: list[int], qp: Qp, now_ns: int) -> list[int]:
        """The EVs among those due that are still bad and shall be probed now.

        Args:
            qp_index: whose they are.
            ev_indices: from `due`.
            qp: the kernel's QP as it is now.
            now_ns: CLOCK_MONOTONIC.
        """
        to_probe = []
        for ev_index in ev_indices:
            ev = qp.evs.ev[ev_index]
            key = (qp_index, ev_index)
            if ev.state != EvState.ASSUMED_BAD:
                self._spacing_ns.pop(key, None)
                continue
            if ev.is_probe_pending:
                self._spacing_ns[key] = min(self._spacing_ns[key] * 2, self._ceiling_ns)
            elif ev.probe_successes:
                self._spacing_ns[key] = self._base_ns
            heapq.heappush(self._queue, (now_ns + self._spacing_ns[key], qp_index, ev_index))
            to_probe.append(ev_index)
        return to_probe
