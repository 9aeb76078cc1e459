"""Pure: when a flapping link is down. The same seed gives the same times, from a file or by hand."""

import random
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Flap:
    """A repeating outage; `spec.LinkFlap` has checked that one outage ends before the next begins.

    Attributes:
        every_ns: nominal distance of the starts of two outages.
        down_ns: length of each outage, exact.
        jitter_ratio: each start comes late by a random part of this share of `every_ns`.
        seed: fixes the random parts.
    """

    every_ns: int
    down_ns: int
    jitter_ratio: float
    seed: int

    def outages(self, length_ns: int | None) -> Iterator[tuple[int, int]]:
        """(start, end) of each outage in ns since the fault began.

        Args:
            length_ns: cuts the last outage; None for a fault without an end.
        """
        generator = random.Random(self.seed)
        index = 0
        while True:
            late_ns = int(generator.random() * self.jitter_ratio * self.every_ns)
            start_ns = index * self.every_ns + late_ns
            if length_ns is not None and start_ns >= length_ns:
                return
            end_ns = start_ns + self.down_ns
            yield start_ns, end_ns if length_ns is None else min(end_ns, length_ns)
            index += 1
