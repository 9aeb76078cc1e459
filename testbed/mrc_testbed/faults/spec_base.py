"""The common fields of all kinds of fault, as a user writes them. Pure; nothing here touches a lab.

A kind is one class: its fields, what it selects, what it needs of a fabric, and its effects. Times are
relative to the end of warm-up (time 0 of a run). A fault without an end does not validate: it has either
`for` or `until: cleared`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BaseModel, Field, model_validator

from mrc_testbed.document.fields import Duration, StrictModel
from mrc_testbed.errors import UsageError
from mrc_testbed.faults.effects import CarrierDown, Effect, Rule
from mrc_testbed.faults.rule import FrameRule, Traffic, describe_rule
from mrc_testbed.faults.schedule import Flap
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.element import Link, Node, Port
from mrc_testbed.topology.naming import Tier
from mrc_testbed.topology.select import select_links, select_nodes
from mrc_testbed.topology.selector_spec import LinkSelector, NodeSelector

FAULT_ID_PATTERN = r"^[a-z][a-z0-9_-]{0,31}$"

Direction = Literal["both", "a-to-b", "b-to-a"]

TRAFFIC_HELP = "Affected packets: all, data, or control (SACKs, NACKs, probes, trimmed packets)."


@dataclass(frozen=True, slots=True)
class Target:
    """Where a fault acts."""

    clos: Clos  # the fabric
    links: tuple[Link, ...]  # those concerned, in topology order
    nodes: tuple[Node, ...]  # those it was selected by; empty when it was selected by links
    seed: int  # 64 bits for random decisions


class AnyFault(StrictModel):
    """An id, a start, an end."""

    selects: ClassVar[Literal["link", "node", "plane"]]
    """Places that its selector chooses from."""

    example: ClassVar[str]
    """A selector, as the command line takes it."""

    condition: ClassVar[str]
    """Words for the state of its place while it acted: `was down`, `flapped`."""

    needs_queue: ClassVar[bool] = False
    """True for a fault that needs a fabric with port rates."""

    needs_flow_control: ClassVar[bool] = False
    """True for a fault that needs a fabric with PFC or credits."""

    id: str = Field(
        pattern=FAULT_ID_PATTERN,
        description="Name of the fault in events, expectations, metrics and reports; unique in a scenario.",
    )
    at_ns: Duration = Field(alias="at", description="Start, from the end of warm-up.")
    for_ns: Annotated[Duration, Field(gt=0)] | None = Field(
        default=None, alias="for", description="Duration of the fault."
    )
    until: Literal["cleared"] | None = Field(
        default=None, description="Instead of `for`: the fault lasts until you clear it or the run ends."
    )
    is_hidden: bool = Field(
        default=False,
        alias="hidden",
        description="People are to find it: nothing shows it before the run ends, or `fault reveal`.",
    )

    @model_validator(mode="after")
    def _check_end(self) -> Self:
        if (self.for_ns is None) == (self.until is None):
            msg = "a fault needs exactly one end: `for: <duration>` or `until: cleared`"
            raise ValueError(msg)
        return self

    def rule(self) -> FrameRule | None:
        """Its rule for frames, if it has one."""
        return None

    @property
    def detail(self) -> str:
        """The difference to others of its kind, in a few words; may be empty."""
        rule = self.rule()
        return "" if rule is None else describe_rule(rule)

    @property
    def way(self) -> Direction:
        return "both"

    def flap(self, seed: int) -> Flap | None:  # noqa: ARG002
        """Its outages, which 32 bits of a seed fix; None: it acts all the time."""
        return None

    def check_run(self, end_ns: int | None) -> None:
        """Returns when a run can have the fault until *end_ns*; None: until the run is over."""

    def check_fabric(self, clos: Clos) -> None:
        """Returns when a fabric of that sort can have the fault at all."""
        kind = kind_of(type(self))
        if self.needs_queue and not clos.spec.is_shaped:
            raise UsageError(
                f"{kind} happens in the queue of a port, and an unshaped fabric has none; "
                "give the topology a port_rate, such as 100Mbit"
            )
        if self.needs_flow_control and clos.spec.flow_control == "none":
            raise UsageError(
                f"{kind} abuses the flow control of links, and this fabric has none; "
                "give the topology flow_control: pfc, or credits"
            )

    def choose(self, clos: Clos, pick_seed: int) -> tuple[tuple[Link, ...], tuple[Node, ...]]:
        """Links and nodes that its selector means."""
        raise NotImplementedError

    def effects(self, target: Target) -> tuple[Effect, ...]:
        """Its effects there."""
        raise NotImplementedError


class LinkFault(AnyFault):
    """A fault of links, one way or both."""

    selects: ClassVar = "link"
    example: ClassVar[str] = "p0-t0-0:4"

    select: LinkSelector = Field(description="The affected links.")
    direction: Direction = Field(
        default="both",
        description="Direction: a is the lower end of the link (host, then T0), b the upper (T0, then T1).",
    )

    @property
    def way(self) -> Direction:
        return self.direction

    def choose(self, clos: Clos, pick_seed: int) -> tuple[tuple[Link, ...], tuple[Node, ...]]:
        return select_links(clos, self.select, pick_seed), ()

    def effects(self, target: Target) -> tuple[Effect, ...]:
        """Its rule at each port through which frames of its direction leave."""
        rule = self.rule()
        if rule is None:
            raise NotImplementedError
        return tuple(Rule(port.id, rule) for port in egress_ports(target.links, self.direction))


class BothWaysFault(LinkFault):
    """A fault of links that has no direction."""

    @model_validator(mode="after")
    def _check_direction(self) -> Self:
        if self.direction != "both":
            msg = "a carrier is lost both ways: leave `direction` out or set it to both"
            raise ValueError(msg)
        return self


class FrameFault(LinkFault):
    """A fault of some of the packets that cross a link."""

    traffic: Traffic = Field(default="all", description=TRAFFIC_HELP)


class NodeFault(AnyFault):
    """A fault of whole nodes."""

    selects: ClassVar = "node"
    example: ClassVar[str] = "p0-t1-0"

    acts_on_hosts: ClassVar[bool] = False
    """True for a fault of hosts; others act on switches."""

    select: NodeSelector = Field(description="The affected nodes.")

    def choose(self, clos: Clos, pick_seed: int) -> tuple[tuple[Link, ...], tuple[Node, ...]]:
        """The nodes, and every link of theirs once."""
        nodes = select_nodes(clos, self.select, pick_seed)
        for node in nodes:
            if (node.tier is Tier.HOST) != self.acts_on_hosts:
                wanted, found = (
                    ("hosts, such as h3", "switch")
                    if self.acts_on_hosts
                    else ("switches, such as p0-t1-0", "host")
                )
                raise UsageError(f"{kind_of(type(self))} acts on {wanted}, but {node.name} is a {found}")
        links = {port.link_id: clos.link(port.link_id) for node in nodes for port in clos.ports_of(node)}
        return tuple(links[link_id] for link_id in sorted(links)), nodes


def egress_ports(links: Iterable[Link], direction: Direction) -> Iterator[Port]:
    """Ports through which frames of that direction leave; end a of a link is the lower one."""
    for link in links:
        if direction != "b-to-a":
            yield link.lower
        if direction != "a-to-b":
            yield link.upper


def dark(links: Iterable[Link]) -> tuple[Effect, ...]:
    """Links over which nothing passes either way, those of NICs without carrier."""
    links = tuple(links)
    down = FrameRule(action="down")
    rules = (Rule(port.id, down) for port in egress_ports(links, "both"))
    return (*rules, *(CarrierDown(link.upper.id) for link in links if link.is_host_link))


def kind_of(model: type[BaseModel]) -> str:
    """The name of a kind, as its field `kind` has it."""
    (name,) = model.model_fields["kind"].annotation.__args__  # type: ignore[union-attr]
    return str(name)
