"""Memory regions: where they lie, which key opens them, and that a key given back opens nothing."""

from collections.abc import Callable, Iterator

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.abi import Limit, PageList
from mrc_agents.nic.memory import NoRoomError, RegionPlace, RegionTable
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2))
MEMORY_BYTES = 1 << 20
PAGE_BYTES = 4096
ADDRESS = 0x7F00_0000_0000
LIFETIME_NS = 1 << 60


@pytest.fixture
def device() -> Iterator[VirtualNic]:
    with virtual_nic(FABRIC, memory_bytes=MEMORY_BYTES) as nic:
        yield nic


@pytest.fixture
def table(device: VirtualNic) -> RegionTable:
    return RegionTable(device, LIFETIME_NS)


def test_region_is_known_to_the_kernel_and_zeroed(device: VirtualNic, table: RegionTable) -> None:
    device.memory.view[:] = b"\xff" * MEMORY_BYTES
    region = table.register(10_000)
    entry = device.regions[region.r_key % Limit.REGION_MAX]
    assert (entry.r_key, entry.offset, entry.length) == (region.r_key, region.offset, 10_000)
    assert entry.is_remote_writable
    assert bytes(device.memory.view[region.offset : region.offset + 10_000]) == bytes(10_000)
    assert device.memory.view[region.offset + 10_000] == 0xFF


def test_memory_that_nobody_has_had_is_taken_as_zeros(device: VirtualNic, table: RegionTable) -> None:
    device.fresh_from = 0
    device.memory.view[:] = b"\xff" * MEMORY_BYTES
    table.deregister(table.register(10_000).r_key)
    assert device.memory.view[0] == 0xFF
    assert table.register(20_000).offset == 0
    assert bytes(device.memory.view[: 4 * PAGE_BYTES]) == bytes(3 * PAGE_BYTES) + b"\xff" * PAGE_BYTES


def test_regions_do_not_overlap_and_start_at_pages(table: RegionTable) -> None:
    regions = [table.register(length) for length in (1, 4096, 4097, 100, 9000)]
    ends = [region.offset + region.length for region in regions]
    assert [region.offset % PAGE_BYTES for region in regions] == [0] * 5
    assert all(end <= region.offset for end, region in zip(ends, regions[1:], strict=False))


def test_room_given_back_is_used_again(table: RegionTable) -> None:
    first, second, third = (table.register(PAGE_BYTES) for _ in range(3))
    table.deregister(second.r_key)
    assert table.register(PAGE_BYTES + 1).offset > third.offset
    assert table.register(PAGE_BYTES).offset == second.offset
    assert first.offset == 0


def test_keys_differ_and_are_never_0(table: RegionTable) -> None:
    keys = set()
    for _ in range(200):
        region = table.register(1)
        keys.add(region.r_key)
        table.deregister(region.r_key)
    assert len(keys) == 200
    assert all(0 < key < 1 << 32 and key >> Limit.KEY_INDEX_BITS for key in keys)


def test_a_key_is_not_drawn_again_while_packets_may_name_it(
    device: VirtualNic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "regions", [device.regions[0]])
    table = RegionTable(device, LIFETIME_NS)
    drawn = iter([5, 5, 5, 6])
    monkeypatch.setattr("mrc_agents.nic.memory.randbits", lambda _: next(drawn))
    first = table.register(1)
    table.deregister(first.r_key)
    assert device.awaited_runs == 0
    second = table.register(1)
    assert (first.r_key >> Limit.KEY_INDEX_BITS, second.r_key >> Limit.KEY_INDEX_BITS) == (6, 7)
    assert device.awaited_runs == 1  # before the memory, or the key's place, is used again


