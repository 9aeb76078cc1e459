"""The record of a lab between two commands: its state file, replaced in one step."""

from dataclasses import asdict
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict

from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.process import ProcessIdentity
from mrc_testbed.fabric.state_file import read_record, write_record
from mrc_testbed.topology.spec import TopologySpec


class RuntimeName(StrEnum):
    """The owner of a node's network namespace."""

    DOCKER = "docker"
    NETNS = "netns"


class Phase(StrEnum):
    BUILDING = "building"
    UP = "up"
    REMOVING = "removing"


class ProcessRecord(BaseModel):
    """A process on this machine: the agent of a host, or with node None the queue drainer or a run."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    node: str | None
    pid: int
    start_ticks: int
    namespaces: str = ""
    lock: str = ""

    @classmethod
    def of(cls, node: str | None, process: ProcessIdentity) -> "ProcessRecord":
        return cls(node=node, **asdict(process))

    @property
    def identity(self) -> ProcessIdentity:
        return ProcessIdentity(self.pid, self.start_ticks, self.namespaces, self.lock)


class ContainerRecord(BaseModel):
    """A container of the lab: its id, and its first process as this machine numbers it."""

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    container_id: str
    pid: int


class LabState(BaseModel):
    """The content of lab.json.

    `made_for` is the run or campaign that removes the lab at its end; None: it stays until `down`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    format_version: Literal[1] = 1
    name: str
    runtime: RuntimeName
    phase: Phase
    version: str
    spec: TopologySpec
    containers: dict[str, ContainerRecord] = {}
    processes: tuple[ProcessRecord, ...] = ()
    made_for: ProcessRecord | None = None


def write_state(paths: LabPaths, state: LabState) -> None:
    """Replaces lab.json in one step."""
    write_record(paths.state_file, state)


def read_state(paths: LabPaths) -> LabState | None:
    """The recorded state; None if the lab has none."""
    what = f"the state of lab {paths.lab!r}"
    remedy = f"remove the lab: mrc-testbed down -n {paths.lab}"
    return read_record(paths.state_file, LabState, what=what, remedy=remedy)
