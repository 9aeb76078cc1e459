"""Faults and recovery: what was done to the fabric, and how long anybody felt it."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, PLANE, WINDOW, Section, board
from dashboards.panel import ORANGE, RED, AnyPanel, number, ranking, time_series, timeline


def faults() -> Dashboard:
    return board(
        "faults",
        "MRC / Faults and recovery",
        "Every fault that mrc-testbed injects, and what it caused. Scrapes are a second apart: exact times "
        "to detect, to the last drop and to recover come from events and stand in the report of a run.",
        [
            Section("Faults", _faults()),
            Section("What they cause", _effects()),
            Section("Recovery", _recovery()),
            Section("Localisation", _localisation()),
        ],
        ["plane"],
    )


def _faults() -> list[AnyPanel]:
    return [
        timeline(
            "Faults",
            "From the injection of a fault until it is cleared, between the outages of a flap too.",
            [(queries.FAULTS, "{{fault_id}} ({{kind}})")],
            queries.ON_OFF,
        ),
        timeline(
            "Links that failed",
            "Links that a fault has taken down at least once since the lab was made, and when they were "
            "down.",
            [(queries.LINKS_THAT_FAILED, "{{link}}")],
            queries.UP_DOWN,
        ),
        number(
            "Faults in force",
            "Injected and not cleared yet.",
            "short",
            [(queries.FAULT_COUNT, "faults")],
            steps=queries.COUNT_STEPS,
        ),
        ranking(
            "Injected in the shown time, by kind",
            "Each outage of a flap counts.",
            "short",
            [(f"sum by (kind) (increase(mrc_faults_injected_total{{{LAB}}}[$__range])) > 0", "{{kind}}")],
            width=10,
        ),
        ranking(
            "Outages in the shown time, by link",
            "The ten links that failed most often.",
            "short",
            [
                (
                    f"topk(10, sum by (link) (increase(mrc_link_flaps_total{{{PLANE}}}[$__range])) > 0)",
                    "{{link}}",
                )
            ],
            width=10,
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
        )
        for phase, (title, text) in explained.items()
    ]


def _localisation() -> list[AnyPanel]:
    probes = f"mrc_link_probes_total{{{PLANE}"
    rtt = f"sum by (plane, link) (rate(mrc_link_probe_rtt_seconds_total{{{PLANE}}}[{WINDOW}]))"
    passed = f'sum by (plane, link) (rate({probes},outcome="passed"}}[{WINDOW}]))'
    return [
        timeline(
            "Suspected links",
            "Links that link probes suspect, for comparison with those that faults really hit. Only in labs"
            " with probing.",
            [(f"mrc_link_probe_suspect{{{PLANE}}} == 1", "{{link}}")],
            {1: ("suspect", ORANGE)},
        ),
        time_series(
            "Link probes by outcome",
            "passed, failed: not back in time, and late: of the failed, those that came back after all.",
            "pps",
            [(f"sum by (outcome) (rate({probes}}}[{WINDOW}]))", "{{outcome}}")],
        ),
        time_series(
            "Mean RTT of link probes",
            "The ten slowest, by the farthest link that the probes cross: a slow link raises its own and "
            "those behind it.",
            "s",
            [(f"topk(10, {rtt} / ({passed} > 0))", "{{link}}")],
        ),
    ]


def _effects() -> list[AnyPanel]:
    return [
        time_series(
            "Frames dropped by faults",
            "At links that are down or lossy, EV probes included, which nobody retransmits.",
            "pps",
            [(f"sum by (reason) (rate(mrc_link_drops_total{{{PLANE}}}[{WINDOW}]))", "{{reason}}")],
            steps=[(1, ORANGE), (100, RED)],
        ),
        time_series(
            "Retransmissions by reason",
            "They should end soon after the fault began, not when it ends: that is the time to last drop.",
            "pps",
            [(queries.RETRANSMITS_BY_REASON, "{{reason}}")],
        ),
        time_series(
            "GOOD EVs by plane",
            "Falls when the fault is detected, rises again when probes have found the repair: the "
            "recovery time.",
            "percentunit",
            [(queries.GOOD_EV_RATIO, "plane {{plane}}")],
            maximum=1,
        ),
        time_series(
            "EVs that leave and return",
            "Above: EVs that become ASSUMED_BAD. Below, negative: those that come back to GOOD.",
            "ops",
            [
                (queries.LEAVING, "plane {{plane}} leaves"),
                (f"-({queries.RETURNING})", "plane {{plane}} returns"),
            ],
            from_zero=False,
        ),
        time_series(
            "Goodput",
            "What the applications felt.",
            "bps",
            [(queries.GOODPUT_BPS, "goodput")],
        ),
        time_series(
            "Message completion time",
            "What the applications felt, per message.",
            "s",
            queries.percentiles("mrc_message_completion_seconds", LAB),
            logarithmic=True,
        ),
    ]
