"""Differences and summaries of readings."""

import dataclasses

import pytest
from histograms import histogram_of
from host_tables import host_table

from mrc_agents.abi import EvState
from mrc_testbed.metrics.cpu_use import CpuReading, CpuTimes
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.series import HostCounts, Reading, summarize

EARLY = Reading(
    time_ns=1_000_000_000,
    hosts=host_table({"h0": HostCounts(goodput_bytes=100, tx_data_packets=5), "h1": HostCounts()}),
    packet_rtt=(histogram_of([1000]), Histogram()),
    message_completion=histogram_of([9000]),
    ev_states={(0, EvState.GOOD): 32},
    plane_tx_bytes=(1000, 0),
    port_drops={"loss": 2, "queue_full": 0},
    deepest_queue_bytes={"t0_down": 5000},
    ecn_marks=7,
    trims=1,
    cpus=CpuReading(1_000_000_000, (CpuTimes("0", 100, 50, 0, 0),)),
)
LATE = Reading(
    time_ns=1_100_000_000,
    hosts=host_table(
        {
            "h0": HostCounts(goodput_bytes=100, tx_data_packets=15, retransmits_sack=2),
            "h1": HostCounts(goodput_bytes=250_000),
        }
    ),
    packet_rtt=(histogram_of([1000, 3000]), histogram_of([5000] * 3)),
    message_completion=histogram_of([9000]),
    ev_states={(0, EvState.GOOD): 31, (0, EvState.ASSUMED_BAD): 1},
    plane_tx_bytes=(3000, 500),
    port_drops={"loss": 5, "queue_full": 1},
    deepest_queue_bytes={"t0_down": 300},
    ecn_marks=10,
    trims=1,
    cpus=CpuReading(1_100_000_000, (CpuTimes("0", 110, 55, 1, 0),)),
)


def test_an_interval_is_the_difference_of_its_readings() -> None:
    interval = LATE.since(EARLY)
    assert (interval.start_ns, interval.end_ns) == (EARLY.time_ns, LATE.time_ns)
    assert interval.hosts["h0"] == HostCounts(tx_data_packets=10, retransmits_sack=2)
    assert interval.hosts["h1"] == HostCounts(goodput_bytes=250_000)
    assert [rtt.count for rtt in interval.packet_rtt] == [1, 3]
    assert interval.message_completion.count == 0
    assert interval.ev_states == LATE.ev_states
    assert interval.plane_tx_bytes == (2000, 500)
    assert interval.port_drops == {"loss": 3, "queue_full": 1}
    assert interval.cpu_use[0].busy_ratio == 0.5
    assert interval.deepest_queue_bytes == {"t0_down": 300}
    assert (interval.ecn_marks, interval.trims) == (3, 0)


def test_goodput_is_payload_per_second_over_all_hosts() -> None:
    assert LATE.since(EARLY).goodput_bps == pytest.approx(20e6)


def test_rtt_over_all_planes_merges_their_times() -> None:
    latency = LATE.since(EARLY).packet_rtt_overall()
    assert latency is not None
    assert latency.count == 4
    assert latency.p50_ns == pytest.approx(5000, rel=0.032)
    assert latency.max_ns == 5000


def test_a_reading_of_another_lab_is_refused() -> None:
    with pytest.raises(ValueError, match="went down"):
        EARLY.since(LATE)


def test_hosts_add_up_field_by_field() -> None:
    total = LATE.hosts.total()
    assert total == HostCounts(goodput_bytes=250_100, tx_data_packets=15, retransmits_sack=2)
    grown = LATE.since(EARLY).hosts
    assert grown.total() == HostCounts(goodput_bytes=250_000, tx_data_packets=10, retransmits_sack=2)
    assert dict(zip(grown, grown.column("tx_data_packets"), strict=True)) == {"h0": 10, "h1": 0}


def test_every_reason_to_send_again_counts() -> None:
    each = HostCounts(
        retransmits_sack=1, retransmits_timeout=2, retransmits_nack=4, retransmits_ack=8, retransmits_tail=16
    )
    assert each.retransmits == 31


def test_nothing_recorded_has_no_latency() -> None:
    assert summarize(Histogram()) is None


def test_a_summary_has_the_usual_percentiles() -> None:
    latency = summarize(histogram_of(range(1, 10_001)))
    assert latency is not None
    assert latency.count == 10_000
    assert latency.p50_ns == pytest.approx(5000, rel=0.016)
    assert latency.p90_ns == pytest.approx(9000, rel=0.016)
    assert latency.p99_ns == pytest.approx(9900, rel=0.016)
    assert latency.p999_ns == pytest.approx(9990, rel=0.016)
    assert latency.max_ns == 10_000
    assert set(dataclasses.asdict(latency)) == {"count", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns"}
