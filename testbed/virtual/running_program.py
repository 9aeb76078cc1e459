"""A program of a scenario in virtual time: its ranks as a workload of the engine."""

import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from mrc_testbed.agents.clock import monotonic_ns
from mrc_testbed.agents.nic.context import QueuePair
from mrc_testbed.errors import TestbedError
from mrc_testbed.fabric.ranks import Rank, Write, check_program, rank_environment
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.units import parse_duration_ns
from mrc_testbed.virtual.program_run import NOW_VARIABLE, ProgramRun
from mrc_testbed.virtual.rank_network import RankNetwork
from mrc_testbed.virtual.rank_processes import RankProcesses
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.load import Load
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.outcome import FlowOutcome
from mrc_testbed.workloads.program import Program, ProgramState
from mrc_testbed.workloads.sender import BatchRecord
from mrc_testbed.workloads.shown_operations import OperationListener
from mrc_testbed.workloads.step_report import JobSteps, ReportError, parse_report
from mrc_testbed.workloads.transport import Event, Transport

QUIET_NS: Final = 300 * 10**9
"""Time of this machine that a rank may compute without a word."""

_ANY_TIME_NS: Final = (1 << 63) - 1
"""A rank's clock may be ahead of the lab's: it has computed, and time passes when it waits."""


class RunningProgram:
    """The program.

    Args:
        load: whose it is.
        program: the same.
        transport: what carries its collectives.
        seed: of its connections.
        machine: source of interruptions.
        write: receives its output.
    """

    deadline: None = None

    def __init__(
        self, load: Load, program: Program, transport: Transport, seed: int, machine: Clock, write: Write
    ) -> None:
        self.load = load
        self._program = program
        self._network = RankNetwork(program.hosts, transport, seed)
        self._processes = RankProcesses(machine, write, self._note_report, QUIET_NS)
        self._run = ProgramRun(program.hosts, self._network, self._processes, monotonic_ns)
        self._steps = JobSteps(program.hosts)
        self._records: list[OperationRecord] = []
