"""A live lab as an injector sees it: its maps, the interfaces of its switches, the processes of its hosts."""

import os
import signal

from agents.nic.client import AgentClient
from testbed.errors import FabricError, FaultError
from testbed.fabric import lab
from testbed.fabric.data_plane import FabricMaps
from testbed.fabric.link import raise_ports, set_port_up
from testbed.fabric.namespace import entered
from testbed.fabric.nic_data_plane import expect_heartbeat, set_icrc
from testbed.fabric.port_fault import clear_rule, set_rule
from testbed.fabric.process import ProcessIdentity, freeze, kill_processes, signal_process
from testbed.fabric.process import is_alive as process_runs
from testbed.fabric.routes import write_routes
from testbed.fabric.runtime import node_namespace
from testbed.fabric.state import LabState, lab_paths, read_state
from testbed.faults.effect import Fault
from testbed.faults.injector import PortAccount
from testbed.faults.raw_load import start_load, stop_load
from testbed.faults.rule import FrameRule, as_abi
from testbed.probing.avoidance import paths_around
from testbed.topology.clos import Clos


class LabTarget:
    """The lab *name*; every store into its maps takes effect with the next frame.

    Raises:
        FaultError: there is no such lab, or this process may not change it.
    """

    def __init__(self, name: str) -> None:
        self._paths = lab_paths(name)
        self._name = name
        self.clos = Clos(self._state().spec)
        try:
            self._maps = FabricMaps(self._paths)
        except FabricError as error:
            hint = "run it with sudo" if os.geteuid() else f"mrc-testbed status -n {name}"
            raise FaultError(f"the maps of lab {name!r} cannot be opened: {error}", hint=hint) from error

    def set_rule(self, port_id: int, index: int, rule: FrameRule, seed: int) -> None:
        """Lets a rule act on the frames that leave a port, with a new account."""
        set_rule(self._maps, port_id, index, as_abi(rule, seed))

    def clear_rule(self, port_id: int, index: int) -> PortAccount:
        """The account of a rule that acts no more."""
        account = clear_rule(self._maps, port_id, index)
        return PortAccount(
            port_id,
            met=account.met_frames,
            count=account.hit_frames,
            data_count=account.hit_data_frames,
            first_ns=account.first_hit_ns,
            last_ns=account.last_hit_ns,
        )

    def set_rate(self, port_id: int, ratio: float) -> None:
        """Lets a port transmit at that share of its rate; at least 1 bit/s, for 0 would mean unshaped."""
        rate_bps = self.clos.port_rates_bps[port_id]
        if not rate_bps:
            raise FaultError(f"lab {self._name!r} is unshaped: its ports have no rate to lower")
        self._maps.port_table[port_id].rate_bps = max(1, round(rate_bps * ratio))

    def set_held(self, port_id: int, *, is_held: bool) -> None:
        """Lets the far end of a port's link hold the port's data back; it is noticed within 0.1 ms."""
        self._maps.lossless_settings[port_id].is_forced = is_held

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Brings the port's interface up or down; the far end's carrier follows before this returns."""
        port = self.clos.port(port_id)
        if not is_up:
            set_port_up(self._name, port, is_up=False)
            return
        with entered(node_namespace(self._name, port.node.name)):
            raise_ports([port])  # a port that goes down loses its address

    def set_routes(self, switch: str, *, is_present: bool) -> None:
        """Gives a switch its forwarding table, or leaves it none."""
        write_routes(self._paths, self.clos, self.clos.node(switch), is_present=is_present)

    def set_running(self, host: str, *, is_running: bool) -> None:
        """Lets the processes of a host run, or stand still; one that died meanwhile stays dead."""
        for agent in self._agents(host):
            if not is_running:
                freeze(agent)
        # Its NIC must not take a host that stands still for one whose agent has died.
        expect_heartbeat(self._paths, host, is_expected=is_running)
        for agent in self._agents(host):
            if is_running:
                signal_process(agent, signal.SIGCONT)

    def set_drained(self, drained: frozenset[int], freed: frozenset[int]) -> None:
        """Has all hosts deny what crosses the links *drained*, and allow what crosses *freed* alone."""
        denied, allowed = paths_around(self.clos, drained), paths_around(self.clos, freed)
        for host in self.clos.hosts():
            paths = denied.get(host.index, ())
            with AgentClient(self._paths.agent_socket(host.name)) as agent:
                for path in paths:
                    agent.call("deny_path", **path._asdict())
                known = agent.call("denied_paths")
                for path in allowed.get(host.index, ()):
                    if path not in paths and path._asdict() in known:
                        agent.call("allow_path", **path._asdict())

    def set_agent(self, host: str, *, is_alive: bool) -> None:
        """Starts the NIC agent of a host unless it runs, or kills it; QPs of the old one are gone."""
        agents = self._agents(host)
        if not is_alive:
            kill_processes(agents)
        elif not any(map(process_runs, agents)):
            lab.restart(self._name, (host,))

    def set_icrc(self, *, is_checked: bool) -> None:
        """Has all NICs check the iCRC of packets, or do as the topology says."""
        set_icrc(self._paths, self.clos, is_on=is_checked)

    def start_load(self, fault: Fault) -> None:
        """Lets the background traffic of a fault flow that is in the ledger."""
        start_load(self._name, fault)

    def stop_load(self, fault_id: str) -> dict[int, int]:
        """Frames sent by port id, now that the background traffic of a fault flows no more."""
        return stop_load(self._name, fault_id)

    def close(self) -> None:
        """Gives the maps back; faults stay as they are."""
        self._maps.close()

    def _agents(self, host: str) -> list[ProcessIdentity]:
        return [record.identity for record in self._state().processes if record.node == host]

    def _state(self) -> LabState:
        state = read_state(self._paths)
        if state is None:
            raise FaultError(f"there is no lab {self._name!r}", hint="mrc-testbed up brings it up")
        return state
