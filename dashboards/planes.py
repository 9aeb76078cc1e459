"""Planes and EVs: how the traffic is spread, and why an EV left."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import LAB, PLANE, PLANE_NODE, WINDOW, Section, board
from dashboards.panel import AnyPanel, ranking, time_series, timeline


def planes() -> Dashboard:
    """The states of EVs, and each plane's share."""
    return board(
        "planes",
        "MRC / Planes and EVs",
        "An entropy value (EV) stands for a plane and a path through it. A QP sprays over its GOOD EVs and "
        "takes those that lose packets out of use, within its own RTTs and without asking anybody.",
        [Section("State", _state()), Section("Share", _share()), Section("Changes", _changes())],
        ["plane", "node"],
    )


def _state() -> list[AnyPanel]:
    return [
        timeline(
            "Planes over time",
            "Green: all EVs of the plane are GOOD. Orange: some are not, traffic takes the plane's other "
            "paths. Red: none is, traffic has left the plane.",
            [(queries.PLANE_STATE, "plane {{plane}}")],
            queries.PLANE_STATES,
        ),
        time_series(
            "GOOD EVs by plane",
            "Share of each plane's EVs that are GOOD. A broken T0-T1 link costs the EVs of one uplink, a "
            "broken NIC port those of a host.",
            "percentunit",
            [(queries.GOOD_EV_RATIO, "plane {{plane}}")],
            maximum=1,
        ),
        time_series(
            "EVs by state",
            "GOOD is used; SKIP loses its next turn; ASSUMED_BAD lost packets and is probed; DENIED was "
            "taken out by an operator.",
            "short",
            [(queries.EVS_BY_STATE, "{{state}}")],
            stacked=True,
        ),
        time_series(
            "EVs that are not GOOD, by host",
            "Which hosts are concerned: all of a T0 for a broken uplink, one for a broken NIC port.",
            "short",
            [(f'sum by (node) (mrc_ev_state{{{PLANE_NODE},state!="GOOD"}})', "{{node}}")],
            stacked=True,
        ),
        time_series(
            "EVs that left, by T1",
            "Share of the EVs across each T1 that are ASSUMED_BAD. A T1 that stands out of its plane loses "
            "packets, itself or on a link, however few flows cross it.",
            "percentunit",
            [(queries.BAD_BY_T1, "{{node}}")],
            maximum=1,
        ),
    ]


def _share() -> list[AnyPanel]:
    return [
        time_series(
            "Share of each plane",
            "Of the bytes that hosts send. Equal shares are what spraying is for; after a fault the others "
            "take over what the broken plane carried.",
            "percentunit",
            [(queries.PLANE_SHARE, "plane {{plane}}")],
            stacked=True,
            maximum=1,
        ),
        ranking(
            "Sent into each plane",
            "All that hosts send, headers and retransmissions included, now.",
            "bps",
            [(queries.SENT_BY_PLANE_BPS, "plane {{plane}}")],
        ),
        time_series(
            "RTT p50 by plane",
            "Planes of equal length have equal RTTs; a longer one has a queue in it.",
            "s",
            [(queries.quantile(0.5, "mrc_packet_rtt_seconds", PLANE, "plane"), "plane {{plane}}")],
        ),
        time_series(
            "NIC ports that are up",
            "Ports of hosts into each plane that can send.",
            "short",
            [(f'sum by (plane) (mrc_link_up{{{PLANE},tier="host"}})', "plane {{plane}}")],
        ),
    ]


def _changes() -> list[AnyPanel]:
    return [
        time_series(
            "Changes of state by reason",
            "loss: later acknowledgements passed a packet. timeout: nothing was acknowledged. trim, ecn: a "
            "queue. probe: probes came back. admin: an operator. turn: a turn was lost, and that is all.",
            "ops",
            [(queries.TRANSITIONS, "{{reason}}")],
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
        ranking(
            "Changes in the shown time",
            "From, to and reason, most frequent first.",
            "short",
            [
                (
                    "sort_desc(sum by (from, to, reason)"
                    f" (increase(mrc_ev_transitions_total{{{PLANE}}}[$__range])) > 0)",
                    "{{from}} to {{to}}: {{reason}}",
                )
            ],
            width=24,
        ),
        time_series(
            "Probes",
            "Probes sent, and answers received: probes without answers are EVs that stay away.",
            "pps",
            [
                (f'sum(rate(mrc_tx_packets_total{{{LAB},kind="probe"}}[{WINDOW}]))', "sent"),
                (f'sum(rate(mrc_rx_packets_total{{{LAB},kind="probe_answer"}}[{WINDOW}]))', "answered"),
            ],
            width=24,
        ),
    ]
