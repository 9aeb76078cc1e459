"""Metrics of link probes, of labs whose topology has `probing`. Pure."""

from typing import Final

from testbed.metrics.metric import Metric, MetricType

_PATH: Final = ("lab", "plane", "node", "link")

LINK_PROBES: Final = Metric(
    "mrc_link_probes_total",
    MetricType.COUNTER,
    "probes",
    (*_PATH, "outcome"),
    "Link probes of the host `node` whose time was up; `link` is the farthest link they cross. Failed are "
    "those not back in time, late those of them that came back after all.",
)
LINK_PROBE_RTT_SECONDS: Final = Metric(
    "mrc_link_probe_rtt_seconds_total",
    MetricType.COUNTER,
    "seconds",
    _PATH,
    "Round-trip times, added up, of the link probes that passed.",
)
LINK_PROBE_SUSPECT: Final = Metric(
    "mrc_link_probe_suspect",
    MetricType.GAUGE,
    "",
    ("lab", "plane", "link"),
    "1 while the link probes since the last scrape, and of a second at least, suspect the link; else 0.",
)