def test_what_was_given_back_rests_in_the_background_and_a_request_waits_only_for_that(
    device: VirtualNic, table: RegionTable
) -> None:
    ends: list[Callable[[], None]] = []
    table.grace.in_background = lambda _, then: ends.append(then)
    first = table.register(MEMORY_BYTES // 2)
    table.deregister(first.r_key)
    assert table.register(PAGE_BYTES).offset == MEMORY_BYTES // 2
    assert device.awaited_runs == 0
    assert table.register(MEMORY_BYTES // 2).offset == first.offset
    assert device.awaited_runs == 1
    ends.pop()()
    assert table.register(PAGE_BYTES).offset == MEMORY_BYTES // 2 + PAGE_BYTES


def test_places_in_the_table_come_again_when_all_have_been_used(
    device: VirtualNic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "regions", [device.regions[place] for place in range(2)])
    table = RegionTable(device, LIFETIME_NS)
    first, second = table.register(1), table.register(1)
    for old in (second, first):
        table.deregister(old.r_key)
    again = [table.register(1).r_key % Limit.REGION_MAX for _ in range(2)]
    assert again == [second.r_key % Limit.REGION_MAX, first.r_key % Limit.REGION_MAX]
    with pytest.raises(NoRoomError, match="all 2 memory regions are in use"):
        table.register(1)


def test_key_given_back_opens_nothing(device: VirtualNic, table: RegionTable) -> None:
    region = table.register(100)
    table.deregister(region.r_key)
    assert device.regions[region.r_key % Limit.REGION_MAX].r_key == 0
    with pytest.raises(UsageError, match=f"no memory region has the key {region.r_key:#x}"):
        table.deregister(region.r_key)
    with pytest.raises(UsageError, match="lie in no registered region"):
        table.check(region.offset, 1)


def test_table_begins_empty_whatever_an_earlier_agent_left(device: VirtualNic) -> None:
    earlier = RegionTable(device, LIFETIME_NS)
    keys = [earlier.register(1).r_key for _ in range(3)]
    RegionTable(device, LIFETIME_NS)
    assert [device.regions[key % Limit.REGION_MAX].r_key for key in keys] == [0, 0, 0]
    device.control.region_count = 0xFFFFFFFF  # as a process of the host may write it
    RegionTable(device, LIFETIME_NS)


@pytest.mark.parametrize("length", [0, -1])
def test_empty_region_is_refused(table: RegionTable, length: int) -> None:
    with pytest.raises(UsageError, match=f"length: {length} bytes; at least 1 is accepted"):
        table.register(length)


def test_more_than_the_memory_is_refused_with_what_is_free(table: RegionTable) -> None:
    table.register(MEMORY_BYTES - 5 * PAGE_BYTES)
    with pytest.raises(UsageError) as caught:
        table.register(5 * PAGE_BYTES + 1)
    assert (
        caught.value.message
        == f"length: {5 * PAGE_BYTES + 1} bytes; 20480 of {MEMORY_BYTES} are free in a row"
    )
    assert caught.value.hint is not None
    table.register(5 * PAGE_BYTES)


def test_more_regions_than_the_table_holds_are_refused_and_take_no_pages(table: RegionTable) -> None:
    offset = table.allocate(PAGE_BYTES)
    for _ in range(Limit.REGION_MAX):
        table.register_over(PAGE_BYTES, 1, RegionPlace(offset), is_remote_writable=True, pd=0)
    with pytest.raises(NoRoomError, match=f"all {Limit.REGION_MAX} memory regions are in use"):
        table.register(1)
    assert table.allocate(MEMORY_BYTES - PAGE_BYTES) == PAGE_BYTES


def test_pages_are_where_they_are_wanted_if_they_are_free_there(table: RegionTable) -> None:
    first, behind = table.allocate(1), table.allocate(1)
    table.free(behind, 1)
    assert table.allocate(2 * PAGE_BYTES, first + PAGE_BYTES) == first + PAGE_BYTES
    assert table.allocate(1, first) == 3 * PAGE_BYTES
    assert table.allocate(1, MEMORY_BYTES) == 4 * PAGE_BYTES
    assert table.allocate(1, MEMORY_BYTES - PAGE_BYTES) == MEMORY_BYTES - PAGE_BYTES


def test_region_over_pages_has_the_address_and_domain_it_is_given(
    device: VirtualNic, table: RegionTable
) -> None:
    device.memory.view[:] = b"\xff" * MEMORY_BYTES
    offset = table.allocate(3 * PAGE_BYTES)
    regions = [
        table.register_over(ADDRESS + 16, 5000, RegionPlace(offset + 16), is_remote_writable=writable, pd=7)
        for writable in (True, False)
    ]
    entries = [device.regions[region.r_key % Limit.REGION_MAX] for region in regions]
    assert [entry.is_remote_writable for entry in entries] == [1, 0]
    for entry in entries:
        assert (entry.base, entry.length) == (ADDRESS + 16, 5000)
        assert (entry.offset, entry.pd) == (offset + 16, 7)
        assert entry.page_list == PageList.NO_PAGE_LIST
    assert bytes(device.memory.view[offset : offset + 5016]) == b"\xff" * 5016
    for region in regions:
        table.deregister(region.r_key)
    with pytest.raises(UsageError, match="lie in no registered region"):
        table.check(offset, 1)
    assert table.allocate(1) == offset + 3 * PAGE_BYTES


@pytest.mark.parametrize(
    ("address", "length", "offset"),
    [(0, 1, 0), (1, 0, 0), (1 << 57, 1, 0), (PAGE_BYTES, 1, MEMORY_BYTES), (PAGE_BYTES, 2, -1)],
)
def test_region_over_memory_that_is_not_there(
    table: RegionTable, address: int, length: int, offset: int
) -> None:
    with pytest.raises(UsageError, match="no such memory"):
        table.register_over(address, length, RegionPlace(offset), is_remote_writable=True, pd=0)


def test_stretch_must_lie_in_one_region(device: VirtualNic, table: RegionTable) -> None:
    first, second = table.register(PAGE_BYTES), table.register(PAGE_BYTES)
    assert first.offset + PAGE_BYTES == second.offset
    assert table.check(second.offset, PAGE_BYTES) == device.memory.address + second.offset
    assert table.check(PAGE_BYTES - 1, 1) == device.memory.address + PAGE_BYTES - 1
    for offset, length in ((0, PAGE_BYTES + 1), (-1, 2), (2 * PAGE_BYTES, 1), (10, -5), (PAGE_BYTES - 1, 2)):
        with pytest.raises(UsageError, match="lie in no registered region"):
            table.check(offset, length)


@pytest.mark.parametrize(
    ("address", "length", "pages"),
    [
        (ADDRESS, 1, 1),
        (ADDRESS, PAGE_BYTES, 1),
        (ADDRESS + 1, PAGE_BYTES, 2),
        (ADDRESS + PAGE_BYTES - 1, 2, 2),
        (ADDRESS + 4095, 2 * PAGE_BYTES + 1, 3),
    ],
)
def test_list_of_a_region_has_a_number_for_each_page_that_it_touches(
    device: VirtualNic, table: RegionTable, address: int, length: int, pages: int
) -> None:
    inside = RegionPlace(page_list=MEMORY_BYTES - 4 * pages)
    region = table.register_over(address, length, inside, is_remote_writable=True, pd=0)
    entry = device.regions[region.r_key % Limit.REGION_MAX]
    assert (entry.page_list, entry.base, entry.length) == (inside.page_list, address, length)
    outside = RegionPlace(page_list=MEMORY_BYTES - 4 * pages + 4)
    with pytest.raises(UsageError, match="no such memory of the NIC"):
        table.register_over(address, length, outside, is_remote_writable=True, pd=0)


def test_list_begins_at_a_multiple_of_4(table: RegionTable) -> None:
    with pytest.raises(UsageError, match="page_list: 0x6; it must be a multiple of 4"):
        table.register_over(ADDRESS, 1, RegionPlace(page_list=6), is_remote_writable=True, pd=0)
