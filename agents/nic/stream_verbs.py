"""Verbs about connections of the kernel's own TCP and MPTCP (docs/explanation/transports.md)."""

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable
from ipaddress import IPv6Address
from pathlib import Path
from typing import Any, Final

from mrc_testbed.agents.abi import QpState
from mrc_testbed.agents.errors import AgentError, UsageError
from mrc_testbed.agents.nic.config import NicSettings
from mrc_testbed.agents.nic.device import NicDevice
from mrc_testbed.agents.nic.rc_verbs import RcVerbs
from mrc_testbed.agents.nic.stream import Stream, StreamAttributes
from mrc_testbed.agents.nic.stream_ledger import StreamLedger
from mrc_testbed.agents.nic.stream_record import RECORD_BYTES, Record, RecordKind, decode_record
from mrc_testbed.agents.nic.verb import verb
from mrc_testbed.agents.nic.work_queue import WorkQueue, qp_index

IPPROTO_MPTCP: Final = 262
STREAM_PORTS: Final = {"tcp": 4791, "mptcp": 4792}
"""Where agents listen inside their hosts."""

_CONNECT_SECONDS: Final = 8
_log = logging.getLogger(__name__)


class StreamVerbs(RcVerbs):
    """Connections of the kernel's TCP; what is said of posting to a QP elsewhere holds for them."""

    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        self.publish: Callable[[dict[str, Any]], None] = lambda _: None
        self._listeners: dict[str, socket.socket] = {}
        self._called: dict[int, tuple[int, str]] = {}  # QP numbers that wait: of whom, over what
        self._greetings: set[asyncio.Task[None]] = set()

    @verb
    def create_stream(self, peer_host: int, protocol: str, congestion: str = "cubic") -> int:
        """A connection to be made, over `tcp` or `mptcp`; returns its number, which is like a QP's.

        Args:
            peer_host: index of the far host.
            protocol: `tcp` or `mptcp`.
            congestion: congestion control, as the kernel names it.
        """
        if protocol not in STREAM_PORTS:
            raise UsageError(f"protocol: {protocol!r}; {' or '.join(STREAM_PORTS)} is accepted")
        attributes = StreamAttributes(peer_host, protocol == "mptcp", congestion)
        self._listen(protocol, congestion)
        queue = WorkQueue(self.numbers.take(), attributes)
        ledger = StreamLedger(self._device, queue.index)
        self._streams[queue.index] = Stream(queue, attributes, self._regions, ledger, self._publish)
        return queue.qpn

    @verb
    def await_stream(self, qpn: int, peer_qpn: int) -> None:
        """Lets the far end connect to this one.

        Args:
            qpn: as `create_stream` gave it.
            peer_qpn: that of the far end.
        """
        stream = self._stream(qpn)
        self._called[qpn] = (peer_qpn, _protocol(stream))

    @verb
    async def connect_stream(self, qpn: int, peer_qpn: int, plane: int) -> None:
        """Connects to the far end, which waits for it, over a plane; MPTCP adds the others by itself.

        Args:
            qpn: as `create_stream` gave it.
            peer_qpn: that of the far end.
            plane: of the connection, or of its first subflow.
        """
        stream = self._stream(qpn)
        config = self._device.config
        if not 0 <= plane < config.plane_count:
            raise UsageError(f"plane: {plane}; 0 to {config.plane_count - 1} is accepted")
        if stream.connection is not None:
            raise UsageError(f"connection {qpn} exists")
        protocol = _protocol(stream)
        connecting = _new_socket(protocol)
        try:
            _choose_congestion(connecting, stream.attributes.congestion)
            connecting.bind((self._address(config.host_index, plane), 0))
            far = (self._address(stream.attributes.peer_host, plane), STREAM_PORTS[protocol])
            loop = asyncio.get_running_loop()
            async with asyncio.timeout(_CONNECT_SECONDS):
                await _connect(connecting, far)
                await loop.sock_sendall(connecting, Record(RecordKind.HELLO, peer_qpn, qpn).encode())
                await _read(connecting, RECORD_BYTES)  # the far end is ready to send, too
        except AgentError:
            connecting.close()
            raise
        except TimeoutError as error:
            connecting.close()
            raise AgentError(
                f"{far[0]} does not answer over plane {plane} within {_CONNECT_SECONDS} s"
            ) from error
        except OSError as error:
            connecting.close()
            raise AgentError(f"no connection to {stream.attributes.peer_host}: {error}") from error
        stream.attach(connecting)

    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use; packets for it are dropped from now on. Ends a connection."""
        stream = self._streams.get(qp_index(qpn))
        if stream is None or stream.queue.qpn != qpn:
            super().destroy_qp(qpn)
            return
        del self._streams[stream.queue.index]
        self._called.pop(qpn, None)
        stream.close()
        stream.queue.state = QpState.RESET
        self.numbers.release(qpn)

    def observe_streams(self) -> None:
        """Books what the kernel says of its connections."""
        for stream in self._streams.values():
            stream.observe()

    def close_streams(self) -> None:
        """Ends all connections, and listens no longer."""
        for stream in self._streams.values():
            stream.close()
        for listener in self._listeners.values():
            asyncio.get_running_loop().remove_reader(listener)
            listener.close()
        self._listeners.clear()

    # ---- being connected to

    def _listen(self, protocol: str, congestion: str) -> None:
        """Listens, and answers from now on with this congestion control."""
        if protocol in self._listeners:
            _choose_congestion(self._listeners[protocol], congestion)
            return
        listener = _new_socket(protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            _choose_congestion(listener, congestion)
            listener.bind(("::", STREAM_PORTS[protocol]))
            listener.listen(1024)
        except OSError as error:
            listener.close()
            raise AgentError(f"{protocol}: cannot listen: {error.strerror}") from error
        self._listeners[protocol] = listener
        asyncio.get_running_loop().add_reader(listener, self._accept, protocol)

    def _accept(self, protocol: str) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                accepted, _ = self._listeners[protocol].accept()
                accepted.setblocking(False)
                task = asyncio.get_running_loop().create_task(self._greet(accepted, protocol))
                self._greetings.add(task)
                task.add_done_callback(self._greetings.discard)

    async def _greet(self, accepted: socket.socket, protocol: str) -> None:
        """Finds out whom a new connection is for."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                hello = decode_record(await _read(accepted, RECORD_BYTES))
            stream = self._called_by(hello, protocol)
            _choose_congestion(accepted, stream.attributes.congestion)
            accepted.send(Record(RecordKind.HELLO, hello.offset, hello.number).encode())
        except (AgentError, OSError, TimeoutError) as error:
            _log.warning("a connection was refused: %s", error)
            accepted.close()
            return
        stream.attach(accepted)

    def _called_by(self, hello: Record, protocol: str) -> Stream:
        """The connection that a greeting is for."""
        wanted = self._called.get(hello.number)
        if hello.kind != RecordKind.HELLO or wanted != (hello.offset, protocol):
            raise AgentError(f"nobody waits for connection {hello.number}")
        del self._called[hello.number]
        return self._stream(hello.number)

    def _publish(self, fields: dict[str, Any]) -> None:
        self.publish(fields | {"host": self._config.host})

    def _stream(self, qpn: int) -> Stream:
        stream = self._streams.get(qp_index(qpn))
        if stream is None or stream.queue.qpn != qpn:
            raise UsageError(f"qpn: no connection {qpn}")
        return stream

    def _address(self, host: int, plane: int) -> str:
        """The inner address of a host's port."""
        return str(IPv6Address(self._device.config.inner_prefix + plane << 64 | host + 1))


