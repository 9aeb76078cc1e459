"""The lab that a health check measures, live or in virtual time."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Node
from mrc_testbed.topology.probe_path import PathOutcome
from mrc_testbed.workloads.engine import Engine


@dataclass(frozen=True, slots=True)
class Asked:
    """Paths from one host to another, each to be probed once."""

    # source, target: hosts
    source: Node
    target: Node
    evs: Sequence[int]  # one for each probe


class Site(Protocol):
    """A lab."""

    clos: Clos  # its topology
    rtt_noise_ns: int  # time by which its machine may make an RTT longer
    barrier_noise_ns: int  # the same of what processes take part in

    def require_agent(self, host: str) -> None:
        """Raise AgentError unless the NIC agent of a host answers."""

    def engine(self) -> Engine:
        """A new engine over MRC."""

    def probe(self, asked: Sequence[Asked], wait_ns: int) -> list[list[int | None]]:
        """The RTT of each probe; None: it was not answered within *wait_ns*. No source is asked twice."""

    def probe_links(self, hosts: Collection[int]) -> Sequence[PathOutcome]:
        """The outcomes of link probes that hosts, by number, send until a loss of half a percent shows.

        Empty without source routes.
        """
