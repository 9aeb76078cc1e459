"""The link probes of a live lab: starting them where the topology has none, and reading their counts."""

from collections.abc import Container, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from threading import Event

from mrc_agents.abi import LinkProbePath
from mrc_agents.bpf.libbpf import open_map_in
from mrc_agents.bpf.maps import MappedArray
from mrc_agents.closing import Holder
from mrc_agents.nic.client import AgentClient
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.paths import MapPins
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import PathOutcome, ProbePath, probe_paths, since
from mrc_testbed.topology.probing_spec import LAG_ROUNDS_MAX, ProbingSpec


class LinkProbeCounts(Holder):
    """Reads what became of the link probes of all hosts; to be entered as a context, or closed."""

    def __init__(self, paths: MapPins, clos: Clos) -> None:
        self._tables: list[tuple[tuple[ProbePath, ...], MappedArray[LinkProbePath]]] = []
        with ExitStack() as opened:
            for host in clos.hosts():
                descriptor = open_map_in(opened, paths.node_pins(host.name), "link_probe_paths")
                table = MappedArray(descriptor, LinkProbePath)
                self._tables.append((probe_paths(clos, host.index), table))
            self._opened = opened.pop_all()

    def read(self) -> tuple[PathOutcome, ...]:
        """The counts since the lab was made, host by host in the order of `probe_paths`."""
        return tuple(
            PathOutcome(path, entry.passed, entry.failed, entry.late, entry.rtt_sum_ns)
            for paths, table in self._tables
            for path, entry in zip(paths, table, strict=False)  # a map has one entry at least
        )

    def judged(
        self, before: tuple[PathOutcome, ...], probing: ProbingSpec, ended: Event
    ) -> tuple[PathOutcome, ...]:
        """The outcomes between *before* and now.

        A machine that stands still brings probes back late: those that another time-out brings are not lost.
        """
        outcomes = since(self.read(), before)
        ended.wait(probing.timeout / 1e9)
        settled = since(self.read(), before)
        return tuple(replace(old, late=new.late) for old, new in zip(outcomes, settled, strict=True))


@contextmanager
def link_probes_running(
    lab: Lab, interval_ns: int | None = None, hosts: Container[str] | None = None
) -> Iterator[ProbingSpec]:
    """While the context lasts, hosts send link probes; afterwards as the topology has it.

    Args:
        interval_ns: from one round to the next; None: as the topology has it, or the default.
        hosts: names; None: all.

    Yields:
        How they probe.
    """
    if lab.spec.forwarding != "srv6":
        raise UsageError(
            f"lab {lab.name!r} forwards by {lab.spec.forwarding}: link probes are source routes",
            hint="use a topology with forwarding: srv6",
        )
    usual = lab.spec.probing
    probing = usual or ProbingSpec()
    if interval_ns is not None:
        timeout_ns = min(max(probing.timeout, interval_ns), LAG_ROUNDS_MAX * interval_ns)
        probing = probing.model_copy(update={"interval": interval_ns, "timeout": timeout_ns})
    if probing == usual:
        yield probing
        return
    with ExitStack() as opened:
        agents = []
        for host in lab.clos.hosts():
            if hosts is not None and host.name not in hosts:
                continue
            agent = opened.enter_context(AgentClient(lab.paths.agent_socket(host.name)))
            opened.callback(_as_usual, agent, usual)
            agents.append(agent)
        for agent in agents:
            agent.start_link_probes(probing.interval, probing.lag_rounds)
        yield probing


def _as_usual(agent: AgentClient, usual: ProbingSpec | None) -> None:
    if usual is None:
        agent.stop_link_probes()
    else:
        agent.start_link_probes(usual.interval, usual.lag_rounds)
