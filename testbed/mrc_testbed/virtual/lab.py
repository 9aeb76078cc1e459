"""A lab in virtual time: the data plane's programs, the NIC agents and who waits for them, in one process.

Nothing waits for real: `run_until` lets the data plane run up to the next moment at which Python code has
something to do, and lets it do that, which takes no time.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from mrc_agents import clock, entropy
from mrc_agents.abi import Limit, PortEntry, VirtualPayload
from mrc_agents.bpf.maps import MappedArray
from mrc_agents.bpf.virtual import NO_NIC, VirtualFolder, VirtualRuntime
from mrc_testbed.fabric.agent_process import nic_settings
from mrc_testbed.fabric.data_plane import fabric_map_entries, fabric_rodata, fill_fabric
from mrc_testbed.fabric.nic_data_plane import LINK_PROBE_MAPS, fill_link_probes, fill_nic, nic_map_entries
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import ProbePath, probe_paths
from mrc_testbed.virtual.agent import VirtualAgent
from mrc_testbed.virtual.limits import check_ports, pool_frames

_EVENTS_PER_CALL: Final = 200_000
"""Some tens of milliseconds: a signal is not noticed before the library returns."""


class Alarmed(Protocol):
    """A part with something to do at a time."""

    def on_time(self) -> int | None:
        """Does what is due; returns when the next is, None: nothing any more."""


class Turns(Protocol):
    """A part that takes turns with the data plane: an engine."""

    def deadline_ns(self) -> int | None:
        """When a turn is due even without an event."""

    def turn(self) -> object:
        """Takes events and does what is due."""


class VirtualLab:
    """One lab; the process has no other meanwhile."""

    def __init__(
        self,
        clos: Clos,
        runtime: VirtualRuntime,
        *,
        is_interrupted: Callable[[], bool] = lambda: False,
    ) -> None:
        self.clos = clos  # its topology
        self.runtime = runtime  # what runs the programs
        self._is_interrupted = is_interrupted
        self._alarms: list[tuple[int, int, Alarmed]] = []
        self._alarm_of: dict[Alarmed, int] = {}
        self._alarm_count = 0
        self._turns: Turns | None = None
        self._is_notified = False
        self.is_watched = False  # whether somebody wants every event of NICs: then only agents post
        self.carriers = [True] * clos.numbering.port_count  # by port id, whether its interface is up
        hosts = list(clos.hosts())
        # maps that the whole fabric shares; `fabric_pins / host` are a NIC's
        self.fabric_pins = VirtualFolder(runtime, {host.name: host.index for host in hosts})
        settings = nic_settings(clos, [host.name for host in hosts], lateness_ns=0)
        self.agents = [VirtualAgent(self, host, settings[host.name]) for host in hosts]  # by host index
        for agent in self.agents:
            agent.start()

    def node_pins(self, host: str) -> VirtualFolder:
        return self.fabric_pins / host

    def agent(self, host: str) -> VirtualAgent:
        return self.agents[self.clos.node(host).index]

    # -- who has something to do ------------------------------------------------------------------

    def set_alarm(self, owner: Alarmed, due_ns: int | None) -> None:
        """Has `owner.on_time` called then, and at no other time that was set before; None: not at all."""
        if due_ns is None:
            self._alarm_of.pop(owner, None)
        elif self._alarm_of.get(owner) != due_ns:
            self._alarm_of[owner] = due_ns
            self._alarm_count += 1
            heapq.heappush(self._alarms, (due_ns, self._alarm_count, owner))

    @contextmanager
    def taking_turns(self, turns: Turns) -> Iterator[None]:
        """While the context lasts, *turns* gets a turn whenever there was an event."""
        self._turns = turns
        try:
            yield
        finally:
            self._turns = None

    def notify(self) -> None:
        """Some connection has an event: its owner gets a turn."""
        self._is_notified = True

    # -- time -------------------------------------------------------------------------------------

    def run_until(self, deadline_ns: int, is_over: Callable[[], bool] = lambda: False) -> None:
        """Lets time pass up to *deadline_ns*, or until *is_over*, or until somebody interrupts."""
        while True:
            turn_ns = self._take_turns()
            if is_over() or self._is_interrupted():
                return
            alarm_ns = self._next_alarm_ns()
            due_ns = min(ns for ns in (deadline_ns, turn_ns, alarm_ns) if ns is not None)
            now_ns = self.runtime.run(max(due_ns, self.runtime.now_ns()), _EVENTS_PER_CALL)
            self._dispatch()
            while (alarm_ns := self._next_alarm_ns()) is not None and alarm_ns <= now_ns:
                _, _, owner = heapq.heappop(self._alarms)
                del self._alarm_of[owner]
                self.set_alarm(owner, owner.on_time())
            if now_ns >= deadline_ns and not self._is_notified:
                return

    def _take_turns(self) -> int | None:
        """Run turns as long as one is due; returns when the next is."""
        if self._turns is None:
            self._is_notified = False
            return None
        while True:
            turn_ns = self._turns.deadline_ns()
            if not self._is_notified and (turn_ns is None or turn_ns > self.runtime.now_ns()):
                return turn_ns
            self._is_notified = False
            self._turns.turn()
            self._dispatch()

    def _next_alarm_ns(self) -> int | None:
        while self._alarms:
            due_ns, _, owner = self._alarms[0]
            if self._alarm_of.get(owner) == due_ns:
                return due_ns
            heapq.heappop(self._alarms)
        return None

    def _dispatch(self) -> None:
        """Hands what NICs have reported to their agents; a report of no NIC is for who takes turns."""
        reports = self.runtime.take_reports()
        start = 0
        while start < len(reports):
            nic = reports[start][0]
            end = start
            while end < len(reports) and reports[end][0] == nic:
                end += 1
            if nic == NO_NIC:
                self.notify()
            else:
                self.agents[nic].on_events([event for _, event in reports[start:end]])
            start = end


@contextmanager
def virtual_lab(
    clos: Clos,
    *,
    seed: int,
    payload: VirtualPayload = VirtualPayload.COPY,
    shuffles_ties: bool = False,
    runtime: VirtualRuntime | None = None,
    is_interrupted: Callable[[], bool] = lambda: False,
) -> Iterator[VirtualLab]:
    """A lab whose agents run; the clock of all Python code is its time while the context lasts.

    Args:
        payload: how payload travels; by reference it is exact unless somebody looks at it on its way.
        shuffles_ties: whether events at one time come in an order drawn from the seed.
        runtime: what runs the programs; None: the library that `make virtual` builds.
        is_interrupted: asked now and then whether to stop early.
    """
    check_ports(clos.spec)
    library = VirtualRuntime() if runtime is None else runtime
    probed = [probe_paths(clos, host.index) for host in clos.hosts()]
    entries = fabric_map_entries(clos) | nic_map_entries(clos, max(map(len, probed)))
    entries["memory"] = clos.spec.nic.memory // Limit.MEMORY_SEGMENT
    entries |= {"rc_qps": clos.spec.nic.qps_max, "queue_drainer": 1, "queue_lateness": 1}
    entries["queue_frames"] = pool_frames(clos)
    del entries["port_devmap"], entries["queue_wakes"]
    nic_of_port = [NO_NIC if port.node.is_switch else port.node.index for port in clos.ports()]
    library.begin(
        entries,
        fabric_rodata(clos, lateness_ns=0),
        nic_of_port,
        seed=seed,
        payload=payload,
        shuffles_ties=shuffles_ties,
    )
    try:
        with clock.simulated(library.now_ns), entropy.seeded(seed):
            _fill(clos, library, probed)
            yield VirtualLab(clos, library, is_interrupted=is_interrupted)
    finally:
        library.end()


def _fill(clos: Clos, runtime: VirtualRuntime, probed: Iterable[Sequence[ProbePath]]) -> None:
    """Configures fabric and NICs. There is no veth: every link is direct."""
    pins = VirtualFolder(runtime, {host.name: host.index for host in clos.hosts()})
    fill_fabric(pins, clos)
    for port in MappedArray(pins.map_fd("port_table"), PortEntry):
        port.is_direct = 1
    for host, paths in zip(clos.hosts(), probed, strict=True):
        maps = pins / host.name
        fill_nic(maps, clos, host)
        probe_maps = {name: maps.map_fd(name) for name in LINK_PROBE_MAPS}
        fill_link_probes(probe_maps, paths)
