"""The marks by which everything a lab puts on the machine is recognised, also without a state folder.

    network namespaces   mrc-<lab>-<node>
    containers           label mrc-testbed.lab=<lab>, named like the namespace
    processes            a mark in the environment (process.py)
    pins                 a folder named like the lab on our BPF file system
    files                a folder named like the lab

Links, addresses and XDP programs live in the namespaces and need no mark of their own.
"""

from typing import Final, NamedTuple

from mrc_testbed.fabric.namespace import namespace_names
from mrc_testbed.topology.naming import parse_node_name

LAB_LABEL: Final = "mrc-testbed.lab"
NODE_LABEL: Final = "mrc-testbed.node"

_PREFIX: Final = "mrc-"


class OwnedName(NamedTuple):
    lab: str
    node: str


def owned_name(lab: str, node: str) -> str:
    """Name of the namespace, and of the container, of a node."""
    return f"{_PREFIX}{lab}-{node}"


def parse_owned_name(name: str) -> OwnedName | None:
    """Lab and node of a namespace's name; None if it is not ours.

    Lab names contain hyphens, as do those of switches: the node is the longest ending that is a node's name.
    """
    if not name.startswith(_PREFIX):
        return None
    words = name.removeprefix(_PREFIX).split("-")
    for word_count in (3, 1):  # p0-t0-1, h3
        node = "-".join(words[-word_count:])
        if len(words) > word_count and parse_node_name(node):
            return OwnedName("-".join(words[:-word_count]), node)
    return None


def find_namespaces(lab: str) -> tuple[str, ...]:
    return tuple(name for name in namespace_names() if (own := parse_owned_name(name)) and own.lab == lab)


def labs_with_namespaces() -> frozenset[str]:
    """Labs that own a network namespace, whether or not they have a state folder."""
    return frozenset(own.lab for name in namespace_names() if (own := parse_owned_name(name)))
