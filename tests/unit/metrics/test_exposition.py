"""The text format, read back by the Prometheus client's own parser."""

import pytest
from histograms import histogram_of
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.metrics.exposition import Samples, TextWriter
from mrc_testbed.metrics.fabric_metrics import FAULT_ACTIVE
from mrc_testbed.metrics.histogram import Histogram
from mrc_testbed.metrics.metric import Metric, octaves

TIMES = Metric("mrc_test_seconds", "seconds", ("lab",), "Times.", octaves(10, 12))
COUNT = Metric("mrc_test_packets_total", "packets", ("lab", "node"), "Packets.")
LEVEL = Metric("mrc_test_level", "", (), "A level.")
WRITER_METRICS = (TIMES, COUNT, LEVEL)


def parse(page: bytes) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(page.decode())
        for sample in family.samples
    }


def test_a_page_has_help_type_and_samples_in_the_order_of_the_metrics() -> None:
    samples: Samples = {LEVEL.name: [((), 0.25)], COUNT.name: [(("l", "h0"), 7), (("l", "h1"), 2**64 - 1)]}
    assert TextWriter(WRITER_METRICS).write(samples).decode() == (
        "# HELP mrc_test_packets_total Packets. Unit: packets.\n"
        "# TYPE mrc_test_packets_total counter\n"
        'mrc_test_packets_total{lab="l",node="h0"} 7\n'
        'mrc_test_packets_total{lab="l",node="h1"} 18446744073709551615\n'
        "# HELP mrc_test_level A level.\n"
        "# TYPE mrc_test_level gauge\n"
        "mrc_test_level 0.25\n"
    )


def test_a_histogram_becomes_cumulative_buckets_in_seconds() -> None:
    histogram = histogram_of([100, 1023, 1024, 1119, 1120, 4095, 4096, 10**9])
    parsed = parse(TextWriter(WRITER_METRICS).write({TIMES.name: [(("l",), histogram)]}))

    def below(bound: str) -> float:
        return parsed["mrc_test_seconds_bucket", (("lab", "l"), ("le", bound))]

    assert below("0.000001024") == 2
    assert below("0.00000112") == 4
    assert below("0.000004096") == 6
    assert below("+Inf") == 8
    assert parsed["mrc_test_seconds_count", (("lab", "l"),)] == 8
    assert parsed["mrc_test_seconds_sum", (("lab", "l"),)] == histogram.sum_ns / 1e9


@given(st.text(max_size=20))
def test_any_label_value_survives(value: str) -> None:
    page = TextWriter(METRICS).write({FAULT_ACTIVE.name: [(("default", value, "loss", "h0"), 1)]})
    key = (("fault_id", value), ("kind", "loss"), ("lab", "default"), ("place", "h0"))
    # the parser splits the page at every line end that Unicode knows; the format knows only \n
    if len(value.splitlines()) <= 1 and not value.endswith(
        ("\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029")
    ):
        assert parse(page)[FAULT_ACTIVE.name, key] == 1
    assert page.count(b"\n") == 3


def test_a_later_page_shows_later_values() -> None:
    writer = TextWriter(WRITER_METRICS)
    assert b" 1\n" in writer.write({COUNT.name: [(("l", "h0"), 1)]})
    assert b" 2\n" in writer.write({COUNT.name: [(("l", "h0"), 2)]})


def test_series_come_and_go_from_page_to_page() -> None:
    writer = TextWriter(WRITER_METRICS)
    first, second, both = [(("l", "h0"), 1)], [(("l", "%h1"), 2)], [(("l", "%h1"), 3), (("l", "h0"), 4)]
    for series in (first, second, both, [], first, both):
        page = writer.write({COUNT.name: series})
        lines = [line for line in page.decode().splitlines() if not line.startswith("#")]
        assert lines == [f'{COUNT.name}{{lab="l",node="{node}"}} {value}' for (_, node), value in series]


def test_a_metric_without_series_is_left_out() -> None:
    assert TextWriter(WRITER_METRICS).write({COUNT.name: []}) == b""


def test_labels_that_do_not_fit_the_metric_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        TextWriter(WRITER_METRICS).write({COUNT.name: [(("l",), 1)]})


def test_a_histogram_without_buckets_is_refused() -> None:
    with pytest.raises(TypeError, match="buckets"):
        TextWriter(WRITER_METRICS).write({COUNT.name: [(("l", "h0"), Histogram())]})
