"""One universe: a random fabric, random work on it, random faults that end, all of it from one number.

Whatever happens on the way, at the end every message has completed with the right bytes, and nothing is left
of it in the fabric.
"""

import hashlib
import random
from dataclasses import dataclass, field
from typing import Any, Final

from agents.abi import LosslessLink, PortCounters, QueuePool, VirtualPayload
from agents.bpf.maps import ArrayMap, MappedArray, PerCpuArray
from agents.nic.device import NicDevice
from testbed.fabric.data_plane import FabricMaps
from testbed.fabric.port_fault import is_healthy
from testbed.faults.controller import FaultController
from testbed.faults.effects import Effect, Frozen, IcrcChecked, Rule
from testbed.faults.fault import ScheduledFault
from testbed.faults.rule import FrameRule
from testbed.faults.spec_base import dark
from testbed.topology.ev_set import build_ev_set
from testbed.topology.resolve import resolve_topology
from testbed.topology.spec import NicSpec, TopologySpec
from testbed.virtual.connection import VirtualConnection
from testbed.virtual.lab import VirtualLab, virtual_lab
from testbed.virtual.ledger import MemoryLedger
from testbed.virtual.target import VirtualTarget
from tests.raw_verbs import connect_pair

MS: Final = 1_000_000
WAIT_NS: Final = 60_000 * MS
SOURCE_SLOTS: Final = 5
TARGET_SLOTS: Final = 4
RULES: Final = (
    FrameRule(action="down"),
    FrameRule(action="lose", ratio=0.01),
    FrameRule(action="lose", ratio=0.3),
    FrameRule(action="lose", ratio=0.1, traffic="control"),
    FrameRule(action="lose", ratio=0.001, burst_ratio=0.8, burst_begins=0.002, burst_ends=0.05),
    FrameRule(action="corrupt", ratio=0.05, flipped_bits=3),
    FrameRule(action="duplicate", ratio=0.1),
    FrameRule(action="delay", time_ns=1 * MS, jitter_ns=MS // 2),
    FrameRule(action="reorder", ratio=0.1, time_ns=2 * MS),
)


@dataclass(frozen=True)
class Outcome:
    """What became of a universe.

    Attributes:
        failures: what is wrong, in words; none in a good one.
        digest: of everything counted: equal universes have equal ones.
        time_ns: how long it lasted.
        events: of the simulation.
    """

    failures: tuple[str, ...]
    digest: str
    time_ns: int
    events: int


@dataclass
class Flow:
    """Messages from one host to another."""

    source: VirtualConnection
    target: VirtualConnection
    qpn: int
    region: dict[str, int]
    size: int
    work_id: int
    completions: list[dict[str, Any]] = field(default_factory=list)


def draw_spec(draw: random.Random) -> TopologySpec:
    """A fabric."""
    flow_control = draw.choice(["none", "none", "none", "pfc", "credits"])
    return TopologySpec(
        planes=draw.choice([1, 2, 4]),
        t0=2,
        t1=draw.choice([1, 2]),
        hosts_per_t0=draw.choice([1, 2, 4]),
        port_rate=draw.choice([25, 100, 1000]) * 10**6,
        link_delay=draw.choice([0, 5_000, 50_000]),
        flow_control=flow_control,
        nic=NicSpec(memory=4 << 20, qps_max=8, icrc="on", retry_limit=100),
    )


def run_universe(seed: int) -> Outcome:
    """Makes and ends the universe of that number."""
    draw = random.Random(seed)
    clos = resolve_topology(draw_spec(draw))
    with virtual_lab(clos, seed=seed, payload=VirtualPayload.COPY, shuffles_ties=True) as lab:
        flows = [_start_flow(lab, draw) for _ in range(draw.choice([1, 2, 3]))]
        target = VirtualTarget(lab)
        _inflict(lab, draw, FaultController(MemoryLedger(), target))
        lab.run_until(lab.runtime.now_ns() + 50 * MS)
        failures = _finish_flows(lab, flows)
        failures += _leftovers(lab)
        target.close()
        return Outcome(
            tuple(failures), _digest(lab, flows), lab.runtime.now_ns(), lab.runtime.totals().events
        )


def _start_flow(lab: VirtualLab, draw: random.Random) -> Flow:
    hosts = [host.name for host in lab.clos.hosts()]
    near, far = draw.sample(hosts, 2)
    size = draw.choice([1, 100, 5000, 65536])
    source, target = VirtualConnection(lab, near), VirtualConnection(lab, far)
    local, region = source.register_memory(SOURCE_SLOTS * size), target.register_memory(TARGET_SLOTS * size)
    for slot in range(SOURCE_SLOTS):
        source.fill(local["offset"] + slot * size, size, slot)
    qpn = _connect(lab, draw, (near, source), (far, target))
    work_id = source.post_write(
        qpn,
        length=size,
        local_offset=local["offset"],
        remote_offset=0,
        r_key=region["r_key"],
        iterations=1 << 31,
        depth=draw.choice([1, 2, TARGET_SLOTS]),  # two messages under way never share a slot
        local_slots=SOURCE_SLOTS,
        remote_slots=TARGET_SLOTS,
    )
    return Flow(source, target, qpn, region, size, work_id)


def _connect(
    lab: VirtualLab,
    draw: random.Random,
    near: tuple[str, VirtualConnection],
    far: tuple[str, VirtualConnection],
) -> int:
    clos = lab.clos
    (near_host, near_nic), (far_host, far_nic) = near, far
    ends = (clos.node(near_host).index, clos.node(far_host).index)
    shape: dict[str, Any] = {"cc": "nscc"}
    if draw.random() < 0.5:
        shape = {"window_packets": draw.choice([1, 16, 64, 256])}
    shape["seed"] = draw.getrandbits(31)
    qpn = near_nic.create_qp(ends[1], list(build_ev_set(clos, *ends, clos.spec.evs, 0)), **shape)
    peer_qpn = far_nic.create_qp(
        ends[0], list(build_ev_set(clos, *reversed(ends), clos.spec.evs, 0)), **shape
    )
    connect_pair(near_nic, qpn, far_nic, peer_qpn)
    return qpn


def _inflict(lab: VirtualLab, draw: random.Random, controller: FaultController) -> None:
    """Faults of links, hosts and carriers that come and go, up to six at a time; at the end there is none."""
    links = list(lab.clos.links())
    hosts = [host.name for host in lab.clos.hosts()]
    active: list[str] = []
    for number in range(draw.randrange(2, 9)):
        lab.run_until(lab.runtime.now_ns() + draw.randrange(1, 60) * MS)
        if active and draw.random() < 0.5:
            controller.clear(active.pop(draw.randrange(len(active))))
        if len(active) == 6:
            continue
        fault_id, seed = f"f{number}", draw.getrandbits(31)
        link = draw.choice(links)
        what = draw.random()
        effects: tuple[Effect, ...]
        if what < 0.1:
            effects = (Frozen(draw.choice(hosts)),)
            fault = ScheduledFault(fault_id=fault_id, kind="host-pause", seed=seed, effects=effects)
        elif what < 0.2 and link.is_host_link:
            fault = ScheduledFault(fault_id=fault_id, kind="nic-port-down", seed=seed, effects=dark([link]))
        else:
            ports = [port.id for port in (link.lower, link.upper) if draw.random() < 0.7] or [link.lower.id]
            # a duplicated frame gives its credit back twice: none under credits until that is fixed
            has_credits = lab.clos.spec.flow_control == "credits"
            rule = draw.choice([each for each in RULES if not has_credits or each.action != "duplicate"])
            checked = (IcrcChecked(),) if rule.action == "corrupt" else ()
            effects = (*checked, *(Rule(port_id, rule) for port_id in ports))
            fault = ScheduledFault(fault_id=fault_id, kind=rule.action, seed=seed, effects=effects)
        if any(entry.fault.does_the_same_as(fault) for entry in controller.entries()):
            continue
        controller.apply(fault)
        active.append(fault_id)
    controller.clear_all()


def _finish_flows(lab: VirtualLab, flows: list[Flow]) -> list[str]:
    """Lets messages that have begun complete, and looks at their bytes."""
    for flow in flows:
        flow.source.stop_work(flow.qpn, flow.work_id)
    deadline_ns = lab.runtime.now_ns() + WAIT_NS
    while lab.runtime.now_ns() < deadline_ns and not all(flow.completions for flow in flows):
        lab.run_until(lab.runtime.now_ns() + 10 * MS)
        for flow in flows:
            flow.completions += flow.source.poll(flow.qpn)
    lab.run_until(lab.runtime.now_ns() + 200 * MS)  # what is still on its way arrives
    failures = []
    for number, flow in enumerate(flows):
        flow.completions += flow.source.poll(flow.qpn)
        if len(flow.completions) != 1:
            failures.append(f"flow {number}: {len(flow.completions)} completions of one work request")
            continue
        [completion] = flow.completions
        if completion["status"] != "success":
            failures.append(f"flow {number}: {completion['status']}")
            continue
        messages = completion["iterations"]
        for message in range(max(0, messages - TARGET_SLOTS), messages):
            offset = flow.region["offset"] + message % TARGET_SLOTS * flow.size
            wrong = flow.target.verify(offset, flow.size, message % SOURCE_SLOTS)
            if wrong:
                failures.append(f"flow {number}: {wrong} wrong bytes in message {message} of {messages}")
    return failures


def _leftovers(lab: VirtualLab) -> list[str]:
    """What is left in the fabric though nobody sends."""
    failures = []
    pool = ArrayMap(lab.fabric_pins.map_fd("queue_pool"), QueuePool).read(0)
    if pool.used:
        failures.append(f"{pool.used} frames did not come back to the pool")
    for port_id, link in enumerate(MappedArray(lab.fabric_pins.map_fd("lossless_links"), LosslessLink)):
        # an idle sender takes note of credit that has come back when it sends again
        updates = (
            link.updates[place % len(link.updates)] for place in range(link.update_head, link.update_tail)
        )
        given_back = sum(each.value for each in updates) if lab.clos.spec.flow_control == "credits" else 0
        if link.used_bytes != given_back or link.buffered_bytes:
            name = lab.clos.port(port_id).name
            failures.append(
                f"{name}: {link.used_bytes} bytes used, {given_back} given back, {link.buffered_bytes} left"
            )
    maps = FabricMaps(lab)
    ill = [port.name for port in lab.clos.ports() if not is_healthy(maps, port.id)]
    maps.close()
    if ill:
        failures.append(f"faults are left at {', '.join(ill)}")
    return failures


def _digest(lab: VirtualLab, flows: list[Flow]) -> str:
    counters = PerCpuArray(lab.fabric_pins.map_fd("port_counters"), PortCounters)
    seen = hashlib.sha256(repr(lab.runtime.now_ns()).encode())
    for port_id in range(len(counters)):
        seen.update(repr(counters.sum(port_id)).encode())
    for host in lab.clos.hosts():
        seen.update(repr(NicDevice(lab.node_pins(host.name)).counters()).encode())
    for flow in flows:
        seen.update(repr(flow.completions).encode())
    return seen.hexdigest()
