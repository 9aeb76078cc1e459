"""An operation of torch.distributed that was started, and its future."""

import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import torch.distributed as dist
from torch.autograd import Variable
from torch.futures import Future

from mrc_torch.clock import CLOCK
from mrc_torch.failure import NAME
from mrc_torch.futures import Branch, note_branch
from mrc_torch.rank import is_virtual
from mrc_torch.reports import followed, now_ns, trace_wait, waiting
from mrc_torch.untraced import untraced


@untraced
class MrcWork(dist.Work):  # type: ignore[misc]
    """An operation of torch's.

    Args:
        expect: called when somebody begins to wait for it.
    """

    def __init__(self, result: Any, expect: Callable[[], None]) -> None:
        super().__init__()
        self._expect = expect
        self._ended = threading.Event()
        self._error: Exception | None = None
        self._result = result
        self.branch = Branch()  # what follows it
        self.ahead: list[int | None] = []  # operations that have ended when it has, for a trace
        # C++ takes an exception that is set on a future for tensors. One that is raised by what follows the
        # future is an error there too.
        self._end = Future()
        self._future = self._end.then(lambda _: self._outcome())
        note_branch(self._future, self.branch)

    def end(self, error: Exception | None) -> None:
        """Note the end; who waits for it goes on."""
        self._error = error
        self._ended.set()

    def follow(self) -> None:
        """End the future: its callbacks run in the calling thread."""
        self._end.set_result(None)

    def _outcome(self) -> Any:
        if self._error:
            raise self._error
        return self._result

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait for the end; an operation that failed raises DistBackendError."""
        limit_s = timeout.total_seconds() if timeout and timeout > timedelta(0) else None
        with waiting(self.branch.operation, *self.ahead):
            self._expect()
            has_ended = self._ended.wait(limit_s)
        if not has_ended:
            raise dist.DistBackendError(f"{NAME}: not done after {limit_s} s")
        if self._error:
            raise self._error
        return True

    def is_completed(self) -> bool:
        if is_virtual() and not self._ended.is_set():
            CLOCK.read()  # who asks again and again waits
        if not self._ended.is_set():
            return False
        with waiting(self.branch.operation):
            return True

    def is_success(self) -> bool:
        return self._ended.is_set() and self._error is None

    def exception(self) -> Exception | None:
        return self._error

    def result(self) -> Any:
        return self._result

    def get_future(self) -> Any:
        return self._future


class Backward:
    """Operations that began in a backward(), and what followed them, for a trace.

    DistributedDataParallel waits for them at its end, in C++, unseen: between two callbacks of the engine.
    """

    def __init__(self) -> None:
        self._operations: list[int] = []
        self._ended_ns: int | None = None

    def note(self, operation: int | None) -> None:
        """Note an operation that starts, where a trace is wanted."""
        if operation is None:
            return
        if followed() in self._operations:
            self._operations.append(operation)
            return
        with suppress(RuntimeError):  # not in backward(): who waits calls wait()
            Variable._execution_engine.queue_callback(self._begin_wait)  # noqa: SLF001 - for DDP's
            self._operations.append(operation)

    def _begin_wait(self) -> None:
        if self._ended_ns is None:
            self._ended_ns = now_ns()
            Variable._execution_engine.queue_callback(self._end_wait)  # noqa: SLF001 - behind DDP's

    def _end_wait(self) -> None:
        trace_wait(self._operations, self._ended_ns or 0)
        self._operations.clear()
        self._ended_ns = None


BACKWARD: Final = Backward()
