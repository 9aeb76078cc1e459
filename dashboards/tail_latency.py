"""Tail latency: the whole distribution, not its mean."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, NODE, PLANE, WINDOW, Section, board
from dashboards.panel import AnyPanel, buckets_over_time, ranking, time_series


def tail_latency() -> Dashboard:
    return board(
        "tail-latency",
        "MRC / Tail latency",
        "Distributions of message completion time and packet RTT. Quantiles are computed from buckets that "
        "were added up, never averaged; they are within 9.4 % of those in a run's report unless a panel says "
        "otherwise.",
        [
            Section("How long do messages take?", _messages()),
            Section("Which plane is slow?", _packets()),
        ],
        ["plane", "node"],
    )


def _messages() -> list[AnyPanel]:
    return [
        time_series(
            "Message completion time",
            "From the first packet of a message to the acknowledgement of its last, at the sender. The "
            "largest is the upper end of the highest bucket with a message in it.",
            "s",
            [*queries.percentiles(queries.COMPLETION, LAB), queries.OBJECTIVE],
            width=24,
            height=9,
            logarithmic=True,
        ),
        buckets_over_time(
            "Message completion times",
            "Each column is an instant, each cell how many messages took about that long. A second band "
            "above the first is a part of the messages that waits for a retransmission.",
            queries.buckets(queries.COMPLETION, LAB),
        ),
        ranking(
            "Slowest senders",
            "p99 of the messages of the ten slowest hosts now, within 27.5 %: its buckets are wider than "
            "those above. One far above the others points to that host's links, all at once to a receiver.",
            "s",
            [
                (
                    f"topk(10, {queries.quantile(0.99, queries.SENDER_COMPLETION, NODE, 'node')} > 0)",
                    "{{node}}",
                )
            ],
        ),
        time_series(
            "Messages completed",
            "How many messages the quantiles stand on: p99.9 of fewer than a thousand is little more than "
            "the largest.",
            "count:messages/s",
            [(f"sum by (node) (rate(mrc_messages_completed_total{{{NODE}}}[{WINDOW}]))", "{{node}}")],
        ),
    ]


def _packets() -> list[AnyPanel]:
    return [
        time_series(
            "Packet RTT",
            "From the sending of a data packet to its acknowledgement, over all hosts and the chosen "
            "planes. Retransmitted packets have none.",
            "s",
            queries.percentiles(queries.RTT, PLANE),
            logarithmic=True,
        ),
        time_series(
            "RTT p99 by plane",
            "A slow plane stands out here before it loses a packet: a queue, or a link with added delay.",
            "s",
            [(queries.RTT_P99_BY_PLANE, "plane {{plane}}")],
            logarithmic=True,
        ),
        buckets_over_time(
            "Packet RTTs",
            "Two bands mean two kinds of path, such as one through a queue and one around it.",
            queries.buckets(queries.RTT, PLANE),
        ),
    ]
