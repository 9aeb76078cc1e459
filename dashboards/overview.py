"""Overview, in the order of a person on call: is the job all right, what is broken, since when, where."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import ALERT_LINK, BOARD_LINK, FRAMES, LAB, PACKETS, RUN_LINK, Section, board
from dashboards.panel import COUNT, GREY, ORANGE, RED, YELLOW, AnyPanel, listing, number, time_series


def overview() -> Dashboard:
    return board(
        "overview",
        "MRC / Overview",
        "Start here: the job, what is broken and since when, the tail, the planes; links lead to details.",
        [
            Section("Is the job all right?", _job()),
            Section("What is broken, and since when?", _broken()),
            Section("What does the tail do?", _tail()),
            Section("Which plane?", _planes()),
            Section("What is lost?", _losses()),
            Section("May one believe it, and which run is it?", _belief()),
        ],
        ["plane"],
    )


def _job() -> list[AnyPanel]:
    return [
        number(
            "Step against best",
            "Mean step of the slowest training job in the last 10 s, by the best such mean of its run's last "
            "10 minutes. 100 % is a job that nothing holds up; an alert fires at 150 %.",
            "percentunit",
            [(queries.STEP_AGAINST_BEST, "step")],
            steps=((1.2, YELLOW), (1.5, RED)),
            texts={-1: ("no job", GREY), 0: ("no steps", ORANGE)},
            decimals=0,
            width=6,
        ),
        number(
            "Goodput",
            "Payload that reached memory for the first time, over all hosts: no headers, no retransmissions.",
            "bps",
            [(queries.GOODPUT_BPS, "goodput")],
        ),
        number(
            "Completion p99",
            "99 of 100 messages completed within this time, of those that completed in the last seconds.",
            "s",
            [(f"({queries.quantile(0.99, queries.COMPLETION, LAB)} > 0) or vector(0)", "p99")],
            texts={0: ("idle", GREY)},
            width=5,
        ),
        number(
            "Retransmitted",
            "Share of the data packets that had been sent before. More than a tenth of a per cent over "
            "seconds is loss or a queue that overflows.",
            "percentunit",
            [(f"{queries.RETRANSMIT_RATIO} or vector(0)", "share")],
            steps=queries.RATIO_STEPS,
            decimals=2,
            width=5,
        ),
        number(
            "EVs out of use",
            "Entropy values of connected QPs that are ASSUMED_BAD (lost packets, are probed) or DENIED (by "
            "an operator) now. Traffic goes on over the others.",
            COUNT,
            [(queries.EVS_OUT_OF_USE, "EVs")],
            steps=queries.COUNT_STEPS,
        ),
    ]


def _broken() -> list[AnyPanel]:
    return [
        listing(
            "Alerts",
            "Alerts that fire now, with how long their condition holds. The name leads to what to do, the "
            "dashboard to what shows more.",
            queries.ALERTS,
            {"alertname": "Alert", "severity": "Severity", "where": "Where", "dashboard": "Dashboard"},
            value=("Lasts", "s"),
            widths_px={"Alert": 230, "Severity": 80, "Dashboard": 100, "Lasts": 75},
            links={"Alert": ALERT_LINK, "Dashboard": BOARD_LINK},
            width=12,
            height=7,
        ),
        listing(
            "Suspected links",
            "Links that link probes suspect now, whether or not their ports are up: the place to look at. "
            "Labs with probing only.",
            f"time() - {queries.first_seen(f'{queries.SUSPECT} == 1')} and {queries.SUSPECT} == 1",
            {"link": "Link"},
            value=("Seen for", "s"),
            widths_px={"Seen for": 80},
            width=5,
            height=7,
        ),
        listing(
            "Faults in force",
            "Faults that mrc-testbed injected and has not cleared, so that one knows which alerts are meant. "
            "Each is a red window on all panels over time.",
            f"time() - {queries.first_seen(queries.FAULTS)} and {queries.FAULTS}",
            {"fault_id": "Fault", "kind": "Kind", "place": "Place"},
            value=("Seen for", "s"),
            widths_px={"Kind": 80, "Seen for": 75},
            width=7,
            height=7,
        ),
    ]


def _tail() -> list[AnyPanel]:
    return [
        time_series(
            "Step time",
            "A synchronous training step: computing, then a collective. All hosts wait for the slowest "
            "message, so this is what a fault costs the job.",
            "s",
            queries.typical_and_worst(queries.STEP, LAB),
        ),
        time_series(
            "Message completion time",
            "From the first packet of a message to the acknowledgement of its last. The distance between "
            "p50 and p99.9 is what steps wait for; an alert fires when p99 is over the objective.",
            "s",
            [*queries.percentiles(queries.COMPLETION, LAB), queries.OBJECTIVE],
            logarithmic=True,
        ),
    ]


def _planes() -> list[AnyPanel]:
    return [
        time_series(
            "EVs out of use by plane",
            "Share of each plane's EVs that are ASSUMED_BAD or DENIED. The plane that rises loses packets: "
            "a little for a link, more for a switch, 100 % for the plane. A plane that is only slow shows "
            "in its RTT.",
            "percentunit",
            [(queries.OUT_OF_USE_BY_PLANE, "plane {{plane}}")],
            width=8,
        ),
        time_series(
            "RTT p99 by plane",
            "A slow plane stands out here before it loses a packet: a queue, or a link with added delay.",
            "s",
            [(queries.RTT_P99_BY_PLANE, "plane {{plane}}")],
            width=8,
        ),
        time_series(
            "Sent into each plane",
            "All that hosts send, headers and retransmissions included. Spraying makes the planes equal; a "
            "plane that falls behind has lost EVs or is slow.",
            "bps",
            [(queries.SENT_BY_PLANE_BPS, "plane {{plane}}")],
            width=8,
        ),
    ]


def _losses() -> list[AnyPanel]:
    return [
        time_series(
            "Retransmissions by reason",
            "Losses: nack (the receiver said so), sack (later packets arrived), timeout (nothing arrived, "
            "which costs the most). No losses: ack requests an acknowledgement, tail is a tail loss probe.",
            PACKETS,
            [(queries.RETRANSMITS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
        time_series(
            "Frames dropped by reason",
            "link_down and loss are faults, icrc is corrupted on a link, queue_full is congestion.",
            FRAMES,
            [(queries.DROPS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
    ]


def _belief() -> list[AnyPanel]:
    return [
        number(
            "Frames late, p99",
            "How much later than they should frames leave their queues. From half a millisecond on, at "
            "least, a run is UNTRUSTED: the machine is slower than the fabric. Shaped labs only.",
            "s",
            [(queries.quantile(0.99, queries.LATE, LAB), "p99")],
            steps=((queries.LATE_S, RED),),
            none="not shaped",
            width=6,
            height=8,
        ),
        *_runs(),
    ]


def _runs() -> list[AnyPanel]:
    return [
        listing(
            "Runs",
            "Scenarios that used the lab in the shown time. A run leads to its report, which has the exact "
            "times of its faults, once it has ended.",
            f"time() - {queries.first_seen(queries.RUN)}",
            {"scenario": "Scenario", "run": "Run", "seed": "Seed"},
            value=("Seen for", "s"),
            links={"Run": RUN_LINK},
            width=18,
            height=8,
        )
    ]
