"""Test patterns: what was written is found again, and nothing else passes for it."""

import ctypes

from hypothesis import given
from hypothesis import strategies as st

from mrc_agents.nic.pattern import count_wrong, fill, seed_at

TILE_BYTES = 65_521
LENGTHS = st.integers(0, 3 * TILE_BYTES) | st.sampled_from(
    [0, 1, TILE_BYTES - 1, TILE_BYTES, TILE_BYTES + 1, 2 * TILE_BYTES]
)
SEEDS = st.integers(0, 2**32)


class Stretch:
    """Zeroed bytes with guards around them."""

    GUARD_BYTES = 64

    def __init__(self, length: int) -> None:
        self.length = length
        self.buffer = ctypes.create_string_buffer(length + 2 * self.GUARD_BYTES)
        self.address = ctypes.addressof(self.buffer) + self.GUARD_BYTES

    @property
    def octets(self) -> bytes:
        return self.buffer.raw[self.GUARD_BYTES : self.GUARD_BYTES + self.length]

    def set(self, at: int, value: int) -> None:
        self.buffer[self.GUARD_BYTES + at] = bytes([value])

    def has_clean_guards(self) -> bool:
        raw = self.buffer.raw
        return not any(raw[: self.GUARD_BYTES]) and not any(raw[self.GUARD_BYTES + self.length :])


def filled(length: int, seed: int) -> Stretch:
    stretch = Stretch(length)
    fill(stretch.address, length, seed)
    return stretch


@given(LENGTHS, SEEDS)
def test_pattern_is_found_where_it_was_written(length: int, seed: int) -> None:
    stretch = filled(length, seed)
    assert stretch.has_clean_guards()
    assert count_wrong(stretch.address, length, seed) == 0


@given(st.integers(1, 2 * TILE_BYTES), SEEDS, st.sets(st.integers(0, 2**30), min_size=1, max_size=20))
def test_every_wrong_byte_is_counted(length: int, seed: int, places: set[int]) -> None:
    stretch = filled(length, seed)
    wrong = {place % length for place in places}
    for place in wrong:
        stretch.set(place, stretch.octets[place] ^ 0x40)
    assert count_wrong(stretch.address, length, seed) == len(wrong)


@given(SEEDS, st.integers(1, 2**20))
def test_pattern_of_another_seed_is_wrong_nearly_everywhere(seed: int, step: int) -> None:
    length = 10_000
    stretch = filled(length, seed)
    wrong = count_wrong(stretch.address, length, seed + step)
    assert wrong > 0.98 * length or step % TILE_BYTES == 0


@given(SEEDS, st.integers(1, 10_000) | st.sampled_from([256, 2048, 4096, 65_536]))
def test_pattern_that_lies_elsewhere_is_wrong_nearly_everywhere(seed: int, distance: int) -> None:
    length = 10_000
    stretch = filled(length + distance, seed)
    assert count_wrong(stretch.address + distance, length, seed) > 0.98 * length


def test_memory_that_was_never_written_is_wrong() -> None:
    stretch = Stretch(10_000)
    assert count_wrong(stretch.address, 10_000, 1) > 9_800


@given(SEEDS, st.integers(0, 3 * TILE_BYTES), st.integers(1, 1000))
def test_seed_at_an_offset_goes_on_with_the_pattern(seed: int, offset: int, length: int) -> None:
    stretch = filled(offset + length, seed)
    assert count_wrong(stretch.address + offset, length, seed_at(seed, offset)) == 0
