"""Sockets by which an agent reports to an application, which has the other ends."""

import contextlib
import errno
import os
import socket
from collections.abc import Sequence
from typing import Final

SOCKETS_MAX: Final = 64


def socket_pair(used: int) -> tuple[socket.socket, socket.socket]:
    """An end for the agent, which does not block, and one for an application that uses so many already."""
    if used >= SOCKETS_MAX:
        raise OSError(errno.EMFILE, f"{SOCKETS_MAX} of these sockets are in use")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    return ours, theirs


def is_left(end: socket.socket) -> bool:
    """Return True if the application has closed its end; it sends nothing by it."""
    try:
        return end.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def send(end: socket.socket, packet: bytes) -> None:
    """Sends a packet, unless the socket is full or left."""
    with contextlib.suppress(BlockingIOError, ConnectionError):
        end.send(packet)


class WatchSockets:
    """The agent's ends of an application's watches of one kind."""

    def __init__(self) -> None:
        self._ends: list[socket.socket] = []

    def open(self) -> int:
        """The application's end of one more."""
        for left in [each for each in self._ends if is_left(each)]:
            self._ends.remove(left)
            left.close()
        ours, theirs = socket_pair(len(self._ends))
        self._ends.append(ours)
        return theirs.detach()

    def send(self, packet: bytes) -> None:
        """Sends a packet by each; one that is full has no room for it."""
        for each in self._ends:
            send(each, packet)

    def close(self) -> None:
        for each in self._ends:
            each.close()


SO_PREFER_BUSY_POLL: Final = 69
"""A socket option that needs CAP_NET_ADMIN to be set. Linux, include/uapi/asm-generic/socket.h."""


def has_net_admin(descriptors: Sequence[int]) -> bool:
    """Return True if one of these is a socket that proves the privilege of whoever sent them; closes them."""
    is_proven = False
    for descriptor in descriptors:
        try:
            with socket.socket(fileno=os.dup(descriptor)) as proof:
                is_proven |= bool(proof.getsockopt(socket.SOL_SOCKET, SO_PREFER_BUSY_POLL))
        except OSError as error:  # no socket, or a kernel without the option
            if error.errno not in {errno.ENOTSOCK, errno.ENOPROTOOPT}:
                raise
        finally:
            os.close(descriptor)
    return is_proven
