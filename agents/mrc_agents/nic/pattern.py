"""Test patterns: bytes that depend on a seed and on their place, so that misplaced data never matches.

The pattern of a seed is an endless repetition of one random tile of prime length, begun at a place that the
seed gives. Two stretches with different seeds, or the same seed at a different offset, differ in nearly all
bytes (255 of 256 on average).
"""

import ctypes
from random import Random

_TILE_BYTES = 65_521  # prime: no power-of-two distance maps the tile onto itself
_SEED_STRIDE = 7_919  # prime: successive seeds begin far apart
_TILE = Random("mrc-testbed test pattern").randbytes(_TILE_BYTES)
_TILE_TWICE = ctypes.create_string_buffer(_TILE * 2, 2 * _TILE_BYTES)
_LIBC = ctypes.CDLL(None)
_LIBC.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def _pieces(length: int, seed: int) -> list[tuple[int, int, int]]:
    """(offset in the stretch, address in the tile, bytes) of each run of the pattern."""
    base = ctypes.addressof(_TILE_TWICE) + seed * _SEED_STRIDE % _TILE_BYTES
    return [(offset, base, min(_TILE_BYTES, length - offset)) for offset in range(0, length, _TILE_BYTES)]


def fill(address: int, length: int, seed: int) -> None:
    """Writes the pattern of *seed* over *length* bytes at *address*."""
    for offset, source, count in _pieces(length, seed):
        ctypes.memmove(address + offset, source, count)


def count_wrong(address: int, length: int, seed: int) -> int:
    """Number of bytes among *length* at *address* that differ from the pattern of *seed*."""
    wrong = 0
    for offset, source, count in _pieces(length, seed):
        if _LIBC.memcmp(address + offset, source, count):
            found = ctypes.string_at(address + offset, count)
            expected = ctypes.string_at(source, count)
            wrong += sum(a != b for a, b in zip(found, expected, strict=True))
    return wrong


def seed_at(seed: int, offset: int) -> int:
    """The seed whose pattern begins as that of *seed* goes on after *offset* bytes."""
    return (seed + offset * pow(_SEED_STRIDE, -1, _TILE_BYTES)) % _TILE_BYTES
