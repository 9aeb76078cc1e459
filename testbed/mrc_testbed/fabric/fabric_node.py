"""A node of a live lab as Mininet knows nodes: `cmd`, `popen`, interfaces.

The node exists before this object and outlives it; Mininet only gets a shell in it, started at the first
command. What stock Mininet does by running mnexec, ifconfig and ip in that shell is done by netlink or not
needed.
"""

import subprocess
from typing import Any, Final

from mrc_testbed.errors import FabricError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric.paths import LabPaths
from mrc_testbed.fabric.process import marked_environment
from mrc_testbed.fabric.runtime import enter_command
from mrc_testbed.topology.element import Node as TopologyNode

with from_extra("lab"):
    from mininet.node import Node

_MNEXEC: Final = "mnexec"


class FabricNode(Node):  # type: ignore[misc]  # Mininet is untyped
    """A switch or host of a lab.

    Args:
        container_pid: first process of the node's container; None if it has none.
    """

    def __init__(self, paths: LabPaths, node: TopologyNode, container_pid: int | None) -> None:
        self._enter = enter_command(paths.lab, node.name, container_pid)
        self._environment = marked_environment(paths.lab)
        super().__init__(node.name)

    @classmethod
    def checkSetup(cls) -> None:  # noqa: N802 - Mininet's name
        """Mininet would demand mnexec and ifconfig."""

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Mininet calls it for every new node; here the first command does it, in `sendCmd`."""

    def sendCmd(self, *args: Any, **kwargs: Any) -> None:  # noqa: N802 - Mininet's name
        """Has the node's shell begin a command, see mininet.node.Node.sendCmd."""
        self._require_shell()
        super().sendCmd(*args, **kwargs)

    def cmd(self, *args: Any, **kwargs: Any) -> str:
        """Output of a command run in the node's shell, standard error included."""
        self._require_shell()
        return str(super().cmd(*args, **kwargs))

    def popen(self, *args: Any, **kwargs: Any) -> "subprocess.Popen[bytes]":
        """A process inside the node; arguments are those of subprocess.Popen, both streams piped by
        default.
        """
        process: subprocess.Popen[bytes] = super().popen(*args, **{"mncmd": [*self._enter], **kwargs})
        return process

    def _require_shell(self) -> None:
        if self.shell is None:
            # Mininet would wait for ever for the prompt of a node that cannot be entered
            entry = subprocess.run([*self._enter, "true"], capture_output=True, text=True, check=False)
            if entry.returncode:
                raise FabricError(f"{self.name} cannot be entered: {entry.stderr.strip()}")
            super().startShell()

    def _popen(self, cmd: list[str], **params: Any) -> "subprocess.Popen[bytes]":
        if cmd[0] == _MNEXEC:
            # mnexec and its options would make a new namespace: enter the node's instead.
            cmd = [*self._enter, *cmd[2:]]
        process: subprocess.Popen[bytes] = super()._popen(
            cmd, env=self._environment, start_new_session=True, **params
        )
        return process
