"""PromQL that more than one dashboard shows."""

from typing import Final

from dashboards.board import LAB, PLANE, WINDOW
from dashboards.panel import GREEN, ORANGE, RED, YELLOW, Query


def rates_of_seen(by: str, *series: str) -> str:
    """Rates of counters by a label, without the values of it that did not occur in the shown time."""
    rates = " or ".join(f"rate({one}[{WINDOW}])" for one in series)
    increases = " or ".join(f"increase({one}[$__range] @ end())" for one in series)
    return f"sum by ({by}) ({rates}) and sum by ({by}) ({increases}) > 0"


GOODPUT_BPS: Final = f"sum(rate(mrc_goodput_bytes_total{{{LAB}}}[{WINDOW}])) * 8"
_BYTES_BY_PLANE: Final = f'sum by (plane) (rate(mrc_port_tx_bytes_total{{{PLANE},tier="host"}}[{WINDOW}]))'
SENT_BY_PLANE_BPS: Final = f"8 * {_BYTES_BY_PLANE}"
PLANE_SHARE: Final = (
    f'{_BYTES_BY_PLANE} / scalar(sum(rate(mrc_port_tx_bytes_total{{{LAB},tier="host"}}[{WINDOW}])) > 0)'
)
RETRANSMIT_RATIO: Final = (
    f"sum(rate(mrc_retransmits_total{{{LAB}}}[{WINDOW}]))"
    f' / (sum(rate(mrc_tx_packets_total{{{LAB},kind="data"}}[{WINDOW}])) > 0)'
)
RETRANSMITS_BY_REASON: Final = rates_of_seen("reason", f"mrc_retransmits_total{{{LAB}}}")
_LINK_DROPS: Final = f"lab_plane_reason:mrc_link_drops_total:sum{{{PLANE}}}"
_SWITCH_DROPS: Final = f"lab_plane_reason:mrc_switch_drops_total:sum{{{PLANE}}}"
LINK_DROPS_BY_REASON: Final = rates_of_seen("reason", _LINK_DROPS)
DROPS_BY_REASON: Final = rates_of_seen("reason", _LINK_DROPS, _SWITCH_DROPS)
TRANSITIONS: Final = rates_of_seen("reason", f"mrc_ev_transitions_total{{{PLANE}}}")
EVS_BY_STATE: Final = f"sum by (state) (mrc_ev_state{{{PLANE}}})"
EVS_NOT_GOOD: Final = f'sum(mrc_ev_state{{{LAB},state!="GOOD"}})'
RUN: Final = f"mrc_testbed_run_info{{{LAB}}}"
FAULTS: Final = f"mrc_fault_active{{{LAB}}}"
FAULTS_OVER_TIME: Final = f"1 * {FAULTS} or 0 * max_over_time({FAULTS}[$__range] @ end())"
LEAVING: Final = f'sum by (plane) (rate(mrc_ev_transitions_total{{{PLANE},to="ASSUMED_BAD"}}[{WINDOW}]))'
RETURNING: Final = (
    f'sum by (plane) (rate(mrc_ev_transitions_total{{{PLANE},from="ASSUMED_BAD",to="GOOD"}}[{WINDOW}]))'
)
_UP: Final = f"mrc_link_up{{{PLANE}}}"
LINKS_DOWN: Final = (
    f"count by (link) ({_UP} == 0) or 0 * count by (link) (min_over_time({_UP}[$__range] @ end()) == 0)"
)
_SUSPECT: Final = f"mrc_link_probe_suspect{{{PLANE}}}"
SUSPECTS: Final = f"{_SUSPECT} and (max_over_time({_SUSPECT}[$__range] @ end()) == 1)"
COMPLETION: Final = "mrc_message_completion_seconds"
SENDER_COMPLETION: Final = "mrc_sender_completion_seconds"
RTT: Final = "mrc_packet_rtt_seconds"
STEP: Final = "mrc_training_step_seconds"
_MEAN_STEP: Final = (
    f"sum by (workload) (rate({STEP}_sum{{{LAB}}}[{WINDOW}]))"
    f" / (sum by (workload) (rate({STEP}_count{{{LAB}}}[{WINDOW}])) > 0)"
)
STEP_AGAINST_BEST: Final = f"max({_MEAN_STEP} / min_over_time(({_MEAN_STEP})[$__range:5s] @ end()))"

BAD_BY_T1: Final = (
    f'sum by (node) (mrc_link_evs{{{PLANE},state="ASSUMED_BAD"}})'
    f" / (sum by (node) (mrc_link_evs{{{PLANE}}}) > 0)"
)
_TOTAL_EVS: Final = f"sum by (plane) (mrc_ev_state{{{PLANE}}})"
_GOOD_EVS: Final = f'sum by (plane) (mrc_ev_state{{{PLANE},state="GOOD"}})'
GOOD_EV_RATIO: Final = f"{_GOOD_EVS} / ({_TOTAL_EVS} > 0)"
YES_NO: Final = {0: ("no", GREEN), 1: ("yes", RED)}
RATIO_STEPS: Final = ((0.001, YELLOW), (0.01, ORANGE), (0.05, RED))
COUNT_STEPS: Final = ((1, ORANGE),)
NONE: Final = "none in the shown time"


_FIRING: Final = (
    'ALERTS_FOR_STATE{lab=~"$lab|"} and ignoring (alertstate) ALERTS{alertstate="firing",lab=~"$lab|"}'
)
_OF_PLANE: Final = f'label_replace({_FIRING}, "of_plane", "plane $1", "plane", "(.+)")'
_OF_JOB: Final = f'label_replace({_OF_PLANE}, "of_job", "job $1", "workload", "(.+)")'
_PLACES: Final = '"link", "switch", "node", "of_plane", "of_job"'
ALERTS: Final = f'time() - label_join({_OF_JOB}, "where", " ", {_PLACES})'
"""Alerts that fire, and for how many seconds their condition holds; the label `where` says where."""


def goodput_by_node(selector: str) -> str:
    """Payload placed per second, bits, by the host that received it."""
    return f"sum by (node) (rate(mrc_goodput_bytes_total{{{selector}}}[{WINDOW}])) * 8"


def first_seen(series: str) -> str:
    """The time, in seconds since 1970, at which each of *series* was first seen in the shown time."""
    return f"min_over_time(timestamp({series})[$__range:1s])"


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


RTT_P99_BY_PLANE: Final = (
    f"max by (plane) (histogram_quantile(0.99, rate({RTT}_bucket{{{PLANE}}}[{WINDOW}])))"
)
"""One histogram is of one plane, and adding up one series for each bucket takes longer than all the rest."""
