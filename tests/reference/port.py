"""One shaped port as docs/explanation/queue-engine.md defines it, in plain Python: what the BPF programs must
equal.
"""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from fractions import Fraction

from reference.fault_rules import seeded_draw

CONTROL, DATA = 0, 1


class Verdict(Enum):
    """The outcome of a frame that is not delivered as it came."""

    MARKED = auto()
    TRIMMED = auto()
    DROPPED_DATA = auto()
    DROPPED_CONTROL = auto()


DROPS = {Verdict.DROPPED_DATA, Verdict.DROPPED_CONTROL}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A frame that reaches the port at *time_ns*; *trimmed_bytes* is 0 if it is not to be trimmed."""

    time_ns: int
    traffic_class: int
    length_bytes: int
    label: int
    is_ect: bool = False
    trimmed_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Delivery:
    """A frame that reaches the far end of the link at *time_ns*."""

    time_ns: int
    label: int


@dataclass(frozen=True, slots=True)
class Carried:
    """Deliveries in order; by label, what else became of a frame; by class, how long frames waited."""

    deliveries: list[Delivery]
    verdicts: dict[int, Verdict]
    delays_ns: tuple[list[int], list[int]]


@dataclass(frozen=True, slots=True)
class Marking:
    """Where marks begin, where they are certain, and how probable they are just below that."""

    min_bytes: int = 0
    max_bytes: int = 0
    probability_q32: int = 0
    seed: int = 0

    def marks(self, backlog_bytes: int, draw: list[int]) -> bool:
        """Return True if the frame that makes that backlog is marked; counts the draw it uses."""
        if not self.max_bytes or backlog_bytes <= self.min_bytes:
            return False
        if backlog_bytes >= self.max_bytes:
            return True
        share = (backlog_bytes - self.min_bytes) * self.probability_q32 // (self.max_bytes - self.min_bytes)
        draw[0] += 1
        return seeded_draw(self.seed, draw[0] - 1) < share


@dataclass(frozen=True, slots=True)
class ReferencePort:
    """Rate, delay and queues of a port; a *trim_bytes* of 0 is no trimming."""

    rate_bps: int
    delay_ns: int
    buffer_bytes: tuple[int, int]  # by traffic class
    trim_bytes: int = 0
    marking: Marking = field(default_factory=Marking)

    def carry(self, arrivals: Iterable[Arrival], first_draw: int = 0) -> Carried:
        """The outcome of frames.

        Args:
            arrivals: in order of time.
            first_draw: random numbers that marking has used before.
        """
        waiting: tuple[deque[Arrival], deque[Arrival]] = (deque(), deque())
        deliveries: list[Delivery] = []
        verdicts: dict[int, Verdict] = {}
        delays_ns: tuple[list[int], list[int]] = ([], [])
        draw = [first_draw]
        free_ns = Fraction(0)

        def send(frame: Arrival, start_ns: int) -> None:
            nonlocal free_ns
            delays_ns[frame.traffic_class].append(start_ns - frame.time_ns)
            free_ns = max(free_ns, Fraction(start_ns)) + Fraction(
                frame.length_bytes * 8 * 10**9, self.rate_bps
            )
            deliveries.append(Delivery(int(free_ns) + self.delay_ns, frame.label))

        def send_until(limit_ns: int | None) -> None:
            while waiting[CONTROL] or waiting[DATA]:
                oldest_ns = min(queue[0].time_ns for queue in waiting if queue)
                start_ns = max(int(free_ns), oldest_ns)
                if limit_ns is not None and start_ns > limit_ns:
                    return
                has_control = bool(waiting[CONTROL]) and waiting[CONTROL][0].time_ns <= start_ns
                send(waiting[CONTROL if has_control else DATA].popleft(), start_ns)

        def backlog_with(frame: Arrival) -> int:
            return sum(f.length_bytes for f in (*waiting[frame.traffic_class], frame))

        def admit(frame: Arrival) -> None:
            backlog_bytes = backlog_with(frame)
            is_too_much = backlog_bytes > self.buffer_bytes[frame.traffic_class]
            if frame.traffic_class == CONTROL:
                if is_too_much:
                    verdicts[frame.label] = Verdict.DROPPED_CONTROL
                    return
            elif frame.trimmed_bytes and self.trim_bytes and (is_too_much or backlog_bytes > self.trim_bytes):
                cut = replace(frame, traffic_class=CONTROL, length_bytes=frame.trimmed_bytes)
                admit(cut)
                verdicts.setdefault(frame.label, Verdict.TRIMMED)
                return
            elif is_too_much:
                verdicts[frame.label] = Verdict.DROPPED_DATA
                return
            elif frame.is_ect and self.marking.marks(backlog_bytes, draw):
                verdicts[frame.label] = Verdict.MARKED
            waiting[frame.traffic_class].append(frame)

        for frame in arrivals:
            send_until(frame.time_ns)
            if int(free_ns) <= frame.time_ns and not waiting[CONTROL] and not waiting[DATA]:
                send(frame, frame.time_ns)
            else:
                admit(frame)
        send_until(None)
        return Carried(deliveries, verdicts, delays_ns)
