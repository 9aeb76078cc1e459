"""One flow on live NICs: its memory, its QPs, and the batches it sends one after another.

Two batches are posted at any time, each on its own half of the target's region, so that the QP never runs dry
while the half that is complete is compared. See `layout` for what a batch is.
"""

from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.context import Completion, MemoryRegion, QpError, QueuePair
from mrc_agents.nic.pattern import seed_at
from mrc_testbed.workloads.flow import Flow, FlowOutcome
from mrc_testbed.workloads.layout import Layout
from mrc_testbed.workloads.transport import Event, Transport

BATCH_WORK_RATIO: Final = 5
"""A batch lasts at least this many times as long as posting and comparing it takes. At the rates of a shaped
lab one pass does, so that every byte is compared; at line rate it takes many, and the last is compared."""

_PASSES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A finished batch."""

    begin_ns: int  # CLOCK_MONOTONIC when it began to have the QP for itself
    end_ns: int  # when its last message completed
    messages: int  # completed


@dataclass(frozen=True, slots=True)
class _Held:
    near: QueuePair
    local: MemoryRegion
    remote: MemoryRegion


@dataclass(slots=True)
class _PostedBatch:
    number: int
    work_id: int


class FlowSender:
    """One flow.

    Args:
        layout: of its memory.
        depth: messages outstanding.
        seed: of the connection's choices and of the bytes it sends.
    """

    def __init__(self, flow: Flow, transport: Transport, layout: Layout, *, depth: int, seed: int) -> None:
        self.flow = flow
        self.error: str | None = None  # why it failed; None while it has not
        self.batches: list[BatchRecord] = []  # finished batches, oldest first
        self._transport = transport
        self._layout = layout
        self._depth = depth
        self._seed = seed
        self._acquired = ExitStack()
        self._held: _Held | None = None
        self._posted: deque[_PostedBatch] = deque()
        self._next_batch = 0
        self._passes = 1
        self._left: int | None = None  # messages still to be posted; None for no end
        self._begun_ns = 0
        self._ended_ns = 0
        self._messages = 0
        self._compared_bytes = 0
        self._wrong_bytes = 0

    # ---- set-up and removal

    def prepare(self) -> None:
        """Registers and fills memory, makes the connection."""
        flow, layout, transport = self.flow, self._layout, self._transport
        remote = transport.register(flow.target, layout.remote_bytes)
        self._acquired.callback(remote.close)
        local = transport.register(flow.source, layout.local_bytes)
        self._acquired.callback(local.close)
        local.fill(0, layout.local_bytes, self._seed)
        near, far = transport.connect(flow.source, flow.target, self._seed)
        self._acquired.callback(far.close)
        self._acquired.callback(near.close)
        self._held = _Held(near, local, remote)

    def close(self) -> None:
        """Free connection and memory, as far as there are any; all is tried."""
        self._acquired.close()

    # ---- sending

    @property
    def qp(self) -> QueuePair:
        return self._require().near

    @property
    def is_idle(self) -> bool:
        """Return True if nothing is in flight: not started, done, stopped and drained, or failed."""
        return not self._posted

    def start(self, messages: int | None) -> None:
        """Begins to send *messages* messages, or without end for None; to be called while idle."""
        if self._begun_ns == 0:
            self._begun_ns = monotonic_ns()
        self._ended_ns = max(self._ended_ns, monotonic_ns())
        self._left = messages
        while len(self._posted) < self._layout.halves and self._left != 0:
            self._post_batch()

    def stop(self) -> None:
        """Posts nothing more; messages that have begun complete."""
        self._left = 0
        for batch in self._posted:
            self.qp.stop_work(batch.work_id)

    def fail(self, error: str) -> None:
        if self.error is None:
            self.error = error
            self._ended_ns = monotonic_ns()
        self._posted.clear()
        self._left = 0

    def take(self, event: Event) -> None:
        """Books an event of the sending end."""
        match event:
            case QpError(reason=reason):
                self.fail(reason)
            case Completion():
                self._finish_batch(event)

    def outcome(self) -> FlowOutcome:
        return FlowOutcome(
            flow=self.flow,
            qpn=self._held.near.qpn if self._held else 0,
            start_ns=self._begun_ns,
            end_ns=self._ended_ns,
            messages=self._messages,
            payload_bytes=self._messages * self._layout.size_bytes,
            compared_bytes=self._compared_bytes,
            wrong_bytes=self._wrong_bytes,
            error=self.error,
        )

    def _post_batch(self) -> None:
        held, layout = self._require(), self._layout
        messages = layout.slots * self._passes
        if self._left is not None:
            messages = min(messages, self._left)
            self._left -= messages
        local_start, remote_start = layout.batch_offsets(self._next_batch)
        work_id = held.near.post_write(
            held.local,
            held.remote.remote,
            length=layout.size_bytes,
            local_at=local_start,
            remote_at=remote_start,
            iterations=messages,
            depth=layout.depth(self._depth),
            local_slots=layout.local_slots,
            remote_slots=layout.slots,
        )
        self._posted.append(_PostedBatch(self._next_batch, work_id))
        self._next_batch += 1

    def _finish_batch(self, event: Completion) -> None:
        if not self._posted or self._posted[0].work_id != event.work_id:
            return
        batch = self._posted.popleft()
        begin_ns, self._ended_ns = self._ended_ns, event.time_ns
        messages = event.iterations
        self._messages += messages
        self.batches.append(BatchRecord(begin_ns, self._ended_ns, messages))
        if event.error is not None:
            self.fail(event.error)
        began_ns = monotonic_ns()
        self._compare(batch.number, messages)
        if self._left != 0:
            self._post_batch()
        work_ns = monotonic_ns() - began_ns
        self._adapt(self._ended_ns - begin_ns, work_ns)

    def _adapt(self, batch_ns: int, work_ns: int) -> None:
        """Lengthens batches that leave too little time for the work between them, and shortens them again."""
        if batch_ns < BATCH_WORK_RATIO * work_ns:
            self._passes = min(2 * self._passes, _PASSES_MAX)
        elif batch_ns > 4 * BATCH_WORK_RATIO * work_ns:
            self._passes = max(self._passes // 2, 1)

    def _compare(self, batch: int, messages: int) -> None:
        remote = self._require().remote
        for interval in self._layout.expected(batch, messages):
            seed = seed_at(self._seed, interval.local_offset)
            self._wrong_bytes += remote.count_wrong(interval.remote_offset, interval.length, seed)
            self._compared_bytes += interval.length

    def _require(self) -> _Held:
        if self._held is None:
            raise ValueError("not prepared")
        return self._held
