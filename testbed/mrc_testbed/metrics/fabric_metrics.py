"""Metrics of links, switches and queues, of the faults in them, and of link probes. Pure."""

from typing import Final

from mrc_agents.abi import PortCounter
from mrc_testbed.metrics import counters
from mrc_testbed.metrics.metric import QUEUE_DELAY, Metric

_PORT: Final = ("lab", "plane", "tier", "node", "link")
_PROBED: Final = ("lab", "plane", "node", "link")

PORT_TX_PACKETS: Final = Metric(
    "mrc_port_tx_packets_total",
    "packets",
    _PORT,
    "Frames that the node sent over the link.",
    counters={PortCounter.TX_PACKETS: None},
)
PORT_TX_BYTES: Final = Metric(
    "mrc_port_tx_bytes_total",
    "bytes",
    _PORT,
    "Bytes of the frames that the node sent over the link, including headers.",
    counters={PortCounter.TX_BYTES: None},
)
LINK_DROPS: Final = Metric(
    "mrc_link_drops_total",
    "packets",
    (*_PORT, "reason"),
    "Frames dropped on their way from the node into the link, by reason.",
    counters=counters.by_reason(counters.LINK_DROPS),
)
QUEUE_BYTES: Final = Metric(
    "mrc_switch_queue_bytes",
    "bytes",
    (*_PORT, "class"),
    "Bytes that wait in the node for transmission over the link; shaped labs only.",
)
QUEUE_DELAY_SECONDS: Final = Metric(
    "mrc_switch_queue_delay_seconds",
    "seconds",
    ("lab", "plane", "tier", "class"),
    "Time that frames waited for transmission, over all ports of a tier; shaped labs only.",
    QUEUE_DELAY,
)
QUEUE_WAIT_SECONDS: Final = Metric(
    "mrc_switch_queue_wait_seconds_total",
    "seconds",
    (*_PORT, "class"),
    "Sum of the times that frames waited in the node for transmission over the link; shaped labs only.",
)
ECN_MARKS: Final = Metric(
    "mrc_ecn_marks_total",
    "packets",
    _PORT,
    "Data packets that the node marked CE when it queued them for the link.",
    counters={PortCounter.ECN_MARKS: None},
)
TRIMS: Final = Metric(
    "mrc_trims_total",
    "packets",
    _PORT,
    "Data packets that the node cut to their headers when it queued them for the link.",
    counters={PortCounter.TRIMS: None},
)
PAUSE_FRAMES: Final = Metric(
    "mrc_pause_frames_total",
    "frames",
    (*_PORT, "kind"),
    "PFC frames, pause or resume, that the node sent to the other end of the link; labs with PFC only.",
)
PAUSED_SECONDS: Final = Metric(
    "mrc_paused_seconds_total",
    "seconds",
    _PORT,
    "Time that the other end of the link forbade the node to send data over it; labs with PFC only.",
)
CREDIT_STALLS: Final = Metric(
    "mrc_credit_stalls_total",
    "stalls",
    _PORT,
    "Times that data had to wait in the node for credit of the link; labs with credits only.",
)
CREDIT_STALLED_SECONDS: Final = Metric(
    "mrc_credit_stalled_seconds_total",
    "seconds",
    _PORT,
    "Time that data waited in the node for credit of the link; labs with credits only.",
)
INGRESS_BUFFER_BYTES: Final = Metric(
    "mrc_ingress_buffer_bytes",
    "bytes",
    _PORT,
    "Data from the link in the buffer of the node; labs with flow control only.",
)
DEADLOCK: Final = Metric(
    "mrc_deadlock",
    "ports",
    ("lab",),
    "Deadlocked ports: flow control holds each because it waits for another; labs with flow control only.",
)
SWITCH_DROPS: Final = Metric(
    "mrc_switch_drops_total",
    "packets",
    ("lab", "plane", "tier", "node", "reason"),
    "Frames that the switch received and could not forward, by reason.",
    counters=counters.by_reason(counters.SWITCH_DROPS),
)
PASSED_TO_STACK: Final = Metric(
    "mrc_passed_to_stack_packets_total",
    "packets",
    ("lab", "tier", "node"),
    "Frames other than MRC that went to the node's own network stack.",
    counters={PortCounter.PASSED_TO_STACK: None},
)
LINK_UP: Final = Metric(
    "mrc_link_up", "", _PORT, "1 when the node can send over the link, 0 when it is down."
)
LINK_EVS: Final = Metric(
    "mrc_link_evs",
    "EVs",
    ("lab", "plane", "node", "link", "state"),
    "EVs of connected QPs whose path crosses the link from a switch up to the T1 or T2 `node`, by state; "
    "none if switches hash.",
)
LINK_SUSPICIONS: Final = Metric(
    "mrc_link_suspicions_total",
    "times",
    ("lab", "plane", "node", "link"),
    "Times that a NIC began to avoid a path that lost a packet or a probe, at each link that the path "
    "crosses up to the T1 or T2 `node`; none if EVs do not name paths.",
)
LINK_FLAPS: Final = Metric(
    "mrc_link_flaps_total",
    "outages",
    ("lab", "plane", "link"),
    "Times that a fault took the link down, in one direction or both.",
)
FAULT_ACTIVE: Final = Metric(
    "mrc_fault_active",
    "",
    ("lab", "fault_id", "kind", "place"),
    "1 from the injection of a fault until its end, also between the outages of a flap; `place` is its node "
    "or link, of several the first and how many more.",
)
FAULTS_INJECTED: Final = Metric(
    "mrc_faults_injected_total",
    "faults",
    ("lab", "kind"),
    "Starts of a fault; each outage of a flap counts.",
)
RECOVERY_SECONDS: Final = Metric(
    "mrc_recovery_seconds",
    "seconds",
    ("lab", "fault_id", "phase"),
    "Longest time to detect, time to last drop and recovery time of a fault of the last finished run.",
)
LINK_PROBES: Final = Metric(
    "mrc_link_probes_total",
    "probes",
    (*_PROBED, "outcome"),
    "Link probes of the host `node` after their time-out; `link` is the farthest link they cross. failed: "
    "not back in time; late: failed, but back later.",
)
LINK_PROBE_RTT_SECONDS: Final = Metric(
    "mrc_link_probe_rtt_seconds_total",
    "seconds",
    _PROBED,
    "Sum of the round-trip times of the link probes that passed.",
)
LINK_PROBE_SUSPECT: Final = Metric(
    "mrc_link_probe_suspect",
    "",
    ("lab", "plane", "link"),
    "1 if the link probes since the last scrape, of at least a second, suspect the link; else 0.",
)
