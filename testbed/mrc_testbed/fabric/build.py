"""Performs a plan: the one place that turns operations into changes of the machine."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from mrc_testbed.fabric.agent_process import start_agents, start_drainer
from mrc_testbed.fabric.data_plane import SwitchDataPlane
from mrc_testbed.fabric.file_systems import prepare_pins
from mrc_testbed.fabric.link import create_links, prepare_namespace, raise_ports
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.nic_data_plane import load_nic, nic_program
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.plan import BuildLedger, OperationKind, PlanStep
from mrc_testbed.fabric.readiness import prove_planes
from mrc_testbed.fabric.runtime import Runtime, node_namespace
from mrc_testbed.fabric.state import ContainerRecord, ProcessRecord
from mrc_testbed.fabric.state_file import PRIVATE_FOLDER
from mrc_testbed.topology.clos import Clos


@dataclass(frozen=True, slots=True)
class BuildProgress:
    """Progress of `up` or `down`: *done_count* of *total_count* things of the step *what*."""

    what: str
    done_count: int
    total_count: int


ProgressCallback = Callable[[BuildProgress], None]
"""Called from any thread, one call at a time."""


class Counter:
    """Counts what is done of a step, and reports it; from any thread."""

    def __init__(self, what: str, total_count: int, progress: ProgressCallback) -> None:
        self._what = what
        self._total_count = total_count
        self._progress = progress
        self._lock = threading.Lock()
        self._done_count = 0
        self.add(0)

    def add(self, count: int) -> None:
        with self._lock:
            self._done_count += count
            self._progress(BuildProgress(self._what, self._done_count, self._total_count))

    def finish(self) -> None:
        """All are done; says so unless `add` did."""
        if self._done_count < self._total_count:
            self.add(self._total_count - self._done_count)


class Build:
    """One lab while it is built."""

    def __init__(
        self, paths: LabPaths, clos: Clos, runtime: Runtime, ledger: BuildLedger, progress: ProgressCallback
    ) -> None:
        self.containers: dict[str, ContainerRecord] = {}  # by node, as far as they are made
        self.processes: list[ProcessRecord] = []  # agents and drainer, as far as they are started
        self._paths = paths
        self._clos = clos
        self._runtime = runtime
        self._ledger = ledger
        self._progress = progress
        self._switches: SwitchDataPlane | None = None

    def close(self) -> None:
        """Close the descriptors that only building needs."""
        if self._switches:
            self._switches.close()

    def perform(self, step: PlanStep) -> None:
        """Announces the operations of *step* in the ledger, then carries them out."""
        counter = Counter(step.reason, len(step.targets), self._progress)
        self._ledger.announce(step.operations())
        match step.kind:
            case OperationKind.PREPARE_PINS:
                prepare_pins(self._paths)
                for host in self._clos.hosts():
                    self._paths.node_pins(host.name).mkdir(PRIVATE_FOLDER, parents=True)
                    for folder in (self._paths.agent_folder(host.name), self._paths.node_folder(host.name)):
                        folder.parent.mkdir(PRIVATE_FOLDER, exist_ok=True)
                        folder.mkdir(PRIVATE_FOLDER)
            case OperationKind.CREATE_NODE:
                self._create_nodes(step.targets, counter)
            case OperationKind.CREATE_LINK:
                create_links(self._paths.lab, [self._clos.link(link) for link in step.targets])
            case OperationKind.LOAD_FABRIC:
                self._switches = SwitchDataPlane(self._paths, self._clos)
                self._switches.fill(self._clos)
                self._switches.pin(self._paths)
            case OperationKind.LOAD_NIC:
                self._load_nics(step.targets, counter)
            case OperationKind.CONNECT_NODE:
                for node in step.targets:
                    self._connect(node)
                    counter.add(1)
            case OperationKind.START_DRAINER:
                for index in range(self._clos.spec.queue.drainers):
                    self.processes.append(start_drainer(self._paths, index))
            case OperationKind.START_AGENT:
                self.processes += start_agents(
                    self._paths, self._clos, self._runtime, step.targets, counter.add
                )
        counter.finish()

    def prove(self) -> None:
        """Makes sure that the lab carries packets."""
        counter = Counter("a packet through every plane", self._clos.numbering.host_count, self._progress)
        prove_planes(self._paths, self._clos, counter.add)

    def _create_nodes(self, nodes: Sequence[str], counter: Counter) -> None:
        hosts = [node for node in nodes if not self._clos.node(node).is_switch]
        switches = [node for node in nodes if self._clos.node(node).is_switch]
        self.containers.update(self._runtime.create_nodes(switches, hosts, counter.add))
        for node in nodes:
            prepare_namespace(self._paths.lab, node)

    def _load_nics(self, hosts: Sequence[str], counter: Counter) -> None:
        shared_maps = self._loaded_switches().shared_maps()
        # The time goes to the kernel's verifier, which works on as many programs as there are cores.
        pool = ThreadPoolExecutor(max_workers=os.cpu_count())
        try:
            for _ in pool.map(lambda host: load_nic(self._paths, self._clos, host, shared_maps), hosts):
                counter.add(1)
        finally:
            pool.shutdown(cancel_futures=True)

    def _connect(self, name: str) -> None:
        node = self._clos.node(name)
        ports = tuple(self._clos.ports_of(node))
        switches = self._loaded_switches()
        with entered(node_namespace(self._paths.lab, name)):
            if node.is_switch:
                switches.open_ports(ports, switches.program_fd)
            else:
                with nic_program(self._paths, name) as program_fd:
                    switches.open_ports(ports, program_fd)
            raise_ports(ports)

    def _loaded_switches(self) -> SwitchDataPlane:
        if self._switches is None:
            raise AssertionError("the plan loads the fabric before it uses it")
        return self._switches
