"""A thing that was given back rests until those who were running then have ended."""

from collections.abc import Callable
from functools import partial

import pytest

from mrc_agents.nic.memory import Grace


class Runs:
    """The runs of a NIC's programs, and what may be used again."""

    def __init__(self) -> None:
        self.usable: list[str] = []
        self.awaited = 0
        self.ends: list[Callable[[], None]] = []
        self.grace = Grace(self._wait)

    def _wait(self) -> None:
        self.awaited += 1

    def in_background(self, _: Callable[[], None], then: Callable[[], None]) -> None:
        self.ends.append(then)

    def rest(self, *names: str) -> None:
        for name in names:
            self.grace.rest(partial(self.usable.append, name))


@pytest.fixture
def runs() -> Runs:
    return Runs()


def test_without_a_background_a_request_waits_for_what_rests(runs: Runs) -> None:
    runs.grace.look()
    runs.rest("a", "b")
    assert (runs.awaited, runs.usable) == (0, [])
    runs.grace.look()
    runs.grace.look()
    assert (runs.awaited, runs.usable) == (1, ["a", "b"])


def test_what_comes_while_others_are_awaited_is_awaited_after_them(runs: Runs) -> None:
    runs.grace.in_background = runs.in_background
    runs.rest("a", "b", "c")
    runs.grace.look()
    assert (runs.awaited, runs.usable, len(runs.ends)) == (0, [], 1)
    runs.ends.pop()()
    assert (runs.usable, len(runs.ends)) == (["a"], 1)
    runs.ends.pop()()
    assert (runs.usable, runs.ends) == (["a", "b", "c"], [])


def test_a_request_that_waits_itself_leaves_nothing_to_release_twice_or_early(runs: Runs) -> None:
    runs.grace.in_background = runs.in_background
    runs.rest("a", "b")
    assert runs.grace.settle()
    assert not runs.grace.settle()
    assert (runs.awaited, runs.usable) == (1, ["a", "b"])
    runs.rest("c", "d")
    first, second = runs.ends
    first()  # of the wait for "a", which began before "c" was given back
    assert runs.usable == ["a", "b"]
    second()
    assert runs.usable == ["a", "b", "c"]
