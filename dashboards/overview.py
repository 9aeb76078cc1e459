"""Overview, in the order of a person on call: is the job all right, what is broken, since when, where."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import ALERT_LINK, BOARD_LINK, LAB, RUN_LINK, Section, board
from dashboards.panel import COUNT, RED, YELLOW, AnyPanel, listing, number, time_series


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
            Section("Which run?", _runs()),
        ],
        ["plane"],
    )


def _job() -> list[AnyPanel]:
    return [
        number(
            "Step against best",
            "Mean step of the slowest training job, by its best in the shown time. 100 % is a job that "
            "nothing holds up; an alert fires at 150 %.",
            "percentunit",
            [(queries.STEP_AGAINST_BEST, "step")],
            steps=((1.2, YELLOW), (1.5, RED)),
            decimals=0,
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
            [(queries.quantile(0.99, queries.COMPLETION, LAB), "p99")],
        ),
        number(
            "Retransmitted",
            "Share of the data packets that had been sent before. A healthy fabric shows 0.",
            "percentunit",
            [(queries.RETRANSMIT_RATIO, "share")],
            steps=queries.RATIO_STEPS,
            decimals=2,
        ),
        number(
            "EVs out of use",
            "Entropy values of connected QPs that are not GOOD now: SKIP (loses a turn), ASSUMED_BAD (lost "
            "packets, is probed) or DENIED (by an operator). Traffic goes on over the others.",
            COUNT,
            [(queries.EVS_NOT_GOOD, "EVs")],
            steps=queries.COUNT_STEPS,
        ),
        number(
            "Machine saturated",
            "Whether a CPU of this machine has next to no idle time. If yes, a shaped lab shows the "
            "machine's limits rather than the fabric's.",
            COUNT,
            [("mrc_testbed_host_saturated", "saturated")],
            texts=queries.YES_NO,
        ),
    ]


def _broken() -> list[AnyPanel]:
    return [
        listing(
            "Alerts",
            "Alerts that fire now, with how long their condition holds. The name leads to what to "
            "do, the last column to the dashboard that shows more.",
            queries.ALERTS,
            {"alertname": "Alert", "severity": "Severity", "where": "Where", "dashboard": "Dashboard"},
            value=("Lasts", "s"),
            widths_px={"Alert": 240, "Severity": 90, "Dashboard": 110, "Lasts": 90},
            links={"Alert": ALERT_LINK, "Dashboard": BOARD_LINK},
            width=15,
            height=7,
        ),
        listing(
            "Faults in force",
            "Faults that mrc-testbed injected and has not cleared, so that one knows which of the alerts are "
            "meant. Each is a red window on all panels over time.",
            f"time() - {queries.first_seen(queries.FAULTS)} and {queries.FAULTS}",
            {"fault_id": "Fault", "kind": "Kind"},
            value=("Lasts", "s"),
            width=9,
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
            queries.percentiles(queries.STEP, LAB),
        ),
        time_series(
            "Message completion time",
            "From the first packet of a message to the acknowledgement of its last. The distance between "
            "p50 and p99.9 is what steps wait for.",
            "s",
            queries.percentiles(queries.COMPLETION, LAB),
            logarithmic=True,
        ),
    ]


def _planes() -> list[AnyPanel]:
    return [
        time_series(
            "GOOD EVs by plane",
            "Share of each plane's EVs that are GOOD. The plane that falls is the broken one: a little for a "
            "T0-T1 link, much for a switch, to 0 for the plane.",
            "percentunit",
            [(queries.GOOD_EV_RATIO, "plane {{plane}}")],
            maximum=1,
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
        time_series(
            "RTT p99 by plane",
            "A slow plane stands out here before it loses a packet: a queue, or a link with added delay.",
            "s",
            [(queries.RTT_P99_BY_PLANE, "plane {{plane}}")],
            width=8,
        ),
    ]


def _losses() -> list[AnyPanel]:
    return [
        time_series(
            "Retransmissions by reason",
            "What gave a packet up for lost: trim or nack (the receiver said so), sack (later packets "
            "arrived), timeout (nothing arrived). Time-outs cost the most.",
            "pps",
            [(queries.RETRANSMITS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
        time_series(
            "Frames dropped by reason",
            "Frames that links or switches dropped: link_down and loss are faults, queue_full is congestion.",
            "pps",
            [(queries.DROPS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
    ]


def _runs() -> list[AnyPanel]:
    return [
        listing(
            "Runs",
            "Scenarios that used the lab in the shown time. A run leads to its report, which has the exact "
            "times of its faults, once it has ended.",
            f"1000 * {queries.first_seen(queries.RUN)}",
            {"scenario": "Scenario", "run": "Run", "seed": "Seed"},
            value=("Began", "dateTimeAsIso"),
            links={"Run": RUN_LINK},
            width=24,
            height=8,
        )
    ]
