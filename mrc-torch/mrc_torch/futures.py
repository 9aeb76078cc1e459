"""Futures of torch as this backend has to see them: who waits for one, and what follows it."""

import threading
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any, Final
from weakref import WeakKeyDictionary

import torch

from mrc_torch.library import CallAtEnd
from mrc_torch.reports import waiting

Callback = Callable[[Any], Any]


class Branch:
    """Operations that follow another, or one callback of its future.

    Operations that begin there have names of their own: whether the future ended before or behind the next
    line of the program, which differs from rank to rank, does not number them.
    """

    def __init__(self, name: str = "", operation: int | None = None) -> None:
        self.name = name  # the same on all ranks
        self.operation = operation  # that it follows, by its number in a trace
        self._numbers = count()

    def next_name(self) -> str:
        return f"{self.name}.{next(self._numbers)}"


_BRANCHES: Final[WeakKeyDictionary[Any, Branch]] = WeakKeyDictionary()
_HERE: Final = threading.local()


def current_branch() -> Branch | None:
    """The branch that the calling thread is in; None: the program itself."""
    return getattr(_HERE, "branch", None)


def note_branch(future: Any, branch: Branch) -> None:
    """Let what follows a future belong to a branch."""
    _BRANCHES[future] = branch


def watch(wait: Callable[[Callable[[], bool], CallAtEnd], None]) -> None:
    """Watch all futures of this process, those of C++ too.

    Args:
        wait: called when a thread begins to wait for a future, with a function that returns True once it is
            done, and one that adds a callback; may return before its end.
    """
    futures = torch._C.Future  # noqa: SLF001 - the class of them all
    until_done, then, add = futures.wait, futures.then, futures.add_done_callback

    def watched_wait(future: Any) -> Any:
        # The unwatched add takes no name of the branch: a rank that finds the future done adds nothing.
        branch = _BRANCHES.get(future)
        with waiting(branch.operation if branch else None):
            wait(future.done, partial(add, future))
            return until_done(future)

    def watched_then(future: Any, callback: Callback) -> Any:
        branch, called = _branched(future, callback)
        child = then(future, called)
        if branch is not None:  # another branch than the callback's, which may take names at the same time
            note_branch(child, Branch(f"{branch.name} then", branch.operation))
        return child

    futures.wait = watched_wait
    futures.then = watched_then
    futures.add_done_callback = lambda future, callback: add(future, _branched(future, callback)[1])


def _branched(future: Any, callback: Callback) -> tuple[Branch | None, Callback]:
    """A callback that is in a branch of its own, wherever it runs."""
    above = _BRANCHES.get(future) or current_branch()
    if above is None:
        return None, callback
    branch = Branch(above.next_name(), above.operation)

    def called(done: Any) -> Any:
        before, _HERE.branch = current_branch(), branch
        try:
            return callback(done)
        finally:
            _HERE.branch = before

    return branch, called
