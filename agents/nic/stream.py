"""A connection of the kernel's own TCP or MPTCP that carries messages as a QP does.

A message is written to the socket from the sender's registered memory and read from it into the receiver's,
which then answers. Depth, iterations, immediates and completions are those of a QP; the kernel alone carries
the bytes. Everything happens in the agent's event loop.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from mrc_testbed.agents.abi import QpState, Status, Work
from mrc_testbed.agents.clock import monotonic_ns
from mrc_testbed.agents.errors import AgentError, UsageError
from mrc_testbed.agents.nic.memory import RegionTable
from mrc_testbed.agents.nic.stream_ledger import StreamLedger
from mrc_testbed.agents.nic.stream_record import RECORD_BYTES, Record, RecordKind, decode_record
from mrc_testbed.agents.nic.work_queue import Arrival, Completion, WorkQueue

_TURN_BYTES: Final = 1 << 20
"""Bytes that one connection may read before the next one has its turn."""


@dataclass(slots=True)
class _Job:
    """A work request: messages begun and answered so far."""

    work: Work
    begun: int = 0
    done: int = 0

    @property
    def is_begun(self) -> bool:
        return bool(self.work.stop) or self.begun == self.work.iterations

    @property
    def is_over(self) -> bool:
        return self.is_begun and self.done == self.begun


@dataclass(frozen=True, slots=True)
class _UnderWay:
    job: _Job
    number: int
    length: int
    begin_ns: int


@dataclass(frozen=True, slots=True)
class StreamAttributes:
    """The attributes of a connection that posting work needs."""

    peer_host: int  # index of the host at the far end
    is_mptcp: bool  # MPTCP, else TCP
    congestion: str  # congestion control, as the kernel names it

    window_packets = 0
    pmtu_bytes = 1
    max_wimm = 1


class Stream:
    """One end of a connection.

    Args:
        queue: the work posted to it.
        attributes: what it is.
        regions: memory that the far end may write to.
        ledger: what its bytes and messages are booked in.
        publish: called with completions, arrivals and failure.
    """

    def __init__(
        self,
        queue: WorkQueue,
        attributes: StreamAttributes,
        regions: RegionTable,
        ledger: StreamLedger,
        publish: Callable[[dict[str, Any]], None],
    ) -> None:
        self.queue = queue
        self.attributes = attributes
        self._regions = regions
        self._ledger = ledger
        self._publish = publish
        self._socket: socket.socket | None = None
        self._is_writing = False
        self._jobs: deque[_Job] = deque()  # not begun whole
        self._unfinished: deque[_Job] = deque()
        self._under_way: deque[_UnderWay] = deque()
        self._number = 0
        self._out: deque[memoryview] = deque()
        self._answers = bytearray()
        self._head = bytearray(RECORD_BYTES)
        self._head_bytes = 0
        self._incoming: Record | None = None
        self._place = memoryview(b"")
        self._receives = 0
        self._arrivals = 0

    # ---- the connection

    @property
    def connection(self) -> socket.socket | None:
        """The kernel's end; None before it is connected and after it has ended."""
        return self._socket

    def attach(self, connected: socket.socket) -> None:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = connected
        self.queue.state = QpState.RTS
        asyncio.get_running_loop().add_reader(connected, self._receive)
        self._send()

    def close(self) -> None:
        if self._socket is not None:
            loop = asyncio.get_running_loop()
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
            self._ledger.observe(self._socket, is_mptcp=self.attributes.is_mptcp)
            self._socket.close()
            self._socket = None

    def observe(self) -> None:
        """Books what the kernel says of it."""
        if self._socket is not None:
            self._ledger.observe(self._socket, is_mptcp=self.attributes.is_mptcp)

    def _fail(self, reason: str) -> None:
        """Fail the connection: the first work request ends with the reason, the rest as flushed."""
        before, self.queue.state = self.queue.state, QpState.ERROR
        self.queue.status = status = reason
        self.close()
        self._ledger.fail()
        time_ns = monotonic_ns()
        while self.queue.posted:
            self.queue.completions.append(Completion(self.queue.posted.popleft(), 0, status, time_ns))
            status = Status.FLUSHED.name.lower()
        self._publish(
            {
                "event": "qp_state",
                "time_ns": time_ns,
                "qpn": self.queue.qpn,
                "from": before.name,
                "to": QpState.ERROR.name,
                "status": reason,
            }
        )

    # ---- sending

    def post(self, work: Work) -> None:
        """Begins with a work request, after those before it."""
        job = _Job(work)
        self._jobs.append(job)
        self._unfinished.append(job)
        self._send()

    def stop(self, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""
        for job in self._unfinished:
            if job.work.id == work_id:
                job.work.stop = 1
        self._finish()
        self._send()

    def _send(self) -> None:
        """Writes as much as the kernel takes."""
        while self._socket is not None:
            if not self._out and not self._begin_next():
                self._want_to_write(wanted=False)
                return
            try:
                left = self._socket.sendmsg(self._out)
            except BlockingIOError:
                self._want_to_write(wanted=True)
                return
            except OSError as error:
                self._fail(_reason(error))
                return
            while left:
                first = self._out.popleft()
                if left < len(first):
                    self._out.appendleft(first[left:])
                    break
                left -= len(first)

    def _begin_next(self) -> bool:
        """Return True if there is a record to write: responses first, then the next message."""
        if self._answers:
            self._out.append(memoryview(bytes(self._answers)))
            self._answers.clear()
            return True
        while self._jobs and self._jobs[0].is_begun:
            self._jobs.popleft()
        if not self._jobs or len(self._under_way) >= self._jobs[0].work.depth:
            return False
        self._begin_message(self._jobs[0])
        return True

    def _begin_message(self, job: _Job) -> None:
        work = job.work
        self._number += 1
        record = Record(
            RecordKind.MESSAGE,
            self._number,
            offset=work.remote_offset + job.begun % work.remote_slots * work.length,
            r_key=work.r_key,
            length=work.length,
            immediate=work.immediate if work.has_immediate else None,
        )
        start = work.local_offset + job.begun % work.local_slots * work.length
        job.begun += 1
        self._out.append(memoryview(record.encode()))
        if work.length:
            self._out.append(self._regions.view(start, work.length))
        self._under_way.append(_UnderWay(job, self._number, work.length, monotonic_ns()))

    def _want_to_write(self, *, wanted: bool) -> None:
        if self._socket is None or wanted == self._is_writing:
            return
        self._is_writing = wanted
        loop = asyncio.get_running_loop()
        if wanted:
            loop.add_writer(self._socket, self._send)
        else:
            loop.remove_writer(self._socket)

    def _done(self, number: int) -> None:
        """The far end has all messages up to *number*."""
        now_ns = monotonic_ns()
        while self._under_way and self._under_way[0].number <= number:
            message = self._under_way.popleft()
            message.job.done += 1
            self._ledger.acknowledged(message.length, now_ns - message.begin_ns)
        self._finish()
        self._send()

    def _finish(self) -> None:
        while self._unfinished and self._unfinished[0].is_over:
            job = self._unfinished.popleft()
            work_id, status, now_ns = job.work.id, Status.SUCCESS.name.lower(), monotonic_ns()
            self.queue.completions.append(Completion(work_id, job.done, status, now_ns))
            if work_id in self.queue.posted:
                self.queue.posted.remove(work_id)
            self._publish(
                {
                    "event": "completion",
                    "time_ns": now_ns,
                    "qpn": self.queue.qpn,
                    "work_id": work_id,
                    "iterations": job.done,
                    "status": status,
                    "length": job.work.length,
                }
            )

    # ---- receiving

    def accept(self, count: int) -> None:
        """Lets so many more messages with an immediate come in."""
        self._receives += count
        if self._socket is not None:
            asyncio.get_running_loop().add_reader(self._socket, self._receive)

    def _receive(self) -> None:
        """Reads what has come, in turns."""
        left = _TURN_BYTES
        try:
            while left > 0 and self._socket is not None:
                record = self._incoming
                if record is not None and record.immediate is not None and self._receives == self._arrivals:
                    self._stop_listening()  # until somebody waits for it
                    return
                into = memoryview(self._head)[self._head_bytes :] if record is None else self._place
                taken = self._socket.recv_into(into)
                if not taken:
                    self._end()
                    return
                left -= taken
                self._take(taken)
        except BlockingIOError:
            return
        except OSError as error:
            self._end(error)
        except AgentError as error:
            self._fail(error.message)

    def _take(self, taken: int) -> None:
        """Goes on with so many bytes more, of a record or of a message."""
        if self._incoming is not None:
            self._ledger.placed(taken)
            self._place = self._place[taken:]
            if not self._place:
                self._arrive(self._incoming)
            return
        self._head_bytes += taken
        if self._head_bytes < RECORD_BYTES:
            return
        self._head_bytes = 0
        record = decode_record(self._head)
        match record.kind:
            case RecordKind.DONE:
                self._done(record.number)
            case RecordKind.REFUSED:
                self._fail(Status.REMOTE_ACCESS.name.lower())
            case RecordKind.MESSAGE:
                self._take_message(record)
            case RecordKind.HELLO:
                raise AgentError("a greeting in the middle of a connection")

    def _take_message(self, record: Record) -> None:
        try:
            self._place = self._regions.writable(record.r_key, record.offset, record.length)
        except UsageError:
            self._answers += Record(RecordKind.REFUSED, record.number).encode()
            self._send()
            self._stop_listening()
            return
        self._incoming = record
        if not record.length:
            self._arrive(record)

    def _arrive(self, record: Record) -> None:
        self._incoming = None
        self._answers += Record(RecordKind.DONE, record.number).encode()
        if record.immediate is not None:
            self._arrivals += 1
            now_ns = monotonic_ns()
            self.queue.arrivals[self._arrivals] = Arrival(
                self._arrivals, record.immediate, record.length, now_ns
            )
            self._publish(
                {
                    "event": "receive",
                    "time_ns": now_ns,
                    "qpn": self.queue.qpn,
                    "number": self._arrivals,
                    "immediate": record.immediate,
                    "length": record.length,
                }
            )
        self._send()

    def _stop_listening(self) -> None:
        if self._socket is not None:
            asyncio.get_running_loop().remove_reader(self._socket)

    def _end(self, error: OSError | None = None) -> None:
        """The far end has gone: that is an error for who had something to send."""
        if self.queue.posted:
            self._fail("the peer closed the connection" if error is None else _reason(error))
        else:
            self.close()


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
