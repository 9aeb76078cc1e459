"""A lab as a Mininet network, for scripts in Mininet's own API and for its command line.

    with MrcNet(ClosTopo("lab.yaml")) as net:
        print(net["h0"].cmd("ip -6 address"))
        net.configLinkStatus("h0", "p0-t0-0", "down")

`Topo` and `Mininet` describe the lab; `mrc_testbed.fabric.lab` builds and removes it, so that it is the lab
that `mrc-testbed up` makes, and every other command works on it. Mininet's clean-up (`mn -c`), which kills
processes by name, is never used.
"""

from pathlib import Path
from typing import Any, ClassVar, Self

from mrc_testbed.errors import FabricError, UsageError
from mrc_testbed.extras import from_extra
from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.port_state import PortObservation, observe_ports
from mrc_testbed.topology.element import Port
from mrc_testbed.topology.resolve import load_topology, resolve_topology
from mrc_testbed.topology.spec import TopologySpec

with from_extra("lab"):
    from mininet.cli import CLI
    from mininet.link import Intf
    from mininet.link import Link as MininetLink
    from mininet.net import Mininet
    from mininet.topo import Topo


class FabricIntf(Intf):  # type: ignore[misc]  # Mininet is untyped
    """An interface of a node; goes up and down by netlink."""

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
        """Return True if the interface is up; raises it first if asked to."""
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


class ClosTopo(Topo):  # type: ignore[misc]  # Mininet is untyped
    """A lab's topology as Mininet describes one: hosts, switches, and links by port numbers.

    Args:
        topology: a topology file or the spec itself (default: the default lab).
    """

    def build(self, topology: str | Path | TopologySpec | None = None, **_: Any) -> None:
        """Adds every node and link of the resolved topology."""
        if isinstance(topology, str | Path):
            topology = load_topology(Path(topology))
        self.clos = resolve_topology(topology or TopologySpec())
        for node in self.clos.nodes():
            add = self.addSwitch if node.is_switch else self.addHost
            add(node.name)
        for link in self.clos.links():
            lower, upper = link.ports
            self.addLink(lower.node.name, upper.node.name, port1=lower.index, port2=upper.index)


class MrcNet(Mininet):  # type: ignore[misc]  # Mininet is untyped
    """A lab that is built and removed as a Mininet network. A context manager: `start` and `stop`.

    Its nodes and links come from the topology alone: `addHost`, `addSwitch` and `addLink` are refused.

    Args:
        lab: name of the lab, under which the commands of `mrc-testbed` find it.
        runtime: "docker" or "netns" (default: docker where it is ready to be used).

    Raises:
        FabricError, PreflightError, UsageError: as `mrc_testbed.fabric.lab.up` does.
    """

    def __init__(self, topo: ClosTopo, *, lab: str = "mininet", runtime: str | None = None) -> None:
        Mininet.inited = True  # else the constructor changes a dozen settings of the machine for good
        self.lab_name = lab
        self._runtime = runtime
        self._is_owner = True
        self._lab: Lab | None = None
        super().__init__(topo=topo, build=False)

    @classmethod
    def of_lab(cls, lab: Lab) -> Self:
        """The network of a lab that is up; `stop` leaves it up."""
        network = cls(ClosTopo(lab.spec), lab=lab.name)
        network._is_owner = False
        network._show(lab)
        return network

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def build(self) -> None:
        labs.up(self.topo.clos.spec, name=self.lab_name, runtime=self._runtime)
        self._show(labs.attach(self.lab_name))

    def start(self) -> None:
        """Brings the lab up if `build` has not; nothing else has to be started."""
        if not self.built:
            self.build()

    def stop(self) -> None:
        if self._lab:
            self._lab.close()
            self._lab = None
        if self._is_owner:
            labs.down(self.lab_name)

    def addHost(self, name: str, *_: Any, **__: Any) -> None:  # noqa: N802 - Mininet's name
        """Refused."""
        raise UsageError(f"{name} cannot be added: the topology describes all nodes and links of a lab")

    addSwitch = addController = addHost  # noqa: N815 - Mininet's names

    def addLink(self, node1: Any, node2: Any, *_: Any, **__: Any) -> None:  # noqa: N802 - Mininet's name
        """Refused."""
        raise UsageError(
            f"{node1}~{node2} cannot be added: the topology describes all nodes and links of a lab"
        )

    def _show(self, lab: Lab) -> None:
        self._lab = lab
        for node in lab.clos.nodes():
            members = self.switches if node.is_switch else self.hosts
            members.append(lab.node(node.name))
            self.nameToNode[node.name] = members[-1]
        for link in lab.clos.links():
            lower, upper = link.ports
            self.links.append(
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
        self.built = True


def open_shell(lab: Lab) -> None:
    """Runs Mininet's command line on the lab until the user leaves it."""
    FabricShell(MrcNet.of_lab(lab))
