"""A lab that is up, as a health check measures it."""

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from threading import Event
from typing import Final

from mrc_agents.nic.client import AgentClient
from mrc_testbed.check.measuring import Asked
from mrc_testbed.fabric.link_probes import LinkProbeCounts, link_probes_running
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.probe_path import PathOutcome, quick_interval_ns, rounds_wanted
from mrc_testbed.workloads.connectors import open_mrc
from mrc_testbed.workloads.engine import Engine, WorkloadEngine

GREETING_NS: Final = 3_000_000_000
"""Time in which an agent answers: it may wait for a CPU, and one that stands still makes all others wait."""

_THREADS: Final = 16


class LiveSite:
    """A lab that is up.

    Attributes:
        clos: its topology.
        rtt_noise_ns: what a busy machine adds to the fastest of a few probes, which kernels alone answer.
        barrier_noise_ns: what it adds to a median of messages that agents post.
    """

    rtt_noise_ns = 300_000
    barrier_noise_ns = 10_000_000

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.clos = lab.clos

    def require_agent(self, host: str) -> None:
        """Raise AgentError unless the NIC agent of a host answers."""
        with AgentClient(self._lab.paths.agent_socket(host), GREETING_NS) as agent:
            agent.hello()

    def engine(self) -> Engine:
        """A new engine over MRC."""
        return WorkloadEngine(open_mrc(self._lab))

    def probe(self, asked: Sequence[Asked], wait_ns: int) -> list[list[int | None]]:
        """The RTT of each probe: agents wait for the responses, each for its own."""
        agents = [self._lab.agent(each.source.name) for each in asked]
        with ThreadPoolExecutor(min(_THREADS, len(asked)) or 1) as threads:
            outcomes = threads.map(
                lambda agent, each: agent.probe_evs(each.target.index, list(each.evs), wait_ns), agents, asked
            )
            return [[outcome["rtt_ns"] for outcome in listed] for listed in outcomes]

    def probe_links(self, hosts: Collection[int]) -> Sequence[PathOutcome]:
        """The outcomes of link probes that hosts send until a loss of half a percent shows."""
        if self.clos.spec.forwarding != "srv6":
            return ()
        names = {self.clos.host(host).name for host in hosts}
        with ExitStack() as stack:
            counts = stack.enter_context(LinkProbeCounts(self._lab.paths, self.clos))
            interval_ns = quick_interval_ns(self.clos)
            probing = stack.enter_context(link_probes_running(self._lab, interval_ns, names))
            before = counts.read()
            asked = [outcome for outcome in before if outcome.path.host in hosts]
            ended = Event()
            ended.wait((probing.timeout + rounds_wanted(asked) * probing.interval) / 1e9)
            outcomes = counts.judged(before, probing, ended)
        return [outcome for outcome in outcomes if outcome.path.host in hosts]
