"""Functions that follow operations: they run in a thread that does not poll. Needs no torch."""

import threading
from collections.abc import Callable
from queue import Queue
from typing import Final

Follower = Callable[[], object]

_LEAVE_S: Final = 1.0
"""Time for a function that still waits for something else when the process leaves its peers."""


class Followers:
    """Calls functions one after the other, in a thread of its own.

    A function may wait for an operation, as communication hooks of DistributedDataParallel do. Another thread
    goes on meanwhile with what is behind it.
    """

    def __init__(self) -> None:
        self._queue: Queue[Follower | None] = Queue()
        self._threads: list[threading.Thread] = []  # the last of them goes on

    def call(self, function: Follower) -> None:
        """Call it behind those that were given before."""
        if not self._threads:
            self._begin()
        self._queue.put(function)

    def make_way(self) -> None:
        """Let another thread go on with the others: the calling one is about to wait."""
        if self._threads[-1:] == [threading.current_thread()]:
            self._begin()

    def overtake(self) -> None:
        """Let another thread go on, whatever the present one waits for."""
        if self._queue.unfinished_tasks:
            self._begin()

    def close(self) -> None:
        """Call what was given, and end."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(_LEAVE_S)
        self._threads.clear()

    def _begin(self) -> None:
        self._threads = [each for each in self._threads if each.is_alive()]
        self._threads.append(threading.Thread(target=self._serve, name="mrc-followers", daemon=True))
        self._threads[-1].start()

    def _serve(self) -> None:
        own = threading.current_thread()
        while self._threads[-1:] == [own] and (function := self._queue.get()):
            function()
            self._queue.task_done()
