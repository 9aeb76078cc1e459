"""PromQL of the dashboards: what several of them show, and what takes more than a line."""

from typing import Final

from dashboards.board import LAB, PLANE, WINDOW
from dashboards.panel import ORANGE, RED, YELLOW, Query


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
_CORRUPTED: Final = f'mrc_nic_drops_total{{{LAB},reason="icrc"}}'
_LINK_DROPS: Final = f"lab_plane_reason:mrc_link_drops_total:sum{{{PLANE}}}"
_SWITCH_DROPS: Final = f"lab_plane_reason:mrc_switch_drops_total:sum{{{PLANE}}}"
FAULT_DROPS_BY_REASON: Final = rates_of_seen("reason", _LINK_DROPS, _CORRUPTED)
DROPS_BY_REASON: Final = rates_of_seen("reason", _LINK_DROPS, _SWITCH_DROPS, _CORRUPTED)
TRANSITIONS: Final = rates_of_seen(
    "reason",
    f'mrc_ev_transitions_total{{{PLANE},to="ASSUMED_BAD"}}',
    f'mrc_ev_transitions_total{{{PLANE},from="ASSUMED_BAD"}}',
)
EVS_BY_STATE: Final = f'sum by (state) (mrc_ev_state{{{PLANE},state!="GOOD"}})'
OUT_OF_USE: Final = 'state=~"ASSUMED_BAD|DENIED"'
"""SKIP is none of it: that loses a turn, as under any congestion."""

EVS_OUT_OF_USE: Final = f"sum(mrc_ev_state{{{LAB},{OUT_OF_USE}}})"
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
SUSPECT: Final = f"mrc_link_probe_suspect{{{PLANE}}}"
SUSPECTS_OVER_TIME: Final = f"{SUSPECT} and (max_over_time({SUSPECT}[$__range] @ end()) == 1)"
COMPLETION: Final = "mrc_message_completion_seconds"
SENDER_COMPLETION: Final = "mrc_sender_completion_seconds"
RTT: Final = "mrc_packet_rtt_seconds"
STEP: Final = "mrc_training_step_seconds"
_RECORDED_STEP: Final = "lab_workload:mrc_training_step_seconds"
STEP_AGAINST_BEST: Final = (
    f"max({_RECORDED_STEP}:mean10s{{{LAB}}} / {_RECORDED_STEP}:best10m{{{LAB}}})"
    f" or vector(0) and on () count({STEP}_count{{{LAB}}} and on (lab) {RUN}) or vector(-1)"
)
"""0: a job that has completed no step for ten seconds. -1: no run has a job."""

LATE: Final = "mrc_testbed_queue_lateness_seconds"
LATE_S: Final = 0.0005
"""Lateness at p99 that no run is trusted with, however long its RTT is."""

OBJECTIVE: Final[Query] = ("mrc:message_completion_p99_objective:seconds", "objective")

BAD_BY_SWITCH: Final = (
    f'sum by (node) (mrc_link_evs{{{PLANE},state="ASSUMED_BAD"}})'
    f" / (sum by (node) (mrc_link_evs{{{PLANE}}}) > 0)"
)
OUT_OF_USE_BY_PLANE: Final = f"lab_plane:mrc_ev_bad:ratio{{{PLANE}}}"
RATIO_STEPS: Final = ((0.001, YELLOW), (0.01, ORANGE), (0.05, RED))
COUNT_STEPS: Final = ((1, ORANGE),)
NONE: Final = "none in the shown time"


_FIRING: Final = (
    'ALERTS_FOR_STATE{lab=~"$lab|"} and ignoring (alertstate) ALERTS{alertstate="firing",lab=~"$lab|"}'
)
_OF_PLANE: Final = f'label_replace({_FIRING}, "of_plane", "plane $1", "plane", "(.+)")'
_OF_JOB: Final = f'label_replace({_OF_PLANE}, "of_job", "workload $1", "workload", "(.+)")'
_PLACES: Final = '"link", "switch", "node", "of_plane", "of_job"'
_WHERE: Final = f'label_join({_OF_JOB}, "where", " ", {_PLACES})'
ALERTS: Final = f'time() - label_replace({_WHERE}, "where", "whole lab", "where", " *")'
"""Alerts that fire, and for how many seconds their condition holds; the label `where` says where."""


def first_seen(series: str) -> str:
    """The time, in seconds since 1970, at which each of *series* was first seen in the shown time."""
    return f"min_over_time(timestamp({series})[$__range:1s])"


def quantile(ratio: float, metric: str, selector: str, by: str = "") -> str:
    """The quantile *ratio* of a histogram over the rate window, by one more label or over all."""
    labels = f"{by}, le" if by else "le"
    return f"histogram_quantile({ratio:g}, sum by ({labels}) (rate({metric}_bucket{{{selector}}}[{WINDOW}])))"


def typical_and_worst(metric: str, selector: str) -> list[Query]:
    """p50 and the largest, of what happens a few times in the rate window only."""
    return [(quantile(0.5, metric, selector), "p50"), (quantile(1, metric, selector), "max")]


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
