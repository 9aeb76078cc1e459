"""Metrics of link probes, of labs whose topology has `probing`. Pure."""

from typing import Final

from mrc_testbed.metrics.metric import Metric

_PATH: Final = ("lab", "plane", "node", "link")

LINK_PROBES: Final = Metric(
    "mrc_link_probes_total",
    "probes",
    (*_PATH, "outcome"),
    "Link probes of the host `node` after their time-out; `link` is the farthest link they cross. failed: "
    "not back in time; late: failed, but back later.",
)
LINK_PROBE_RTT_SECONDS: Final = Metric(
    "mrc_link_probe_rtt_seconds_total",
    "seconds",
    _PATH,
    "Sum of the round-trip times of the link probes that passed.",
)
LINK_PROBE_SUSPECT: Final = Metric(
    "mrc_link_probe_suspect",
    "",
    ("lab", "plane", "link"),
    "1 if the link probes since the last scrape, of at least a second, suspect the link; else 0.",
)
