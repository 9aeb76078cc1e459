"""A program of a scenario in virtual time: its ranks as a workload of the engine."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.nic.context import QueuePair
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.ranks import Rank, Write, check_program, free_port, rank_environment
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.virtual.compute import COMPUTE_VARIABLE, declared_compute
from mrc_testbed.virtual.program_run import NOW_VARIABLE, ProgramRun
from mrc_testbed.virtual.rank_network import RankNetwork
from mrc_testbed.virtual.rank_processes import RankProcesses
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.outcome import FlowOutcome
from mrc_testbed.workloads.printed_figures import PrintedFigures
from mrc_testbed.workloads.program import Program, ProgramState
from mrc_testbed.workloads.running_program import WITHOUT_A_STEP
from mrc_testbed.workloads.sender import BatchRecord
from mrc_testbed.workloads.step_report import JobSteps, ReportError, parse_report
from mrc_testbed.workloads.transport import Event, Transport

QUIET_NS: Final = 300 * 10**9
"""Time of this machine that a rank may compute without a word."""

_HERE: Final = "127.0.0.1"

_ANY_TIME_NS: Final = (1 << 63) - 1
"""A rank's clock may be ahead of the lab's: it has computed, and time passes when it waits."""


class SimulatedProgram:
    """The program.

    Args:
        load: whose it is.
        program: the same.
        transport: what carries its collectives.
        seed: of its connections.
        machine: source of interruptions.
        write: receives its output.
    """

    def __init__(
        self,
        load: Load,
        program: Program,
        transport: Transport,
        seed: int,
        machine: Clock,
        write: Write,
    ) -> None:
        self.load = load
        self._program = program
        self._network = RankNetwork(program.hosts, transport, seed)
        self._printed = PrintedFigures()
        self._write = write
        self._processes = RankProcesses(machine, self._take_output, self._take_report, QUIET_NS)
        self._run = ProgramRun(self._network, self._processes, monotonic_ns)
        self._steps = JobSteps(program.hosts)
        self._records: list[OperationRecord] = []
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

    def senders(self) -> Mapping[Flow, QueuePair]:
        """None: its QPs are not flows of the plan."""
        return {}

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

    # ---- results

    def outcomes(self) -> list[FlowOutcome]:
        """None: it has no flows."""
        return []

    def batches(self) -> Mapping[Flow, Sequence[BatchRecord]]:
        """None: only independent flows have batches."""
        return {}

    def operations(self) -> Sequence[OperationRecord]:
        """Steps of the job, oldest first."""
        return list(self._records)

    def _take_output(self, rank: Rank, is_error: bool, line: bytes) -> None:
        self._printed.take(rank.number, line)
        self._write(rank, is_error, line)

    def _take_report(self, rank: Rank, line: bytes) -> None:
        try:
            report = parse_report(line, rank.number, self._program.hosts, _ANY_TIME_NS)
            self._records += self._steps.add(report)
        except ReportError as error:
            self._run.fail(error.message)

    def _end(self) -> None:
        self._end_ns = monotonic_ns()
        self._records += self._steps.finish()
        if self._program.reports_steps and not self._records and self._run.error is None:
            self._run.error = WITHOUT_A_STEP
