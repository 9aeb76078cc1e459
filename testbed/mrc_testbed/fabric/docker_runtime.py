"""Runtime `docker`: a node is a container without network of Docker's making and without capabilities.

Links, XDP programs and pins are made from outside, so nothing inside needs a privilege. A host's agent opens
pinned maps only; Docker's own seccomp profile refuses bpf() altogether to a container without CAP_SYS_ADMIN,
therefore seccomp.json takes its place: the same refusals as far as they matter without capabilities, and of
bpf() only what opens, reads, writes and runs what exists. See docs/decisions.
"""

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.docker_engine import ENGINE_ERRORS, DockerEngine, ObservedContainer, explain
from mrc_testbed.fabric.file_systems import mount_node_folder
from mrc_testbed.fabric.namespace import bind_namespace
from mrc_testbed.fabric.netns_runtime import delete_namespaces, nodes_with_namespace
from mrc_testbed.fabric.ownership import LAB_LABEL, NODE_LABEL, owned_name
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.process import ProcessIdentity, marked_environment, observe_process
from mrc_testbed.fabric.runtime import Report
from mrc_testbed.fabric.state import ContainerRecord, RuntimeName
from mrc_testbed.hostprep.image import ImageState, image_name, observe_image

with from_extra("lab"):
    from docker.errors import NotFound
    from docker.types import LogConfig, Mount

_AGENT_PYTHON: Final = "python3"


def require_node_image() -> str:
    """Name of the node image, which the Docker Engine has and which is made from the sources as they are."""
    state = observe_image()
    if state is not ImageState.CURRENT:
        raise PreflightError(
            f"the node image {image_name()} is {state.value}",
            hint="build it: mrc-testbed setup image; or use --runtime netns",
        )
    return image_name()


class DockerRuntime:
    """Nodes of one lab as containers."""

    name = RuntimeName.DOCKER

    def __init__(self, paths: LabPaths, engine: DockerEngine, image: str) -> None:
        self._paths = paths
        self._engine = engine
        self._image = image
        self._seccomp = resources.files(__package__).joinpath("seccomp.json").read_text()

    def create_nodes(
        self, switches: Sequence[str], hosts: Sequence[str], report: Report
    ) -> Mapping[str, ContainerRecord]:
        """Starts one container per node and names its network namespace."""
        is_host = {**dict.fromkeys(switches, False), **dict.fromkeys(hosts, True)}
        containers: dict[str, ContainerRecord] = {}

        def create(node: str) -> None:
            containers[node] = self._create(node, has_agent=is_host[node])
            report(1)

        self._engine.for_each(is_host, create, stop_at_failure=True)
        return containers

    def delete_nodes(self, nodes: Sequence[str]) -> None:
        """Removes the containers, then the names of their namespaces."""
        wanted = frozenset(nodes)
        labelled = {container.node for container in self._containers()}
        found = [owned_name(self._paths.lab, node) for node in wanted & labelled]
        failures: list[Exception] = [*self._engine.for_each(found, self._remove, stop_at_failure=False)]
        try:
            delete_namespaces(self._paths.lab, nodes)
        except ExceptionGroup as group:
            failures.extend(group.exceptions)
        if failures:
            raise ExceptionGroup("containers could not be removed", failures)

    def find_nodes(self) -> tuple[str, ...]:
        """Nodes that have a container or a namespace."""
        labelled = {container.node for container in self._containers()}
        return tuple(sorted(labelled.union(nodes_with_namespace(self._paths.lab))))

    def running_nodes(self) -> frozenset[str]:
        """Nodes whose container runs."""
        return frozenset(container.node for container in self._containers() if container.is_running)

    def start_agents(self, configs: Mapping[str, Path]) -> Mapping[str, ProcessIdentity]:
        """Runs each agent inside the container of its host."""
        started: dict[str, ProcessIdentity] = {}

        def start(host: str) -> None:
            started[host] = self._start_agent(host, configs[host])

        self._engine.for_each(configs, start, stop_at_failure=True)
        return started

    def _create(self, node: str, *, has_agent: bool) -> ContainerRecord:
        name = owned_name(self._paths.lab, node)
        mounts = self._mounts(node) if has_agent else []
        try:
            with self._engine.connected() as api:
                config = api.create_host_config(
                    network_mode="none",
                    init=True,  # reaps orphans, and ends on SIGTERM
                    cap_drop=["ALL"],
                    security_opt=["no-new-privileges", f"seccomp={self._seccomp}"],
                    mounts=mounts,
                    log_config=LogConfig(type=LogConfig.types.NONE),
                )
                created = api.create_container(
                    self._image,
                    command=["sleep", "infinity"],
                    name=name,
                    hostname=node,
                    labels={LAB_LABEL: self._paths.lab, NODE_LABEL: node},
                    host_config=config,
                )
                container_id = str(created["Id"])
                api.start(container_id)
                pid = int(api.inspect_container(container_id)["State"]["Pid"])
        except ENGINE_ERRORS as error:
            raise FabricError(f"container {name} cannot be started: {explain(error)}") from error
        bind_namespace(name, Path(f"/proc/{pid}/ns/net"))
        return ContainerRecord(container_id=container_id, pid=pid)

    def _mounts(self, host: str) -> list[Mount]:
        """The mounts of a host: its own folders, of which it may write one."""
        writable = self._paths.node_folder(host)
        mount_node_folder(writable)
        folders = (writable, self._paths.agent_folder(host), self._paths.node_pins(host))
        return [
            Mount(str(folder), str(folder), type="bind", read_only=folder != writable) for folder in folders
        ]

    def _start_agent(self, host: str, config: Path) -> ProcessIdentity:
        command = [_AGENT_PYTHON, "-m", "mrc_agents.nic", "--config", str(config)]
        environment = marked_environment(self._paths.lab, base={})
        try:
            with self._engine.connected() as api:
                created = api.exec_create(owned_name(self._paths.lab, host), command, environment=environment)
                api.exec_start(created["Id"], detach=True)
                pid = int(api.exec_inspect(created["Id"])["Pid"])
        except ENGINE_ERRORS as error:
            raise FabricError(f"the agent of {host} cannot be started: {explain(error)}") from error
        identity = observe_process(pid) if pid else None
        if identity is None:
            raise FabricError(f"the agent of {host} ended at once", hint=f"see {self._paths.agent_log(host)}")
        return identity

    def _remove(self, container: str) -> None:
        try:
            with self._engine.connected() as api:
                api.remove_container(container, force=True, v=True)
        except NotFound:
            return
        except ENGINE_ERRORS as error:
            raise FabricError(f"container {container} cannot be removed: {explain(error)}") from error

    def _containers(self) -> list[ObservedContainer]:
        return self._engine.containers(f"{LAB_LABEL}={self._paths.lab}")
