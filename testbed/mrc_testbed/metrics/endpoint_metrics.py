"""Metrics of hosts: messages, packets, EVs, congestion windows, collectives. Pure."""

from typing import Final

from mrc_agents.abi import NicCounter
from mrc_testbed.metrics import counters
from mrc_testbed.metrics.metric import COLLECTIVE, MESSAGE_COMPLETION, PACKET_RTT, SENDER_COMPLETION, Metric

_NODE: Final = ("lab", "node")

MESSAGE_COMPLETION_SECONDS: Final = Metric(
    "mrc_message_completion_seconds",
    "seconds",
    ("lab",),
    "Time from the first packet of a message to the acknowledgement of its last, over all requesters.",
    MESSAGE_COMPLETION,
)
SENDER_COMPLETION_SECONDS: Final = Metric(
    "mrc_sender_completion_seconds",
    "seconds",
    _NODE,
    "The times of mrc_message_completion_seconds by requester, in wider buckets: which host is slow.",
    SENDER_COMPLETION,
)
PACKET_RTT_SECONDS: Final = Metric(
    "mrc_packet_rtt_seconds",
    "seconds",
    ("lab", "plane"),
    "Time from the sending of a data packet to its acknowledgement, by the plane it took, over all hosts.",
    PACKET_RTT,
)
COLLECTIVE_DURATION_SECONDS: Final = Metric(
    "mrc_collective_duration_seconds",
    "seconds",
    ("lab", "kind"),
    "Time of a collective, from its first message to the arrival and reduction of its last at all ranks.",
    COLLECTIVE,
)
COLLECTIVE_BUS_BYTES: Final = Metric(
    "mrc_collective_bus_bytes_total",
    "bytes",
    ("lab", "kind"),
    "Data of collectives times their bus factor; divided by their time, the bus bandwidth.",
)
TRAINING_STEP_SECONDS: Final = Metric(
    "mrc_training_step_seconds",
    "seconds",
    ("lab", "kind", "workload"),
    "Time of a synchronous training step of the job `workload`: computation and collective.",
    COLLECTIVE,
)
GOODPUT_BYTES: Final = Metric(
    "mrc_goodput_bytes_total",
    "bytes",
    _NODE,
    "Payload placed for the first time in the memory of the node.",
    counters={NicCounter.RX_PLACED_BYTES: None},
)
ACKNOWLEDGED_BYTES: Final = Metric(
    "mrc_acknowledged_bytes_total",
    "bytes",
    _NODE,
    "Payload that the node sent, acknowledged for the first time: goodput as the sender sees it.",
    counters={NicCounter.ACKED_BYTES: None},
)
MESSAGES_COMPLETED: Final = Metric(
    "mrc_messages_completed_total",
    "messages",
    _NODE,
    "Messages of the node that were completely acknowledged.",
    counters={NicCounter.MESSAGES: None},
)
TX_PACKETS: Final = Metric(
    "mrc_tx_packets_total",
    "packets",
    (*_NODE, "kind"),
    "Packets that the NIC sent, by kind.",
    counters=counters.TX_KINDS,
)
RX_PACKETS: Final = Metric(
    "mrc_rx_packets_total",
    "packets",
    (*_NODE, "kind"),
    "Packets that the NIC received and accepted, by kind.",
    counters=counters.RX_KINDS,
)
RETRANSMITS: Final = Metric(
    "mrc_retransmits_total",
    "packets",
    (*_NODE, "reason"),
    "Retransmitted data packets by loss-detection method.",
    counters=counters.RETRANSMIT_REASONS,
)
QP_ERRORS: Final = Metric(
    "mrc_qp_errors_total",
    "QPs",
    _NODE,
    "QPs that went into the ERROR state.",
    counters={NicCounter.QP_ERRORS: None},
)
EVENTS_LOST: Final = Metric(
    "mrc_events_lost_total",
    "events",
    _NODE,
    "Events that found the NIC's event ring full.",
    counters={NicCounter.EVENT_LOST: None},
)
NIC_DROPS: Final = Metric(
    "mrc_nic_drops_total",
    "packets",
    (*_NODE, "reason"),
    "Packets that the NIC received and refused, by reason.",
    counters=counters.by_reason(counters.NIC_DROPS),
)
EV_STATE: Final = Metric(
    "mrc_ev_state",
    "EVs",
    (*_NODE, "plane", "state"),
    "EVs of the node's connected QPs in each state.",
)
EV_TRANSITIONS: Final = Metric(
    "mrc_ev_transitions_total",
    "transitions",
    ("lab", "plane", "from", "to", "reason"),
    "Changes of an EV's state, over all hosts.",
)
QP_INFO: Final = Metric(
    "mrc_qp_info",
    "",
    (*_NODE, "ev_profile", "cc_profile"),
    "1 where the node has connected QPs created with these profiles, by number; empty: without one.",
)
SENDING_QPS: Final = Metric(
    "mrc_sending_qps", "QPs", _NODE, "QPs of the node with packets that wait for acknowledgement."
)
CWND_BYTES: Final = Metric(
    "mrc_cwnd_bytes",
    "bytes",
    _NODE,
    "Sum of the congestion windows of the node's sending QPs; divide by mrc_sending_qps for the mean.",
)
CWND_MAX_BYTES: Final = Metric(
    "mrc_cwnd_max_bytes",
    "bytes",
    _NODE,
    "Sum of the largest windows that congestion control allows the node's sending QPs.",
)
INFLIGHT_BYTES: Final = Metric(
    "mrc_inflight_bytes",
    "bytes",
    _NODE,
    "Bytes that congestion control counts as in flight, summed over the node's sending QPs.",
)
QUEUEING_DELAY_SECONDS: Final = Metric(
    "mrc_queueing_delay_seconds",
    "seconds",
    _NODE,
    "Average queueing delay in congestion control, mean over the node's sending QPs; 0 without any.",
)
CWND_CHANGES: Final = Metric(
    "mrc_cwnd_changes_total",
    "changes",
    (*_NODE, "reason"),
    "Changes of a congestion window, by cause.",
    counters=counters.CWND_REASONS,
)
CONGESTION_DRIFTS: Final = Metric(
    "mrc_congestion_drifts_total",
    "times",
    _NODE,
    "Times that bytes counted as in flight while no packet was: a bug of the testbed if not 0.",
    counters={NicCounter.CC_DRIFT: None},
)
REORDER_DEPTH: Final = Metric(
    "mrc_reorder_depth_packets",
    "packets",
    _NODE,
    "Packets that arrived beyond the first missing one, maximum over the node's QPs.",
)
