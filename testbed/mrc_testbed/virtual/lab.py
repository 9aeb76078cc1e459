"""A lab in virtual time: the data plane's programs, the NIC agents and who waits for them, in one process.

Nothing waits for real: `run_until` lets the data plane run up to the next moment at which Python code has
something to do, and lets it do that, which takes no time.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, Protocol

from mrc_agents import clock, entropy
from mrc_agents.abi import Event, Limit, PortEntry, VirtualPayload
from mrc_agents.bpf.maps import MappedArray
from mrc_agents.bpf.virtual import NO_NIC, VirtualFolder, VirtualRuntime
from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.reactions import ClientResources, Reactions
from mrc_testbed.errors import AgentError, TestbedError
from mrc_testbed.fabric.agent_process import nic_settings
from mrc_testbed.fabric.data_plane import fabric_map_entries, fabric_rodata, fill_fabric
from mrc_testbed.fabric.nic_data_plane import LINK_PROBE_MAPS, fill_link_probes, fill_nic, nic_map_entries
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.probe_path import ProbePath, probe_paths
from mrc_testbed.virtual.limits import check_ports, pool_frames


class Client(Protocol):
    """The interface of a connection for an agent."""

    resources: ClientResources  # what was created through it

    def notify(self, fields: dict[str, Any]) -> None: ...

    def break_off(self) -> None: ...


class VirtualAgent:
    """The agent of one host: the reactions of a live one, driven by the simulation. It can die or hang."""

    def __init__(self, lab: "VirtualLab", host: Node, settings: NicSettings) -> None:
        self._lab = lab
        self._index = host.index
        self._node = host
        self._settings = settings
        self._device: NicDevice | None = None
        self.reactions: Reactions | None = None  # its work, from one start to the next; None while it is dead
        self.path_rtts_ns: dict[int, int] = {}  # by request id, of the last probes of paths that were sent
        self.is_frozen = False
        self._held: list[Callable[[], None]] = []
        self._connections: list[Client] = []
        self.host = host.name  # name of its node

    @property
    def is_alive(self) -> bool:
        return self.reactions is not None

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begins with a NIC that does nothing, unless it runs."""
        if self.reactions is not None:
            return
        device = NicDevice(self._lab.node_pins(self.host))
        if self._device is None:
            device.fresh_from = 0  # the lab is new
        self._device = device
        self.reactions = Reactions(
            self._settings, device, self._publish, lambda event: self.path_rtts_ns.update({event.a: event.b})
        )
        self._lab.runtime.empty_ring(self._index)
        self._lab.runtime.attend(self._index, is_attended=True)
        for port in self._lab.clos.ports_of(self._node):
            self.reactions.on_carrier(port.id, is_up=self._lab.carriers[port.id])
        self.reactions.start()
        self._arm()

    def kill(self) -> None:
        """Ends at once; its connections break, its QPs are left alone."""
        self.reactions = None
        self._held.clear()
        self.is_frozen = False
        self._lab.runtime.attend(self._index, is_attended=False)
        self._arm()
        connections, self._connections = self._connections, []
        for connection in connections:
            connection.break_off()

    def freeze(self) -> None:
        """Stands still; what happens meanwhile waits."""
        self.is_frozen = True
        self._lab.runtime.attend(self._index, is_attended=False)
        self._arm()

    def thaw(self) -> None:
        """Goes on with what has waited."""
        if not self.is_frozen:
            return
        self.is_frozen = False
        if self.reactions is not None:
            self._lab.runtime.empty_ring(self._index)
            self._lab.runtime.attend(self._index, is_attended=True)
            held, self._held = self._held, []
            for each in held:
                each()
        self._arm()

    # -- what happens -----------------------------------------------------------------------------

    def on_events(self, events: list[Event]) -> None:
        self._soon(lambda reactions: reactions.on_events(events))

    def on_carrier(self, port_id: int, *, is_up: bool) -> None:
        """A port of the NIC has, or has lost, its carrier."""
        self._soon(lambda reactions: reactions.on_carrier(port_id, is_up=is_up))

    def on_time(self) -> int | None:
        """Does what is due; when the next is."""
        if self.reactions is None or self.is_frozen:
            return None
        self.reactions.on_time()
        return self.reactions.next_deadline_ns()

    def call(self, verb: str, arguments: dict[str, Any], resources: ClientResources) -> Any:
        """The result of a verb."""
        if self.reactions is None:
            raise AgentError(f"the NIC agent of {self.host} died")
        if self.is_frozen:
            raise AgentError(f"the NIC agent of {self.host} did not send a response to {verb!r} in time")
        result = self.reactions.call(verb, arguments, resources)
        self._arm()
        return result

    def cast(self, verb: str, arguments: dict[str, Any], connection: Client) -> None:
        """A verb that nobody waits for; a refusal is an event."""
        if self.reactions is None:
            raise AgentError(f"the NIC agent of {self.host} is gone")

        def carry_out(reactions: Reactions) -> None:
            try:
                reactions.call(verb, arguments, connection.resources)
            except TestbedError as error:
                fields = {"event": "refused", "time_ns": monotonic_ns(), "host": self.host}
                connection.notify(
                    fields | {"verb": verb, "qpn": arguments.get("qpn"), "error": error.message}
                )

        self._soon(carry_out)

    def attach(self, connection: Client) -> None:
        """Subscribes *connection* to events."""
        if self.reactions is None:
            raise AgentError(f"no NIC agent answers on {self.host}")
        self._connections.append(connection)

    def detach(self, connection: Client) -> None:
        """The connection is closed: what it has created is given back."""
        self._connections.remove(connection)
        self._soon(lambda reactions: reactions.release(connection.resources))

    # -- probes of paths without a QP -----------------------------------------------------------------

    def send_path_probes(self, peer_host: int, evs: Sequence[int]) -> list[int]:
        """Sends one probe on each EV; their request ids."""
        if self._device is None or self.reactions is None:
            raise AgentError(f"no NIC agent answers on {self.host}")
        self.path_rtts_ns.clear()
        return self._device.send_path_probes(peer_host, list(evs))

    def _soon(self, work: Callable[[Reactions], None]) -> None:
        """Does something now, or when the agent goes on; a dead one does nothing."""
        reactions = self.reactions
        if reactions is None:
            return
        if self.is_frozen:
            self._held.append(lambda: work(reactions))
            return
        work(reactions)
        self._arm()

    def _publish(self, fields: dict[str, Any]) -> None:
        for connection in self._connections:
            connection.notify(fields)

    def _arm(self) -> None:
        is_running = self.reactions is not None and not self.is_frozen
        due_ns = self.reactions.next_deadline_ns() if self.reactions is not None and is_running else None
        self._lab.set_alarm(self, due_ns)


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
