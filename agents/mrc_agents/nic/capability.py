"""The privilege that a program at the other end of a socket needs to control the NIC."""

import errno
import re
import socket
import struct
from pathlib import Path
from typing import Final

_CAP_NET_ADMIN: Final = 12
_CREDENTIALS: Final = struct.Struct("3i")
_NEEDED: Final = "this needs CAP_NET_ADMIN in the user namespace of the NIC agent"


def check_net_admin(connection: socket.socket) -> None:
    """Raises PermissionError unless the program that connected is privileged."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, *_ = _CREDENTIALS.unpack(credentials)
    if not has_net_admin(pid):
        raise PermissionError(errno.EPERM, _NEEDED)


def has_net_admin(pid: int, processes: Path = Path("/proc")) -> bool:
    """Return True if a process has CAP_NET_ADMIN, and not in a user namespace that it made itself."""
    process = processes / str(pid)
    try:
        effective = re.findall(r"^CapEff:\s*([0-9a-f]+)$", (process / "status").read_text(), re.MULTILINE)
        is_ours = (process / "ns/user").samefile(processes / "self/ns/user")
    except OSError:  # it has gone
        return False
    return is_ours and bool(int(effective[0], 16) >> _CAP_NET_ADMIN & 1)
