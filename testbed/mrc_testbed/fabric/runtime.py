"""The implementation of nodes, and running a program inside one.

The rest of the fabric knows a node by its network namespace only.
"""

import os
import socket
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from mrc_testbed.fabric.namespace import namespace_path
from mrc_testbed.fabric.ownership import owned_name
from mrc_testbed.fabric.process import ProcessIdentity
from mrc_testbed.fabric.state import ContainerRecord, RuntimeName

Report = Callable[[int], None]
"""Called with how many further nodes are done; from any thread."""


class Runtime(Protocol):
    """Makes and removes the nodes of one lab.

    Whatever the runtime, a node's network namespace is at `node_namespace(lab, node)`.
    """

    @property
    def name(self) -> RuntimeName: ...

    def create_nodes(
        self, switches: Sequence[str], hosts: Sequence[str], report: Report
    ) -> Mapping[str, ContainerRecord]:
        """Makes nodes with empty network namespaces.

        Returns:
            Containers by node; empty if nodes have none.
        """

    def delete_nodes(self, nodes: Sequence[str]) -> None:
        """Removes nodes and whatever is in them; one that does not exist is success.

        Raises:
            ExceptionGroup: of FabricErrors, after having tried them all.
        """

    def find_nodes(self) -> tuple[str, ...]:
        """Nodes of the lab that exist, by label or name, sorted."""

    def running_nodes(self) -> frozenset[str]:
        """Those of the nodes that work."""

    def start_agents(self, configs: Mapping[str, Path]) -> Mapping[str, ProcessIdentity]:
        """Starts the NIC agent of each host; its configuration file is given.

        Returns:
            The agents' processes by host; they need not listen yet.
        """


def node_namespace(lab: str, node: str) -> Path:
    return namespace_path(owned_name(lab, node))


def enter_command(lab: str, node: str, container_pid: int | None) -> tuple[str, ...]:
    """The program, with arguments, that runs what follows it in a node's network, with all capabilities.

    It stays with this machine's files, also for a container: who is root in there could have put another
    program in the place of the one that is meant, and would get this machine's root.

    Args:
        container_pid: first process of the node's container; None if it has none.
    """
    if container_pid is None:
        return ("nsenter", f"--net={node_namespace(lab, node)}")
    return ("nsenter", f"--target={container_pid}", "--uts", "--net")


_DEFAULT_HOST: Final = "unix:///var/run/docker.sock"


def engine_host() -> str:
    """Where the engine is looked for: DOCKER_HOST, or the default socket."""
    return os.environ.get("DOCKER_HOST") or _DEFAULT_HOST


def is_engine_listening() -> bool:
    """Return True if an engine listens on the socket; also for a host on the network, which is not asked.

    Needs no SDK, whose import takes a third of a second.
    """
    url = urlsplit(engine_host())
    if url.scheme != "unix":
        return True
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as attempt:
        try:
            attempt.connect(url.path)
        except OSError:
            return False
    return True
