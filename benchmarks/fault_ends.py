"""Lateness of fault ends with one of our processes dead: 200 faults of ten kinds, observed where they act.

In each round ten faults begin and one process is killed: the reaper, a queue drainer, an agent, or none. A
reaper is replaced at once, as by the next command; the rest is repaired after the round, as by `restart`. The
end of a fault is seen at the lab and not in the ledger: in the kernel's rule, the port's entry, the
interface, the process, the traffic or the agent's list. Looks are POLL_NS apart.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import cycle, islice

from benchmarks.figure import Figure
from benchmarks.transfer import live_lab, pause
from mrc_agents.abi import PortCounter
from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import AgentError
from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.data_plane import FabricMaps
from mrc_testbed.fabric.folder_watch import FolderWatch
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_fault import acts
from mrc_testbed.fabric.port_state import observe_ports
from mrc_testbed.fabric.process import ProcessIdentity, is_stopped, kill_processes
from mrc_testbed.fabric.state import read_state
from mrc_testbed.faults.attendance import repair_faults, restore_reaper
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.faults.reaper import reaper_process
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.spec import TopologySpec

ROUNDS = 20
LENGTH = "3s"
POLL_NS = 2_000_000
STILL_NS = 20_000_000
LIMIT_MS = 250
SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2, port_rate=20_000_000, flow_control="pfc")
VICTIMS = ("nobody", "reaper", "drainer", "agent")


@dataclass(frozen=True, slots=True)
class Broken:
    """A kind of fault, where it acts, and whether the lab still shows it."""

    kind: str
    where: str
    fields: Mapping[str, str]
    is_seen: Callable[["Eyes"], bool]


class Eyes:
    """The view of a lab from outside its ledger."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self._maps = FabricMaps(lab.paths)
        self._sent = (0, 0)

    def close(self) -> None:
        self._maps.close()

    def rule_acts(self, port: str) -> bool:
        now_ns = monotonic_ns()
        return any(acts(rule, now_ns) for rule in self._maps.port_fault[self._port_id(port)].rule)

    def rate_is_lower(self, port: str) -> bool:
        port_id = self._port_id(port)
        return self._maps.port_table[port_id].rate_bps != port_rates_bps(self._lab.clos)[port_id]

    def is_held(self, port: str) -> bool:
        return bool(self._maps.lossless_settings[self._port_id(port)].is_forced)

    def has_no_carrier(self, port: str) -> bool:
        found = self._lab.clos.port(port)
        [observed] = observe_ports(self._lab.name, found.node.name, [found])
        return observed is None or not observed.is_up

    def has_traffic(self, port: str) -> bool:
        """Return True if a packet has left by a port in the last STILL_NS, when it has no other traffic."""
        count = self._maps.port_counters.sum(self._port_id(port))[PortCounter.TX_PACKETS]
        if count != self._sent[0]:
            self._sent = count, monotonic_ns()
        return monotonic_ns() < self._sent[1] + STILL_NS

    def is_paused(self, host: str) -> bool:
        return is_stopped(_agent(self._lab, host))

    def denies(self, host: str) -> bool:
        try:
            with AgentClient(self._lab.paths.agent_socket(host)) as agent:
                return bool(agent.call("denied_paths"))
        except AgentError:
            return False  # killed in this round: a new agent denies what is drained, and nothing else

    def _port_id(self, name: str) -> int:
        return self._lab.clos.port(name).id


