"""A lab in virtual time as a fault injector sees it."""

from contextlib import closing
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import FaultError
from mrc_testbed.fabric.nic_data_plane import expect_heartbeat
from mrc_testbed.faults.effects import HostRequests
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.map_target import MapTarget, deny_paths
from mrc_testbed.faults.traffic import RawLoad, frame_of
from mrc_testbed.probing.avoidance import paths_around
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.lab import VirtualLab

_NS_PER_S: Final = 10**9


class VirtualTarget(MapTarget):
    """The lab that faults change in virtual time, all of it at once."""

    def __init__(self, lab: VirtualLab) -> None:
        super().__init__(lab, lab.clos)
        self._lab = lab
        self._loads: dict[str, list[_Load]] = {}

    def set_carrier(self, port_id: int, *, is_up: bool) -> None:
        """Brings the port's interface up or down; its agent, and that of the peer, are notified."""
        self._lab.runtime.set_carrier(port_id, is_up=is_up)
        for end_id in (port_id, self.clos.port(port_id).peer_id):
            self._lab.carriers[end_id] = is_up
            node = self.clos.port(end_id).node
            if not node.is_switch:
                self._lab.agent(node.name).on_carrier(end_id, is_up=is_up)

    def set_running(self, host: str, *, is_running: bool) -> None:
        """Lets the agent of a host run, or stand still; its NIC goes on."""
        agent = self._lab.agent(host)
        if not is_running:
            agent.freeze()
        expect_heartbeat(self._lab, host, is_expected=is_running)
        if is_running:
            agent.thaw()

    def kill_agent(self, host: str) -> None:
        """Kills the NIC agent of a host, if it runs; its QPs are gone."""
        self._lab.agent(host).kill()

    def ask_hosts(self, requests: HostRequests) -> dict[str, str]:
        """Hosts that could not be reached, with the reason; all others have done what was asked for."""
        denied = paths_around(self.clos, requests.drained)
        allowed = paths_around(self.clos, requests.freed)
        reasons = {}
        for host in self.clos.hosts():
            paths, freed = denied.get(host.index, ()), allowed.get(host.index, ())
            if host.name in requests.absent and (paths or freed or host.name in requests.revived):
                reasons[host.name] = f"{host.name} stands still"
                continue
            if host.name in requests.revived:
                self._lab.agent(host.name).start()
            if paths or freed:
                with closing(VirtualConnection(self._lab, host.name)) as agent:
                    deny_paths(agent, paths, freed)
        return reasons

    def start_load(self, fault: ScheduledFault) -> None:
        """Lets the background traffic of a fault flow."""
        if fault.fault_id in self._loads:
            raise FaultError(f"background traffic of {fault.fault_id!r} flows already")
        loads = [_Load(self._lab, load, frame_of(self.clos, load)) for load in fault.loads]
        self._loads[fault.fault_id] = loads
        for load in loads:
            self._lab.set_alarm(load, load.on_time())

    def stop_load(self, fault_id: str) -> dict[int, int]:
        """Frames sent by port id, now that the background traffic of a fault flows no more."""
        loads = self._loads.pop(fault_id, [])
        for load in loads:
            self._lab.set_alarm(load, None)
        return {load.port_id: load.sent for load in loads}


class _Load:
    """The frames of one load, one after the other at its rate."""

    def __init__(self, lab: VirtualLab, load: RawLoad, frame: bytes) -> None:
        self._lab = lab
        self._frame = frame
        self._begun_ns = monotonic_ns()
        self._rate_bps = load.rate_bps
        self.port_id = load.port_id
        self.sent = 0

    def on_time(self) -> int | None:
        """Sends the frame that is due; when the next is."""
        self._lab.runtime.load(self.port_id, self._frame)
        self.sent += 1
        return self._begun_ns + self.sent * len(self._frame) * 8 * _NS_PER_S // self._rate_bps
