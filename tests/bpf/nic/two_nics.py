"""Two NICs with their agents' verbs, and between them a fabric that delays, duplicates and replays."""

import ctypes
import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any, Final, Self, cast

from nic_bench import LIVE_FRAME, QP_COUNT, NicBench
from program_bench import Verdict

from mrc_agents.abi import Command, EventKind, KickMode
from mrc_agents.errors import AgentError
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.verbs import Verbs
from mrc_agents.protocol.dcqcn import DcqcnParameters
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.usid import Role, Usid, pack_carrier

RTO_NS: Final = 20_000_000
"""A thousand of them, the most that a QP survives, are longer than a busy machine keeps the test waiting."""
_STILL_SECONDS: Final = 0.002
REGION_BYTES: Final = 12_000
_LIFETIME_NS: Final = 1_000_000_000
_ETHERNET_BYTES: Final = 14
_CARRIER: Final = slice(_ETHERNET_BYTES + 24, _ETHERNET_BYTES + 40)
_INNER_PLANE: Final = slice(_ETHERNET_BYTES + 40 + 30, _ETHERNET_BYTES + 40 + 32)
_CC: Final = asdict(DcqcnParameters.scaled(10**10, 750_000, 2190, is_fixed=True))
_libc: Final = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True)
class Flying:
    """A frame between two NICs."""

    to: int  # the side it comes to, 0 or 1
    plane: int  # it crosses
    octets: bytes  # as it arrives


class Device:
    """Stands in for mrc_agents.nic.device.NicDevice: the maps of a test's NIC; its frames fly."""

    def __init__(self, nic: NicBench, fabric: "Fabric", side: int) -> None:
        self._nic, self._fabric, self._side = nic, fabric, side
        self.config, self.control, self.regions = nic.config, nic.control, nic.regions
        self.work, self.memory = nic.work, nic.mapped_memory
        self.fresh_from = self.memory.length_bytes
        self.qps, self.rc_qps = nic.qps, nic.rc_qps
        self.qp_count = QP_COUNT
        self.reliable_connections: set[int] = set()

    def command(self, command: Command, qp_index: int, *arguments: int) -> bool:
        """Has the NIC change a QP; whether it did."""
        mode = KickMode.RC_COMMAND if qp_index in self.reliable_connections else KickMode.COMMAND
        return self._nic.command(command, qp_index, *arguments, mode=mode)

    def await_runs(self) -> None:
        """Programs run only while the test lets a frame arrive or runs a TX kick."""

    def request_tx(self, qp_index: int, packets: int) -> None:
        """Send the packets; they fly."""
        mode = KickMode.RC if qp_index in self.reliable_connections else KickMode.DATA
        for left in range(packets, 0, -1):
            self._nic.ask(mode, qp_index=qp_index, frames_left=left)
            verdict, frame = self._nic.run(LIVE_FRAME)
            if verdict is not Verdict.REDIRECT:
                break
            self._fabric.depart(self._side, frame)


@dataclass(slots=True)
class Fabric:
    """Frames on their way, in no order; any that ever flew may come again.

    Args:
        clos: the fabric.
        hosts: whose NICs it joins.
        random: decides.
        memory_frames: of the last frames that left so many can be replayed.
    """

    clos: Clos
    hosts: tuple[int, int]
    random: Random
    memory_frames: int = 4000
    flying: list[Flying] = field(default_factory=list)
    flown: deque[Flying] = field(default_factory=deque)

    def depart(self, side: int, frame: bytes) -> None:
        """A NIC has sent *frame*: the other host's downlink is all that is left of its carrier."""
        plane = int.from_bytes(frame[_INNER_PLANE], "big")
        to = 1 - side
        carrier = pack_carrier((Usid(Role.DOWNLINK, plane, self.clos.numbering.downlink(self.hosts[to])),))
        octets = frame[: _CARRIER.start] + carrier.packed + frame[_CARRIER.stop :]
        one = Flying(to, plane, octets)
        self.flying.append(one)
        self.flown.append(one)
        if len(self.flown) > self.memory_frames:
            self.flown.popleft()
        if self.random.random() < 0.1:
            self.flying.append(one)

    def arrivals(self) -> Iterator[Flying]:
        """The next arrival: any frame that flies, mostly an older one, or one that flew long ago."""
        if self.flown and self.random.random() < 0.1:
            yield self.flown[self.random.randrange(len(self.flown))]
        if self.flying:
            near = min(len(self.flying), self.random.choice((1, 4, 64, len(self.flying))))
            yield self.flying.pop(self.random.randrange(near))


