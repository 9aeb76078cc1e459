"""Every metric that is exported: name, type, help, unit, labels. The only place that names a metric. Pure.

Labels are bounded by the size of a lab: lab, plane, tier, node, link, and enumerations of the data plane.
A QP, a PSN, an EV or an address is never a label. A direction of a link is told by the link and the node
that sends into it.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from testbed.metrics.buckets import MESSAGE_COMPLETION, PACKET_RTT, ClassicBuckets


class MetricType(StrEnum):
    """Type of a metric in the Prometheus text format."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric family.

    Attributes:
        name: as it stands in the exposition, with `_total` for a counter.
        type: its type.
        unit: what one of it is, for people; empty for a yes or no.
        labels: names of its labels.
        help: what it counts or tells.
        buckets: bounds of a histogram.
    """

    name: str
    type: MetricType
    unit: str
    labels: tuple[str, ...]
    help: str
    buckets: ClassicBuckets | None = None


_COUNTER: Final = MetricType.COUNTER
_GAUGE: Final = MetricType.GAUGE
_NODE: Final = ("lab", "node")
_PORT: Final = ("lab", "plane", "tier", "node", "link")

MESSAGE_COMPLETION_SECONDS: Final = Metric(
    "mrc_message_completion_seconds",
    MetricType.HISTOGRAM,
    "seconds",
    _NODE,
    "Time from the first packet of a message to the acknowledgement of its last, at the requestor.",
    MESSAGE_COMPLETION,
)
PACKET_RTT_SECONDS: Final = Metric(
    "mrc_packet_rtt_seconds",
    MetricType.HISTOGRAM,
    "seconds",
    ("lab", "plane"),
    "Time from the sending of a data packet to its acknowledgement, by the plane it took, over all hosts.",
    PACKET_RTT,
)
GOODPUT_BYTES: Final = Metric(
    "mrc_goodput_bytes_total",
    _COUNTER,
    "bytes",
    _NODE,
    "Payload placed for the first time in the memory of the node.",
)
ACKNOWLEDGED_BYTES: Final = Metric(
    "mrc_acknowledged_bytes_total",
    _COUNTER,
    "bytes",
    _NODE,
    "Payload that the node sent, acknowledged for the first time: goodput as the sender sees it.",
)
MESSAGES_COMPLETED: Final = Metric(
    "mrc_messages_completed_total",
    _COUNTER,
    "messages",
    _NODE,
    "Messages that the node sent and that were acknowledged whole.",
)
TX_PACKETS: Final = Metric(
    "mrc_tx_packets_total",
    _COUNTER,
    "packets",
    (*_NODE, "kind"),
    "Packets that the NIC sent, by kind.",
)
RX_PACKETS: Final = Metric(
    "mrc_rx_packets_total",
    _COUNTER,
    "packets",
    (*_NODE, "kind"),
    "Packets that the NIC received and accepted, by kind.",
)
RETRANSMITS: Final = Metric(
    "mrc_retransmits_total",
    _COUNTER,
    "packets",
    (*_NODE, "reason"),
    "Data packets sent again, by what gave them up for lost.",
)
QP_ERRORS: Final = Metric(
    "mrc_qp_errors_total", _COUNTER, "QPs", _NODE, "QPs that went into the ERROR state."
)
EVENTS_LOST: Final = Metric(
    "mrc_events_lost_total", _COUNTER, "events", _NODE, "Events that found the NIC's event ring full."
)
NIC_DROPS: Final = Metric(
    "mrc_nic_drops_total",
    _COUNTER,
    "packets",
    (*_NODE, "reason"),
    "Packets that the NIC received and refused, by reason.",
)
EV_STATE: Final = Metric(
    "mrc_ev_state",
    _GAUGE,
    "EVs",
    (*_NODE, "plane", "state"),
    "EVs of the node's connected QPs in each state.",
)
EV_TRANSITIONS: Final = Metric(
    "mrc_ev_transitions_total",
    _COUNTER,
    "transitions",
    ("lab", "plane", "from", "to", "reason"),
    "Changes of an EV's state, over all hosts.",
)
PORT_TX_PACKETS: Final = Metric(
    "mrc_port_tx_packets_total", _COUNTER, "packets", _PORT, "Frames that the node sent over the link."
)
PORT_TX_BYTES: Final = Metric(
    "mrc_port_tx_bytes_total",
    _COUNTER,
    "bytes",
    _PORT,
    "Bytes of the frames that the node sent over the link, headers included.",
)
LINK_DROPS: Final = Metric(
    "mrc_link_drops_total",
    _COUNTER,
    "packets",
    (*_PORT, "reason"),
    "Frames lost on their way from the node into the link, by reason.",
)
QUEUE_BYTES: Final = Metric(
    "mrc_switch_queue_bytes",
    _GAUGE,
    "bytes",
    (*_PORT, "class"),
    "What waits in the node for its transmission over the link; shaped labs only.",
)
SWITCH_DROPS: Final = Metric(
    "mrc_switch_drops_total",
    _COUNTER,
    "packets",
    ("lab", "plane", "tier", "node", "reason"),
    "Frames that the switch received and could not forward, by reason.",
)
PASSED_TO_STACK: Final = Metric(
    "mrc_passed_to_stack_packets_total",
    _COUNTER,
    "packets",
    ("lab", "tier", "node"),
    "Frames that are not MRC and went to the node's own network stack.",
)
LINK_UP: Final = Metric(
    "mrc_link_up", _GAUGE, "", _PORT, "1 when the node can send over the link, 0 when it is down."
)
LINK_FLAPS: Final = Metric(
    "mrc_link_flaps_total",
    _COUNTER,
    "outages",
    ("lab", "plane", "link"),
    "Times that a fault took the link down, one way or both.",
)
FAULT_ACTIVE: Final = Metric(
    "mrc_fault_active",
    _GAUGE,
    "",
    ("lab", "fault_id", "kind"),
    "1 from the injection of a fault until it is cleared, between the outages of a flap too.",
)
FAULTS_INJECTED: Final = Metric(
    "mrc_faults_injected_total",
    _COUNTER,
    "faults",
    ("lab", "kind"),
    "Times that a fault began to act; each outage of a flap counts.",
)
LAB_UP: Final = Metric("mrc_testbed_lab_up", _GAUGE, "", ("lab",), "1 when the lab is up and readable.")
RUN_INFO: Final = Metric(
    "mrc_testbed_run_info",
    _GAUGE,
    "",
    ("lab", "scenario", "run", "seed"),
    "1 while a run uses the lab; the labels name it.",
)
BUILD_INFO: Final = Metric(
    "mrc_testbed_build_info", _GAUGE, "", ("version", "python", "kernel"), "1; the labels tell versions."
)
HOST_SATURATED: Final = Metric(
    "mrc_testbed_host_saturated",
    _GAUGE,
    "",
    (),
    "1 when a CPU had next to no idle time lately: what a shaped lab shows is not to be trusted then.",
)
CPU_BUSY_RATIO: Final = Metric(
    "mrc_testbed_cpu_busy_ratio", _GAUGE, "ratio", ("cpu",), "Share of recent time the CPU was not idle."
)
CPU_SOFTIRQ_RATIO: Final = Metric(
    "mrc_testbed_cpu_softirq_ratio", _GAUGE, "ratio", ("cpu",), "Share of recent time spent in softirqs."
)
COLLECT_SECONDS: Final = Metric(
    "mrc_testbed_collect_seconds_total",
    _COUNTER,
    "seconds",
    (),
    "CPU time that the exporter spent on scrapes before this one.",
)

METRICS: Final = (
    MESSAGE_COMPLETION_SECONDS,
    PACKET_RTT_SECONDS,
    GOODPUT_BYTES,
    ACKNOWLEDGED_BYTES,
    MESSAGES_COMPLETED,
    TX_PACKETS,
    RX_PACKETS,
    RETRANSMITS,
    QP_ERRORS,
    EVENTS_LOST,
    NIC_DROPS,
    EV_STATE,
    EV_TRANSITIONS,
    PORT_TX_PACKETS,
    PORT_TX_BYTES,
    LINK_DROPS,
    QUEUE_BYTES,
    SWITCH_DROPS,
    PASSED_TO_STACK,
    LINK_UP,
    LINK_FLAPS,
    FAULT_ACTIVE,
    FAULTS_INJECTED,
    LAB_UP,
    RUN_INFO,
    BUILD_INFO,
    HOST_SATURATED,
    CPU_BUSY_RATIO,
    CPU_SOFTIRQ_RATIO,
    COLLECT_SECONDS,
)
"""All of them, in the order of the exposition."""
