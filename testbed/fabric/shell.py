"""A live lab as a Mininet network, and Mininet's command line on it (`mrc-testbed shell`).

Mininet is given nodes and links that exist; it creates, configures and removes nothing. Its clean-up
(`mn -c`), which kills processes by name, is never used.
"""

from typing import Any, ClassVar

from mininet.cli import CLI
from mininet.link import Intf
from mininet.link import Link as MininetLink
from mininet.net import Mininet

from testbed.errors import FabricError
from testbed.fabric.link import PortObservation, observe_ports
from testbed.fabric.live import Lab
from testbed.topology.element import Port


class FabricIntf(Intf):  # type: ignore[misc]  # Mininet is untyped
    """An interface of a node; goes up and down by netlink.

    Args:
        name: within its node.
        fabric: the lab and the port it is.
        params: Mininet's own.
    """

    def __init__(self, name: str, *, fabric: tuple[Lab, Port], **params: Any) -> None:
        self._lab, self.topology_port = fabric
        super().__init__(name, **params)

    def config(self, **_: Any) -> dict[str, Any]:
        """Mininet configures here; this interface is configured, and may be down for a reason."""
        return {}

    def ifconfig(self, *args: Any) -> str:
        """Carries out `up` and `down`; refuses all else with a message, as ifconfig would."""
        if args not in {("up",), ("down",)}:
            return f"{self.name}: only up and down are possible\n"
        self._lab.set_port_up(self.topology_port.id, is_up=args == ("up",))
        return ""

    def isUp(self, setUp: bool = False) -> bool:  # noqa: N802 - Mininet's names
        """Whether the interface is up; raises it first if asked to."""
        if setUp:
            self.ifconfig("up")
        return self._observe().is_up

    def status(self) -> str:
        """Up or down, and whether the far end is up."""
        observed = self._observe()
        if not observed.is_up:
            return "down"
        return "up" if observed.has_carrier else "no carrier"

    def _observe(self) -> PortObservation:
        port = self.topology_port
        (observed,) = observe_ports(self._lab.name, port.node.name, [port])
        if observed is None:
            raise FabricError(f"port {port.name} has no interface {port.interface} any more")
        return observed

    def updateIP(self) -> None:  # noqa: N802 - Mininet's name
        """No address: the command line would write it in place of a node's name."""


class FabricLink(MininetLink):  # type: ignore[misc]  # Mininet is untyped
    """A link of the lab between two nodes of the Mininet network."""

    @classmethod
    def makeIntfPair(cls, *_: Any, **__: Any) -> None:  # noqa: N802 - Mininet's name
        """The pair exists."""

    def __str__(self) -> str:
        return f"{self.intf1.topology_port.name}~{self.intf2.topology_port.name}"


class FabricShell(CLI):  # type: ignore[misc]  # Mininet is untyped
    """Mininet's command line, without a history file in the user's home."""

    prompt: ClassVar = "mrc-testbed> "
    identchars: ClassVar = CLI.identchars + "-"  # node names have hyphens

    @classmethod
    def initReadline(cls) -> None:  # noqa: N802 - Mininet's name
        """Lines can be edited all the same: the cmd module sees to it."""


def build_network(lab: Lab) -> Mininet:
    """The lab's nodes and links as a Mininet network. Close the lab, do not stop the network."""
    Mininet.inited = True  # else the constructor changes a dozen settings of the machine for good
    network = Mininet(topo=None, build=False)
    for node in lab.clos.nodes():
        members = network.switches if node.is_switch else network.hosts
        members.append(lab.node(node.name))
        network.nameToNode[node.name] = members[-1]
    for link in lab.clos.links():
        lower, upper = link.ports
        network.links.append(
            FabricLink(
                lab.node(lower.node.name),
                lab.node(upper.node.name),
                port1=lower.index,
                port2=upper.index,
                intfName1=lower.interface,
                intfName2=upper.interface,
                addr1=lower.mac,
                addr2=upper.mac,
                intf=FabricIntf,
                params1={"fabric": (lab, lower)},
                params2={"fabric": (lab, upper)},
            )
        )
    return network


def open_shell(lab: Lab) -> None:
    """Runs Mininet's command line on the lab until the user leaves it."""
    FabricShell(build_network(lab))
