r"""Any traffic over a network under flow control, the real programs against the reference, to a nanosecond.

source 1 -> port 3 \              / port 5 -> end
                     one switch
source 2 -> port 4 /              \ port 6 -> end
"""

from collections.abc import Iterator
from itertools import accumulate, count
from typing import Any

import pytest
from exploring import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from lossless_bench import LosslessBench
from reference.lossless import BUCKET_NS, CONTROL, DATA, FlowKind, Frame, PortShape, ReferenceNetwork
from switch_bench import now_ns

MBIT = 10**6
SECOND = 10**9
SOURCES, UPLINKS, DOWNLINKS = (1, 2), (3, 4), (5, 6)
SOURCE = PortShape(10**12, 0, ends_at_nic=False)


@pytest.fixture(scope="module")
def bench() -> Iterator[LosslessBench]:
    with LosslessBench(6) as switch:
        yield switch


@pytest.fixture(scope="module")
def past_times_ns() -> Iterator[int]:
    """Times long enough ago for all that follows to be due, each the start of a bucket of the wheel."""
    return count((now_ns() - 300 * SECOND) // BUCKET_NS * BUCKET_NS, SECOND // 5 // BUCKET_NS * BUCKET_NS)


@st.composite
def traffic(draw: st.DrawFn) -> list[tuple[int, Frame]]:
    """Frames by time, two to a source."""
    gap_ns = st.integers(1, 60).map(lambda steps: steps * 7_919)
    row = st.tuples(
        gap_ns,
        st.sampled_from([0, 1]),
        st.sampled_from([CONTROL, DATA, DATA, DATA]),
        st.sampled_from([150, 999, 2186]),
        st.sampled_from(DOWNLINKS),
    )
    rows = draw(st.lists(row, min_size=1, max_size=40))
    times = accumulate(gap for gap, *_ in rows)
    return [
        (time, Frame(label, kind, length, (SOURCES[side], UPLINKS[side], down)))
        for label, (time, (_, side, kind, length, down)) in enumerate(zip(times, rows, strict=True))
    ]


@given(
    arrivals=traffic(),
    kind=st.sampled_from([FlowKind.PFC, FlowKind.CREDITS]),
    uplink_mbps=st.sampled_from([97, 199]),
    downlink_mbps=st.sampled_from([23, 53]),
    delay_ns=st.sampled_from([5_003, 61_001, 400_009]),
    buffer_bytes=st.integers(2_186, 40_000),
    xoff_bytes=st.integers(1, 9_000),
    hysteresis_bytes=st.integers(0, 5_000),
)
@settings(
    max_examples=examples(100), suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow]
)
def test_any_traffic_is_held_as_the_reference_says(
    bench: LosslessBench,
    past_times_ns: Iterator[int],
    arrivals: list[tuple[int, Frame]],
    kind: FlowKind,
    uplink_mbps: int,
    downlink_mbps: int,
    delay_ns: int,
    buffer_bytes: int,
    xoff_bytes: int,
    hysteresis_bytes: int,
) -> None:
    held: dict[str, Any] = {
        "kind": kind,
        "xoff_bytes": xoff_bytes,
        "xon_bytes": max(0, xoff_bytes - 1 - hysteresis_bytes),
        "buffer_bytes": buffer_bytes,
    }
    shapes = dict.fromkeys(SOURCES, SOURCE)
    shapes |= {
        port: PortShape(
            uplink_mbps * MBIT + port, delay_ns + port, delay_ns - port, ends_at_nic=False, **held
        )
        for port in UPLINKS
    }
    shapes |= {
        port: PortShape(downlink_mbps * MBIT + port, delay_ns // 2, delay_ns // 3, **held)
        for port in DOWNLINKS
    }
    network = ReferenceNetwork(shapes)
    network.carry(arrivals)
    assume(not network.is_ambiguous)

    bench.shape_all(shapes)
    before = sum(bench.drops(port) for port in DOWNLINKS)
    deliveries = bench.carry(next(past_times_ns), arrivals)

    assert deliveries == network.deliveries
    assert sum(bench.drops(port) for port in DOWNLINKS) - before == len(network.dropped)
    if kind is FlowKind.CREDITS:
        assert not network.dropped
    for port in UPLINKS:
        assert bench.account(port) == network.accounts[port]
        assert bench.links[port].buffered_bytes == 0
