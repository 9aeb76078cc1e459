"""Planes and EVs: how the traffic is spread, and why an EV left."""

from grafana_foundation_sdk.models.dashboard import Dashboard

from dashboards import queries
from dashboards.board import EVS, LAB, NODE, PACKETS, PLANE_NODE, WINDOW, Section, board
from dashboards.panel import COUNT, AnyPanel, listing, time_series


def planes() -> Dashboard:
    """The states of EVs, and each plane's share."""
    return board(
        "planes",
        "MRC / Planes and EVs",
        "An entropy value (EV) stands for a plane and a path through it. A QP sprays over its GOOD EVs and "
        "takes those that lose packets out of use, within its own RTTs and without asking anybody.",
        [
            Section("Which plane, and how much of it?", _planes()),
            Section("Which switch, which host?", _places()),
            Section("Why do EVs leave, and do they return?", _changes()),
        ],
        ["plane", "node"],
    )


def _planes() -> list[AnyPanel]:
    return [
        time_series(
            "EVs out of use by plane",
            "Share of each plane's EVs that are ASSUMED_BAD or DENIED. A broken link between switches costs "
            "the EVs that cross it, a broken NIC port those of a host.",
            "percentunit",
            [(queries.OUT_OF_USE_BY_PLANE, "plane {{plane}}")],
        ),
        time_series(
            "Share of each plane",
            "Of the bytes that hosts send. Equal shares are what spraying is for; after a fault the others "
            "take over what the broken plane carried.",
            "percentunit",
            [(queries.PLANE_SHARE, "plane {{plane}}")],
            stacked=True,
            maximum=1,
        ),
    ]


def _places() -> list[AnyPanel]:
    return [
        time_series(
            "EVs that left, by switch",
            "Share of the EVs across each T1 or T2 that are ASSUMED_BAD. One that stands out of its plane "
            "loses packets, itself or on a link, however few flows cross it.",
            "percentunit",
            [(queries.BAD_BY_SWITCH, "{{node}}")],
        ),
        time_series(
            "Losses per packet, by switch",
            "Paths that NICs began to avoid after a loss, over a minute, per packet that came up to the "
            "T1 or T2. One that stands out is gray: `mrc-testbed probe links` names it, or its link.",
            "percentunit",
            [(f"lab_plane_switch:mrc_path_losses:ratio1m{{{LAB}}}", "{{switch}}")],
        ),
        time_series(
            "EVs out of use, by host",
            "Which hosts are concerned: all of a T0 for a broken uplink, one for a broken NIC port.",
            COUNT,
            [(f"sum by (node) (mrc_ev_state{{{PLANE_NODE},{queries.OUT_OF_USE}}})", "{{node}}")],
            stacked=True,
        ),
        listing(
            "Profiles of QPs",
            "EV and CC profiles, by their number in each host, that connected QPs were created with: an EV "
            "that a profile denies is DENIED in all of them.",
            f"mrc_qp_info{{{NODE}}}",
            {"node": "Host", "ev_profile": "EV profile", "cc_profile": "CC profile"},
            value=("In use", COUNT),
        ),
    ]


def _changes() -> list[AnyPanel]:
    return [
        time_series(
            "EVs that are not GOOD, by state",
            "SKIP loses its next turn, as under any congestion; ASSUMED_BAD lost packets and is probed; "
            "DENIED was taken out by an operator.",
            COUNT,
            [(queries.EVS_BY_STATE, "{{state}}")],
            stacked=True,
        ),
        time_series(
            "EVs that leave and return",
            "Above: EVs that become ASSUMED_BAD. Below, negative: those that come back to GOOD. Both at "
            "once, for long, is a path that loses a part of its packets.",
            EVS,
            [
                (queries.LEAVING, "plane {{plane}} leaves"),
                (f"-({queries.RETURNING})", "plane {{plane}} returns"),
            ],
            from_zero=False,
        ),
        time_series(
            "Why EVs leave and return",
            "They leave by loss (later acknowledgements passed a packet), late (a packet overtaken by far), "
            "timeout (nothing was acknowledged) or admin (an operator), and return when probes come back.",
            EVS,
            [(queries.TRANSITIONS, "{{reason}}")],
        ),
        time_series(
            "Probes",
            "Probes sent, and answers received: probes without answers are EVs that stay away.",
            PACKETS,
            [
                (f'sum(rate(mrc_tx_packets_total{{{LAB},kind="probe"}}[{WINDOW}]))', "sent"),
                (f'sum(rate(mrc_rx_packets_total{{{LAB},kind="probe_answer"}}[{WINDOW}]))', "answered"),
            ],
        ),
    ]
