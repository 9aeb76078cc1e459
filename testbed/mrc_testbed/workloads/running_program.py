"""A program in a lab that is up: its ranks, served by a thread of its own, and the steps that they report."""

import os
import selectors
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack
from queue import SimpleQueue
from typing import Final, TypeAlias

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.ranks import REPORT_VARIABLE, Rank, RankFailure, RunningRanks, Write
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.operation_publisher import OperationPublisher
from mrc_testbed.workloads.printed_figures import PrintedFigures
from mrc_testbed.workloads.program import Program, ProgramState
from mrc_testbed.workloads.running import BookedWorkload
from mrc_testbed.workloads.step_report import JobSteps
from mrc_testbed.workloads.transport import Event

PlaceRanks: TypeAlias = Callable[[Program], AbstractContextManager[list[Rank]]]
"""Makes the ranks of a program, which can be started as long as the context lasts."""

WITHOUT_A_STEP: Final = (
    f"ended without a step: rank 0 reported none; write JSON lines to descriptor ${REPORT_VARIABLE}, "
    'such as {"step": 0, "time_s": 0.1}'
)


class RunningProgram(BookedWorkload):
    """A program workload.

    Args:
        place: makes its ranks.
        write: receives each line of a rank, in a thread of the program.
        wake: lets the engine take a turn; called in that thread.
    """

    def __init__(
        self,
        load: Load,
        program: Program,
        place: PlaceRanks,
        write: Write,
        wake: Callable[[], None],
        on_operation: OperationPublisher | None = None,
    ) -> None:
        super().__init__(load, program, on_operation)
        self._program = program
        self._place = place
        self._take_line = write
        self._wake = wake
        self._held = ExitStack()
        self._ranks: list[Rank] = []
        self._thread = ThreadPoolExecutor(1, f"program {load.name}")
        self._ending, self._end_them = os.pipe()
        self._reported: SimpleQueue[tuple[int, bytes, int]] = SimpleQueue()
        self._running: Future[RankFailure | None] | None = None
        self._unwritten: TestbedError | None = None
        self._printed = PrintedFigures()
        self._steps = JobSteps(program.hosts)
        self._begin_ns = self._end_ns = 0
        self._status: int | None = None
        self._error: str | None = None

    def prepare(self) -> None:
        """Places its ranks."""
        self._ranks = self._held.enter_context(self._place(self._program))

    def close(self) -> list[TestbedError]:
        """End ranks that still run; returns the errors."""
        os.close(self._end_them)
        self._thread.shutdown()
        os.close(self._ending)
        try:
            self._held.close()
        except TestbedError as error:
            return [error]
        return []

    @property
    def program(self) -> ProgramState | None:
        """Its state; None before its start."""
        if not self._begin_ns:
            return None
        run_ns = (self._end_ns or monotonic_ns()) - self._begin_ns
        printed = tuple(self._printed.found)
        return ProgramState(
            self._steps.has_begun, run_ns, self._status, self._error, printed, self._steps.rows
        )

    @property
    def is_over(self) -> bool:
        """Return True if all ranks have ended, or it has failed."""
        return self._end_ns > 0

    @property
    def is_under_way(self) -> bool:
        return self._begin_ns > 0 and not self.is_over

    def start(self) -> None:
        self._begin_ns = monotonic_ns()
        self._running = self._thread.submit(self._run)
        self._running.add_done_callback(lambda _: self._wake())

    def stop(self) -> None:
        """Do nothing: a program ends by itself."""

    def give_up(self, reason: str) -> None:
        """Fails it if it is under way."""
        if self.is_under_way:
            self._end(reason)

    def take(self, event: Event) -> None:
        """Do nothing: it has no QPs here."""

    def lose(self, host: str, reason: str) -> None:
        """Do nothing: its ranks notice by themselves."""

    def advance(self, now_ns: int) -> None:  # noqa: ARG002 - it goes on by reports alone
        """Books what ranks have reported, and their end."""
        if not self.is_under_way or self._running is None:
            return
        has_ended = self._running.done()  # looked at first: no report follows it
        try:
            while not self._reported.empty():
                rank, line, time_ns = self._reported.get()
                self._book(self._steps.take(line, rank, time_ns))
            if has_ended:
                failure = self._running.result()
                self._status = 0 if failure is None else failure.status
                self._book(self._steps.finish())
                is_idle = failure is None and self._program.reports_steps and not self._steps.has_begun
                self._end(WITHOUT_A_STEP if is_idle else None if failure is None else str(failure))
        except TestbedError as error:
            self._end(error.message)

    def _end(self, error: str | None) -> None:
        self._error = error
        self._end_ns = monotonic_ns()
        self._publish_end()

    # ---- the thread

    def _run(self) -> RankFailure | None:
        """The first failure of a rank; also returns, without one, when the end is wanted."""
        is_wanted = [True]
        with RunningRanks(self._write, self._report) as ranks:
            ranks.selector.register(self._ending, selectors.EVENT_READ, is_wanted.clear)
            try:
                ranks.start(self._ranks)
                while is_wanted and not ranks.is_over and self._unwritten is None:
                    ranks.serve(None)
            except OSError as error:
                raise TestbedError(f"its ranks cannot be run: {error.strerror}") from error
            finally:
                ranks.selector.unregister(self._ending)
            if self._unwritten is not None:
                raise self._unwritten
            return ranks.failure

    def _write(self, rank: Rank, is_error: bool, line: bytes) -> None:
        """Passes output on; when that fails, it is dropped while ranks are ended."""
        if self._unwritten is not None:
            return
        self._printed.take(rank.number, line)
        try:
            self._take_line(rank, is_error, line)
        except TestbedError as error:
            self._unwritten = error

    def _report(self, rank: Rank, line: bytes) -> None:
        self._reported.put((rank.number, line, monotonic_ns()))
        if not line.startswith(b"["):  # rows of a trace can wait
            self._wake()
