"""A program of a scenario in virtual time: its ranks as a workload of the engine."""

import heapq
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.context import QueuePair
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.ranks import Rank, Write, check_program, free_port, rank_environment
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.virtual.limits import COMPUTE_VARIABLE, declared_compute
from mrc_testbed.virtual.rank_processes import Alarm, Post, RankProcesses
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.printed_figures import PrintedFigures
from mrc_testbed.workloads.program import Program, ProgramState
from mrc_testbed.workloads.rank_network import RankNetwork, exchange_sides
from mrc_testbed.workloads.running import BookedWorkload
from mrc_testbed.workloads.running_program import WITHOUT_A_STEP
from mrc_testbed.workloads.step_report import JobSteps, ReportError
from mrc_testbed.workloads.transport import Event, Transport

NOW_VARIABLE: Final = "MRC_TESTBED_VIRTUAL_NOW_NS"
"""Virtual time at which a rank's process is started."""

QUIET_NS: Final = 300 * 10**9
"""Time of this machine that a rank may compute without a word."""

_HERE: Final = "127.0.0.1"

_ANY_TIME_NS: Final = (1 << 63) - 1
"""A rank's clock may be ahead of the lab's: it has computed, and time passes when it waits."""


class ProgramRun:
    """Ranks between their start and their end.

    Args:
        network: carries their operations; it is open.
        now_ns: virtual time.
    """

    def __init__(self, network: RankNetwork, processes: RankProcesses, now_ns: Callable[[], int]) -> None:
        self._network = network
        self._processes = processes
        self._now_ns = now_ns
        self._future: list[tuple[int, int, int, Post | Alarm]] = []
        self._count = 0
        self._has_to_settle = True
        self.error: str | None = None  # why the program failed; None: it did not
        self.is_over = False  # whether it has ended

    def start(self, ranks: Sequence[Rank]) -> None:
        self._processes.start(ranks)

    def deadline_ns(self) -> int | None:
        """When it goes on without an event."""
        if self.is_over or self._processes.is_interrupted:
            return None
        if self._has_to_settle:
            return self._now_ns()
        return self._future[0][0] if self._future else None

    def advance(self) -> None:
        """Do all that is to be done now; the machine's time passes where ranks compute."""
        while not self.is_over:
            self._has_to_settle = False
            if not self._processes.settle():
                if self._processes.error is None:
                    self._has_to_settle = True
                else:
                    self.fail(self._processes.error)
                return
            if self.is_over:  # a report was wrong
                return
            has_woken = self._take_posts()
            self._network.advance()
            if self._network.failure is not None:
                self.fail(self._network.failure)
            elif not (self._report_ended() or has_woken):
                break
        if self._processes.is_over:
            self.is_over = True
        elif not self.is_over and not self._future and not self._network.under_way:
            self.fail(f"all ranks wait for each other: {self._deadlock()}")

    def fail(self, why: str) -> None:
        """Let all operations fail; ranks get time to say so."""
        if self.is_over:
            return
        self.error = re.sub(r"\brank (\d+)\b(?! \()", lambda found: self._network.name(int(found[1])), why)
        self.is_over = True
        self._network.fail(why)
        self._report_ended()
        for post in [*(post for *_, post in self._future), *self._processes.take_posts()]:
            if isinstance(post, Alarm):
                self._processes.wake(post.rank, self._now_ns())
            else:
                self._processes.report_ended(post.rank, post.start.id, self._now_ns(), why)
        self._processes.let_end()

    def _take_posts(self) -> bool:
        """Start what is due, and wake who is, in the order of its time and of the ranks; False: none woke."""
        has_woken = False
        for post in self._processes.take_posts():
            self._count += 1
            heapq.heappush(self._future, (max(post.at_ns, self._now_ns()), post.rank, self._count, post))
        while self._future and self._future[0][0] <= self._now_ns():
            *_, post = heapq.heappop(self._future)
            if isinstance(post, Alarm):
                self._processes.wake(post.rank, self._now_ns())
                has_woken = True
                continue
            try:
                self._begin(post)
            except (TestbedError, ValueError) as error:
                self._network.fail(f"rank {post.rank}: {error}")
                self._processes.report_ended(post.rank, post.start.id, self._now_ns(), str(error))
        return has_woken

    def _begin(self, post: Post) -> None:
        start = post.start
        address = 0 if post.shared is None else post.shared.address
        arguments: tuple[Any, ...] = (address, *start.arguments)
        if start.operation == "exchange":
            arguments = exchange_sides(address, start.out, start.in_)
        self._network.start(
            post.rank,
            start.operation,
            start.ranks,
            start.group,
            start.number,
            *arguments,
            ended_as=start.id,
        )

    def _report_ended(self) -> bool:
        """Report to ranks what has ended; False: nothing has."""
        has_reported = False
        for rank, number, error in self._network.take_ended():
            has_reported = True
            self._processes.report_ended(rank, number, self._now_ns(), error)
        return has_reported

    def _deadlock(self) -> str:
        waiting = self._processes.waiting()
        texts = []
        for rank, starts in waiting.items():
            others = [
                self._network.name(other) + ("" if other in waiting else ", which has ended")
                for other in self._network.awaited(rank)
            ]
            names = ", ".join(dict.fromkeys(start.operation for start in starts))
            texts.append(f"{self._network.name(rank)} in {names} for {' and '.join(others)}")
        return "; ".join(texts)


