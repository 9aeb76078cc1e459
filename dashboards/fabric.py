"""Fabric: links, queues and what they lose."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, PLANE, PLANE_NODE, WINDOW, Section, board
from dashboards.panel import ORANGE, RED, AnyPanel, buckets_over_time, number, ranking, time_series, timeline

DELAY = "mrc_switch_queue_delay_seconds"
DATA = f'{PLANE},class="data"'
WAITED = f"sum by (node, link) (rate(mrc_switch_queue_wait_seconds_total{{{PLANE_NODE}}}[{WINDOW}]))"
SENT = f"sum by (node, link) (rate(mrc_port_tx_packets_total{{{PLANE_NODE}}}[{WINDOW}]))"
QUEUE = f"mrc_switch_queue_bytes{{{PLANE_NODE}}}"


def fabric() -> Dashboard:
    return board(
        "fabric",
        "MRC / Fabric",
        "Links and queues. A direction of a link is identified by the link and the node that sends into it. "
        "Queues are there only where the topology sets port_rate (a shaped lab).",
        [
            Section("Links", _links()),
            Section("Queues", _queues()),
            Section("Congestion", _congestion()),
            Section("Flow control", _flow_control()),
            Section("Losses", _losses()),
        ],
        ["plane", "node"],
    )


def _links() -> list[AnyPanel]:
    return [
        time_series(
            "Sent by tier",
            "All that is sent into links, by tier of the sending node and plane.",
            "bps",
            [
                (
                    f"8 * sum by (tier, plane) (rate(mrc_port_tx_bytes_total{{{PLANE_NODE}}}[{WINDOW}]))",
                    "{{tier}}, plane {{plane}}",
                )
            ],
        ),
        ranking(
            "Busiest link directions",
            "The ten that carry most now. One far above the rest is a hash collision of single-path "
            "transport; spraying keeps them level.",
            "bps",
            [
                (
                    f"topk(10, 8 * rate(mrc_port_tx_bytes_total{{{PLANE_NODE}}}[{WINDOW}]) > 0)",
                    "{{node}}: {{link}}",
                )
            ],
        ),
        timeline(
            "Links that failed",
            "Links that a fault has taken down at least once since the lab was made, and when they were "
            "down.",
            [(queries.LINKS_THAT_FAILED, "{{link}}")],
            queries.UP_DOWN,
        ),
        time_series(
            "Link directions that are down",
            "Number of directions that cannot send, by plane.",
            "short",
            [
                (
                    f"count by (plane) (mrc_link_up{{{PLANE}}}) - sum by (plane) (mrc_link_up{{{PLANE}}})",
                    "plane {{plane}}",
                )
            ],
        ),
        time_series(
            "Frames sent",
            "Frames per second into links, by tier of the sending node.",
            "pps",
            [(f"sum by (tier) (rate(mrc_port_tx_packets_total{{{PLANE_NODE}}}[{WINDOW}]))", "{{tier}}")],
        ),
    ]


def _queues() -> list[AnyPanel]:
    return [
        time_series(
            "Deepest queues",
            "The ten ports with the most bytes waiting, seen once per scrape: short peaks in between do not"
            " show.",
            "bytes",
            [(f"topk(10, sum by (node, link) ({QUEUE}) > 0)", "{{node}}: {{link}}")],
        ),
        time_series(
            "Waiting bytes by tier and class",
            "All queues of a tier together. Data waits at T1 downlinks and T0 downlinks under incast; "
            "control must stay near zero.",
            "bytes",
            [(f"sum by (tier, class) ({QUEUE})", "{{tier}}, {{class}}")],
        ),
        time_series(
            "Queueing delay of data",
            "How long data frames waited for their transmission, all ports of the chosen planes, every "
            "frame counted as it leaves. Quantiles are within 12.5 %.",
            "s",
            queries.percentiles(DELAY, DATA),
            logarithmic=True,
        ),
        time_series(
            "Queueing delay p99 by tier",
            "Where frames wait: at hosts for their own port, at T0 uplinks and T1 for paths that meet, at "
            "T0 downlinks for the receiver.",
            "s",
            [(queries.quantile(0.99, DELAY, DATA, "tier"), "{{tier}}")],
            logarithmic=True,
        ),
        buckets_over_time(
            "Queueing delays of data",
            "Each column is an instant, each cell how many frames waited about that long.",
            queries.buckets(DELAY, DATA),
        ),
        ranking(
            "Link directions with the longest waits",
            "The ten where frames wait longest on average now: time waited by frames sent.",
            "s",
            [(f"topk(10, {WAITED} / ({SENT} > 0))", "{{node}}: {{link}}")],
            width=24,
        ),
    ]


def _congestion() -> list[AnyPanel]:
    return [
        time_series(
            "ECN marks by tier",
            "Data packets marked as they were queued, by tier of the switch. Marks are the first sign of a "
            "queue: senders slow down and let the path's EVs lose a turn.",
            "pps",
            [(f"sum by (tier) (rate(mrc_ecn_marks_total{{{PLANE_NODE}}}[{WINDOW}]))", "{{tier}}")],
        ),
        time_series(
            "Trims by tier",
            "Data packets cut to their headers because the queue was full. The headers arrive all the same:"
            " the receiver asks for the packet again at once, without a time-out.",
            "pps",
            [(f"sum by (tier) (rate(mrc_trims_total{{{PLANE_NODE}}}[{WINDOW}]))", "{{tier}}")],
            steps=[(1, ORANGE)],
        ),
        ranking(
            "Link directions that mark most",
            "The ten with most marks in the shown time.",
            "short",
            [
                (
                    f"topk(10, increase(mrc_ecn_marks_total{{{PLANE_NODE}}}[$__range]) > 0)",
                    "{{node}}: {{link}}",
                )
            ],
        ),
        ranking(
            "Link directions that trim most",
            "The ten with most trims in the shown time: under incast the receiver's T0 downlinks.",
            "short",
            [(f"topk(10, increase(mrc_trims_total{{{PLANE_NODE}}}[$__range]) > 0)", "{{node}}: {{link}}")],
        ),
    ]


def _flow_control() -> list[AnyPanel]:
    only = "Labs with flow control (PFC or credits) only."
    stalled = f"sum by (node, link) (rate(mrc_credit_stalled_seconds_total{{{PLANE_NODE}}}[{WINDOW}]))"
    paused = f"sum by (node, link) (rate(mrc_paused_seconds_total{{{PLANE_NODE}}}[{WINDOW}]))"
    return [
        time_series(
            "Share of time paused",
            "The ten directions that the other end of their link holds back most: 1 is a link without data. "
            f"A pause that spreads blocks flows that go nowhere near the congestion. {only}",
            "percentunit",
            [(f"topk(10, {paused} > 0)", "{{node}}: {{link}}")],
            maximum=1,
        ),
        time_series(
            "Pause frames",
            f"PFC frames sent per second, pause and resume. {only}",
            "pps",
            [
                (
                    f"sum by (kind, tier) (rate(mrc_pause_frames_total{{{PLANE_NODE}}}[{WINDOW}]))",
                    "{{kind}}, {{tier}}",
                )
            ],
        ),
        time_series(
            "Share of time without credit",
            f"The ten directions whose data waits for credit of the link most. {only}",
            "percentunit",
            [(f"topk(10, {stalled} > 0)", "{{node}}: {{link}}")],
            maximum=1,
        ),
        time_series(
            "Waits for credit",
            f"Times per second that data began to wait for credit, by tier. {only}",
            "ops",
            [(f"sum by (tier) (rate(mrc_credit_stalls_total{{{PLANE_NODE}}}[{WINDOW}]))", "{{tier}}")],
        ),
        time_series(
            "Fullest ingress buffers",
            f"The ten directions of links whose data fills most of the buffer behind them. {only}",
            "bytes",
            [(f"topk(10, mrc_ingress_buffer_bytes{{{PLANE_NODE}}} > 0)", "{{node}}: {{link}}")],
        ),
        number(
            "Ports in deadlock",
            "Ports that flow control holds for ever, because each waits for another: the lab must come down. "
            f"{only}",
            "short",
            [(f"mrc_deadlock{{{LAB}}}", "ports")],
            width=12,
            height=8,
            steps=((1, RED),),
        ),
    ]


def _losses() -> list[AnyPanel]:
    return [
        time_series(
            "Frames dropped, by reason",
            "link_down and loss are faults; queue_full and pool_empty are congestion; the rest are frames "
            "that a switch could not forward.",
            "pps",
            [(queries.DROPS_BY_REASON, "{{reason}}")],
            steps=[(1, ORANGE), (100, RED)],
        ),
        ranking(
            "Link directions that drop most",
            "The ten that dropped most frames in the shown time.",
            "short",
            [
                (
                    "topk(10, sum by (node, link, reason)"
                    f" (increase(mrc_link_drops_total{{{PLANE_NODE}}}[$__range])) > 0)",
                    "{{node}}: {{link}} ({{reason}})",
                )
            ],
            steps=[(1, ORANGE), (100, RED)],
        ),
    ]
