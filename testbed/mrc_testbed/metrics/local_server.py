"""An HTTP server at one address of this machine, which says why it cannot listen there.

It outlives its visitors: connections are limited to less than the descriptors of the process, those of one
source to less than all, and what is refused is closed at once. Every answer, errors too, has headers that
keep pages from elsewhere from using it. A request must name this server as its host, once, since a web page
can make a name of its own point to this machine (DNS rebinding).
"""

import contextlib
import errno
import os
import resource
import socket
import struct
import sys
import threading
from collections.abc import Callable, Hashable
from email.message import Message
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address, ip_network
from typing import Any, ClassVar, Final, NamedTuple

from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.fabric.netlink import NetlinkSocket, Request

_NETLINK_SOCK_DIAG: Final = 4
_SOCK_DIAG_BY_FAMILY: Final = 20
_NO_COOKIE: Final = 0xFFFF_FFFF
_REQUEST: Final = struct.Struct("=BBBxI")  # family, protocol, extensions, states
_SOCKET_ID: Final = struct.Struct("!HH16s16s")  # source and destination port, source and destination address
_SOCKET_ID_REST: Final = struct.Struct("=III")  # interface, cookie
_ANSWER: Final = struct.Struct("=4x48x12xII")  # uid, inode
_IPV6_SITE_BITS: Final = 64

DEFAULT_ADDRESS: Final = "127.0.0.1"
_CONNECTIONS_MAX: Final = 128
_DESCRIPTORS_PER_CONNECTION: Final = 4
"""The other three of four are for the maps of labs, and for files of the moment."""
_SOURCES: Final = 4
"""So many sources take the whole server only together."""
_PAUSE_S: Final = 0.1
"""Between two attempts to accept a connection without a descriptor for it."""
_GIVEN_ONCE: Final = ("Host", "Origin", "Sec-Fetch-Site", "Content-Length", "Content-Type")
_TOO_MANY: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Security-Policy: default-src 'none'\r\nContent-Length: 21\r\n\r\ntoo many connections\n"
)


def connection_source(connection: socket.socket) -> str | None:
    """`uid N` where a process of this machine opened *connection*, else its address, of IPv6 the /64 prefix.

    All users of a machine have the same address, and as many more of 127.0.0.0/8 as they like. The kernel
    knows the user of each socket.

    Args:
        connection: as accepted, of AF_INET or AF_INET6.

    Returns:
        None when nobody holds the other end any more.

    Source: linux/sock_diag.h, linux/inet_diag.h.
    """
    try:
        (address, port), (own_address, own_port) = (
            end[:2] for end in (connection.getpeername(), connection.getsockname())
        )
        remote = ip_address(address.partition("%")[0])
        found = _socket_owner(connection.family, (address, port), (own_address, own_port))
    except OSError:
        return None  # the client has gone: there is no peer
    except FabricError:
        found = None  # no socket of this machine, or a kernel without inet_diag
    if found is not None:
        uid, inode = found
        return f"uid {uid}" if inode else None
    if remote.version == 6:
        return str(ip_network((int(remote), _IPV6_SITE_BITS), strict=False))
    return str(remote)


def _socket_owner(family: int, near: tuple[str, int], far: tuple[str, int]) -> tuple[int, int]:
    """User id and inode of the socket from *near* to *far*; inode 0: its process has closed it."""
    packed = [socket.inet_pton(family, end[0].partition("%")[0]).ljust(16, b"\0") for end in (near, far)]
    body = (
        _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0)
        + _SOCKET_ID.pack(near[1], far[1], *packed)
        + _SOCKET_ID_REST.pack(0, _NO_COOKIE, _NO_COOKIE)
    )
    with NetlinkSocket(_NETLINK_SOCK_DIAG) as diagnosis:
        answer = diagnosis.ask(Request("look for a socket's owner", _SOCK_DIAG_BY_FAMILY, 0, body))
    uid, inode = _ANSWER.unpack_from(answer)
    return uid, inode


class Refusal(NamedTuple):
    status: HTTPStatus
    reason: str


