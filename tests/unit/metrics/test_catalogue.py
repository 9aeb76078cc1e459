"""The catalogue's own rules, and that every counter of the data plane has a place in it."""

import re
from importlib import import_module
from itertools import pairwise
from pathlib import Path

import pytest
from reference_pages import metrics_page

from mrc_agents.abi import EvState, NicCounter, PortCounter
from mrc_testbed import metrics
from mrc_testbed.metrics import counters, series
from mrc_testbed.metrics import metric as buckets
from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.histogram import bucket_lower_ns
from mrc_testbed.metrics.metric import Metric
from mrc_testbed.metrics.series import HostTable

PROMISED = {
    "mrc_message_completion_seconds",
    "mrc_sender_completion_seconds",
    "mrc_packet_rtt_seconds",
    "mrc_goodput_bytes_total",
    "mrc_tx_packets_total",
    "mrc_rx_packets_total",
    "mrc_retransmits_total",
    "mrc_ev_state",
    "mrc_ev_transitions_total",
    "mrc_link_up",
    "mrc_link_flaps_total",
    "mrc_link_suspicions_total",
    "mrc_fault_active",
    "mrc_collective_duration_seconds",
    "mrc_switch_queue_delay_seconds",
    "mrc_switch_queue_bytes",
    "mrc_trims_total",
    "mrc_ecn_marks_total",
    "mrc_reorder_depth_packets",
    "mrc_cwnd_bytes",
    "mrc_recovery_seconds",
    "mrc_testbed_run_info",
    "mrc_testbed_host_saturated",
    "mrc_testbed_build_info",
}
UNBOUNDED = {"qp", "qpn", "psn", "ev", "entropy", "address", "ip", "pid", "path"}


def test_every_promised_name_is_there_once() -> None:
    names = [metric.name for metric in METRICS]
    assert set(names) >= PROMISED
    assert len(names) == len(set(names))


def test_every_module_of_metrics_is_exported() -> None:
    folder = Path(metrics.__file__).parent
    named = {
        value.name
        for path in folder.glob("*_metrics.py")
        for value in vars(import_module(f"mrc_testbed.metrics.{path.stem}")).values()
        if isinstance(value, Metric)
    }
    assert named == {metric.name for metric in METRICS}


COUNTERS = [counter for metric in METRICS for counter in metric.counters]


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_named_as_its_type_and_unit_demand(metric: Metric) -> None:
    assert re.fullmatch(r"mrc_[a-z0-9_]+", metric.name)
    assert metric.buckets is None or not metric.name.endswith("_total")
    if metric.unit in {"seconds", "bytes", "ratio"}:
        assert metric.unit in metric.name.removesuffix("_total").split("_")
    assert metric.help.endswith(".")
    assert "\n" not in metric.help


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_labels_are_bounded(metric: Metric) -> None:
    assert not UNBOUNDED & set(metric.labels)


@pytest.mark.parametrize(
    ("classic", "widest_ratio"),
    [
        (buckets.PACKET_RTT, 0.094),
        (buckets.MESSAGE_COMPLETION, 0.094),
        (buckets.COLLECTIVE, 0.094),
        (buckets.LATENESS, 0.094),
        (buckets.QUEUE_DELAY, 0.125),
        (buckets.SENDER_COMPLETION, 0.275),
    ],
)
def test_classic_buckets_are_edges_of_fine_ones_and_narrow(
    classic: buckets.ClassicBuckets, widest_ratio: float
) -> None:
    assert [bucket_lower_ns(index) for index in classic.indices] == list(classic.bounds_ns)
    assert all(1 < later / earlier <= 1 + widest_ratio for earlier, later in pairwise(classic.bounds_ns))
    assert classic.widest_ratio == pytest.approx(widest_ratio, rel=0.003)
    assert [float(label) for label in classic.labels] == [bound / 1e9 for bound in classic.bounds_ns]
    assert not any("e" in label for label in classic.labels)


def test_bounds_beyond_the_fine_histogram_are_refused() -> None:
    with pytest.raises(ValueError, match="edges"):
        buckets.octaves(30, 40)


def test_every_counter_of_a_nic_has_a_metric_or_a_reason_not_to() -> None:
    exported = {counter for counter in COUNTERS if isinstance(counter, NicCounter)}
    # duplicates are within RX_DATA, acknowledged packets follow from bytes; the rest is the agent's business
    left_out = {
        NicCounter.RX_DUPLICATE,
        NicCounter.ACKED_PACKETS,
        NicCounter.KICK_PACKETS,
        NicCounter.CLOCK_RESTARTS,
        NicCounter.COUNT,
    }
    assert exported | left_out == set(NicCounter)
    assert not exported & left_out


def test_every_counter_of_a_port_has_a_metric() -> None:
    exported = {counter for counter in COUNTERS if isinstance(counter, PortCounter)}
    assert exported | {PortCounter.COUNT} == set(PortCounter)


def test_each_counter_is_in_one_metric() -> None:
    names = [(type(counter), counter) for counter in COUNTERS]
    assert len(names) == len(set(names))


def test_a_run_takes_its_counts_from_the_same_table() -> None:
    counts = HostTable.of({"h0": 0}, [[counter] for counter in range(NicCounter.COUNT)])["h0"]
    assert counts.goodput_bytes == NicCounter.RX_PLACED_BYTES
    assert counts.retransmits_tail == NicCounter.TX_RETRANSMIT_TAIL
    assert counts.tx_data_packets == NicCounter.TX_DATA
    assert counts.refused_packets == sum(counters.NIC_DROPS)


def test_every_state_of_an_ev_is_exported_but_unused() -> None:
    assert set(EvState) - set(series.EV_STATES) == {EvState.UNUSED, EvState.STATE_COUNT}


def test_the_reference_page_is_up_to_date() -> None:
    page = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"
    assert page.read_text(encoding="utf-8") == metrics_page()
