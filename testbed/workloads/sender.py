"""One flow on live NICs: its memory, its QPs, and the laps it sends one after another.

Two laps are posted at any time, each on its own half of the target's region, so that the QP never runs dry
while the half that is complete is compared. See `layout` for what a lap is.
"""

import time
from collections import deque
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, Protocol

from agents.nic.pattern import seed_at
from testbed.workloads.flow import Flow
from testbed.workloads.layout import Layout
from testbed.workloads.outcome import FlowOutcome

COMPARED_AT_ONCE_BYTES: Final = 1 << 20
"""A NIC agent does nothing else while it compares: larger stretches would hold its kicks up."""

LAP_WORK_RATIO: Final = 5
"""A lap lasts at least this many times as long as posting and comparing it takes. At the rates of a shaped
lab one pass does, so that every byte is compared; at line rate it takes many, and the last is compared."""

_PASSES_MAX: Final = 1 << 20
_SUCCESS: Final = "success"


class NicVerbs(Protocol):
    """What a sender needs of agents.nic.client.AgentClient."""

    def register_memory(self, length: int) -> dict[str, int]:
        """A new region: offset, length, r_key."""

    def deregister_memory(self, r_key: int) -> None:
        """Invalidates a key."""

    def fill(self, offset: int, length: int, seed: int) -> None:
        """Writes a test pattern."""

    def verify(self, offset: int, length: int, seed: int) -> int:
        """Number of bytes that differ from a test pattern."""

    def create_qp(self, peer_host: int, evs: list[int], **attributes: int) -> int:
        """Number of a new QP."""

    def connect_qp(self, qpn: int, peer_qpn: int) -> None:
        """Brings a QP to RTS."""

    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use."""

    def post_write(self, qpn: int, **work: int) -> int:
        """Id of posted work."""

    def stop_work(self, qpn: int, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""


@dataclass(frozen=True, slots=True)
class QpEnd:
    """One end of a flow.

    Attributes:
        nic: the agent of its host.
        peer_host: index of the host at the other end.
        evs: its EVs, plane by plane.
        attributes: the QP's other attributes.
    """

    nic: NicVerbs
    peer_host: int
    evs: tuple[int, ...]
    attributes: Mapping[str, int]

    def create_qp(self) -> int:
        """Number of a new QP, not yet connected."""
        return self.nic.create_qp(self.peer_host, list(self.evs), **self.attributes)


@dataclass(frozen=True, slots=True)
class LapRecord:
    """A finished lap.

    Attributes:
        begin_ns: CLOCK_MONOTONIC when it began to have the QP for itself.
        end_ns: when its last message completed.
        messages: completed.
    """

    begin_ns: int
    end_ns: int
    messages: int


@dataclass(slots=True)
class _PostedLap:
    number: int
    work_id: int


class FlowSender:
    """One flow.

    Args:
        flow: what it is.
        source, target: its ends.
        layout: of its memory.
        depth: messages outstanding.
        seed: of the bytes it sends.

    Attributes:
        error: why it failed; None while it has not.
        laps: finished laps, oldest first.
    """

    def __init__(
        self, flow: Flow, source: QpEnd, target: QpEnd, layout: Layout, *, depth: int, seed: int
    ) -> None:
        self.flow = flow
        self.error: str | None = None
        self.laps: list[LapRecord] = []
        self._source = source
        self._target = target
        self._layout = layout
        self._depth = depth
        self._seed = seed
        self._acquired = ExitStack()
        self._local: dict[str, int] | None = None
        self._remote: dict[str, int] | None = None
        self._qpn: int | None = None
        self._posted: deque[_PostedLap] = deque()
        self._next_lap = 0
        self._passes = 1
        self._left: int | None = None  # messages still to be posted; None for no end
        self._begun_ns = 0
        self._ended_ns = 0
        self._messages = 0
        self._compared_bytes = 0
        self._wrong_bytes = 0

    # ---- set-up and removal

    def prepare(self) -> None:
        """Registers and fills memory, creates and connects the QPs.

        Raises:
            AgentError: an agent died or did not answer.
            UsageError: an agent refused.
        """
        source, target, layout = self._source.nic, self._target.nic, self._layout
        self._remote = target.register_memory(layout.remote_bytes)
        self._acquired.callback(target.deregister_memory, self._remote["r_key"])
        self._local = source.register_memory(layout.local_bytes)
        self._acquired.callback(source.deregister_memory, self._local["r_key"])
        source.fill(self._local["offset"], layout.local_bytes, self._seed)
        peer_qpn = self._target.create_qp()
        self._acquired.callback(target.destroy_qp, peer_qpn)
        self._qpn = self._source.create_qp()
        self._acquired.callback(source.destroy_qp, self._qpn)
        target.connect_qp(peer_qpn, self._qpn)
        source.connect_qp(self._qpn, peer_qpn)

    def close(self) -> None:
        """Destroys the QPs and deregisters the memory, as far as there are any; all is tried.

        Raises:
            AgentError: an agent died or did not answer.
        """
        self._acquired.close()

    # ---- sending

    @property
    def qpn(self) -> int | None:
        """QP number at the source."""
        return self._qpn

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way: not started, done, stopped and drained, or failed."""
        return not self._posted

    def start(self, messages: int | None) -> None:
        """Begins to send *messages* messages, or without end for None; to be called while idle."""
        if self._begun_ns == 0:
            self._begun_ns = time.monotonic_ns()
        self._ended_ns = max(self._ended_ns, time.monotonic_ns())
        self._left = messages
        while len(self._posted) < self._layout.halves and self._left != 0:
            self._post_lap()

    def stop(self) -> None:
        """Posts nothing more; messages that have begun complete."""
        self._left = 0
        for lap in self._posted:
            self._source.nic.stop_work(self._require_qpn(), lap.work_id)

    def fail(self, error: str) -> None:
        """Gives the flow up."""
        if self.error is None:
            self.error = error
            self._ended_ns = time.monotonic_ns()
        self._posted.clear()
        self._left = 0

    def take_event(self, event: Mapping[str, Any]) -> None:
        """Books an event of the source's agent that concerns this flow's QP."""
        if event["event"] == "qp_state" and event["to"] == "ERROR":
            self.fail(f"QP {self._qpn} of {self.flow.source} failed: {event['status']}")
        elif event["event"] == "completion":
            self._finish_lap(event)

    def outcome(self) -> FlowOutcome:
        """What became of the flow so far."""
        return FlowOutcome(
            flow=self.flow,
            qpn=self._qpn or 0,
            start_ns=self._begun_ns,
            end_ns=self._ended_ns,
            messages=self._messages,
            payload_bytes=self._messages * self._layout.size_bytes,
            compared_bytes=self._compared_bytes,
            wrong_bytes=self._wrong_bytes,
            error=self.error,
        )

    def _post_lap(self) -> None:
        if self._local is None or self._remote is None:
            raise ValueError("not prepared")
        layout = self._layout
        messages = layout.slots * self._passes
        if self._left is not None:
            messages = min(messages, self._left)
            self._left -= messages
        local_start, remote_start = layout.lap_offsets(self._next_lap)
        work_id = self._source.nic.post_write(
            self._require_qpn(),
            length=layout.size_bytes,
            local_offset=self._local["offset"] + local_start,
            remote_offset=remote_start,
            r_key=self._remote["r_key"],
            iterations=messages,
            depth=self._depth,
            local_slots=layout.local_slots,
            remote_slots=layout.slots,
        )
        self._posted.append(_PostedLap(self._next_lap, work_id))
        self._next_lap += 1

    def _finish_lap(self, event: Mapping[str, Any]) -> None:
        if not self._posted or self._posted[0].work_id != event["work_id"]:
            return
        lap = self._posted.popleft()
        begin_ns, self._ended_ns = self._ended_ns, int(event["time_ns"])
        messages = int(event["iterations"])
        self._messages += messages
        self.laps.append(LapRecord(begin_ns, self._ended_ns, messages))
        if event["status"] != _SUCCESS:
            self.fail(f"QP {self._qpn} of {self.flow.source} failed: {event['status']}")
        began_ns = time.monotonic_ns()
        self._compare(lap.number, messages)
        if self._left != 0:
            self._post_lap()
        work_ns = time.monotonic_ns() - began_ns
        self._adapt(self._ended_ns - begin_ns, work_ns)

    def _adapt(self, lap_ns: int, work_ns: int) -> None:
        """Makes laps longer when they leave too little time for the work between them, and shorter again."""
        if lap_ns < LAP_WORK_RATIO * work_ns:
            self._passes = min(2 * self._passes, _PASSES_MAX)
        elif lap_ns > 4 * LAP_WORK_RATIO * work_ns:
            self._passes = max(self._passes // 2, 1)

    def _compare(self, lap: int, messages: int) -> None:
        if self._remote is None:
            raise ValueError("not prepared")
        for stretch in self._layout.expected(lap, messages):
            for start in range(0, stretch.length, COMPARED_AT_ONCE_BYTES):
                length = min(COMPARED_AT_ONCE_BYTES, stretch.length - start)
                self._wrong_bytes += self._target.nic.verify(
                    self._remote["offset"] + stretch.remote_offset + start,
                    length,
                    seed_at(self._seed, stretch.local_offset + start),
                )
                self._compared_bytes += length

    def _require_qpn(self) -> int:
        if self._qpn is None:
            raise ValueError("not prepared")
        return self._qpn
