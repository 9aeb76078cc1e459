"""The graph of a topology built by Mininet as shipped: `python -m benchmarks.stock_mininet SPEC_JSON`.

Prints the seconds for bringing it up and for taking it down. Nodes are plain hosts (no switch software is
started), links plain Links. A process of its own, because Mininet keeps state in its modules.
"""

import sys
import time

from mininet.link import Link
from mininet.net import Mininet
from mininet.node import Host, Node

from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec


def main() -> None:
    clos = resolve_topology(TopologySpec.model_validate_json(sys.argv[1]))
    Mininet.inited = True  # its init() rewrites a dozen sysctls of the machine for good
    start_ns = time.monotonic_ns()
    net = Mininet(topo=None, build=False, host=Host, link=Link)
    nodes: dict[str, Node] = {}
    for place, node in enumerate(clos.nodes()):
        # Mininet names interfaces after nodes and the kernel allows 15 characters.
        nodes[node.name] = net.addHost(f"n{place}", ip=None)
    for link in clos.links():
        net.addLink(nodes[link.lower.node.name], nodes[link.upper.node.name])
    up_ns = time.monotonic_ns()
    net.stop()
    down_ns = time.monotonic_ns()
    sys.stdout.write(f"{(up_ns - start_ns) / 1e9} {(down_ns - up_ns) / 1e9}\n")


if __name__ == "__main__":
    main()
