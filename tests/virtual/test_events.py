"""The queue of events of virtual time against a sorted list: by time, at one time as they were pushed."""

import ctypes
import heapq
import subprocess
from ctypes import c_int, c_uint32, c_uint64
from pathlib import Path
from random import Random
from typing import Self

import pytest
from runs import ROOT

RING_NS = 8192
TIMER = 1


class Event(ctypes.Structure):
    """struct virtual_event, whose last member is a pointer or a number."""

    _fields_ = (
        ("time_ns", c_uint64),
        ("order", c_uint64),
        ("nic", c_uint32),
        ("a", c_uint32),
        ("b", c_uint64),
    )


class Queue:
    """The queue alone, without a lab."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        self._library.virtual_push.argtypes = [c_uint64, c_int, Event]
        self._library.virtual_pop.argtypes = [c_uint64, ctypes.POINTER(Event)]
        self._library.virtual_begin_events.argtypes = [c_uint64, c_int]
        self._now_ns = c_uint64.in_dll(self._library, "virtual_now_ns")

    def __enter__(self) -> Self:
        self._now_ns.value = 1
        self._library.virtual_begin_events(1, 0)
        return self

    def __exit__(self, *_: object) -> None:
        self._library.virtual_end_events()

    def push(self, time_ns: int, number: int) -> None:
        self._library.virtual_push(time_ns, TIMER, Event(a=number))

    def pop(self, until_ns: int) -> tuple[int, int] | None:
        """Time and number of the next event; time goes on to it, or to *until_ns*."""
        event = Event()
        if not self._library.virtual_pop(until_ns, ctypes.byref(event)):
            self._now_ns.value = until_ns
            return None
        self._now_ns.value = event.time_ns
        return event.time_ns, event.a


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("events")
    includes = [f"-I{ROOT / 'agents/mrc_agents' / each}" for each in ("virtual/shim", "include", "virtual")]
    source = ROOT / "agents/mrc_agents" / "virtual" / "events.c"
    command = ["cc", "-shared", "-fPIC", "-DMRC_VIRTUAL", *includes, "-o", folder / "events.so", source]
    subprocess.run(command, check=True)
    return folder / "events.so"


@pytest.mark.parametrize("seed", range(20))
def test_events_come_by_time_and_at_one_time_as_they_were_pushed(library, seed):
    random = Random(seed)
    spans_ns = [1, 2, 100, RING_NS - 1, RING_NS, RING_NS + 1, 3 * RING_NS, 10**6]
    expected: list[tuple[int, int]] = []
    now_ns, number = 1, 0
    with Queue(library) as queue:
        for _ in range(3000):
            for _ in range(random.choice([0, 1, 3])):
                time_ns = now_ns + random.randrange(random.choice(spans_ns) + 1)
                queue.push(time_ns, number)
                heapq.heappush(expected, (time_ns, number))
                number += 1
            until_ns = now_ns + random.choice([0, 1, 500, 20_000])
            due = heapq.heappop(expected) if expected and expected[0][0] <= until_ns else None
            assert queue.pop(until_ns) == due
            now_ns = due[0] if due else until_ns
        while expected:
            assert queue.pop(now_ns + 10**7) == heapq.heappop(expected)
        assert queue.pop(now_ns + 10**7) is None


def test_an_event_of_the_past_is_due_now(library):
    with Queue(library) as queue:
        assert queue.pop(1000) is None
        queue.push(7, 1)
        assert queue.pop(1000) == (1000, 1)
