"""Messages over a TCP connection behave as those of a QP: placed, answered, refused, counted."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_device import PlainDevice
from waiting import DEADLINE_S

from mrc_testbed.agents.abi import Histogram, QpState, Work
from mrc_testbed.agents.nic.device import NicDevice
from mrc_testbed.agents.nic.histogram import bucket_index, count_time
from mrc_testbed.agents.nic.memory import MemoryRegion, RegionTable
from mrc_testbed.agents.nic.stream import Stream, StreamAttributes
from mrc_testbed.agents.nic.stream_ledger import StreamLedger
from mrc_testbed.agents.nic.stream_record import RECORD_BYTES, Record, RecordKind, decode_record
from mrc_testbed.agents.nic.work_queue import QPN_MIN, WorkQueue
from mrc_testbed.errors import AgentError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2))
U32, U64 = st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1)


class Side:
    """One host's end: its memory, its connection, and what it has reported."""

    def __init__(self, host: int) -> None:
        self.device = PlainDevice(FABRIC, host)
        device = cast("NicDevice", self.device)
        self.regions = RegionTable(device, 0)
        self.reported: list[dict[str, Any]] = []
        self.arrived = asyncio.Event()
        attributes = StreamAttributes(1 - host, is_mptcp=False, congestion="cubic")
        ledger = StreamLedger(device, 0)
        self.stream = Stream(WorkQueue(QPN_MIN, attributes), attributes, self.regions, ledger, self.publish)

    def publish(self, reported: dict[str, Any]) -> None:
        self.reported.append(reported)
        self.arrived.set()

    async def received(self, event: str, count: int = 1) -> list[dict[str, Any]]:
        """The events of this kind, once there are so many."""
        async with asyncio.timeout(DEADLINE_S):
            while len(found := [each for each in self.reported if each["event"] == event]) < count:
                self.arrived.clear()
                await self.arrived.wait()
        return found

    def post(self, near: MemoryRegion, far: MemoryRegion, **changes: int) -> None:
        """A message of the near region's bytes to the far one's."""
        work = {"id": 7, "length": near.length, "iterations": 1, "depth": 2} | changes
        work = {"local_offset": near.offset, "local_slots": 1, "remote_slots": 1, "r_key": far.r_key} | work
        self.stream.queue.posted.append(work["id"])
        self.stream.post(Work(**work))

    def memory(self, region: MemoryRegion) -> bytes:
        return bytes(self.regions.view(region.offset, region.length))


def with_two_ends(scene: Callable[[Side, Side], Awaitable[None]]) -> None:
    """Plays a scene between two connected ends."""

    async def play() -> None:
        near, far = Side(0), Side(1)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            near.stream.attach(socket.create_connection(listener.getsockname()))
            far.stream.attach(listener.accept()[0])
        try:
            await scene(near, far)
        finally:
            near.stream.close()
            far.stream.close()

    asyncio.run(play())


@given(st.sampled_from(RecordKind), U64, U64, U32, U32, st.none() | U32)
def test_a_record_comes_back_as_it_was(
    kind: RecordKind, number: int, offset: int, r_key: int, length: int, immediate: int | None
) -> None:
    record = Record(kind, number, offset, r_key, length, immediate)
    assert len(record.encode()) == RECORD_BYTES
    assert decode_record(record.encode()) == record


@pytest.mark.parametrize(
    "encoded", [bytes(RECORD_BYTES), Record(RecordKind.DONE, 1).encode()[:2] + b"\t" * 30]
)
def test_other_bytes_are_no_record(encoded: bytes) -> None:
    with pytest.raises(AgentError, match="invalid record"):
        decode_record(encoded)


def test_messages_are_placed_slot_by_slot_and_counted() -> None:
    async def scene(near: Side, far: Side) -> None:
        source, target = near.regions.register(300_000), far.regions.register(600_000)
        near.regions.view(source.offset, source.length)[:] = bytes(range(250)) * 1200
        near.post(source, target, length=100_000, iterations=6, local_slots=3, remote_slots=6)
        (reported,) = await near.received("completion")
        assert (reported["work_id"], reported["iterations"], reported["status"]) == (7, 6, "success")
        assert far.memory(target) == near.memory(source) * 2
        assert near.device.streams[0].acked_bytes == 600_000
        account = near.device.stream_account
        assert (account.acked_bytes, account.messages, account.errors) == (600_000, 6, 0)
        assert sum(account.completion.buckets) == 6
        assert far.device.stream_account.placed_bytes == 600_000
        assert not near.stream.queue.posted

    with_two_ends(scene)


def test_an_immediate_waits_until_it_is_accepted() -> None:
    async def scene(near: Side, far: Side) -> None:
        source, target = near.regions.register(5000), far.regions.register(5000)
        far.stream.accept(1)
        near.post(source, target, iterations=2, has_immediate=1, immediate=44)
        (first,) = await far.received("receive")
        assert (first["number"], first["immediate"], first["length"]) == (1, 44, 5000)
        assert not [reported for reported in near.reported if reported["event"] == "completion"]
        far.stream.accept(1)
        await far.received("receive", 2)
        await near.received("completion")

    with_two_ends(scene)


def test_work_that_is_stopped_ends_with_what_had_begun() -> None:
    async def scene(near: Side, far: Side) -> None:
        source, target = near.regions.register(100), far.regions.register(100)
        near.post(source, target, iterations=1_000_000)
        near.stream.stop(7)
        (reported,) = await near.received("completion")
        assert 1 <= reported["iterations"] < 1_000_000
        assert reported["status"] == "success"

    with_two_ends(scene)


@pytest.mark.parametrize("wrong", [{"r_key": 12345}, {"remote_offset": 1}])
def test_a_message_beyond_its_region_is_refused(wrong: dict[str, int]) -> None:
    async def scene(near: Side, far: Side) -> None:
        source, target = near.regions.register(200_000), far.regions.register(200_000)
        near.regions.view(source.offset, source.length)[:] = b"x" * source.length
        near.post(source, target, **wrong)
        near.post(source, target, id=8)
        (reported,) = await near.received("qp_state")
        assert (reported["to"], reported["status"]) == ("ERROR", "remote_access")
        statuses = [(done.work_id, done.status) for done in near.stream.queue.completions]
        assert statuses == [(7, "remote_access"), (8, "flushed")]
        assert near.stream.queue.state == QpState.ERROR
        assert near.device.stream_account.errors == 1
        assert far.memory(target) == bytes(200_000)

    with_two_ends(scene)


def test_the_far_end_s_death_fails_what_was_under_way() -> None:
    async def scene(near: Side, far: Side) -> None:
        source, target = near.regions.register(5000), far.regions.register(5000)
        near.post(source, target, has_immediate=1)  # never accepted
        far.stream.close()
        (reported,) = await near.received("qp_state")
        assert reported["to"] == "ERROR"

    with_two_ends(scene)


def test_times_are_counted_where_the_kernel_would() -> None:
    histogram = Histogram()
    for value_ns in (0, 31, 5_000_000):
        count_time(histogram, value_ns)
    assert (histogram.sum_ns, histogram.max_ns) == (5_000_031, 5_000_000)
    assert [histogram.buckets[bucket_index(value_ns)] for value_ns in (0, 31, 5_000_000)] == [1, 1, 1]