def _protocol(stream: Stream) -> str:
    return "mptcp" if stream.attributes.is_mptcp else "tcp"


def _new_socket(protocol: str) -> socket.socket:
    number = IPPROTO_MPTCP if protocol == "mptcp" else socket.IPPROTO_TCP
    try:
        made = socket.socket(socket.AF_INET6, socket.SOCK_STREAM | socket.SOCK_CLOEXEC, number)
    except OSError as error:
        raise AgentError(
            f"this kernel has no {protocol.upper()}: {error.strerror}",
            hint="MPTCP needs CONFIG_MPTCP and net.mptcp.enabled=1" if protocol == "mptcp" else None,
        ) from error
    made.setblocking(False)
    return made


def _choose_congestion(any_socket: socket.socket, congestion: str) -> None:
    try:
        any_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    except PermissionError as error:  # a container may only use those that the machine allows to all
        raise UsageError(
            f"cc: this host may not use {congestion}, which the kernel restricts",
            hint=f"on the machine: sysctl -w net.ipv4.tcp_allowed_congestion_control='reno {congestion}'; "
            "or use --runtime netns",
        ) from error
    except OSError as error:
        known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
        raise UsageError(
            f"cc: this kernel's TCP has no {congestion}; it has {', '.join(sorted(known))}",
            hint=f"load the module (modprobe tcp_{congestion}), or choose another",
        ) from error


async def _connect(connecting: socket.socket, far: tuple[str, int]) -> None:
    """As loop.sock_connect(), which looks addresses up and knows no MPTCP."""
    loop, connected = asyncio.get_running_loop(), asyncio.Event()
    with contextlib.suppress(BlockingIOError):
        connecting.connect(far)
    loop.add_writer(connecting, connected.set)
    try:
        await connected.wait()
    finally:
        loop.remove_writer(connecting)
    number = connecting.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if number:
        raise OSError(number, os.strerror(number))


async def _read(connected: socket.socket, count: int) -> bytes:
    loop, read = asyncio.get_running_loop(), b""
    while len(read) < count:
        part = await loop.sock_recv(connected, count - len(read))
        if not part:
            raise AgentError("the connection ended before its greeting")
        read += part
    return read