def url_host(address: str) -> str:
    """An IP address as it stands in a URL: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


def refuse_headers(is_known: Callable[[str], bool], headers: Message) -> Refusal | None:
    """Why a request with these *headers* is refused, whatever it wants; None if it is not.

    Args:
        is_known: whether this server goes by a name and port, such as `127.0.0.1:8000`.
    """
    for name in _GIVEN_ONCE:
        if len(headers.get_all(name, ())) > 1:
            return Refusal(HTTPStatus.BAD_REQUEST, f"the {name} header is given more than once")
    if not is_known(headers.get("Host", "").casefold()):
        return Refusal(HTTPStatus.FORBIDDEN, "this server is not known by that host name")
    return None


class SourceQuota:
    """Places for holders, of which no source has more than its share; threads may share it."""

    def __init__(self, total: int, per_source: int) -> None:
        self._total = total
        self._per_source = per_source
        self._lock = threading.Lock()
        self._sources: dict[Hashable, str] = {}

    def __len__(self) -> int:
        """Places that are taken."""
        return len(self._sources)

    def take(self, holder: Hashable, source: str) -> bool:
        """Return True if *holder* now has a place; False if all, or those for *source*, are taken."""
        with self._lock:
            held = sum(other == source for other in self._sources.values())
            if len(self._sources) >= self._total or held >= self._per_source:
                return False
            self._sources[holder] = source
            return True

    def source(self, holder: Hashable) -> str:
        """The source of a holder that has a place."""
        return self._sources[holder]

    def give_back(self, holder: Hashable) -> None:
        """Frees the place of *holder*, if it has one."""
        with self._lock:
            self._sources.pop(holder, None)


class LocalServer(ThreadingHTTPServer):
    """Listens at one address, a thread for each client.

    Args:
        address: where to listen, IPv4 or IPv6.
        port: TCP port; 0: any free one.
        what: is served, and where, for the message if that fails.
        other_port: how to have it at another port, for the same.
    """

    daemon_threads = True
    request_queue_size = _CONNECTIONS_MAX  # a SYN that finds the queue full is sent again a second later
    # errors that only say that a client went away
    client_gone: ClassVar[tuple[type[Exception], ...]] = (ConnectionError, TimeoutError)

    def __init__(
        self, handler: type[BaseHTTPRequestHandler], address: str, port: int, *, what: str, other_port: str
    ) -> None:
        descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        if descriptors == resource.RLIM_INFINITY:
            descriptors = _CONNECTIONS_MAX * _DESCRIPTORS_PER_CONNECTION
        places = min(_CONNECTIONS_MAX, max(_SOURCES, descriptors // _DESCRIPTORS_PER_CONNECTION))
        self.connections = SourceQuota(places, places // _SOURCES)  # that are open, by their source
        self._spare: int | None = None
        self._ended = threading.Event()
        if ":" in address:
            self.address_family = socket.AF_INET6
        try:
            super().__init__((address, port), handler)
        except (OSError, OverflowError) as error:
            reason = error.strerror if isinstance(error, OSError) else "there is no such port"
            raise PreflightError(
                f"cannot serve {what}: {reason}",
                hint=f"{other_port}, or end the process that listens there: ss -ltnp 'sport = :{port}'",
            ) from error
        bound, number = self.server_address[:2]
        self.host = f"{url_host(str(bound))}:{number}"  # address and port as they stand in a URL
        self.hosts = frozenset({self.host, f"localhost:{number}"})  # what a request may call this server
        self._keep_spare()

    def is_known(self, host: str) -> bool:
        """Return True if a request may call this server *host*, a name and a port in lower case."""
        return host in self.hosts

    def get_request(self) -> tuple[socket.socket, Any]:
        """The next connection.

        Raises:
            OSError: there is none after all; without a descriptor for it, it was closed.
        """
        try:
            return super().get_request()
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._turn_away()
            raise

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - of the base class
        """Return True if the connection has a place; else it gets an error."""
        source = connection_source(request)
        if source is None:
            return False
        is_admitted = self.connections.take(request, source)
        if not is_admitted:
            with contextlib.suppress(OSError):
                request.send(_TOO_MANY, socket.MSG_DONTWAIT)
        return is_admitted

    def shutdown_request(self, request: Any) -> None:
        """Closes a connection and frees its place."""
        try:
            super().shutdown_request(request)
        finally:
            self.connections.give_back(request)

    def shutdown(self) -> None:
        self._ended.set()
        super().shutdown()

    def server_close(self) -> None:
        super().server_close()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Passes over a client that hung up; anything else is a bug and is shown."""
        if not isinstance(sys.exception(), self.client_gone):
            super().handle_error(request, client_address)

    def _turn_away(self) -> None:
        """Closes the connection that waits: left alone, it would wake the server again and again."""
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        try:
            self.socket.accept()[0].close()
        except OSError:
            self._ended.wait(_PAUSE_S)
        self._keep_spare()

    def _keep_spare(self) -> None:
        """Holds a descriptor for when there is no other."""
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)


class LocalHandler(BaseHTTPRequestHandler):
    """Answers the requests of one connection to a LocalServer."""

    server: LocalServer
    protocol_version = "HTTP/1.1"
    default_request_version = "HTTP/1.0"  # 0.9 has no headers, not even in the answer
    # Content-Security-Policy of all answers
    content_policy: ClassVar[str] = "default-src 'none'; frame-ancestors 'none'"

    def do_GET(self) -> None:
        refusal = self.refusal()
        if refusal is None:
            self.get()
        else:
            self.refuse(refusal)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_POST(self) -> None:
        self.post()

    @property
    def has_body(self) -> bool:
        """Return True unless only the headers of the answer are wanted (RFC 9110, 9.3.2)."""
        return self.command != "HEAD"

    def get(self) -> None:
        """Answer a GET or HEAD request that is not refused."""
        self.send_error(HTTPStatus.NOT_IMPLEMENTED)

    def post(self) -> None:
        """Answers a POST request, which is still to be judged, with a body that is still to be read."""
        self.send_error(HTTPStatus.NOT_IMPLEMENTED)

    def refusal(self) -> Refusal | None:
        """Why this request is refused, whatever it wants; None if it is not."""
        return refuse_headers(self.server.is_known, self.headers)

    def refuse(self, refusal: Refusal) -> None:
        self.answer(refusal.status, f"{refusal.reason}\n".encode())

    def begin(self, status: HTTPStatus, content_type: str, policy: str | None = None) -> None:
        """Sends the status and the headers of every answer; *policy* takes the place of `content_policy`."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", policy or self.content_policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")

    def answer(
        self, status: HTTPStatus, body: bytes, content_type: str = "text/plain", policy: str | None = None
    ) -> None:
        self.begin(status, content_type, policy)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.has_body:
            self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """Answers a request that cannot be understood, and closes the connection.

        Args:
            message: not shown: it may have parts of the request in it.
            explain: not shown either.
        """
        del message, explain
        self.close_connection = True
        self.refuse(Refusal(HTTPStatus(code), HTTPStatus(code).phrase))

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        """A line per request is of no use to anybody."""
