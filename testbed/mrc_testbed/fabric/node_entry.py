"""Running a program inside a node, from the machine."""

from mrc_testbed.fabric.runtime import node_namespace


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
