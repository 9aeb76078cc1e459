"""A line of shaped links in network namespaces of its own, with the real switch program and drainer.

    near end -- link 0 -- switch 1 -- link 1 -- switch 2 ... link n-1 -- far end

Link i has port 2 * i on the near side and 2 * i + 1 on the far side. A frame whose active uSID is
`TO_FAR` travels to the far end, one with `TO_NEAR` to the near end. Copies of the line run through the same
namespaces: the ports of copy c are higher by c times those of a line, its uSIDs by 2 * c.
"""

import os
import signal
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from ctypes import c_uint32
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from waiting import DEADLINE_S, poll_until

from mrc_agents import abi
from mrc_agents.bpf.libbpf import BpfObject, attach_xdp, pin
from mrc_agents.bpf.maps import ArrayMap, MappedArray, PerCpuArray, map_update
from mrc_testbed.fabric.data_plane import QUEUE_DRAINER_MAPS, QUEUE_PORT_MAPS
from mrc_testbed.fabric.doorbell import parse_dropped
from mrc_testbed.fabric.namespace import create_namespace, delete_namespace, entered, namespace_path
from mrc_testbed.fabric.netlink import RouteSocket, VethEnd, attributes_of, create_veth, get_link, set_link_up

OBJECTS = Path(__file__).parents[3] / "agents/mrc_agents" / "_objects"
DRAINER = OBJECTS / "drainer"
IFINDEX_BASE = abi.Limit.IFINDEX_BASE
TO_FAR = abi.UsidLayout.T0 << abi.UsidLayout.ROLE_SHIFT | 1
TO_NEAR = abi.UsidLayout.T0 << abi.UsidLayout.ROLE_SHIFT | 2
SRV6_BLOCK = 0xFCBB0000
MTU = 3000
ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
IFLA_OPERSTATE, IF_OPER_UP = 16, b"\x06"  # linux/if_link.h, linux/if.h


@dataclass(frozen=True, slots=True)
class LinkShape:
    """Both directions of a link alike; rate 0 is unshaped."""

    rate_bps: int
    delay_ns: int = 0
    data_buffer_bytes: int = 16 << 20
    control_buffer_bytes: int = 16 << 20


def mac_of(port_id: int) -> bytes:
    return bytes.fromhex("024d52") + port_id.to_bytes(3, "big")


def frame_to(usid: int, payload: bytes, *, dscp: int = 0) -> bytes:
    """A frame for the line: Ethernet, an IPv6 header with a one-uSID carrier, payload."""
    ethernet = bytes(12) + (0x86DD).to_bytes(2, "big")
    first = (6 << 28 | dscp << 22).to_bytes(4, "big")
    destination = SRV6_BLOCK.to_bytes(4, "big") + usid.to_bytes(2, "big") + bytes(10)
    rest = len(payload).to_bytes(2, "big") + b"\xfd\x40" + bytes(16)
    return ethernet + first + rest + destination + payload


