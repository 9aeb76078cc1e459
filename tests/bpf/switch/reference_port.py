"""One shaped port as docs/queue-engine.md defines it, in plain Python: what the BPF programs must equal."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

CONTROL, DATA = 0, 1


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame that reaches the port at *time_ns*."""

    time_ns: int
    traffic_class: int
    length_bytes: int
    label: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A frame that reaches the far end of the link at *time_ns*."""

    time_ns: int
    label: int


@dataclass(frozen=True, slots=True)
class ReferencePort:
    """Rate, delay and buffers of a port."""

    rate_bps: int
    delay_ns: int
    buffer_bytes: tuple[int, int]  # by traffic class

    def carry(self, arrivals: Iterable[Arrival]) -> tuple[list[Delivery], set[int]]:
        """Deliveries in order, and labels of the frames that found their buffer full.

        Args:
            arrivals: in order of time.
        """
        waiting: tuple[deque[Arrival], deque[Arrival]] = (deque(), deque())
        deliveries: list[Delivery] = []
        dropped: set[int] = set()
        free_ns = 0

        def send(frame: Arrival, start_ns: int) -> None:
            nonlocal free_ns
            free_ns = start_ns + frame.length_bytes * 8 * 10**9 // self.rate_bps
            deliveries.append(Delivery(free_ns + self.delay_ns, frame.label))

        def send_until(limit_ns: int | None) -> None:
            while waiting[CONTROL] or waiting[DATA]:
                oldest_ns = min(queue[0].time_ns for queue in waiting if queue)
                start_ns = max(free_ns, oldest_ns)
                if limit_ns is not None and start_ns > limit_ns:
                    return
                has_control = bool(waiting[CONTROL]) and waiting[CONTROL][0].time_ns <= start_ns
                send(waiting[CONTROL if has_control else DATA].popleft(), start_ns)

        for frame in arrivals:
            send_until(frame.time_ns)
            queue = waiting[frame.traffic_class]
            if free_ns <= frame.time_ns and not waiting[CONTROL] and not waiting[DATA]:
                send(frame, frame.time_ns)
            elif sum(f.length_bytes for f in (*queue, frame)) > self.buffer_bytes[frame.traffic_class]:
                dropped.add(frame.label)
            else:
                queue.append(frame)
        send_until(None)
        return deliveries, dropped
