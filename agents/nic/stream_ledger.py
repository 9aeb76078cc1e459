"""The account of the kernel's TCP connections, where readers of the NIC's maps find it."""

import ctypes
import socket
import struct
from typing import Final

from mrc_testbed.agents.nic.device import NicDevice
from mrc_testbed.agents.nic.histogram import count_time

_SOL_MPTCP: Final = 284
_MPTCP_TCPINFO: Final = 2
_TCP_INFO_BYTES: Final = 248
_SUBFLOWS_MAX: Final = 16
_TOTAL_RETRANS_AT: Final = 100
_TOTAL_RTO_AT: Final = 240
"""Offsets in struct tcp_info (linux/tcp.h); kernels before 6.7 end in front of the second."""

_SUBFLOW_DATA: Final = struct.Struct("=IIII")
_libc = ctypes.CDLL(None, use_errno=True)


class StreamLedger:
    """The accounts of one connection.

    Args:
        device: the host's NIC.
        index: of the connection.
    """

    def __init__(self, device: NicDevice, index: int) -> None:
        self._account = device.stream_account
        self._stream = device.streams[index]
        self._stream.acked_bytes = 0
        self._retransmits: dict[int, tuple[int, int]] = {}

    def placed(self, count: int) -> None:
        self._account.placed_bytes += count

    def acknowledged(self, count: int, time_ns: int) -> None:
        """A message of *count* bytes is at the far end, after so long."""
        self._stream.acked_bytes += count
        self._account.acked_bytes += count
        self._account.messages += 1
        count_time(self._account.completion, time_ns)

    def fail(self) -> None:
        self._account.errors += 1

    def observe(self, connected: socket.socket, *, is_mptcp: bool) -> None:
        """Books what the kernel has sent again since the last time, subflow by subflow."""
        try:
            infos = _subflow_infos(connected) if is_mptcp else [_tcp_info(connected)]
        except OSError:  # it has just ended
            return
        for place, info in enumerate(infos):
            (total,) = struct.unpack_from("=I", info, _TOTAL_RETRANS_AT)
            timeouts = 0
            if len(info) >= _TOTAL_RTO_AT + 2:
                (timeouts,) = struct.unpack_from("=H", info, _TOTAL_RTO_AT)
            seen_total, seen_timeouts = self._retransmits.get(place, (0, 0))
            self._account.retransmits += max(0, total - seen_total)
            self._account.retransmits_timeout += max(0, timeouts - seen_timeouts)
            self._retransmits[place] = (total, timeouts)


def _tcp_info(connected: socket.socket) -> bytes:
    return connected.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)


def _subflow_infos(connected: socket.socket) -> list[bytes]:
    """The kernel's struct tcp_info of each subflow.

    Source: linux/mptcp.h, struct mptcp_subflow_data.
    """
    head_bytes = _SUBFLOW_DATA.size
    buffer = ctypes.create_string_buffer(head_bytes + _SUBFLOWS_MAX * _TCP_INFO_BYTES)
    _SUBFLOW_DATA.pack_into(buffer, 0, head_bytes, 0, 0, _TCP_INFO_BYTES)
    length = ctypes.c_uint32(len(buffer))
    if _libc.getsockopt(connected.fileno(), _SOL_MPTCP, _MPTCP_TCPINFO, buffer, ctypes.byref(length)):
        number = ctypes.get_errno()
        raise OSError(number, "MPTCP_TCPINFO")
    _, count, _, size = _SUBFLOW_DATA.unpack_from(buffer)
    count = min(count, (length.value - head_bytes) // max(1, size))
    starts = (head_bytes + place * size for place in range(count))
    return [buffer.raw[start : start + size] for start in starts]
