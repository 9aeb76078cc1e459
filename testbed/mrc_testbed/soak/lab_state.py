"""The state of a live lab that faults and work change: what they have to give back."""

from contextlib import ExitStack
from ctypes import Structure, c_uint32
from functools import partial
from typing import Final

from mrc_agents.abi import IcrcMode, LosslessSettings, NicControl, QueuePool
from mrc_agents.bpf.libbpf import open_map_in
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_fault import is_healthy
from mrc_testbed.faults.attendance import status_under_faults
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.topology.forwarding import FIB_STRIDE, fib_entries

SETTLE_NS: Final = 10_000_000_000
"""After a round, at most: agents that were started again look at their ports, the last frames arrive."""
_LOOK_NS: Final = 250_000_000


class _Route(Structure):
    _fields_ = (("value", c_uint32),)


State = dict[str, object]
"""The value of each part, by its name."""


def look(lab: Lab) -> State:
    """The state of a lab between two rounds."""
    return _maps(lab) | _agents(lab)


def left_behind(lab: Lab, before: State, clock: Clock) -> list[str]:
    """One sentence for each part that is not as *before*, once the lab has had time to settle."""
    deadline_ns = clock.now_ns() + SETTLE_NS
    while (found := _left(lab, before)) and clock.now_ns() < deadline_ns and clock.interruption() is None:
        clock.wait_until_ns(clock.now_ns() + _LOOK_NS)
    return found


def _left(lab: Lab, before: State) -> list[str]:
    active = [f"fault {fault_id} is active" for fault_id in Ledger(lab.paths.faults).entries()]
    changed = [
        f"{name} is {now}, it was {before.get(name)}"
        for name, now in look(lab).items()
        if now != before.get(name)
    ]
    return [*active, *status_under_faults(lab.name).problems, *changed]


def _maps(lab: Lab) -> State:
    """Rates, faults and flow control of ports, routes of switches, frames in queues."""
    found: State = {}
    with ExitStack() as opened:
        descriptor = partial(open_map_in, opened, lab.paths.fabric_pins)
        lossless = MappedArray(descriptor("lossless_settings"), LosslessSettings)
        for port in lab.clos.ports():
            found |= _fields(f"port {port.name}", lab.port_table[port.id])
            found[f"health of port {port.name}"] = is_healthy(lab, port.id)
        for port_id, settings in enumerate(lossless):
            found |= _fields(f"flow control of port {port_id}", settings)
        fib = ArrayMap(descriptor("fib"), _Route)
        for node in lab.clos.nodes():
            if node.is_switch:
                keys = [node.id * FIB_STRIDE + entry.key for entry in fib_entries(lab.clos, node)]
                found[f"routes of {node.name}"] = [fib.read(key).value for key in keys]
        if lab.spec.is_shaped:
            found["number of frames in queues"] = ArrayMap(descriptor("queue_pool"), QueuePool).read(0).used
    return found


def _fields(of: str, entry: Structure) -> State:
    """A copy of the fields of an entry of a map."""
    values = {name: getattr(entry, name) for name, *_ in entry._fields_}
    return {
        f"{name} of {of}": value if isinstance(value, int) else bytes(value).hex(":")
        for name, value in values.items()
    }


def _agents(lab: Lab) -> State:
    """Ports, iCRC and denied paths of NICs, and QPs: none is left. An agent that fails has a state too."""
    found: State = {}
    for host in lab.clos.hosts():
        with ExitStack() as opened:
            control = MappedArray(
                open_map_in(opened, lab.paths.node_pins(host.name), "nic_control"), NicControl
            )[0]
            found[f"ports up at {host.name}"] = f"{control.port_up_mask:b}"
            found[f"iCRC of {host.name}"] = IcrcMode(control.icrc_mode).name
            found[f"limit of silence of {host.name}"] = control.heartbeat_limit_ns
            try:
                agent = opened.enter_context(AgentClient(lab.paths.agent_socket(host.name)))
                found[f"denied paths of {host.name}"] = agent.denied_paths()
                found[f"number of QPs at {host.name}"] = len(agent.list_qps())
            except TestbedError as error:
                found[f"agent of {host.name}"] = error.message
    return found
