"""When a fault acts: until which instant, and during which outages of a flap. Pure.

The kernel keeps to the same schedule by itself: fault_acts() in mrc_agents/include/mrc/link_fault.h.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from mrc_testbed.fabric.port_fault import outage_start_ns


@dataclass(frozen=True, slots=True)
class Flap:
    """A repeating outage; `LinkFlap` has checked that one outage ends before the next period begins."""

    every_ns: int  # length of a period
    down_ns: int  # length of the outage in each period, exact
    # each outage begins later than its period by a random part of this share of `every_ns`
    jitter_ratio: float
    seed: int  # 32 bits that fix the random parts

    @property
    def late_ns(self) -> int:
        """Bound of the delay of an outage within its period."""
        return round(self.jitter_ratio * self.every_ns)

    def outage(self, period: int) -> tuple[int, int]:
        """(start, end) of the outage of a period, counted from 0, in ns since the flap began."""
        start_ns = outage_start_ns(self.seed, period, self.every_ns, self.late_ns)
        return start_ns, start_ns + self.down_ns

    def outages(self, length_ns: int | None) -> Iterator[tuple[int, int]]:
        """(start, end) of each outage in ns since the flap began.

        Args:
            length_ns: cuts the last outage; None for a fault without an end.
        """
        period = 0
        while True:
            start_ns, end_ns = self.outage(period)
            if length_ns is not None and start_ns >= length_ns:
                return
            yield start_ns, end_ns if length_ns is None else min(end_ns, length_ns)
            period += 1

    def is_down(self, age_ns: int) -> bool:
        """Return True if an outage lasts *age_ns* after the flap began."""
        start_ns, end_ns = self.outage(age_ns // self.every_ns)
        return start_ns <= age_ns < end_ns


@dataclass(frozen=True, slots=True)
class Schedule:
    """When the effects of a fault act, once it is injected; times are CLOCK_MONOTONIC in ns."""

    begin_ns: int  # when it was injected
    end_ns: int | None = None  # from when on it acts no more; None: until it is cleared
    flap: Flap | None = None  # in which outages it acts; None: all the time

    def is_over(self, now_ns: int) -> bool:
        return self.end_ns is not None and now_ns >= self.end_ns

    def left_ns(self, now_ns: int) -> int | None:
        """Time to its end; None: it has none."""
        return None if self.end_ns is None else max(0, self.end_ns - now_ns)

    def outage_begins_ns(self, until_ns: int) -> tuple[int, ...]:
        """When each outage of a flap has begun, up to *until_ns*; empty without a flap."""
        if self.flap is None:
            return ()
        age_ns = until_ns - self.begin_ns
        return tuple(self.begin_ns + start_ns for start_ns, _ in self.flap.outages(age_ns))

    def outage_count(self, now_ns: int) -> int:
        """Outages of a flap that have begun by *now_ns*; 0 without a flap."""
        if self.flap is None:
            return 0
        age_ns = now_ns - self.begin_ns
        period = age_ns // self.flap.every_ns
        return period + (self.flap.outage(period)[0] <= age_ns)

    def is_acting(self, now_ns: int) -> bool:
        if self.is_over(now_ns):
            return False
        return self.flap is None or self.flap.is_down(now_ns - self.begin_ns)
