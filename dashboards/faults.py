"""Faults and recovery: what was done to the fabric, and how long anybody felt it."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, PLANE, WINDOW, Section, board
from dashboards.panel import COUNT, AnyPanel, ranking, time_series


def faults() -> Dashboard:
    return board(
        "faults",
        "MRC / Faults and recovery",
        "Every fault that mrc-testbed injects, and what it caused. Scrapes are a second apart: exact times "
        "to detect, to the last drop and to recover come from events and stand in the report of a run.",
        [
            Section("Which fault, when?", _faults()),
            Section("What does it cause?", _effects()),
            Section("How long until nobody feels it? Of the last finished run", _recovery()),
            Section("Would link probes find it? Labs with probing only", _localisation()),
        ],
        ["plane"],
    )


def _faults() -> list[AnyPanel]:
    return [
        time_series(
            "Faults in force",
            "From the injection of a fault until it is cleared, between the outages of a flap too: the time "
            "that all panels shade.",
            COUNT,
            [(queries.FAULTS_OVER_TIME, "{{fault_id}} ({{kind}})")],
            stacked=True,
            decimals=0,
            none=queries.NONE,
        ),
        time_series(
            "Link directions that are down",
            "One for each direction that cannot send, by link: the outages of a flap, and links that no "
            "fault explains.",
            COUNT,
            [(queries.LINKS_DOWN, "{{link}}")],
            stacked=True,
            decimals=0,
            none=queries.NONE,
        ),
        ranking(
            "Injected in the shown time, by kind",
            "Each outage of a flap counts.",
            COUNT,
            [
                (
                    f"sort_desc(sum by (kind) (increase(mrc_faults_injected_total{{{LAB}}}[$__range])) > 0)",
                    "{{kind}}",
                )
            ],
            height=6,
        ),
        ranking(
            "Outages in the shown time, by link",
            "The ten links that failed most often: the ones to drain.",
            COUNT,
            [
                (
                    f"topk(10, sum by (link) (increase(mrc_link_flaps_total{{{PLANE}}}[$__range])) > 0)",
                    "{{link}}",
                )
            ],
            height=6,
        ),
    ]


def _effects() -> list[AnyPanel]:
    return [
        time_series(
            "Step time",
            "What the training job felt: the one figure that a fault should not move.",
            "s",
            queries.percentiles(queries.STEP, LAB),
        ),
        time_series(
            "Goodput",
            "What the applications felt, all hosts together.",
            "bps",
            [(queries.GOODPUT_BPS, "goodput")],
        ),
        time_series(
            "Frames dropped by faults",
            "At links that are down or lossy, EV probes included, which nobody retransmits.",
            "pps",
            [(queries.LINK_DROPS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
        time_series(
            "Retransmissions by reason",
            "They should end soon after the fault began, not when it ends: that is the time to last drop.",
            "pps",
            [(queries.RETRANSMITS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
        time_series(
            "GOOD EVs by plane",
            "Falls when the fault is detected, rises again when probes have found the repair: the "
            "recovery time.",
            "percentunit",
            [(queries.GOOD_EV_RATIO, "plane {{plane}}")],
            maximum=1,
            width=24,
        ),
    ]


def _recovery() -> list[AnyPanel]:
    explained = {
        "detect": (
            "Time to detect",
            "From the fault until the first EV on its path leaves, at its slowest occurrence.",
        ),
        "avoid": ("Time to last drop", "From the fault until the last packet that it drops."),
        "restore": ("Recovery time", "From the repair until all EVs that had left are GOOD again."),
    }
    return [
        ranking(
            title,
            f"{text} Of the last finished run, from event timestamps rather than scrapes.",
            "s",
            [(f'mrc_recovery_seconds{{{LAB},phase="{phase}"}}', "{{fault_id}}")],
            width=8,
            height=5,
        )
        for phase, (title, text) in explained.items()
    ]


def _localisation() -> list[AnyPanel]:
    probes = f"mrc_link_probes_total{{{PLANE}"
    rtt = f"sum by (plane, link) (rate(mrc_link_probe_rtt_seconds_total{{{PLANE}}}[{WINDOW}]))"
    passed = f'sum by (plane, link) (rate({probes},outcome="passed"}}[{WINDOW}]))'
    return [
        time_series(
            "Suspected links",
            "Links that link probes suspect, to be compared with those that faults really hit.",
            COUNT,
            [(queries.SUSPECTS, "{{link}}")],
            stacked=True,
            decimals=0,
            none=queries.NONE,
        ),
        time_series(
            "Link probes by outcome",
            "passed, failed: not back in time, and late: of the failed, those that came back after all.",
            "pps",
            [(f"sum by (outcome) (rate({probes}}}[{WINDOW}]))", "{{outcome}}")],
        ),
        ranking(
            "Slowest link probes",
            "Mean RTT now, the ten slowest, by the farthest link that the probes cross: a slow link raises "
            "its own and those behind it.",
            "s",
            [(f"topk(10, {rtt} / ({passed} > 0))", "{{link}}")],
            width=24,
        ),
    ]
