"""Workloads: what the hosts get done."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, NODE, WINDOW, Section, board
from dashboards.panel import AnyPanel, listing, number, time_series

COLLECTIVE = "mrc_collective_duration_seconds"


def workloads() -> Dashboard:
    return board(
        "workloads",
        "MRC / Workloads",
        "What the hosts send and get done. Goodput is payload delivered once; a synchronous job is as fast "
        "as its slowest message.",
        [
            Section("Work", _work()),
            Section("Collectives", _collectives()),
            Section("Congestion control", _congestion_control()),
            Section("Packets", _packets()),
        ],
        ["node"],
    )


def _work() -> list[AnyPanel]:
    return [
        number("Goodput", "Over all hosts.", "bps", [(queries.GOODPUT_BPS, "goodput")], width=6),
        number(
            "Messages",
            "Messages completed per second, over all hosts.",
            "ops",
            [(f"sum(rate(mrc_messages_completed_total{{{LAB}}}[{WINDOW}]))", "messages")],
            width=6,
        ),
        listing(
            "Run",
            "The scenario that uses the lab now.",
            f"mrc_testbed_run_info{{{LAB}}}",
            {"scenario": "Scenario", "run": "Run", "seed": "Seed"},
            value=("Running", "short"),
            height=4,
        ),
        time_series(
            "Goodput by receiver",
            "Payload placed in memory for the first time.",
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
            "Message completion time",
            "From the first packet of a message to the acknowledgement of its last, chosen senders.",
            "s",
            queries.percentiles("mrc_message_completion_seconds", NODE),
            logarithmic=True,
        ),
        time_series(
            "Messages completed",
            "Per second and sender.",
            "ops",
            [(f"sum by (node) (rate(mrc_messages_completed_total{{{NODE}}}[{WINDOW}]))", "{{node}}")],
        ),
    ]


def _collectives() -> list[AnyPanel]:
    time_s = f"sum by (kind) (rate({COLLECTIVE}_sum{{{LAB}}}[{WINDOW}]))"
    bus = f"sum by (kind) (rate(mrc_collective_bus_bytes_total{{{LAB}}}[{WINDOW}]))"
    return [
        time_series(
            "Duration of collectives",
            "From a collective's first message to the last one's arrival and reduction at all ranks: p99.9 "
            "is what a job of many steps meets again and again.",
            "s",
            queries.percentiles(COLLECTIVE, LAB),
            logarithmic=True,
        ),
        time_series(
            "Bus bandwidth",
            "Data of the collectives times their bus factor, by the time they took: what the busiest link "
            "carries, comparable between kinds and numbers of ranks.",
            "bps",
            [(f"8 * {bus} / ({time_s} > 0)", "{{kind}}")],
        ),
        time_series(
            "Step time",
            "A synchronous training step: computing, then a collective. All hosts wait for the slowest "
            "message.",
            "s",
            queries.percentiles("mrc_training_step_seconds", LAB),
        ),
        time_series(
            "Collectives completed",
            "Per second and kind.",
            "ops",
            [(f"sum by (kind) (rate({COLLECTIVE}_count{{{LAB}}}[{WINDOW}]))", "{{kind}}")],
        ),
    ]


def _congestion_control() -> list[AnyPanel]:
    return [
        time_series(
            "Congestion window of a QP",
            "Mean over the QPs that send. A window that falls makes room in a queue; with fixed windows it "
            "does not move.",
            "bytes",
            [(f"mrc_cwnd_bytes{{{NODE}}} / (mrc_sending_qps{{{NODE}}} > 0)", "{{node}}")],
        ),
        time_series(
            "Share of the window in use",
            "Bytes under way by the windows that allow them: near 1 the window is what limits, below it the"
            " application or the loss of packets.",
            "percentunit",
            [(f"mrc_inflight_bytes{{{NODE}}} / (mrc_cwnd_bytes{{{NODE}}} > 0)", "{{node}}")],
        ),
        time_series(
            "Window against its limit",
            "Windows of the sending QPs by the largest that congestion control would allow them.",
            "percentunit",
            [(f"mrc_cwnd_bytes{{{NODE}}} / (mrc_cwnd_max_bytes{{{NODE}}} > 0)", "{{node}}")],
        ),
        time_series(
            "Queueing delay as senders see it",
            "Average over a sender's QPs, from the RTTs that its congestion control measures.",
            "s",
            [(f"mrc_queueing_delay_seconds{{{NODE}}}", "{{node}}")],
        ),
        time_series(
            "Changes of windows by reason",
            "What congestion control reacted to.",
            "ops",
            [(f"sum by (reason) (rate(mrc_cwnd_changes_total{{{NODE}}}[{WINDOW}]))", "{{reason}}")],
        ),
        time_series(
            "Reordering at receivers",
            "Packets that have arrived above the first missing one, of the QP with most of them, seen once "
            "per scrape. Spraying reorders always; much of it is a path that is slower than the others, or "
            "a loss.",
            "short",
            [(f"mrc_reorder_depth_packets{{{NODE}}}", "{{node}}")],
        ),
    ]


def _packets() -> list[AnyPanel]:
    return [
        time_series(
            "Sent by kind",
            "data carries payload, retransmissions included; sack, ack, nack and probes are the price of "
            "reliability.",
            "pps",
            [(f"sum by (kind) (rate(mrc_tx_packets_total{{{NODE}}}[{WINDOW}]))", "{{kind}}")],
        ),
        time_series(
            "Retransmitted share by host",
            "Of the data packets a host sends.",
            "percentunit",
            [
                (
                    f"sum by (node) (rate(mrc_retransmits_total{{{NODE}}}[{WINDOW}]))"
                    f' / (sum by (node) (rate(mrc_tx_packets_total{{{NODE},kind="data"}}[{WINDOW}])) > 0)',
                    "{{node}}",
                )
            ],
            steps=queries.RATIO_STEPS,
        ),
    ]
