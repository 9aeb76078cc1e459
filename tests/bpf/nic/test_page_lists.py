"""Regions over pages that do not lie in a row: bytes go where the list says, and nowhere else."""

import ctypes
from collections.abc import Callable
from random import Random

import pytest
from far_end import RC_PATH, FarEnd
from nic_bench import MEMORY_BYTES, NicBench, Outcome
from reference.opcode import Opcode
from write_target import RcTarget, WriteTarget, random_bytes

from mrc_agents.abi import Limit, NicCounter

PAGE = int(Limit.PAGE_BYTES)
SLOT = 9
BASE = 0x7F00_FFFF_F000 + 100
PAGES = [9, 300, 301, 3, MEMORY_BYTES // PAGE - 1]
LENGTH = 4 * PAGE + 1000
LIST = Limit.MEMORY_SEGMENT - 8
"""Offset of the list, which goes on in the next segment."""

Arrive = Callable[[int, int, bytes], Outcome]
"""(PSN, address, payload) of a packet to a QP."""


class Listed:
    """A region over listed pages, and what ought to be in memory."""

    def __init__(self, nic: NicBench, arrive: Arrive) -> None:
        self.nic = nic
        self.entry = nic.regions[SLOT]
        self.entry.base = BASE
        self.entry.page_list = LIST
        self._arrive = arrive
        self._psn = 0
        self.write_list(LIST, PAGES)
        self.expected = bytearray(nic.memory)

    def write_list(self, offset: int, pages: list[int]) -> None:
        self.nic.memory[offset : offset + 4 * len(pages)] = bytes((ctypes.c_uint32 * len(pages))(*pages))

    def write(self, va: int, payload: bytes) -> None:
        """Writes bytes that have to arrive."""
        for place, octet in enumerate(payload, start=va - BASE // PAGE * PAGE):
            self.expected[PAGES[place // PAGE] * PAGE + place % PAGE] = octet
        outcome = self._arrive(self._psn, va, payload)
        self._psn += 1
        assert outcome.counters[NicCounter.RX_PLACED_BYTES] == len(payload)
        self.check_memory()

    def refuse(self, va: int, payload: bytes) -> None:
        """Writes bytes that must not arrive."""
        outcome = self._arrive(self._psn, va, payload)
        assert outcome.counters == {NicCounter.DROP_BOUNDS: 1, NicCounter.TX_NAK: 1}
        self.check_memory()

    def check_memory(self) -> None:
        assert bytes(self.nic.memory) == bytes(self.expected)


@pytest.fixture(params=["nic", "rc_nic"], ids=["mrc", "rc"])
def listed(request: pytest.FixtureRequest, distant: FarEnd) -> Listed:
    nic: NicBench = request.getfixturevalue(request.param)
    if request.param == "nic":
        mrc = WriteTarget(nic, distant)
        mrc.r_key = nic.register(SLOT, 0, LENGTH)
        only = {"opcode": Opcode.WRITE_ONLY}
        return Listed(nic, lambda psn, va, payload: mrc.arrive(mrc.packet(psn, payload, va, **only)))
    rc = RcTarget(nic, distant)
    rc.r_key = nic.register(SLOT, 0, LENGTH)
    return Listed(nic, lambda psn, va, payload: rc.arrive(rc.packet(psn, payload, va=va), 0, RC_PATH))


def test_packets_within_and_across_pages(listed: Listed) -> None:
    end_of_first = BASE // PAGE * PAGE + PAGE
    for va, length in (
        (BASE, 1),
        (BASE + 3, 2048),
        (end_of_first - 1, 2),
        (end_of_first - 2047, 2048),
        (end_of_first - 1, 2048),
        (end_of_first - 7, 7),
        (end_of_first, 2048),
        (end_of_first + 2 * PAGE - 1000, 2000),
        (end_of_first + 3 * PAGE - 1000, 2000),
        (BASE + LENGTH - 1500, 1500),
    ):
        listed.write(va, random_bytes(length))


def test_packets_anywhere_in_the_region(listed: Listed) -> None:
    random = Random(0)
    for _ in range(150):
        length = random.randrange(1, 2049)
        listed.write(BASE + random.randrange(LENGTH - length + 1), random.randbytes(length))


@pytest.mark.parametrize(("va", "length"), [(BASE - 1, 1), (BASE + LENGTH - 1, 2), (0, 1), (BASE + 2**32, 1)])
def test_bounds_are_the_region_s(listed: Listed, va: int, length: int) -> None:
    listed.refuse(va, random_bytes(length))


@pytest.mark.parametrize("page", [MEMORY_BYTES // PAGE, 1 << 20, 0xFFFFFFFF])
def test_page_that_is_not_there_is_refused_alone(listed: Listed, page: int) -> None:
    listed.write_list(LIST + 4, [page])
    listed.expected[:] = bytes(listed.nic.memory)
    listed.refuse(BASE // PAGE * PAGE + PAGE, b"in it")
    listed.refuse(BASE // PAGE * PAGE + PAGE - 1, b"into it")
    listed.write(BASE, b"before it")


@pytest.mark.parametrize("page_list", [MEMORY_BYTES, MEMORY_BYTES - 4, 2**32 - 4, 2**32 - 8])
def test_list_that_is_not_there_is_refused(listed: Listed, page_list: int) -> None:
    listed.entry.page_list = page_list
    listed.refuse(BASE // PAGE * PAGE + PAGE, b"beyond the list")
