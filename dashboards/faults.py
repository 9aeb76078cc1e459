"""Faults and recovery: what was done to the fabric, and how long anybody felt it."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import FRAMES, LAB, PACKETS, PLANE, Section, board
from dashboards.panel import COUNT, AnyPanel, number, ranking, time_series


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
        ],
        ["plane"],
    )


def _faults() -> list[AnyPanel]:
    outages = f"sum by (link) (increase(mrc_link_flaps_total{{{PLANE}}}[$__range]))"
    return [
        time_series(
            "Faults in force",
            "From the injection of a fault until it is cleared, between the outages of a flap too: the time "
            "that all panels shade.",
            COUNT,
            [(queries.FAULTS_OVER_TIME, "{{fault_id}} ({{kind}}, {{place}})")],
            alarming=True,
            none=queries.NONE,
        ),
        time_series(
            "Link directions that are down",
            "One for each direction that cannot send, by link: the outages of a flap, and links that no "
            "fault explains.",
            COUNT,
            [(queries.LINKS_DOWN, "{{link}}")],
            alarming=True,
            none=queries.NONE,
        ),
        number(
            "Faults injected",
            "In the shown time; each outage of a flap counts.",
            COUNT,
            [(f"round(sum(increase(mrc_faults_injected_total{{{LAB}}}[$__range])))", "faults")],
            height=6,
        ),
        ranking(
            "Outages in the shown time, by link",
            "The ten links that failed most often: the ones to drain.",
            COUNT,
            [(f"topk(10, round({outages}) > 0)", "{{link}}")],
            width=20,
            height=6,
        ),
    ]


def _effects() -> list[AnyPanel]:
    return [
        time_series(
            "Step time",
            "What the training job felt: the one figure that a fault should not move.",
            "s",
            queries.typical_and_worst(queries.STEP, LAB),
        ),
        time_series(
            "Goodput",
            "What the applications felt, all hosts together.",
            "bps",
            [(queries.GOODPUT_BPS, "goodput")],
        ),
        time_series(
            "Frames dropped by faults",
            "At links that are down or lossy, EV probes included, which nobody retransmits; icrc: corrupted "
            "on a link, dropped by the NIC that received it.",
            FRAMES,
            [(queries.FAULT_DROPS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
        time_series(
            "Retransmissions by reason",
            "sack, nack and timeout should end soon after the fault began, not when it ends: that is the "
            "time to last drop. ack and tail are no losses.",
            PACKETS,
            [(queries.RETRANSMITS_BY_REASON, "{{reason}}")],
            none=queries.NONE,
        ),
        time_series(
            "EVs out of use by plane",
            "Rises when the fault is detected, falls when probes have found the repair: the recovery time.",
            "percentunit",
            [(queries.OUT_OF_USE_BY_PLANE, "plane {{plane}}")],
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
