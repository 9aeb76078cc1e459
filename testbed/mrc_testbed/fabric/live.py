"""Handle to a running lab."""

from pathlib import Path
from typing import TYPE_CHECKING

from mrc_agents.closing import Closing
from mrc_agents.nic.client import AgentClient
from mrc_agents.nic.context import Context, open_nic
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.data_plane import FabricMaps
from mrc_testbed.fabric.link import set_port_up
from mrc_testbed.fabric.nic_data_plane import set_icrc
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.readiness import prove_planes
from mrc_testbed.fabric.runtime import node_namespace
from mrc_testbed.fabric.state import LabState
from mrc_testbed.topology.resolve import resolve_topology

if TYPE_CHECKING:
    from mrc_testbed.fabric.fabric_node import FabricNode


class Lab(Closing):
    """Access to a live lab; use it as a context manager, or call `close`."""

    def __init__(self, paths: LabPaths, state: LabState) -> None:
        self.paths = paths  # where its files and pins are
        self.state = state  # what is recorded of it
        self.clos = resolve_topology(state.spec)  # its topology
        self.name, self.state_dir = paths.lab, paths.folder
        self.spec, self.runtime = state.spec, state.runtime
        self._maps = FabricMaps(paths)
        self.port_table = self._maps.port_table  # ports by id; stores take effect at once
        self.port_fault = self._maps.port_fault
        self.fault_accounts = self._maps.fault_accounts  # of the faults at each port, by port id
        self.port_counters = self._maps.port_counters
        self._agents: dict[str, AgentClient] = {}
        self._nodes: dict[str, FabricNode] = {}

    def close(self) -> None:
        """Lets go of connections, shells and maps; the lab goes on."""
        for agent in self._agents.values():
            agent.close()
        for node in self._nodes.values():
            node.terminate()
        self._agents.clear()
        self._nodes.clear()
        self._maps.close()

    def agent(self, host: str) -> AgentClient:
        """A connection to the agent of *host*, the same one every time."""
        if self.clos.node(host).is_switch:
            raise UsageError(f"{host} is a switch: only hosts have a NIC agent")
        if host not in self._agents:
            self._agents[host] = AgentClient(self.paths.agent_socket(host))
        return self._agents[host]

    def nic(self, host: str) -> Context:
        """The NIC of *host* for a program, on a connection of its own; to be closed by the caller."""
        name = self.clos.node(host).name
        return open_nic(self.paths.agent_socket(name), self.paths.node_pins(name))

    def namespace(self, node: str) -> Path:
        """Path of the network namespace of a node."""
        return node_namespace(self.name, self.clos.node(node).name)

    def node(self, name: str) -> "FabricNode":
        """The node as Mininet knows nodes, with `cmd` and `popen`; the same one every time."""
        # Mininet takes a quarter of a second to import, and few commands need a shell in a node.
        from mrc_testbed.fabric.fabric_node import FabricNode  # noqa: PLC0415

        node = self.clos.node(name)
        if name not in self._nodes:
            container = self.state.containers.get(name)
            self._nodes[name] = FabricNode(self.paths, node, container.pid if container else None)
        return self._nodes[name]

    def prove_planes(self) -> None:
        """Lets every host send a packet through every plane."""
        prove_planes(self.paths, self.clos, lambda _: None)

    def set_icrc(self, *, is_on: bool) -> None:
        """Has all NICs compute and check the iCRC; not on means as the spec says. Takes effect at once."""
        set_icrc(self.paths, self.clos, is_on=is_on)

    def set_port_up(self, port: str | int, *, is_up: bool) -> None:
        """Raises or lowers the interface of a port (name or id); the far end loses or regains its carrier."""
        set_port_up(self.name, self.clos.port(port), is_up=is_up)
