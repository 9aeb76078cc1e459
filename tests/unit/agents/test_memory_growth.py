"""A NIC's memory grows for applications, as far as the kernel lets it, and shrinks again."""

from collections.abc import Callable, Iterator

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.abi import Limit
from mrc_agents.nic.memory import NoRoomError, RegionPlace, RegionTable
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2))
CHUNK = int(Limit.MEMORY_CHUNK)
MEMORY_BYTES = 1 << 20
PAGE = int(Limit.PAGE_BYTES)
ADDRESS = 0x7F00_0000_0000


@pytest.fixture
def device() -> Iterator[VirtualNic]:
    with virtual_nic(FABRIC, memory_bytes=MEMORY_BYTES) as nic:
        nic.chunks_max = 4
        yield nic


@pytest.fixture
def table(device: VirtualNic) -> RegionTable:
    return RegionTable(device, lifetime_ns=10_000_000_000)


def test_memory_grows_where_there_is_no_room(device: VirtualNic, table: RegionTable) -> None:
    assert table.allocate(MEMORY_BYTES, grows=True) == 0
    assert device.chunks == set()
    assert table.allocate(40 << 20, grows=True) == CHUNK
    assert device.chunks == {1, 2, 3}
    assert table.allocate(8 << 20, grows=True) == CHUNK + (40 << 20)
    region = table.register_over(ADDRESS, 40 << 20, RegionPlace(CHUNK), is_remote_writable=True, pd=0)
    assert (region.offset, region.length) == (CHUNK, 40 << 20)
    assert device.chunks == {1, 2, 3}


def test_list_of_pages_may_lie_in_what_was_added(table: RegionTable) -> None:
    start = table.allocate(CHUNK, grows=True)
    place = RegionPlace(page_list=start + CHUNK - 4)
    table.register_over(ADDRESS, PAGE, place, is_remote_writable=True, pd=0)
    with pytest.raises(UsageError, match="no such memory of the NIC"):
        table.register_over(ADDRESS, PAGE + 1, place, is_remote_writable=True, pd=0)


def test_agent_s_own_regions_stay_in_the_memory_of_the_topology(
    device: VirtualNic, table: RegionTable
) -> None:
    table.allocate(2 << 20, grows=True)
    assert device.chunks == {1}
    assert table.register(MEMORY_BYTES).offset == 0
    with pytest.raises(NoRoomError, match=r"are free in a row$"):
        table.register(PAGE)
    assert device.chunks == {1}


def test_refusal_of_the_kernel_is_the_program_s_to_read(device: VirtualNic, table: RegionTable) -> None:
    with pytest.raises(
        NoRoomError, match=r"1048576 of 1048576 are free in a row, and the kernel .* no more: Cannot allocate"
    ):
        table.allocate(5 * CHUNK, grows=True)
    assert device.chunks == set()
    assert table.allocate(4 * CHUNK, grows=True) == CHUNK
    device.chunks_max = 1000
    with pytest.raises(NoRoomError, match="does not grow beyond 4 GiB"):
        table.allocate(4 << 30, grows=True)


def test_what_is_wholly_free_goes_back(device: VirtualNic, table: RegionTable) -> None:
    first, second = (table.allocate(CHUNK, grows=True) for _ in range(2))
    third = table.allocate(2 * CHUNK - PAGE, grows=True)
    assert device.chunks == {1, 2, 3, 4}
    table.free(second, CHUNK)
    table.free(third, 2 * CHUNK - PAGE)
    rest = table.allocate(MEMORY_BYTES + PAGE, grows=True)
    assert rest == second
    table.give_back()
    table.grace.settle()
    assert device.chunks == {1, 2}
    table.free(rest, MEMORY_BYTES + PAGE)
    table.give_back()
    table.grace.settle()
    assert device.chunks == {1}
    assert table.allocate(CHUNK, grows=True) == second
    assert device.chunks == {1, 2}
    table.free(first, CHUNK)
    table.free(second, CHUNK)
    table.give_back()
    table.grace.settle()
    assert device.chunks == set()
    assert table.allocate(MEMORY_BYTES) == 0


def test_place_of_a_chunk_is_taken_until_it_has_been_removed(device: VirtualNic, table: RegionTable) -> None:
    waiting: list[tuple[Callable[[], None], Callable[[], None]]] = []
    table.grace.in_background = lambda wait, then: waiting.append((wait, then))
    table.free(table.allocate(CHUNK, grows=True), CHUNK)
    table.give_back()
    for _ in range(2):  # the pages' rest, then that of the memory
        wait, then = waiting.pop(0)
        wait()
        then()
    remove, forget = waiting.pop(0)
    assert table.allocate(CHUNK, grows=True) == 2 * CHUNK
    remove()
    assert device.chunks == {2}
    forget()
    assert table.allocate(CHUNK, grows=True) == CHUNK
