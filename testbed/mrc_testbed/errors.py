"""The exceptions of the project, each with the exit status it ends a command with.

    TestbedError            1    something went wrong while running
    ├── UsageError          2    wrong command line, invalid file: the user can fix it
    ├── PreflightError      3    the machine lacks something; `mrc-testbed doctor` says how to fix it
    ├── CleanupError        6    something of ours is left behind on the machine
    ├── FabricError         1    a node, link, BPF program or switch
    ├── AgentError          1    a NIC agent refused, died or did not answer
    ├── FaultError          1    a fault could not be applied or reverted
    └── Interrupted       130    a signal; faults are reverted, results kept as partial

Those that agents raise too are in mrc_agents.errors. A verdict is a value, not an exception: statuses
4, 5 and 7 belong to mrc_testbed.scenario.measure.verdict. Only mrc_testbed.cli turns `exit_code` into the
status of a process.
"""

from mrc_agents.errors import (
    AgentError,
    FabricError,
    PreflightError,
    TestbedError,
    UsageError,
    closest_name,
    did_you_mean,
)


class CleanupError(TestbedError):
    """Something that belongs to us could not be removed."""

    exit_code = 6


class FaultError(TestbedError):
    """A fault could not be applied, or not reverted."""


class Interrupted(TestbedError):  # noqa: N818 - the name every command line uses for it
    """A signal ended the work early; what had been injected is already reverted."""

    exit_code = 130


__all__ = [
    "AgentError",
    "CleanupError",
    "FabricError",
    "FaultError",
    "Interrupted",
    "PreflightError",
    "TestbedError",
    "UsageError",
    "closest_name",
    "did_you_mean",
]