class ShapedLine:
    """The line, up from construction to `close`.

    Args:
        name: prefix of namespaces and of the pin folder; unique on the machine.
        links: one shape per link, near end first.
        bpffs: a folder on a bpffs.
        pool_frames: size of the frame pool.
        drainer_count: processes that send; link i belongs to number i modulo that.
        is_direct: between switches, frames do not cross the veths.
        copies: lines beside one another; with several, it is copy c that belongs to drainer c modulo their
            number.
        end_object: object attached at both ends, its maps shared with the switches; by default the switch
            program, which passes all it receives there to the kernel.
    """

    def __init__(
        self,
        name: str,
        links: Sequence[LinkShape],
        bpffs: Path,
        *,
        pool_frames: int = 4096,
        drainer_count: int = 1,
        is_direct: bool = False,
        copies: int = 1,
        end_object: tuple[Path, bytes, str] | None = None,
    ) -> None:
        self.links = tuple(links)
        self.pins = bpffs / name
        self.ports_per_line = 2 * len(links)
        self.copies = copies
        self.port_count = self.ports_per_line * copies
        self.namespaces = [f"{name}-{index}" for index in range(len(links) + 1)]
        self.drainer_count = drainer_count
        self._is_direct = is_direct
        self.drainers: list[subprocess.Popen[bytes]] = []
        self._stack = ExitStack()
        with ExitStack() as undo:
            undo.callback(self.close)
            self._load(pool_frames)
            self._fill_tables()
            self._create_links()
            self._attach(end_object)
            undo.pop_all()

    def _load(self, pool_frames: int) -> None:
        per_port = (
            "port_table",
            "port_fault",
            "fault_accounts",
            "fault_locks",
            "port_counters",
            "port_devmap",
            *QUEUE_PORT_MAPS,
        )
        entries = dict.fromkeys(per_port, self.port_count)
        entries |= dict.fromkeys(QUEUE_DRAINER_MAPS, self.drainer_count)
        entries |= {"queue_frames": pool_frames, "fib": abi.Limit.FIB_STRIDE * (len(self.links) + 1)}
        rodata = bytes(abi.FabricConfig(srv6_block=SRV6_BLOCK, is_shaped=1))
        self.switch = BpfObject(OBJECTS / "forward.bpf.o", max_entries=entries, rodata=rodata)
        self._stack.callback(self.switch.close)
        self.port_table = MappedArray(self.switch.map_fd("port_table"), abi.PortEntry)
        self.settings = MappedArray(self.switch.map_fd("queue_settings"), abi.QueueSettings)
        self.state = MappedArray(self.switch.map_fd("queue_state"), abi.QueueState)
        self.drainer_state = MappedArray(self.switch.map_fd("queue_drainer"), abi.QueueDrainer)
        self.lateness = MappedArray(self.switch.map_fd("queue_lateness"), abi.MapHistogram)
        self.pool = ArrayMap(self.switch.map_fd("queue_pool"), abi.QueuePool, locked=True)
        self._counters = PerCpuArray(self.switch.map_fd("port_counters"), abi.PortCounters)
        self.pins.mkdir()
        self._stack.callback(self.pins.rmdir)
        pinned = {"forward": self.switch.program_fd("forward")}
        pinned |= {map_name: self.switch.map_fd(map_name) for map_name in self.switch.map_names()}
        for pin_name, descriptor in pinned.items():
            pin(descriptor, self.pins / pin_name)
            self._stack.callback((self.pins / pin_name).unlink, missing_ok=True)

    def _fill_tables(self) -> None:
        for port_id in range(self.port_count):
            copy, local = divmod(port_id, self.ports_per_line)
            shape = self.links[local // 2]
            port, settings = self.port_table[port_id], self.settings[port_id]
            port.node_id = (local + 1) // 2
            port.peer_port = port_id ^ 1
            port.kind = abi.PortKind.T0_UP
            port.mac[:] = list(mac_of(port_id))
            port.peer_mac[:] = list(mac_of(port_id ^ 1))
            port.rate_bps = shape.rate_bps
            port.delay_ns = shape.delay_ns
            settings.data_buffer_bytes = shape.data_buffer_bytes
            settings.control_buffer_bytes = shape.control_buffer_bytes
            settings.drainer = (copy if self.copies > 1 else local // 2) % self.drainer_count
            port.is_direct = self._is_direct
            # the ends' own ports are no switch ports: what arrives there is passed up
            port.is_configured = 0 < local < self.ports_per_line - 1
        fib = self.switch.map_fd("fib")
        for copy in range(self.copies):
            first = copy * self.ports_per_line
            for node in range(1, len(self.links)):
                for usid, egress in ((TO_FAR, 2 * node), (TO_NEAR, 2 * node - 1)):
                    index = usid >> abi.UsidLayout.ROLE_SHIFT << abi.UsidLayout.PLANE_SHIFT
                    index |= (usid & abi.UsidLayout.INDEX_MASK) + 2 * copy
                    key = node * abi.Limit.FIB_STRIDE + index
                    map_update(fib, c_uint32(key), c_uint32(first + egress + 1))

    def _create_links(self) -> None:
        descriptors = []
        with ExitStack() as opened:
            for namespace in self.namespaces:
                path = create_namespace(namespace)
                self._stack.callback(delete_namespace, namespace)
                descriptors.append(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                opened.callback(os.close, descriptors[-1])
            ends = [
                VethEnd(descriptors[self._node_of(port)], f"port{port}", IFINDEX_BASE + port, mac_of(port))
                for port in range(self.port_count)
            ]
            with RouteSocket() as route:
                route.perform(
                    [
                        create_veth(f"link {index}", ends[2 * index], ends[2 * index + 1], MTU)
                        for index in range(self.port_count // 2)
                    ]
                )
        devmap_fd = self.switch.map_fd("port_devmap")
        for port_id in range(self.port_count):
            ifindex = IFINDEX_BASE + port_id
            with self.at_port(port_id), RouteSocket() as route:
                route.perform([set_link_up(f"port{port_id}", ifindex, is_up=True)])
                map_update(devmap_fd, c_uint32(port_id), c_uint32(ifindex))
        for port_id in range(self.port_count):
            poll_until(partial(self._is_up, port_id), what=f"the carrier of port {port_id}")

    def _is_up(self, port_id: int) -> bool:
        """Return True if the kernel has seen the carrier of a port: before, it drops what is sent there.

        IFF_RUNNING does not tell: it is also set while the operational state is still unknown.
        """
        with self.at_port(port_id), RouteSocket() as route:
            reply = route.ask(get_link(f"port{port_id}", IFINDEX_BASE + port_id))
        return attributes_of(reply[16:])[IFLA_OPERSTATE] == IF_OPER_UP

    def _attach(self, end_object: tuple[Path, bytes, str] | None) -> None:
        end_program = self.switch.program_fd("forward")
        if end_object:
            path, rodata, program = end_object
            maps = {name: self.switch.map_fd(name) for name in self.switch.map_names()}
            self.end = BpfObject(path, rodata=rodata, reuse=maps)
            self._stack.callback(self.end.close)
            end_program = self.end.program_fd(program)
        for port_id in range(self.port_count):
            is_end = port_id % self.ports_per_line in {0, self.ports_per_line - 1}
            program_fd = end_program if is_end else self.switch.program_fd("forward")
            with self.at_port(port_id):
                attach_xdp(IFINDEX_BASE + port_id, program_fd)

    @contextmanager
    def at_port(self, port_id: int) -> Iterator[None]:
        """Runs the body with the calling thread in the port's namespace."""
        with entered(namespace_path(self.namespaces[self._node_of(port_id)])):
            yield

    def _node_of(self, port_id: int) -> int:
        """Which namespace a port is in, counted from the near end."""
        return (port_id % self.ports_per_line + 1) // 2

    def ring_drops(self) -> int:
        """Frames that receive rings of veths have lost: a busy machine's doing, not the queue engine's."""
        dropped = 0
        for namespace in self.namespaces:
            with entered(namespace_path(namespace)):
                dropped += parse_dropped(Path("/proc/thread-self/net/dev").read_text())
        return dropped

    def close_pins(self) -> None:
        """Removes the pins, as `down` does."""
        for entry in self.pins.iterdir():
            entry.unlink()

    @property
    def drainer(self) -> subprocess.Popen[bytes]:
        """The first drainer process."""
        return self.drainers[0]

    def start_drainer(self) -> None:
        for index in range(self.drainer_count):
            command: list[Path | str] = [DRAINER, "--pins", self.pins, "--index", str(index)]
            self.drainers.append(subprocess.Popen(command, start_new_session=True))

    def stop_drainer(self, signal_number: int = signal.SIGTERM) -> int:
        """Ends the drainer processes; returns the exit status, which is that of all of them."""
        (status,) = self._end_drainers(signal_number)
        return status

    def _end_drainers(self, signal_number: int) -> set[int]:
        for drainer in self.drainers:
            drainer.send_signal(signal_number)
        statuses = {drainer.wait(DEADLINE_S) for drainer in self.drainers}
        self.drainers = []
        return statuses

    def socket_at(self, port_id: int) -> socket.socket:
        """A raw socket at an end's port, with room for all that a test sends."""
        with self.at_port(port_id):
            raw = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            raw.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
            raw.bind((f"port{port_id}", ETH_P_ALL))
        return raw

    def counter(self, port_id: int, which: abi.PortCounter) -> int:
        """One counter of a port, summed over CPUs."""
        return self._counters.sum(port_id)[which]

    def close(self) -> None:
        """Kills the drainers, of which some may have ended or hardly begun, and removes everything."""
        self._end_drainers(signal.SIGKILL)
        self._stack.close()


LineFactory = Callable[..., ShapedLine]
"""Takes what ShapedLine takes but for name and bpffs."""
