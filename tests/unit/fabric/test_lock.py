"""One command at a time; a lock whose holder was killed is free once the last child has let it go."""

import contextlib
import fcntl
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mrc_testbed.errors import FabricError
from mrc_testbed.fabric.lock import exclusive

_LOCK = "mrc_testbed.fabric.lock"
FORK = multiprocessing.get_context("fork")


def test_the_holder_and_its_work_are_named(tmp_path: Path) -> None:
    lock = tmp_path / "lab" / "lock"
    with (
        exclusive(lock, "up"),
        pytest.raises(FabricError, match=rf"being changed by up \(pid {os.getpid()}\)"),
        exclusive(lock, "down"),
    ):
        pass
    with exclusive(lock, "down"):
        pass


def test_a_command_that_only_looks_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{_LOCK}._LOOK_NS", 60_000_000_000)
    lock = tmp_path / "lab" / "lock"
    with exclusive(lock, "up"):
        pass
    with lock.open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        soon = threading.Timer(0.05, lambda: fcntl.flock(looking, fcntl.LOCK_UN))
        soon.start()
        with exclusive(lock, "down"):
            soon.join()


@pytest.fixture
def held_by_a_child(tmp_path: Path) -> Iterator[tuple[Path, int, Callable[[], None]]]:
    """A lock whose holder is dead and whose holder's child keeps it; the holder's pid; ends the child."""
    lock = tmp_path / "lab" / "lock"
    ready, tell = os.pipe()
    until, end = os.pipe()

    def hold_and_die() -> None:
        with exclusive(lock, "up"):
            if os.fork():  # its child keeps the lock, as one between fork and exec does
                os._exit(1)
            os.close(end)
            os.write(tell, b"1")
            os.read(until, 1)
            os._exit(0)

    holder = FORK.Process(target=hold_and_die)
    holder.start()
    os.read(ready, 1)
    holder.join()
    with contextlib.ExitStack() as ended:
        ended.callback(os.close, end)
        yield lock, holder.pid or 0, ended.close
    for descriptor in (ready, tell, until):
        os.close(descriptor)


def test_a_child_of_a_killed_holder_is_waited_for(
    held_by_a_child: tuple[Path, int, Callable[[], None]],
) -> None:
    lock, _, let_go = held_by_a_child
    soon = threading.Timer(0.1, let_go)
    soon.start()
    with exclusive(lock, "down"):
        soon.join()


def test_a_child_that_never_lets_go_is_not_waited_for_for_ever(
    held_by_a_child: tuple[Path, int, Callable[[], None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{_LOCK}._EXEC_NS", 20_000_000)
    lock, pid, _ = held_by_a_child
    with pytest.raises(FabricError, match=rf"being changed by up \(pid {pid}\)"), exclusive(lock, "down"):
        pass
