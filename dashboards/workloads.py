"""Workloads: what the hosts get done."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, NODE, WINDOW, Section, board
from dashboards.panel import COUNT, AnyPanel, time_series

COLLECTIVE = "mrc_collective_duration_seconds"


def workloads() -> Dashboard:
    return board(
        "workloads",
        "MRC / Workloads",
        "What the hosts send and get done. Goodput is payload delivered once; a synchronous job is as fast "
        "as its slowest message.",
        [
            Section("Is the job all right?", _collectives()),
            Section("Which host?", _hosts()),
            Section("What holds senders back?", _congestion_control()),
        ],
        ["node"],
    )


def _collectives() -> list[AnyPanel]:
    time_s = f"sum by (kind) (rate({COLLECTIVE}_sum{{{LAB}}}[{WINDOW}]))"
    bus = f"sum by (kind) (rate(mrc_collective_bus_bytes_total{{{LAB}}}[{WINDOW}]))"
    return [
        time_series(
            "Step time",
            "A synchronous training step: computing, then a collective. All hosts wait for the slowest "
            "message.",
            "s",
            queries.percentiles(queries.STEP, LAB),
        ),
        time_series(
            "Duration of collectives",
            "From a collective's first message to the last one's arrival and reduction at all ranks: p99.9 "
            "is what a job of many steps meets again and again.",
            "s",
            queries.percentiles(COLLECTIVE, LAB),
        ),
        time_series(
            "Bus bandwidth",
            "Data of the collectives times their bus factor, by the time they took: what the busiest link "
            "carries, comparable between kinds and numbers of ranks.",
            "bps",
            [(f"8 * {bus} / ({time_s} > 0)", "{{kind}}")],
            width=24,
            height=6,
        ),
    ]


def _hosts() -> list[AnyPanel]:
    return [
        time_series(
            "Goodput by receiver",
            "Payload placed in memory for the first time. Under a fault MRC dips for milliseconds.",
            "bps",
            [(queries.goodput_by_node(NODE), "{{node}}")],
        ),
        time_series(
            "Goodput by sender",
            "Payload acknowledged for the first time. All-to-all traffic makes senders and receivers equal;"
            " an incast shows many of these and one of those.",
            "bps",
            [(f"sum by (node) (rate(mrc_acknowledged_bytes_total{{{NODE}}}[{WINDOW}])) * 8", "{{node}}")],
        ),
        time_series(
            "Sent by kind",
            "data carries payload, retransmissions included; sack, ack, nack and probes are the price of "
            "reliability.",
            "pps",
            [(queries.rates_of_seen("kind", f"mrc_tx_packets_total{{{NODE}}}"), "{{kind}}")],
        ),
        time_series(
            "Retransmitted share by host",
            "Of the data packets a host sends: the host whose links lose them stands out.",
            "percentunit",
            [
                (
                    f"sum by (node) (rate(mrc_retransmits_total{{{NODE}}}[{WINDOW}]))"
                    f' / (sum by (node) (rate(mrc_tx_packets_total{{{NODE},kind="data"}}[{WINDOW}])) > 0)',
                    "{{node}}",
                )
            ],
        ),
    ]


def _congestion_control() -> list[AnyPanel]:
    return [
        time_series(
            "Window against its limit",
            "Windows of the sending QPs by the largest that congestion control would allow them: falls when "
            "a queue builds up; with fixed windows it does not move.",
            "percentunit",
            [(f"mrc_cwnd_bytes{{{NODE}}} / (mrc_cwnd_max_bytes{{{NODE}}} > 0)", "{{node}}")],
        ),
        time_series(
            "Share of the window in use",
            "Bytes under way by the windows that allow them: near 1 the window is what limits, below it the"
            " application or the loss of packets.",
            "percentunit",
            [(f"mrc_inflight_bytes{{{NODE}}} / (mrc_cwnd_bytes{{{NODE}}} > 0)", "{{node}}")],
        ),
        time_series(
            "Congestion window of a QP",
            "Mean over the QPs that send. A window that falls makes room in a queue.",
            "bytes",
            [(f"mrc_cwnd_bytes{{{NODE}}} / (mrc_sending_qps{{{NODE}}} > 0)", "{{node}}")],
        ),
        time_series(
            "Queueing delay as senders see it",
            "Average over a sender's QPs, from the RTTs that its congestion control measures.",
            "s",
            [(f"mrc_queueing_delay_seconds{{{NODE}}}", "{{node}}")],
        ),
        time_series(
            "Changes of windows by reason",
            "What congestion control reacted to: marks, delay, losses.",
            "ops",
            [(queries.rates_of_seen("reason", f"mrc_cwnd_changes_total{{{NODE}}}"), "{{reason}}")],
        ),
        time_series(
            "Reordering at receivers",
            "Packets that have arrived above the first missing one, of the QP with most of them, seen once "
            "per scrape. Spraying reorders always; much of it is a slow path, or a loss.",
            COUNT,
            [(f"mrc_reorder_depth_packets{{{NODE}}}", "{{node}}")],
        ),
    ]
