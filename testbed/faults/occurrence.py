"""A fault with every name bound and every random choice made: what an injector is asked to apply. Pure."""

from dataclasses import dataclass
from typing import Literal

from testbed.faults.spec import Direction

FaultKind = Literal["link-down", "link-flap", "nic-port-down", "loss"]


@dataclass(frozen=True, slots=True)
class FaultOccurrence:
    """One period during which a fault is in force; a flap has many, other kinds have one.

    Attributes:
        fault_id: the id of the scenario file; all occurrences of a fault share it.
        index: 0 for the first occurrence of the fault.
        kind: what is done to the links.
        links: names of the links, at least one, in topology order.
        direction: a is the lower end of a link, b the upper.
        start_ns: planned start on the run's own time axis (0 = end of warm-up).
        end_ns: planned end on the same axis; None when it lasts until the run is over.
        loss_ratio: probability of loss, 0 < ratio <= 1; None unless kind is `loss`.
        seed: 64 bits for random decisions in the data plane; differs between faults of one run.
    """

    fault_id: str
    index: int
    kind: FaultKind
    links: tuple[str, ...]
    direction: Direction
    start_ns: int
    end_ns: int | None
    loss_ratio: float | None
    seed: int
