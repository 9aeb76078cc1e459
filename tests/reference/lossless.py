"""A network of ports under PFC or credits as docs/explanation/queue-engine.md defines it, in plain Python, by
events.
"""

import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import count
from typing import TypeAlias

from mrc_agents.abi import FlowControl

FlowKind: TypeAlias = FlowControl

CONTROL, DATA = 0, 1
BUCKET_NS = 1 << 10


@dataclass(frozen=True, slots=True)
class PortShape:
    """A port, and the buffer behind its link."""

    # rate_bps, delay_ns: of the port
    rate_bps: int
    delay_ns: int
    far_delay_ns: int = 0  # delay of the way back
    ends_at_nic: bool = True  # nothing waits at the far end
    kind: FlowKind = FlowKind.NONE  # flow control of the link
    # xoff_bytes, xon_bytes, buffer_bytes: as in struct mrc_lossless_settings
    xoff_bytes: int = 0
    xon_bytes: int = 0
    buffer_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame and the ports by which it is to leave, the first one included."""

    label: int
    traffic_class: int
    length_bytes: int
    route: tuple[int, ...]


@dataclass(slots=True)
class Account:
    """The account of a link under flow control."""

    pause_frames: int = 0
    resume_frames: int = 0
    paused_ns: int = 0
    blocks: int = 0
    blocked_ns: int = 0
    buffered_peak_bytes: int = 0


@dataclass(slots=True)
class _Waiting:
    frame: Frame
    hop: int
    arrival_ns: int
    upstream: int | None


@dataclass(slots=True)
class _Port:
    shape: PortShape
    account: Account = field(default_factory=Account)
    queues: tuple[deque[_Waiting], deque[_Waiting]] = field(default_factory=lambda: (deque(), deque()))
    free_exactly_ns: Fraction = Fraction(0)
    is_paused: bool = False  # as the sender knows
    is_pause_sent: bool = False  # as the far end has said
    paused_since_ns: int = 0
    used_bytes: int = 0
    buffered_bytes: int = 0
    blocked_since_ns: int | None = None

    @property
    def free_ns(self) -> int:
        return int(self.free_exactly_ns)

    def is_held(self, frame: Frame) -> bool:
        if frame.traffic_class == CONTROL:
            return False
        if self.shape.kind is FlowKind.CREDITS:
            return self.used_bytes + frame.length_bytes > self.shape.buffer_bytes
        return self.is_paused


class ReferenceNetwork:
    """Carries frames over ports whose data class flow control may hold.

    Attributes:
        deliveries: (time_ns, label) of frames that left by the last port of their route, by time.
        dropped: labels of frames that found no room.
        accounts: by port id.
        is_ambiguous: two things happened at different ports in one bucket of the timing wheel, where the
            programs may take them in either order.
    """

    def __init__(self, shapes: Mapping[int, PortShape]) -> None:
        self._ports = {port_id: _Port(shape) for port_id, shape in shapes.items()}
        self._order = count()
        self._events: list[tuple[int, int, int, str, int, object]] = []
        self._bucket_ports: dict[int, set[int]] = {}
        self.deliveries: list[tuple[int, int]] = []
        self.dropped: set[int] = set()

    @property
    def accounts(self) -> dict[int, Account]:
        return {port_id: port.account for port_id, port in self._ports.items()}

    @property
    def is_ambiguous(self) -> bool:
        """Return True if the order of two events is below the resolution of the timing wheel."""
        return any(len(ports) > 1 for ports in self._bucket_ports.values())

    def carry(self, arrivals: Iterable[tuple[int, Frame]]) -> None:
        """Lets frames come in at the first port of their route, by (time_ns, frame), until all is quiet."""
        for time_ns, frame in arrivals:
            self._push(time_ns, 2, "arrive", frame.route[0], (frame, 0, None))
        while self._events:
            time_ns, _, _, what, port_id, detail = heapq.heappop(self._events)
            if what == "updates":
                assert isinstance(detail, int)
                self._receive_update(port_id, detail)
                self._serve(port_id, time_ns)
            elif what == "free":
                self._serve(port_id, time_ns)
            else:
                assert isinstance(detail, tuple)
                self._arrive(time_ns, port_id, *detail)
        self.deliveries.sort()

    def _push(self, time_ns: int, rank: int, what: str, port_id: int, detail: object) -> None:
        """At one time updates come first, then transmissions begin, then frames arrive."""
        heapq.heappush(self._events, (time_ns, rank, next(self._order), what, port_id, detail))

    def _note(self, time_ns: int, port_id: int) -> None:
        self._bucket_ports.setdefault(time_ns // BUCKET_NS, set()).add(port_id)

    def _receive_update(self, port_id: int, value: int) -> None:
        port = self._ports[port_id]
        if port.shape.kind is FlowKind.PFC:
            port.is_paused = bool(value)
        else:
            port.used_bytes -= value

    def _arrive(self, time_ns: int, port_id: int, frame: Frame, hop: int, upstream: int | None) -> None:
        port = self._ports[port_id]
        if upstream is not None:
            self._note(time_ns, upstream)
        self._serve(port_id, time_ns)
        waiting = _Waiting(frame, hop, time_ns, upstream)
        is_idle = not any(port.queues) and port.free_ns <= time_ns and not port.is_held(frame)
        sender = self._ports[upstream] if upstream is not None else None
        if sender and sender.shape.kind is FlowKind.NONE:
            sender = None
        if is_idle or frame.traffic_class == CONTROL:
            self._give_credit(upstream, frame, time_ns)
            waiting.upstream = None
        elif sender and sender.shape.kind is FlowKind.PFC:
            assert upstream is not None
            if sender.buffered_bytes + frame.length_bytes > sender.shape.buffer_bytes:
                self.dropped.add(frame.label)
                return
            self._charge(upstream, frame.length_bytes, time_ns)
        port.queues[frame.traffic_class].append(waiting)
        self._serve(port_id, time_ns)

    def _serve(self, port_id: int, time_ns: int) -> None:
        port = self._ports[port_id]
        if port.free_ns > time_ns:
            return
        control, data = port.queues
        if control:
            self._begin(port_id, control.popleft(), time_ns)
        elif data and port.is_held(data[0].frame):
            if port.blocked_since_ns is None:
                port.blocked_since_ns = time_ns
                port.account.blocks += 1
        elif data:
            self._begin(port_id, data.popleft(), time_ns)

    def _begin(self, port_id: int, waiting: _Waiting, time_ns: int) -> None:
        port, frame = self._ports[port_id], waiting.frame
        if waiting.arrival_ns < time_ns:  # else it is part of the arrival
            self._note(time_ns, port_id)
        begin_ns = max(Fraction(time_ns), port.free_exactly_ns)  # at most a part of a nanosecond later
        port.free_exactly_ns = begin_ns + Fraction(frame.length_bytes * 8 * 10**9, port.shape.rate_bps)
        arrival_ns = port.free_ns + port.shape.delay_ns
        self._push(port.free_ns, 1, "free", port_id, None)
        if frame.traffic_class == DATA:
            if port.blocked_since_ns is not None:
                port.account.blocked_ns += time_ns - port.blocked_since_ns
                port.blocked_since_ns = None
            if port.shape.kind is FlowKind.CREDITS:
                port.used_bytes += frame.length_bytes
        if waiting.upstream is not None:
            if self._ports[waiting.upstream].shape.kind is FlowKind.PFC:
                self._release(waiting.upstream, frame.length_bytes, time_ns)
            else:
                self._give_credit(waiting.upstream, frame, time_ns)
        if waiting.hop + 1 < len(frame.route):
            next_id = frame.route[waiting.hop + 1]
            self._push(arrival_ns, 2, "arrive", next_id, (frame, waiting.hop + 1, port_id))
        else:
            self.deliveries.append((arrival_ns, frame.label))
            self._note(arrival_ns, port_id)
            if port.shape.ends_at_nic:
                self._give_credit(port_id, frame, arrival_ns)

    def _charge(self, sender_id: int, length_bytes: int, time_ns: int) -> None:
        sender = self._ports[sender_id]
        sender.buffered_bytes += length_bytes
        account = sender.account
        account.buffered_peak_bytes = max(account.buffered_peak_bytes, sender.buffered_bytes)
        if not sender.is_pause_sent and sender.buffered_bytes >= sender.shape.xoff_bytes:
            sender.is_pause_sent = True
            sender.paused_since_ns = time_ns
            account.pause_frames += 1
            self._push(time_ns + sender.shape.far_delay_ns, 0, "updates", sender_id, 1)

    def _release(self, sender_id: int, length_bytes: int, time_ns: int) -> None:
        sender = self._ports[sender_id]
        sender.buffered_bytes -= length_bytes
        if sender.is_pause_sent and sender.buffered_bytes <= sender.shape.xon_bytes:
            sender.is_pause_sent = False
            sender.account.paused_ns += time_ns - sender.paused_since_ns
            sender.account.resume_frames += 1
            self._push(time_ns + sender.shape.far_delay_ns, 0, "updates", sender_id, 0)

    def _give_credit(self, sender_id: int | None, frame: Frame, time_ns: int) -> None:
        if sender_id is None or frame.traffic_class == CONTROL:
            return
        sender = self._ports[sender_id]
        if sender.shape.kind is FlowKind.CREDITS:
            self._push(time_ns + sender.shape.far_delay_ns, 0, "updates", sender_id, frame.length_bytes)
