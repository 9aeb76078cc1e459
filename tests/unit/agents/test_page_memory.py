"""Pages of the NIC's memory: none is given twice, none is lost, and an application's are its own."""

from random import Random

import pytest

from mrc_agents.nic.page_memory import Allocations, FreePages, whole_pages
from mrc_testbed.errors import UsageError

PAGE_BYTES = 4096
PAGES = 64


@pytest.mark.parametrize(("length", "pages"), [(1, 1), (4095, 1), (4096, 1), (4097, 2)])
def test_pages_are_whole(length: int, pages: int) -> None:
    assert whole_pages(length) == pages * PAGE_BYTES


@pytest.mark.parametrize("seed", range(20))
def test_what_is_taken_and_given_back_is_as_a_map_of_pages_says(seed: int) -> None:
    random, free = Random(seed), FreePages(PAGES)
    is_taken, taken = [False] * PAGES, dict[int, int]()
    for _ in range(500):
        if taken and random.random() < 0.5:
            offset = random.choice(sorted(taken))
            length = taken.pop(offset)
            free.add(offset, length)
            is_taken[offset : offset + length] = [False] * length
            continue
        length, wanted = random.randrange(1, 12), random.choice([None, random.randrange(PAGES)])
        fits = [at for at in range(PAGES - length + 1) if not any(is_taken[at : at + length])]
        found = free.take(length, wanted)
        assert found == (wanted if wanted in fits else next(iter(fits), None))
        if found is not None:
            taken[found] = length
            is_taken[found : found + length] = [True] * length
        runs = "".join(" "[each:] or "x" for each in is_taken).replace(" ", "f").split("x")
        assert free.largest() == max(map(len, runs))


def test_allocations_side_by_side_are_as_one() -> None:
    mine = Allocations()
    for start, length in ((8, 4), (0, 4), (4, 4), (20, 4)):
        mine.add(start, length)
    assert mine.under(1, 10) == [0, 4, 8]
    assert mine.under(4, 4) == [4]
    assert mine.under(23, 1) == [20]
    for offset, length in ((-1, 2), (11, 2), (12, 1), (0, 24), (24, 1), (30, 1)):
        with pytest.raises(UsageError, match="not in this application's allocations"):
            mine.under(offset, length)


def test_allocation_stays_until_the_last_region_over_it_is_gone() -> None:
    mine = Allocations()
    mine.add(0, 4)
    mine.add(4, 4)
    mine.hold(100, mine.under(2, 4))
    mine.hold(200, mine.under(5, 1))
    mine.let_go(100)
    assert mine.remove(0) == 4
    with pytest.raises(UsageError, match="a region lies over the allocation at 0x4"):
        mine.remove(4)
    mine.let_go(200)
    mine.let_go(200)
    assert mine.remove(4) == 4
    with pytest.raises(UsageError, match="no allocation of this application begins at 0x4"):
        mine.remove(4)
    assert list(mine) == []
