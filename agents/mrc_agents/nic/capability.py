"""The privilege that a program at the other end of a socket needs to control the NIC."""

import errno
import os
import socket
from collections.abc import Sequence
from typing import Final

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