class SimulatedProgram(BookedWorkload):
    def __init__(
        self,
        load: Load,
        program: Program,
        transport: Transport,
        seed: int,
        machine: Clock,
        write: Write,
    ) -> None:
        super().__init__(load, program)
        self._program = program
        self._network = RankNetwork(program.hosts, transport, seed)
        self._printed = PrintedFigures()
        self._write = write
        self._processes = RankProcesses(machine, self._take_output, self._take_report, QUIET_NS)
        self._run = ProgramRun(self._network, self._processes, monotonic_ns)
        self._steps = JobSteps(program.hosts)
        self._start_ns: int | None = None
        self._end_ns: int | None = None
        self._compute = ""

    # ---- what it is

    @property
    def program(self) -> ProgramState | None:
        """Its state; None before it starts."""
        if self._start_ns is None:
            return None
        end_ns = monotonic_ns() if self._end_ns is None else self._end_ns
        return ProgramState(
            has_stepped=self._steps.has_begun,
            run_ns=end_ns - self._start_ns,
            status=self._processes.status,
            error=self._run.error,
            printed=tuple(self._printed.found),
            rows=self._steps.rows,
        )

    @property
    def is_over(self) -> bool:
        return self._run.is_over

    @property
    def is_under_way(self) -> bool:
        return self._start_ns is not None and not self.is_over

    @property
    def deadline_ns(self) -> int | None:
        """When it goes on without an event."""
        return self._run.deadline_ns() if self.is_under_way else None

    def qps(self) -> Iterable[QueuePair]:
        return self._network.qps()

    # ---- what the engine asks

    def prepare(self) -> None:
        """Check the command and what its steps compute, and connect the ranks."""
        check_program(self._program.command)
        self._compute = declared_compute(self.load.name, self._program.compute)
        self._network.open()

    def start(self) -> None:
        now_ns = self._start_ns = monotonic_ns()
        program = self._program
        base = {
            **os.environ,
            COMPUTE_VARIABLE: self._compute,
            NOW_VARIABLE: str(now_ns),
            **program.variables,
        }
        master = _HERE, free_port(_HERE)
        self._run.start(
            [
                Rank(number, host, program.command, rank_environment(program.hosts, number, master, base))
                for number, host in enumerate(program.hosts)
            ]
        )

    def stop(self) -> None:
        """End the ranks."""
        self.give_up(f"workload {self.load.name} was stopped")

    def give_up(self, reason: str) -> None:
        """End the ranks, for that reason."""
        if self.is_under_way:
            self._run.fail(reason)
            self._end()

    def take(self, event: Event) -> None:
        self._network.take(event)

    def lose(self, host: str, reason: str) -> None:
        self._network.lose(host, reason)

    def advance(self, now_ns: int) -> None:
        """Go on; the machine's time passes where ranks compute."""
        del now_ns
        if not self.is_under_way:
            return
        self._run.advance()
        if self.is_over:
            self._end()

    def close(self) -> list[TestbedError]:
        """End what still runs, and free memory and connections; returns the errors."""
        self._processes.close()
        return self._network.close()

    def _take_output(self, rank: Rank, is_error: bool, line: bytes) -> None:
        self._printed.take(rank.number, line)
        self._write(rank, is_error, line)

    def _take_report(self, rank: Rank, line: bytes) -> None:
        try:
            self._book(self._steps.take(line, rank.number, _ANY_TIME_NS))
        except ReportError as error:
            self._run.fail(error.message)

    def _end(self) -> None:
        self._end_ns = monotonic_ns()
        self._book(self._steps.finish())
        if self._program.reports_steps and not self._records and self._run.error is None:
            self._run.error = WITHOUT_A_STEP
