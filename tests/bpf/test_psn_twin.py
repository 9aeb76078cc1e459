"""PSN arithmetic of the BPF programs, compiled for this machine, against plain Python on any numbers."""

import ctypes
from ctypes import c_int, c_int32, c_uint32, c_uint64
from pathlib import Path

import pytest
from compiling import compile_library
from exploring import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from reference.psn import psn_distance, psn_expand, wire_psn

from mrc_agents.abi import Limit

SOURCE = Path(__file__).parent / "psn_twin.c"
RING_PSNS = Limit.PSN_RING.value

twin_settings = settings(max_examples=examples(300))

COUNTERS = st.integers(0, 2**32 - 1) | st.sampled_from([0, 2**23, 2**24 - 1, 2**24, 2**31, 2**32 - 1])
WORDS = st.lists(st.integers(0, 2**64 - 1), min_size=RING_PSNS // 64, max_size=RING_PSNS // 64)


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The functions of psn.h."""
    loaded = ctypes.CDLL(str(compile_library(SOURCE, tmp_path_factory.mktemp("psn"))))
    bits = ctypes.POINTER(c_uint64)
    for name, result, arguments in (
        ("twin_expand", c_uint32, (c_uint32, c_uint32)),
        ("twin_distance", c_int32, (c_uint32, c_uint32)),
        ("twin_window", c_uint64, (bits, c_uint32)),
        ("twin_test", c_int, (bits, c_uint32)),
        ("twin_set", None, (bits, c_uint32)),
        ("twin_clear", None, (bits, c_uint32)),
        ("twin_trailing_zeros", c_uint32, (c_uint64,)),
    ):
        function = getattr(loaded, name)
        function.restype, function.argtypes = result, arguments
    return loaded


def ring_of(words: list[int]) -> "ctypes.Array[c_uint64]":
    return (c_uint64 * len(words))(*words)


def psns_in(words: list[int]) -> set[int]:
    """The PSNs modulo the ring whose bits are set."""
    return {psn for psn in range(RING_PSNS) if words[psn // 64] >> psn % 64 & 1}


@twin_settings
@given(COUNTERS, st.integers(0, 2**24 - 1))
def test_expansion_of_a_psn(twin: ctypes.CDLL, reference: int, psn: int) -> None:
    assert twin.twin_expand(reference, psn) == psn_expand(reference, wire_psn(psn)) % 2**32


@twin_settings
@given(COUNTERS, st.integers(-(2**23), 2**23 - 1))
def test_any_counter_near_the_reference_survives_the_wire(
    twin: ctypes.CDLL, reference: int, distance: int
) -> None:
    counter = (reference + distance) % 2**32
    assert twin.twin_expand(reference, wire_psn(counter)) == counter
    assert twin.twin_distance(counter, reference) == distance
    assert psn_distance(wire_psn(counter), wire_psn(reference)) == distance


@twin_settings
@given(WORDS, COUNTERS)
def test_window_of_a_ring_of_bits(twin: ctypes.CDLL, words: list[int], first: int) -> None:
    received = psns_in(words)
    expected = sum(1 << bit for bit in range(64) if (first + bit) % RING_PSNS in received)
    assert twin.twin_window(ring_of(words), first) == expected


@twin_settings
@given(WORDS, COUNTERS)
def test_one_bit_of_a_ring(twin: ctypes.CDLL, words: list[int], psn: int) -> None:
    before = psns_in(words)
    ring = ring_of(words)
    assert twin.twin_test(ring, psn) == (psn % RING_PSNS in before)
    twin.twin_set(ring, psn)
    assert psns_in(list(ring)) == before | {psn % RING_PSNS}
    twin.twin_clear(ring, psn)
    assert psns_in(list(ring)) == before - {psn % RING_PSNS}


@twin_settings
@given(st.integers(0, 63), st.integers(0, 2**64 - 1))
def test_trailing_zeros(twin: ctypes.CDLL, zeros: int, above: int) -> None:
    assert twin.twin_trailing_zeros((above << zeros + 1 | 1 << zeros) % 2**64) == zeros


def test_trailing_zeros_of_every_single_bit_and_of_none(twin: ctypes.CDLL) -> None:
    assert [twin.twin_trailing_zeros(1 << bit) for bit in range(64)] == list(range(64))
    assert twin.twin_trailing_zeros(0) == 64
