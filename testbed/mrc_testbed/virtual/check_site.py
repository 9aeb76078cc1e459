"""A lab in virtual time, as a health check measures it."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from mrc_agents.abi import VirtualPayload
from mrc_agents.clock import monotonic_ns
from mrc_testbed.check.measuring import Asked
from mrc_testbed.document import envelope as document
from mrc_testbed.document.envelope import Kind
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.link_probes import LinkProbeCounts
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.scenario.run.signal_clock import NO_DESCRIPTOR, SignalClock
from mrc_testbed.scenario.spec.load import build_scenario
from mrc_testbed.scenario.spec.one_workload import DEFAULT_TOPOLOGY
from mrc_testbed.scenario.spec.plan import PlannedTransport
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.probe_path import PathOutcome, rounds_wanted, since
from mrc_testbed.topology.probing_spec import ProbingSpec
from mrc_testbed.topology.resolve import load_topology, resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.congestion import choose_congestion_control
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.engine import VirtualEngine, virtual_transport
from mrc_testbed.virtual.lab import VirtualLab, virtual_lab
from mrc_testbed.virtual.world import VirtualFaults, payload_of
from mrc_testbed.workloads.engine import Engine


class VirtualSite:
    """A lab in virtual time, where nothing is late.

    Attributes:
        clos: its topology.
        rtt_noise_ns, barrier_noise_ns: none.
    """

    rtt_noise_ns = 0
    barrier_noise_ns = 0

    def __init__(self, lab: VirtualLab, transport: PlannedTransport) -> None:
        self._lab = lab
        self._transport = transport
        self.clos = lab.clos

    def require_agent(self, host: str) -> None:
        """Raise AgentError unless the NIC agent of a host answers."""
        with closing(VirtualConnection(self._lab, host)) as agent:
            agent.hello()

    def engine(self) -> Engine:
        """A new engine over MRC."""
        transport = virtual_transport(self._lab, self._transport)
        return VirtualEngine(self._lab, transport, machine=SignalClock(NO_DESCRIPTOR))

    def probe(self, asked: Sequence[Asked], wait_ns: int) -> list[list[int | None]]:
        """The RTT of each probe, once all are answered or *wait_ns* has passed."""
        agents = [self._lab.agent(each.source.name) for each in asked]
        sent = [
            (agent.path_rtts_ns, agent.send_path_probes(each.target.index, each.evs))
            for agent, each in zip(agents, asked, strict=True)
        ]
        self._lab.run_until(
            monotonic_ns() + wait_ns,
            lambda: all(number in rtts_ns for rtts_ns, ids in sent for number in ids),
        )
        return [[rtts_ns.get(number) for number in ids] for rtts_ns, ids in sent]

    def probe_links(self, hosts: Collection[int]) -> Sequence[PathOutcome]:
        """The outcomes of link probes that hosts send until a loss of half a percent shows."""
        if self.clos.spec.forwarding != "srv6":
            return ()
        usual = self.clos.spec.probing
        probing = usual or ProbingSpec()
        with ExitStack() as stack:
            counts = stack.enter_context(LinkProbeCounts(self._lab, self.clos))
            for host in sorted(hosts):
                agent = stack.enter_context(closing(VirtualConnection(self._lab, self.clos.host(host).name)))
                agent.start_link_probes(probing.interval, probing.lag_rounds)
                if usual is None:
                    stack.callback(agent.stop_link_probes)
            before = counts.read()
            asked = [outcome for outcome in before if outcome.path.host in hosts]
            rounds = rounds_wanted(asked)
            self._lab.run_until(monotonic_ns() + probing.timeout + rounds * probing.interval)
            outcomes = since(counts.read(), before)
        return [outcome for outcome in outcomes if outcome.path.host in hosts]


@contextmanager
def virtual_site(path: Path | None, seed: int) -> Iterator[VirtualSite]:
    """A lab to check, which lasts as long as the context.

    Args:
        path: a Topology file; or a Scenario file, whose fabric, MRC and faults it has, all in force from the
            beginning; None: eight hosts with four ports of 100 Gbit/s.
    """
    spec, faults = TopologySpec.model_validate(DEFAULT_TOPOLOGY), tuple[ScheduledFault, ...]()
    payload, transport = VirtualPayload.REFERENCE, None
    if path is not None:
        given = document.load(path)
        match given.kind:
            case Kind.TOPOLOGY:
                spec = load_topology(path)
            case Kind.SCENARIO:
                plan = resolve(build_scenario(given), seed=seed)
                spec, faults, payload = plan.topology, plan.faults, payload_of(plan)
                transport = plan.transport if plan.transport.kind == "mrc" else None
            case kind:
                raise UsageError(f"{path} is a {kind} file: a Topology or a Scenario file is expected")
    clos = resolve_topology(spec)
    if transport is None:
        transport = PlannedTransport("mrc", spec.evs, choose_congestion_control(clos))
    with virtual_lab(clos, seed=seed, payload=payload) as lab, closing(VirtualFaults(lab)) as controller:
        for fault in faults:
            controller.apply(fault)
        yield VirtualSite(lab, transport)
