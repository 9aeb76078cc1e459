"""A fault with every name bound and every random choice made: what an injector is asked to apply. Pure."""

from dataclasses import dataclass, fields
from typing import Any, Literal

from testbed.faults.rule import FrameRule
from testbed.faults.spec_base import Direction
from testbed.faults.traffic import RawLoad

FaultKind = Literal[
    "link-down",
    "link-flap",
    "nic-port-down",
    "loss",
    "burst-loss",
    "ev-loss",
    "corrupt",
    "duplicate",
    "delay",
    "reorder",
    "slow-link",
    "pause-storm",
    "drain",
    "congestion",
    "blackhole",
    "switch-down",
    "switch-reboot",
    "plane-down",
    "host-pause",
    "nic-agent-kill",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultAction:
    """What a fault does whenever it acts.

    Attributes:
        fault_id: as written.
        kind: as written.
        detail: what tells it from others of its kind, for people; may be empty.
        links: names of the links concerned, in topology order.
        nodes: names of the nodes it was selected by; empty when it was selected by links.
        direction: a is the lower end of a link, b the upper.
        seed: 64 bits for random decisions in the data plane; differs between faults of one run.
        rule: what is done to frames that cross the links in that direction; None: none, or as kind says.
        rate_ratio: share of the links' rate that is left; None: all.
        loads: background traffic.
    """

    fault_id: str
    kind: FaultKind
    seed: int
    detail: str = ""
    links: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()
    direction: Direction = "both"
    rule: FrameRule | None = None
    rate_ratio: float | None = None
    loads: tuple[RawLoad, ...] = ()

    def shared(self) -> dict[str, Any]:
        """Its attributes by name, without those that a subclass adds."""
        return {field.name: getattr(self, field.name) for field in fields(FaultAction)}

    def occurrence(self, index: int, start_ns: int, end_ns: int | None) -> "FaultOccurrence":
        """One period of it; see FaultOccurrence."""
        return FaultOccurrence(**self.shared(), index=index, start_ns=start_ns, end_ns=end_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOccurrence(FaultAction):
    """One period during which a fault is in force; a flap has many, other kinds have one.

    Attributes:
        index: 0 for the first occurrence of the fault.
        start_ns: planned start on the run's own time axis (0 = end of warm-up).
        end_ns: planned end on the same axis; None when it lasts until the run is over.
    """

    index: int = 0
    start_ns: int = 0
    end_ns: int | None = None
