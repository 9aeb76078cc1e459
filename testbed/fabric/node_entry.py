"""Running a program inside a node, from the machine."""

from testbed.fabric.runtime import node_namespace


def enter_command(lab: str, node: str, container_pid: int | None) -> tuple[str, ...]:
    """The program, with arguments, that runs what follows it inside a node, as root with all capabilities.

    Args:
        lab: name of the lab.
        node: name of the node.
        container_pid: first process of the node's container; None if it has none.
    """
    if container_pid is None:
        return ("nsenter", f"--net={node_namespace(lab, node)}")
    return ("nsenter", f"--target={container_pid}", "--mount", "--uts", "--ipc", "--net", "--pid")
