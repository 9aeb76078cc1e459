"""An HTTP server at one address of this machine, which says why it cannot listen there."""

import socket
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Final

from testbed.errors import PreflightError

DEFAULT_ADDRESS: Final = "127.0.0.1"


def url_host(address: str) -> str:
    """An IP address as it stands in a URL: IPv6 in brackets."""
    return f"[{address}]" if ":" in address else address


class LocalServer(ThreadingHTTPServer):
    """Listens at one address, a thread for each client.

    Args:
        handler: answers requests.
        address: where to listen, IPv4 or IPv6.
        port: TCP port; 0: any free one.
        what: is served, and where, for the message if that fails.
        other_port: how to have it at another port, for the same.

    Attributes:
        client_gone: errors that only say that a client went away.

    Raises:
        PreflightError: the port is in use, or the address is not one of this machine.
    """

    daemon_threads = True
    client_gone: ClassVar[tuple[type[Exception], ...]] = (ConnectionError,)

    def __init__(
        self, handler: type[BaseHTTPRequestHandler], address: str, port: int, *, what: str, other_port: str
    ) -> None:
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

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Passes over a client that hung up; anything else is a bug and is shown."""
        if not isinstance(sys.exception(), self.client_gone):
            super().handle_error(request, client_address)
