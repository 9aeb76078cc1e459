"""Fabric: links, queues and what they lose."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import FRAMES, LAB, PACKETS, PLANE, PLANE_NODE, WINDOW, Section, board
from dashboards.panel import COUNT, ORANGE, RED, AnyPanel, number, ranking, time_series

DELAY = "mrc_switch_queue_delay_seconds"
DATA = f'{PLANE},class="data"'
WAITED = f"sum by (node, link) (rate(mrc_switch_queue_wait_seconds_total{{{PLANE_NODE}}}[{WINDOW}]))"
SENT = f"sum by (node, link) (rate(mrc_port_tx_packets_total{{{PLANE_NODE}}}[{WINDOW}]))"
QUEUE = f"mrc_switch_queue_bytes{{{PLANE_NODE}}}"
TIERS = ("host", "t0", "t1", "t2")
DIRECTION = "{{node}}: {{link}}"
NO_FLOW_CONTROL = "the lab has no flow control"


def fabric() -> Dashboard:
    return board(
        "fabric",
        "MRC / Fabric",
        "Links and queues. A direction of a link is identified by the link and the node that sends into it. "
        "Queues are there only where the topology sets port_rate (a shaped lab).",
        [
            Section("Which link?", _links()),
            Section("Where do frames wait?", _queues()),
            Section("Where is it full?", _congestion()),
            Section("Who holds whom back? Labs with flow control (PFC or credits) only", _flow_control()),
        ],
        ["plane", "node"],
    )


def _links() -> list[AnyPanel]:
    probes = f"mrc_link_probes_total{{{PLANE}"
    rtt = f"sum by (plane, link) (rate(mrc_link_probe_rtt_seconds_total{{{PLANE}}}[{WINDOW}]))"
    passed = f'sum by (plane, link) (rate({probes},outcome="passed"}}[{WINDOW}]))'
    drops = f"sum by (node, link) (increase(mrc_link_drops_total{{{PLANE_NODE}}}[$__range]))"
    return [
        time_series(
            "Frames dropped by reason",
            "link_down and loss are faults, icrc is corrupted on a link; queue_full and pool_empty are "
            "congestion; the rest are frames that a switch could not forward.",
            FRAMES,
            [(queries.DROPS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
        ranking(
            "Link directions that drop most",
            "The ten that dropped most frames in the shown time: the link to look at.",
            COUNT,
            [(f"topk(10, round({drops}) > 0)", DIRECTION)],
            steps=[(1, ORANGE), (100, RED)],
        ),
        time_series(
            "Suspected links",
            "Links that link probes suspect, though their ports may be up: a switch that swallows packets is "
            "where they meet. Labs with probing only.",
            COUNT,
            [(queries.SUSPECTS_OVER_TIME, "{{link}}")],
            alarming=True,
            none=queries.NONE,
        ),
        ranking(
            "Slowest link probes",
            "Mean RTT now, the ten slowest, by the farthest link that the probes cross: a slow link raises "
            "its own and those behind it. Labs with probing only.",
            "s",
            [(f"topk(10, {rtt} / ({passed} > 0))", "{{link}}")],
        ),
        time_series(
            "Link probes by outcome",
            "passed, failed: not back in time, and late: of the failed, those that came back after all. "
            "Labs with probing only.",
            "count:probes/s",
            [(f"sum by (outcome) (rate({probes}}}[{WINDOW}]))", "{{outcome}}")],
            none="the lab has no probing",
        ),
        ranking(
            "Busiest link directions",
            "The ten that carry most now. One far above the rest is the port of a receiver of many, or a "
            "hash collision of single-path transport; spraying keeps the others level.",
            "bps",
            [(f"topk(10, 8 * rate(mrc_port_tx_bytes_total{{{PLANE_NODE}}}[{WINDOW}]) > 0)", DIRECTION)],
        ),
    ]


def _queues() -> list[AnyPanel]:
    return [
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
            "Where frames wait: at hosts for their own port, at T0 uplinks, T1 and T2 for paths that meet, "
            "at T0 downlinks for the receiver.",
            "s",
            # a query for each is faster than one that adds up the buckets of all
            [(queries.quantile(0.99, DELAY, f'{DATA},tier="{tier}"'), tier) for tier in TIERS],
            logarithmic=True,
        ),
        time_series(
            "Waiting bytes by tier and class",
            "All queues of a tier together, seen once per scrape. Data waits at T0 downlinks under incast; "
            "control must stay near zero.",
            "bytes",
            [(f"sum by (tier, class) ({QUEUE})", "{{tier}}, {{class}}")],
        ),
        ranking(
            "Link directions with the longest waits",
            "The ten where frames wait longest on average now: time waited by frames sent.",
            "s",
            [(f"topk(10, {WAITED} / ({SENT} > 0) > 0)", DIRECTION)],
        ),
    ]


def _most(series: str) -> str:
    """The ten counters of *series* that rose most in the shown time."""
    return f"topk(10, round(increase({series}[$__range])) > 0)"


def _congestion() -> list[AnyPanel]:
    return [
        time_series(
            "ECN marks by tier",
            "Data packets marked as they were queued, by tier of the switch. Marks are the first sign of a "
            "queue: senders slow down and let the path's EVs lose a turn.",
            PACKETS,
            [(queries.rates_of_seen("tier", f"mrc_ecn_marks_total{{{PLANE_NODE}}}"), "{{tier}}")],
            none=queries.NONE,
        ),
        ranking(
            "Link directions that mark most",
            "The ten with most marks in the shown time: a receiver's downlinks, or paths that meet.",
            COUNT,
            [(_most(f"mrc_ecn_marks_total{{{PLANE_NODE}}}"), DIRECTION)],
        ),
        time_series(
            "Trims by tier",
            "Data packets cut to their headers because the queue was full. The headers arrive all the same:"
            " the receiver asks for the packet again at once, without a time-out.",
            PACKETS,
            [(queries.rates_of_seen("tier", f"mrc_trims_total{{{PLANE_NODE}}}"), "{{tier}}")],
            none=queries.NONE,
        ),
        ranking(
            "Link directions that trim most",
            "The ten with most trims in the shown time: under incast the receiver's T0 downlinks.",
            COUNT,
            [(_most(f"mrc_trims_total{{{PLANE_NODE}}}"), DIRECTION)],
        ),
    ]


def _flow_control() -> list[AnyPanel]:
    paused = f"mrc_paused_seconds_total{{{PLANE_NODE}}}"
    stalled = f"mrc_credit_stalled_seconds_total{{{PLANE_NODE}}}"
    share = f"rate({paused}[{WINDOW}]) or rate({stalled}[{WINDOW}])"
    total = f"increase({paused}[$__range]) or increase({stalled}[$__range])"
    waits = f"sum by (tier) (rate(mrc_credit_stalls_total{{{PLANE_NODE}}}[{WINDOW}]))"
    pauses = f"sum by (kind, tier) (rate(mrc_pause_frames_total{{{PLANE_NODE}}}[{WINDOW}]))"
    return [
        number(
            "Ports in deadlock",
            "Ports that flow control holds for ever, because each waits for another: the lab must come down.",
            COUNT,
            [(f"mrc_deadlock{{{LAB}}}", "ports")],
            none="no flow control",
            width=4,
            height=8,
            steps=((1, RED),),
        ),
        time_series(
            "Share of time held back",
            "Of the direction of each tier that the other end of its link, by pause or lack of credit, holds "
            "back most: 1 is a link without data. A pause that spreads blocks flows that go elsewhere.",
            "percentunit",
            [(f"clamp_max(max by (tier) ({share}), 1)", "{{tier}}")],
            maximum=1,
            width=10,
            none=NO_FLOW_CONTROL,
        ),
        ranking(
            "Link directions held back most",
            "The ten that were held back longest in the shown time: the extent of the damage.",
            "s",
            [(f"topk(10, ({total}) > 0)", DIRECTION)],
            width=10,
        ),
        time_series(
            "Pauses, and waits for credit",
            "PFC frames sent per second, pause and resume, and times that data began to wait for credit.",
            "count:times/s",
            [(f'{pauses} or label_replace({waits}, "kind", "wait", "", "")', "{{kind}}, {{tier}}")],
            none=NO_FLOW_CONTROL,
        ),
        ranking(
            "Ports that send most pauses",
            "The ten that sent most PFC pause frames in the shown time; the first is the culprit, or next "
            "to it.",
            COUNT,
            [(_most(f'mrc_pause_frames_total{{{PLANE_NODE},kind="pause"}}'), DIRECTION)],
        ),
        time_series(
            "Fullest ingress buffers",
            "The fullest buffer behind a link of each tier: where it is full, the sender is held back.",
            "bytes",
            [(f"max by (tier) (mrc_ingress_buffer_bytes{{{PLANE_NODE}}})", "{{tier}}")],
            width=24,
            none=NO_FLOW_CONTROL,
        ),
    ]