class TwoNics:
    """Two hosts whose agents live and die, to be entered as a context by one thread.

    Attributes:
        verbs: of each side's agent.
        fabric: between them.
    """

    def __init__(self, clos: Clos, hosts: tuple[int, int], random: Random) -> None:
        self.clos, self.hosts, self.random = clos, hosts, random
        self.fabric = Fabric(clos, hosts, random)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            self._namespaces, self.nics = [], []
            for host in self.hosts:
                self.nics.append(undo.enter_context(NicBench(self.clos, host, has_rc=True)))
                descriptor = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
                undo.callback(os.close, descriptor)
                self._namespaces.append(descriptor)
            self.devices = [Device(nic, self.fabric, side) for side, nic in enumerate(self.nics)]
            self.verbs = [self._new_agent(side) for side in (0, 1)]
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _new_agent(self, side: int) -> Verbs:
        times: Any = {"rto_ns": RTO_NS, "pto_min_ns": RTO_NS // 2, "packet_lifetime_ns": _LIFETIME_NS}
        config = NicSettings(f"h{self.hosts[side]}", retry_limit=1000, **times)
        verbs = Verbs(config, cast("NicDevice", self.devices[side]))
        self._take_events_of(side, verbs)
        verbs.numbers.take_events = lambda: self._take_events_of(side, verbs)
        return verbs

    def restart(self, side: int) -> None:
        """The agent of a side dies with all that it had, and another takes its place."""
        self.devices[side].reliable_connections.clear()
        self.verbs[side] = self._new_agent(side)

    def step(self) -> None:
        """Something arrives, and the agents take events; when all is still, they wait for the clocks."""
        arrived = False
        for frame in self.fabric.arrivals():
            arrived = True
            self._receive(frame)
        for side, verbs in enumerate(self.verbs):
            self._take_events_of(side, verbs, seconds=0 if arrived else _STILL_SECONDS)

    def _receive(self, frame: Flying) -> None:
        if _libc.setns(self._namespaces[frame.to], 0):
            raise AgentError("cannot enter a NIC's namespace")
        nic = self.nics[frame.to]
        verdict, left = nic.run(frame.octets, nic.ports[frame.plane].id)
        if verdict is Verdict.REDIRECT:
            self.fabric.depart(frame.to, left)

    def _take_events_of(self, side: int, verbs: Verbs, seconds: float = 0.0) -> None:
        kicks: dict[int, int] = {}
        for event in self.nics[side].events_within(seconds):
            if event.kind == EventKind.KICK:
                kicks[event.qp_index] = max(kicks.get(event.qp_index, 0), event.a)
            else:
                verbs.take_event(event)
        for qp_index, packets in kicks.items():
            self.devices[side].request_tx(qp_index, packets)


@dataclass(slots=True)
class Account:
    """The outcome of the lives of many QPs."""

    lives: int = 0  # pairs of QPs that were made
    completed: int = 0  # messages that completed with success
    abandoned: int = 0  # pairs that were ended with packets on their way
    restarts: int = 0  # agents that died with QPs
    wrong_bytes: int = 0  # in the target when a message had completed, or after further packets had come
    failed: int = 0  # messages that ended otherwise


@dataclass(slots=True)
class Replacement:
    """Pairs of QPs, one after the other, that write into much the same memory.

    Args:
        nics: they are made in.
    """

    nics: TwoNics
    account: Account = field(default_factory=Account)
    _regions: list[dict[str, int] | None] = field(default_factory=lambda: [None, None])

    def live(self) -> None:
        """One pair: made, used, and ended, one in two with packets on their way."""
        random, account = self.nics.random, self.account
        source, target = (self._region(side) for side in (0, 1))
        qpns = self._connected()
        near = self.nics.verbs[0]
        length = random.randrange(1, REGION_BYTES + 1)
        memory = self.nics.devices[0].memory.view
        memory[source["offset"] : source["offset"] + length] = sent = random.randbytes(length)
        posted = near.post_write(
            qpns[0], length=length, local_offset=source["offset"], remote_offset=0, r_key=target["r_key"]
        )
        account.lives += 1
        steps = random.randrange(40) if random.random() < 0.5 else None
        completions: list[dict[str, Any]] = []
        while not completions and steps != 0:
            self.nics.step()
            completions = near.poll(qpns[0])
            steps = None if steps is None else steps - 1
        if not completions:
            account.abandoned += 1
        for done in completions:
            assert done["work_id"] == posted
            if done["status"] != "success":
                account.failed += 1
                break
            account.completed += 1
            self._compare(target, sent)
            for _ in range(random.randrange(10)):
                self.nics.step()
            self._compare(target, sent)
        self._end(qpns)

    def _region(self, side: int) -> dict[str, int]:
        """The region of a side; one in four is registered again."""
        region, verbs = self._regions[side], self.nics.verbs[side]
        if region is not None and self.nics.random.random() < 0.25:
            verbs.deregister_memory(region["r_key"])
            region = None
        self._regions[side] = region = region or verbs.register_memory(REGION_BYTES)
        return region

    def _connected(self) -> list[int]:
        """QPs of either transport, in RTS towards one another."""
        random, hosts = self.nics.random, self.nics.hosts
        kind = random.choice(("mrc", "rc", "any order"))
        pmtu_bytes = random.choice((256, 1024, 2048))
        qpns = []
        for side, verbs in enumerate(self.nics.verbs):
            own, peer = hosts[side], hosts[1 - side]
            evs = list(build_ev_set(self.nics.clos, own, peer, 4 * self.nics.clos.spec.planes))
            if kind == "mrc":
                qpns.append(verbs.create_qp(peer, evs, pmtu_bytes=pmtu_bytes))
            else:
                any_order = int(kind == "any order")
                qpns.append(
                    verbs.create_rc_qp(peer, evs[:1], _CC, pmtu_bytes=pmtu_bytes, any_order=any_order)
                )
        psns = [verbs.query_qp(qpn)["first_psn"] for verbs, qpn in zip(self.nics.verbs, qpns, strict=True)]
        for side in (1, 0):
            self.nics.verbs[side].connect_qp(qpns[side], qpns[1 - side], psns[1 - side])
        return qpns

    def _end(self, qpns: list[int]) -> None:
        """One in twenty ends with the agent of a side, all others by request."""
        dead = self.nics.random.randrange(40)
        for side, qpn in enumerate(qpns):
            if side == dead:
                self.nics.restart(side)
                self._regions[side] = None
                self.account.restarts += 1
            else:
                self.nics.verbs[side].destroy_qp(qpn)

    def _compare(self, target: dict[str, int], sent: bytes) -> None:
        stands = self.nics.devices[1].memory.view[target["offset"] : target["offset"] + len(sent)]
        if stands != sent:
            self.account.wrong_bytes += sum(a != b for a, b in zip(stands, sent, strict=True))
