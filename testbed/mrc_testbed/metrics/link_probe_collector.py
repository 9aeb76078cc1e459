"""Turns the link probes of one lab into samples."""

from collections.abc import Callable
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.fabric.link_probes import LinkProbeCounts
from mrc_testbed.metrics import probe_metrics
from mrc_testbed.metrics.exposition import Value
from mrc_testbed.metrics.metric import Metric
from mrc_testbed.probing.watch import LinkWatch
from mrc_testbed.topology.clos import Clos

Add = Callable[[Metric, tuple[str, ...], Value], None]

_NS_PER_SECOND: Final = 1e9


class LinkProbeCollector:
    """Collects from a lab whose hosts probe.

    Args:
        lab: its name.
        clos: its fabric.
        counts: its probes; closed with the collector.
    """

    def __init__(self, lab: str, clos: Clos, counts: LinkProbeCounts) -> None:
        self._lab = lab
        self._clos = clos
        self._counts = counts
        self._watch = LinkWatch(clos)
        self._labels = [
            (lab, str(path.plane), clos.host(path.host).name, clos.link(path.links[-1]).name)
            for path in (outcome.path for outcome in counts.read())
        ]

    def close(self) -> None:
        self._counts.close()

    def collect(self, add: Add) -> None:
        outcomes = self._counts.read()
        for labels, outcome in zip(self._labels, outcomes, strict=True):
            for name, count in (
                ("passed", outcome.passed),
                ("failed", outcome.failed),
                ("late", outcome.late),
            ):
                add(probe_metrics.LINK_PROBES, (*labels, name), count)
            add(probe_metrics.LINK_PROBE_RTT_SECONDS, labels, outcome.rtt_sum_ns / _NS_PER_SECOND)
        diagnosis = self._watch.add(monotonic_ns(), outcomes)
        for link_id in sorted(diagnosis.health):
            link = self._clos.link(link_id)
            is_suspect = int(link_id in diagnosis.suspects)
            add(probe_metrics.LINK_PROBE_SUSPECT, (self._lab, str(link.plane), link.name), is_suspect)
