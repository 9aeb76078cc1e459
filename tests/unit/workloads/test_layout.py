"""The memory expected after a batch, against a plain simulation of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.abi import Limit
from mrc_testbed.errors import UsageError
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.layout import BATCH_BYTES_MAX, PAGE_BYTES, Layout, plan_layout

layouts = st.builds(Layout, size_bytes=st.integers(1, 5), slots=st.integers(1, 7), halves=st.integers(1, 2))


def send(layout, target, batch, messages):
    """Writes into *target* the number of the source byte that each message brings."""
    local_start, remote_start = layout.batch_offsets(batch)
    for i in range(messages):
        source = local_start + i % layout.local_slots * layout.size_bytes
        place = remote_start + i % layout.slots * layout.size_bytes
        target[place : place + layout.size_bytes] = range(source, source + layout.size_bytes)


def found(layout, batch, messages):
    expected = {}
    for interval in layout.expected(batch, messages):
        for i in range(interval.length):
            assert interval.remote_offset + i not in expected
            expected[interval.remote_offset + i] = interval.local_offset + i
    return expected


@given(layouts, st.integers(0, 9), st.integers(0, 40))
def test_expected_bytes_are_those_that_the_messages_brought(layout, batch, messages):
    target = [None] * layout.remote_bytes
    send(layout, target, batch, messages)
    assert found(layout, batch, messages) == {
        place: source for place, source in enumerate(target) if source is not None
    }


@given(layouts, st.integers(0, 9), st.integers(1, 40))
def test_every_source_byte_lies_in_the_source_region(layout, batch, messages):
    assert max(found(layout, batch, messages).values()) < layout.local_bytes


@given(layouts, st.integers(0, 9), st.integers(1, 20))
def test_a_message_that_never_came_is_noticed(layout, batch, passes):
    """Whatever the half held before, its last pass differs from the pass and from the batch before it."""
    messages = passes * layout.slots
    after = found(layout, batch, messages)
    if passes > 1:
        before = found(layout, batch, messages - layout.slots)
    else:
        before = found(layout, batch + layout.halves, messages)
    assert set(before) == set(after)
    assert all(before[place] != after[place] for place in after)


@given(st.integers(1, 8 << 20), st.integers(1, 64), st.integers(1, 64))
def test_no_two_messages_outstanding_write_the_same_slot_at_once(size_bytes, slots, wanted):
    """Packets further apart than the PSN range are not under way together, whatever the depth."""
    layout = Layout(size_bytes, slots, halves=2)
    depth = layout.depth(wanted)
    assert 1 <= depth <= wanted
    assert depth <= slots or slots * size_bytes >= Limit.PSN_RING * Limit.PMTU_MAX


def test_a_roomy_batch_leaves_the_depth_alone():
    assert Layout(4 << 20, slots=1, halves=2).depth(16) == 16
    assert Layout(65536, slots=4, halves=2).depth(16) == 4


def test_batches_alternate_between_the_halves():
    layout = Layout(size_bytes=10, slots=4, halves=2)
    assert [layout.batch_offsets(batch) for batch in range(5)] == [(0, 0), (0, 40), (10, 0), (10, 40), (0, 0)]


def flows(*pairs):
    return [Flow("main", source, target, index) for index, (source, target) in enumerate(pairs)]


@given(
    st.integers(1, 1 << 22),
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz")), min_size=1, max_size=6),
    st.integers(1, 64),
)
def test_a_planned_layout_fits_every_nic(size_bytes, pairs, memory_mib):
    memory = dict.fromkeys("abcxyz", memory_mib << 20)
    ring = flows(*pairs, *((target, source) for source, target in pairs))
    try:
        layout = plan_layout(size_bytes, ring, memory)
    except UsageError:
        assert size_bytes * 4 * len(ring) > (memory_mib << 20) - 2 * PAGE_BYTES * len(ring)
        return
    for host in memory:
        used = sum(layout.local_bytes + PAGE_BYTES for flow in ring if flow.source == host)
        used += sum(layout.remote_bytes + PAGE_BYTES for flow in ring if flow.target == host)
        assert used <= memory[host]
    assert layout.slots * size_bytes <= max(BATCH_BYTES_MAX, size_bytes)


def test_two_halves_are_given_up_before_a_workload_is_refused():
    memory = {"h0": 16 << 20, "h1": 16 << 20}
    ring = flows(("h0", "h1"), ("h1", "h0"))
    assert plan_layout(1 << 20, ring, memory) == Layout(1 << 20, 4, 2)
    assert plan_layout((4 << 20) - PAGE_BYTES, ring, memory) == Layout((4 << 20) - PAGE_BYTES, 1, 1)


def test_messages_that_do_not_fit_are_refused_with_the_nic():
    memory = {"h0": 16 << 20, "h1": 8 << 20}
    with pytest.raises(UsageError, match=r"messages of 8MiB need .* at h0, which has 16MiB for them"):
        plan_layout(8 << 20, flows(("h0", "h1")), memory)
