"""Overview: does traffic flow, how slow is its slowest part, is anything broken."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, Section, board
from dashboards.panel import ORANGE, RED, YELLOW, AnyPanel, listing, number, time_series, timeline

COMPLETION = "mrc_message_completion_seconds"


def overview() -> Dashboard:
    return board(
        "overview",
        "MRC / Overview",
        "Start here: goodput, tail, EVs and faults of one lab. The links above lead to the details.",
        [Section("Now", _now()), Section("Traffic", _traffic()), Section("Trouble", _trouble())],
        ["plane"],
    )


def _now() -> list[AnyPanel]:
    return [
        number(
            "Goodput",
            "Payload that reached memory for the first time, over all hosts: no headers, no retransmissions.",
            "bps",
            [(queries.GOODPUT_BPS, "goodput")],
        ),
        number(
            "Message completion p99",
            "99 of 100 messages completed within this time, of those that completed in the last seconds.",
            "s",
            [(queries.quantile(0.99, COMPLETION, LAB), "p99")],
        ),
        number(
            "EVs not GOOD",
            "Entropy values of connected QPs that are not GOOD now: SKIP (loses a turn), ASSUMED_BAD (lost "
            "packets, is probed) or DENIED (by an operator). Traffic goes on over the others.",
            "short",
            [(queries.EVS_NOT_GOOD, "EVs")],
            steps=queries.COUNT_STEPS,
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
            "Faults in force",
            "Faults injected by mrc-testbed and not cleared yet. Each is a red window on all panels over "
            "time.",
            "short",
            [(queries.FAULT_COUNT, "faults")],
            steps=queries.COUNT_STEPS,
        ),
        number(
            "Host saturated",
            "Whether a CPU of this machine has next to no idle time. If yes, a shaped lab shows the "
            "machine's limits rather than the fabric's.",
            "short",
            [("mrc_testbed_host_saturated", "saturated")],
            texts=queries.YES_NO,
        ),
    ]


def _traffic() -> list[AnyPanel]:
    return [
        time_series(
            "Goodput by receiver",
            "Payload placed per host and second. Under a fault MRC should dip for milliseconds, not stop.",
            "bps",
            [(queries.goodput_by_node(LAB), "{{node}}")],
            stacked=True,
        ),
        time_series(
            "Sent into each plane",
            "All that hosts send into each plane, headers and retransmissions included. Spraying makes the "
            "planes equal; a plane that falls behind has lost EVs.",
            "bps",
            [(queries.SENT_BY_PLANE_BPS, "plane {{plane}}")],
            stacked=True,
        ),
        time_series(
            "Message completion time",
            "From the first packet of a message to the acknowledgement of its last. Watch the distance "
            "between p50 and p99.9: synchronous training waits for the slowest.",
            "s",
            queries.percentiles(COMPLETION, LAB),
            logarithmic=True,
        ),
        timeline(
            "Planes",
            "Per plane: are all EVs GOOD, some lost, or none left. More in Planes and EVs.",
            [(queries.PLANE_STATE, "plane {{plane}}")],
            queries.PLANE_STATES,
            width=12,
        ),
    ]


def _trouble() -> list[AnyPanel]:
    return [
        time_series(
            "Retransmissions by reason",
            "What gave a packet up for lost: trim or nack (the receiver said so), sack (later packets "
            "arrived), timeout (nothing arrived). Time-outs cost the most.",
            "pps",
            [(queries.RETRANSMITS_BY_REASON, "{{reason}}")],
            steps=[(1, YELLOW)],
        ),
        time_series(
            "EVs by state",
            "All EVs of connected QPs. A fault moves those whose path it hits to ASSUMED_BAD; after its end"
            " probes bring them back.",
            "short",
            [(queries.EVS_BY_STATE, "{{state}}")],
            stacked=True,
        ),
        timeline(
            "Faults",
            "Each bar is a fault that mrc-testbed injected, from its injection until it was cleared.",
            [(queries.FAULTS, "{{fault_id}} ({{kind}})")],
            queries.ON_OFF,
            width=12,
        ),
        listing(
            "Alerts",
            "Alert rules that hold now; they come with the stack and are in dashboards/rules.",
            'ALERTS{alertstate="firing",lab=~"$lab|"}',
            {
                "alertname": "Alert",
                "severity": "Severity",
                "plane": "Plane",
                "switch": "Switch",
                "link": "Link",
                "workload": "Job",
            },
            value=("Holds", "short"),
        ),
        time_series(
            "Frames dropped",
            "Frames that a link or a switch dropped, by reason.",
            "pps",
            [(queries.DROPS_BY_REASON, "{{reason}}")],
            steps=[(1, ORANGE), (100, RED)],
        ),
        listing(
            "Run",
            "The scenario that uses the lab now; it has the exact times of faults and its own report.",
            f"mrc_testbed_run_info{{{LAB}}}",
            {"scenario": "Scenario", "run": "Run", "seed": "Seed"},
            value=("Running", "short"),
        ),
    ]
