"""The implementation of nodes. The rest of the fabric knows a node by its network namespace only."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

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