BROKEN = (
    Broken(
        "congestion",
        "p0-t0-0:2~p0-t1-0:0",
        {"rate": "10Mbit", "direction": "a-to-b"},
        lambda eyes: eyes.has_traffic("p0-t0-0:2"),
    ),
    Broken("drain", "h0:0", {}, lambda eyes: eyes.denies("h0")),
    Broken("link-down", "p0-t0-0:3~p0-t1-1:0", {}, lambda eyes: eyes.rule_acts("p0-t0-0:3")),
    Broken(
        "link-flap",
        "p1-t0-0:2~p1-t1-0:0",
        {"every": "200ms", "down": "190ms"},
        lambda eyes: eyes.rule_acts("p1-t0-0:2"),
    ),
    Broken("delay", "p1-t0-0:3~p1-t1-1:0", {"by": "1ms"}, lambda eyes: eyes.rule_acts("p1-t0-0:3")),
    Broken("nic-port-down", "h1:1", {}, lambda eyes: eyes.has_no_carrier("p1-t0-0:1")),
    Broken("slow-link", "p0-t0-1:2~p0-t1-0:1", {"to": "50%"}, lambda eyes: eyes.rate_is_lower("p0-t0-1:2")),
    Broken("pause-storm", "p0-t0-1:3~p0-t1-1:1", {}, lambda eyes: eyes.is_held("p0-t0-1:3")),
    Broken("host-pause", "h2", {}, lambda eyes: eyes.is_paused("h2")),
    Broken("switch-reboot", "p1-t0-1", {}, lambda eyes: eyes.has_no_carrier("p1-t0-1:0")),
)


def run() -> Iterator[Figure]:
    late_ms: dict[str, list[float]] = {broken.kind: [] for broken in BROKEN}
    with live_lab(SPEC) as lab, closing(Eyes(lab)) as eyes:
        for victim in islice(cycle(VICTIMS), ROUNDS):
            for kind, late in _round(lab, eyes, victim):
                late_ms[kind].append(late)
    for kind, samples in late_ms.items():
        yield Figure("fault_ends", f"{kind}: end after its time", "ms", tuple(samples), f"<= {LIMIT_MS}")
    worst = max(late for samples in late_ms.values() for late in samples)
    count = sum(map(len, late_ms.values()))
    yield Figure("fault_ends", f"worst of {count} faults", "ms", (worst,), f"<= {LIMIT_MS}")


def _round(lab: Lab, eyes: Eyes, victim: str) -> Iterator[tuple[str, float]]:
    """Each kind with the ms from the end that was asked for to the first look that saw it gone."""
    with closing(LabFaults(lab.name)) as faults:
        for broken in BROKEN:
            fields = {"id": broken.kind, "for": LENGTH, **broken.fields}
            faults.add(parse_fault(broken.kind, broken.where, fields, ()), seed=1)
        ends_ns = {entry.fault.fault_id: entry.schedule.end_ns for entry in faults.entries()}
    _kill(lab, victim)
    if victim == "reaper":
        restore_reaper(lab.name)
    waiting = {broken.kind: broken for broken in BROKEN}
    while waiting:
        for kind, broken in list(waiting.items()):
            end_ns = ends_ns[kind]
            if end_ns is None:
                raise AssertionError(kind)
            if monotonic_ns() >= end_ns and not broken.is_seen(eyes):
                del waiting[kind]
                yield kind, (monotonic_ns() - end_ns) / 1e6
        pause(POLL_NS / 1e9)
    labs.restart(lab.name)
    repair_faults(lab.name)
    ledger = Ledger(lab.paths.faults)
    with FolderWatch((ledger.active_folder,)) as watch:
        while ledger.entries():
            watch.wait((), monotonic_ns() + 10**9)


def _kill(lab: Lab, victim: str) -> None:
    state = read_state(lab.paths)
    reaper = reaper_process(Ledger(lab.paths.faults))
    if state is None or reaper is None:
        raise AssertionError("the lab has no reaper")
    found = {
        "nobody": [],
        "reaper": [reaper],
        "drainer": [each.identity for each in state.processes if each.node is None],
        "agent": [_agent(lab, "h3")],
    }[victim]
    if victim != "nobody" and not found:
        raise AssertionError(f"no {victim} runs")
    kill_processes(found)


def _agent(lab: Lab, host: str) -> ProcessIdentity:
    state = read_state(lab.paths)
    if state is None:
        raise AssertionError("the lab is gone")
    return next(each.identity for each in state.processes if each.node == host)
