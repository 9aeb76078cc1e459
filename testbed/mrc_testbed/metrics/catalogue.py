"""Every metric that is exported: name, type, help, unit, labels. Pure.

A metric is named in the module of its subject, and nowhere else; it is exported because it stands there.

Labels are bounded by the size of a lab: lab, plane, tier, node, link, and enumerations of the data plane.
A QP, a PSN, an EV or an address is never a label. A direction of a link is identified by the link and the
node that sends into it.
"""

from typing import Final

from mrc_testbed.metrics import endpoint_metrics, fabric_metrics, testbed_metrics
from mrc_testbed.metrics.metric import Metric

METRICS: Final = tuple(
    value
    for subject in (endpoint_metrics, fabric_metrics, testbed_metrics)
    for value in vars(subject).values()
    if isinstance(value, Metric)
)
"""All of them, in the order of the exposition."""
