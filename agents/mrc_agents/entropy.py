"""Numbers that nobody shall guess: memory keys, first PSNs. In a simulation they repeat with its seed.

The linter forbids `secrets.randbits` everywhere else: with it a simulation would differ from run to run.
"""

import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final


@dataclass(slots=True)
class _Source:
    draw: Callable[[int], int]


_SOURCE: Final = _Source(secrets.randbits)


def randbits(bits: int) -> int:
    """A number of so many bits."""
    return _SOURCE.draw(bits)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """While the context lasts, numbers follow from *seed*, in all of this process."""
    before = _SOURCE.draw
    _SOURCE.draw = random.Random(seed).getrandbits
    try:
        yield
    finally:
        _SOURCE.draw = before
