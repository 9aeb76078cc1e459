"""PromQL that more than one dashboard shows."""

from typing import Final

from dashboards.board import LAB, PLANE, WINDOW
from dashboards.panel import GREEN, GREY, ORANGE, RED, YELLOW, Query

GOODPUT_BPS: Final = f"sum(rate(mrc_goodput_bytes_total{{{LAB}}}[{WINDOW}])) * 8"
_BYTES_BY_PLANE: Final = f'sum by (plane) (rate(mrc_port_tx_bytes_total{{{PLANE},tier="host"}}[{WINDOW}]))'
SENT_BY_PLANE_BPS: Final = f"8 * {_BYTES_BY_PLANE}"
PLANE_SHARE: Final = (
    f'{_BYTES_BY_PLANE} / scalar(sum(rate(mrc_port_tx_bytes_total{{{LAB},tier="host"}}[{WINDOW}])) > 0)'
)
RETRANSMITS_BY_REASON: Final = f"sum by (reason) (rate(mrc_retransmits_total{{{LAB}}}[{WINDOW}]))"
RETRANSMIT_RATIO: Final = (
    f"sum(rate(mrc_retransmits_total{{{LAB}}}[{WINDOW}]))"
    f' / (sum(rate(mrc_tx_packets_total{{{LAB},kind="data"}}[{WINDOW}])) > 0)'
)
DROPS_BY_REASON: Final = (
    f"sum by (reason) (rate(mrc_link_drops_total{{{PLANE}}}[{WINDOW}])"
    f" or rate(mrc_switch_drops_total{{{PLANE}}}[{WINDOW}]))"
)
EVS_BY_STATE: Final = f"sum by (state) (mrc_ev_state{{{PLANE}}})"
EVS_NOT_GOOD: Final = f'sum(mrc_ev_state{{{LAB},state!="GOOD"}})'
FAULTS: Final = f"mrc_fault_active{{{LAB}}}"
FAULT_COUNT: Final = f"count({FAULTS}) or vector(0)"
TRANSITIONS: Final = f"sum by (reason) (rate(mrc_ev_transitions_total{{{PLANE}}}[{WINDOW}]))"
LEAVING: Final = f'sum by (plane) (rate(mrc_ev_transitions_total{{{PLANE},to="ASSUMED_BAD"}}[{WINDOW}]))'
RETURNING: Final = (
    f'sum by (plane) (rate(mrc_ev_transitions_total{{{PLANE},from="ASSUMED_BAD",to="GOOD"}}[{WINDOW}]))'
)
LINKS_THAT_FAILED: Final = (
    f"min by (lab, plane, link) (mrc_link_up{{{PLANE}}})"
    f" and on (lab, plane, link) (mrc_link_flaps_total{{{PLANE}}} > 0)"
)

BAD_BY_T1: Final = (
    f'sum by (node) (mrc_link_evs{{{PLANE},state="ASSUMED_BAD"}})'
    f" / (sum by (node) (mrc_link_evs{{{PLANE}}}) > 0)"
)
_TOTAL_EVS: Final = f"sum by (plane) (mrc_ev_state{{{PLANE}}})"
_GOOD_EVS: Final = f'sum by (plane) (mrc_ev_state{{{PLANE},state="GOOD"}})'
GOOD_EV_RATIO: Final = f"{_GOOD_EVS} / ({_TOTAL_EVS} > 0)"
PLANE_STATE: Final = (
    f"({_TOTAL_EVS} > bool 0) + ({_TOTAL_EVS} > bool {_GOOD_EVS})"
    f" + ({_TOTAL_EVS} > bool 0) * ({_GOOD_EVS} == bool 0)"
)

PLANE_STATES: Final = {
    0: ("no EVs", GREY),
    1: ("all GOOD", GREEN),
    2: ("some lost", ORANGE),
    3: ("none GOOD", RED),
}
ON_OFF: Final = {1: ("active", RED)}
UP_DOWN: Final = {1: ("up", GREEN), 0: ("down", RED)}
YES_NO: Final = {0: ("no", GREEN), 1: ("yes", RED)}
RATIO_STEPS: Final = ((0.001, YELLOW), (0.01, ORANGE), (0.05, RED))
COUNT_STEPS: Final = ((1, ORANGE),)


def goodput_by_node(selector: str) -> str:
    """Payload placed per second, bits, by the host that received it."""
    return f"sum by (node) (rate(mrc_goodput_bytes_total{{{selector}}}[{WINDOW}])) * 8"


def quantile(ratio: float, metric: str, selector: str, by: str = "") -> str:
    """The quantile *ratio* of a histogram over the rate window, by one more label or over all."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({ratio:g}, sum by ({labels}) (rate({metric}_bucket{{{selector}}}[{WINDOW}])))"


def percentiles(metric: str, selector: str) -> list[Query]:
    """p50, p99, p99.9 and the largest, which is the end of the highest bucket that is not empty."""
    ratios = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "max": 1.0}
    return [(quantile(ratio, metric, selector), name) for name, ratio in ratios.items()]


def buckets(metric: str, selector: str) -> str:
    """The query of a heatmap of the histogram."""
    return f"sum by (le) (increase({metric}_bucket{{{selector}}}[{WINDOW}]))"
