"""What a transport needs of a NIC: verbs by way of its agent, memory and counts by way of its maps."""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial
from typing import Any, Protocol

from agents.abi import Qp, RcQp, Stream
from agents.bpf.libbpf import Pins, open_map_in
from agents.bpf.maps import ArrayMap, MappedArray, MappedMemory
from agents.nic.work_queue import qp_index
from testbed.transport.congestion import QpAttribute


class NicConnection(Protocol):
    """What the transport needs of agents.nic.client.AgentClient."""

    def fileno(self) -> int:
        """Readable when an event waits."""

    def hello(self) -> dict[str, Any]:
        """Who answers; `memory_bytes` is the size of the NIC's memory."""

    def subscribe(self, *kinds: str) -> None:
        """Asks for events of these kinds."""

    def drain_events(self) -> Iterable[dict[str, Any]]:
        """Events that wait."""

    def cast(self, verb: str, **arguments: Any) -> None:
        """A verb that is not waited for."""

    def register_memory(self, length: int) -> dict[str, int]:
        """A new region: offset, length, r_key."""

    def deregister_memory(self, r_key: int) -> None:
        """Invalidates a key."""

    def create_qp(self, peer_host: int, evs: list[int], **attributes: QpAttribute) -> int:
        """Number of a new QP."""

    def create_rc_qp(self, peer_host: int, evs: list[int], **attributes: Any) -> int:
        """Number of a new QP of a reliable connection."""

    def create_stream(self, peer_host: int, protocol: str, congestion: str) -> int:
        """Number of a connection to be made over `tcp` or `mptcp`."""

    def await_stream(self, qpn: int, peer_qpn: int) -> None:
        """Lets the far end connect."""

    def connect_stream(self, qpn: int, peer_qpn: int, plane: int) -> None:
        """Connects to the far end, which waits for it."""

    def connect_qp(self, qpn: int, peer_qpn: int) -> None:
        """Brings a QP to RTS."""

    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use."""

    def post_write(self, qpn: int, **work: int) -> int:
        """Id of posted work."""

    def post_receive(self, qpn: int, count: int) -> None:
        """Lets WRITEs with immediate come in."""

    def stop_work(self, qpn: int, work_id: int) -> None:
        """Ends a work request after the messages that have begun."""

    def close(self) -> None:
        """Ends the connection."""


class NicView(Protocol):
    """What the transport looks at in a NIC's maps, without asking its agent."""

    @property
    def memory_address(self) -> int:
        """Where the NIC's memory is mapped in this process."""

    def acknowledged_bytes(self, qpn: int) -> int:
        """Payload that a QP had acknowledged for the first time."""

    def close(self) -> None:
        """Gives the maps up."""


class NicMaps:
    """The memory and the QPs of one NIC.

    Args:
        pins: folder of the NIC's pinned maps.

    Raises:
        FabricError: a map is missing or of another layout.
    """

    def __init__(self, pins: Pins) -> None:
        with ExitStack() as opened:
            descriptor = partial(open_map_in, opened, pins)
            self._memory = MappedMemory(descriptor("memory"))
            self._qps = ArrayMap(descriptor("qps"), Qp)
            self._rc_qps = ArrayMap(descriptor("rc_qps"), RcQp)
            self._streams = MappedArray(descriptor("streams"), Stream)
            self._opened = opened.pop_all()

    @property
    def memory_address(self) -> int:
        """Where the NIC's memory is mapped in this process."""
        return self._memory.address

    def acknowledged_bytes(self, qpn: int) -> int:
        """Payload that a QP had acknowledged for the first time, of whichever transport it is."""
        index = qp_index(qpn)
        in_nic = self._qps.read(index).acked_bytes + self._rc_qps.read(index).acked_bytes
        return int(in_nic + self._streams[index].acked_bytes)

    def close(self) -> None:
        """Gives the maps up."""
        self._opened.close()
