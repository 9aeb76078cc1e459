"""A NIC agent in virtual time: the reactions of a live one, driven by the simulation. It can die or hang."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from mrc_agents.abi import Event
from mrc_agents.bpf.virtual import VirtualFolder, VirtualRuntime
from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.reactions import ClientResources, Reactions
from mrc_testbed.errors import AgentError, TestbedError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node


class Client(Protocol):
    """The interface of a connection for an agent."""

    resources: ClientResources  # what was created through it

    def notify(self, fields: dict[str, Any]) -> None: ...

    def break_off(self) -> None: ...


class Surroundings(Protocol):
    """The interface of a lab for an agent."""

    clos: Clos  # the lab's topology
    runtime: VirtualRuntime  # what runs the programs
    carriers: list[bool]  # by port id, whether its interface is up

    def node_pins(self, host: str) -> VirtualFolder: ...

    def set_alarm(self, owner: "VirtualAgent", due_ns: int | None) -> None:
        """Has `owner.on_time` called then."""


class VirtualAgent:
    """The agent of one host."""

    def __init__(self, lab: Surroundings, host: Node, settings: NicSettings) -> None:
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
