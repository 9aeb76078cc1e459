"""A live lab as a fault controller sees it: its maps, its switches' interfaces, its hosts' processes."""

import os
import signal
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import FabricError, FaultError, TestbedError
from mrc_testbed.fabric import lab, preflight
from mrc_testbed.fabric.known_labs import no_such_lab
from mrc_testbed.fabric.link import set_port_up
from mrc_testbed.fabric.nic_data_plane import expect_heartbeat
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import ProcessIdentity, freeze, kill_processes, signal_process
from mrc_testbed.fabric.process import is_alive as process_runs
from mrc_testbed.fabric.state import LabState, read_state
from mrc_testbed.faults.effects import HostRequests
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.map_target import MapTarget, deny_paths
from mrc_testbed.faults.raw_load import start_load, stop_load
from mrc_testbed.probing.avoidance import paths_around
from mrc_testbed.topology.resolve import resolve_topology

_ANSWER_NS: Final = 3_000_000_000
"""For an answer of an agent that has nothing else to do; whoever needs longer is asked again later."""

_ASKED_AT_ONCE: Final = 16


class LabTarget(MapTarget):
    def __init__(self, name: str) -> None:
        preflight.require([preflight.clock_check()])
        self._paths = lab_paths(name)
        self._name = name
        try:
            super().__init__(self._paths, resolve_topology(self._state().spec))
        except FabricError as error:
            hint = "run it with sudo" if os.geteuid() else f"mrc-testbed status -n {name}"
            raise FaultError(f"the maps of lab {name!r} cannot be opened: {error}", hint=hint) from error

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Brings the port's interface up or down; the far end's carrier follows before this returns."""
        set_port_up(self._name, self.clos.port(port_id), is_up=is_up)

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

    def kill_agent(self, host: str) -> None:
        """Kills the NIC agent of a host, if it runs; its QPs are gone."""
        kill_processes(self._agents(host))

    def ask_hosts(self, requests: HostRequests) -> dict[str, str]:
        """Hosts that could not be reached, with the reason; all others have done what was asked for."""
        denied = paths_around(self.clos, requests.drained)
        allowed = paths_around(self.clos, requests.freed)
        asked = [
            host.name
            for host in self.clos.hosts()
            if host.index in denied or host.index in allowed or host.name in requests.revived
        ]
        reasons = {host: f"{host} stands still" for host in asked if host in requests.absent}

        def ask(host: str) -> None:
            index = self.clos.node(host).index
            try:
                if host in requests.revived and not any(map(process_runs, self._agents(host))):
                    lab.restart(self._name, (host,))
                if index in denied or index in allowed:
                    with AgentClient(self._paths.agent_socket(host), _ANSWER_NS) as agent:
                        deny_paths(agent, denied.get(index, ()), allowed.get(index, ()))
            except TestbedError as error:
                reasons[host] = f"{host}: {error.message}"

        present = [host for host in asked if host not in reasons]
        if present:
            with ThreadPoolExecutor(max_workers=_ASKED_AT_ONCE) as pool:
                list(pool.map(ask, present))
        return reasons

    def start_load(self, fault: ScheduledFault) -> None:
        """Lets the background traffic of a fault flow that is in the ledger."""
        start_load(self._name, fault)

    def stop_load(self, fault_id: str) -> dict[int, int]:
        """Frames sent by port id, now that the background traffic of a fault flows no more."""
        return stop_load(self._name, fault_id)

    def _agents(self, host: str) -> list[ProcessIdentity]:
        return [record.identity for record in self._state().processes if record.node == host]

    def _state(self) -> LabState:
        state = read_state(self._paths)
        if state is None:
            raise no_such_lab(self._name)
        return state
