"""Workloads: what the hosts get done."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, NODE, PACKETS, WINDOW, Section, board
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
            queries.typical_and_worst(queries.STEP, LAB),
        ),
        time_series(
            "Duration of collectives",
            "From a collective's first message to the last one's arrival and reduction at all ranks: the "
            "worst is what a job of many steps meets again and again.",
            "s",
            queries.typical_and_worst(COLLECTIVE, LAB),
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
            [(f"sum by (node) (rate(mrc_goodput_bytes_total{{{NODE}}}[{WINDOW}])) * 8", "{{node}}")],
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
            PACKETS,
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


def _mean_ratio(of: str, to: str) -> str:
    """The ratio of two gauges, over the rate window, since both are 0 whenever a QP has nothing to send."""
    return f"avg_over_time({of}{{{NODE}}}[{WINDOW}]) / (avg_over_time({to}{{{NODE}}}[{WINDOW}]) > 0)"


def _congestion_control() -> list[AnyPanel]:
    return [
        time_series(
            "Window against its limit",
            "Windows of the sending QPs by the largest that congestion control would allow them: falls when "
            "a queue builds up; with fixed windows it does not move.",
            "percentunit",
            [(_mean_ratio("mrc_cwnd_bytes", "mrc_cwnd_max_bytes"), "{{node}}")],
        ),
        time_series(
            "Share of the window in use",
            "Bytes under way by the windows that allow them: near 100 % the window is what limits, below it "
            "the application or the loss of packets; above, the window has shrunk below what was sent.",
            "percentunit",
            [(_mean_ratio("mrc_inflight_bytes", "mrc_cwnd_bytes"), "{{node}}")],
        ),
        time_series(
            "Congestion window of a QP",
            "Mean over the QPs that send. A window that falls makes room in a queue.",
            "bytes",
            [(_mean_ratio("mrc_cwnd_bytes", "mrc_sending_qps"), "{{node}}")],
        ),
        time_series(
            "Queueing delay as senders see it",
            "Average over a sender's QPs, from the RTTs that its congestion control measures.",
            "s",
            [(f"mrc_queueing_delay_seconds{{{NODE}}}", "{{node}}")],
        ),
        time_series(
            "Changes of windows by reason",
            "Steps of congestion control: decreases by marks and delay (multiplicative_decrease, "
            "quick_adapt), by trim and loss, and increases while there is room.",
            "count:changes/s",
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
