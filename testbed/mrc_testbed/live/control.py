"""Changes that `top` and `serve` may make: faults of one link, node or plane, for a while. Pure."""

import threading
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from mrc_testbed.errors import UsageError
from mrc_testbed.faults.interactive import LabFaults, parse_fault
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import Tier

Place = Literal["link", "switch", "host", "plane"]

_SEED: Final = 1
_LONGEST_S: Final = 600
_FIELDS: Final[dict[Place, dict[str, dict[str, str | int | float]]]] = {
    "link": {
        "link-down": {},
        "link-flap": {"every": "1s", "down": "300ms"},
        "loss": {"ratio": "5%"},
        "drain": {},
    },
    "switch": {"blackhole": {}, "switch-reboot": {}, "drain": {}},
    "host": {"host-pause": {}},
    "plane": {"plane-down": {}, "drain": {}},
}
"""Kinds of fault for each kind of place, with their fields."""


class FaultRequest(BaseModel):
    """A fault of one link, one node or one plane."""

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: str  # what breaks; a flap is down for 300 ms every second, loss takes 5 % of packets
    link: str | None = None  # name of the link
    node: str | None = None  # name of the node
    plane: Annotated[int, Field(ge=0)] | None = None  # number of the plane
    seconds: Annotated[float, Field(gt=0, le=_LONGEST_S)] = 5  # how long it lasts

    @model_validator(mode="after")
    def _check_place(self) -> Self:
        if sum(place is not None for place in (self.link, self.node, self.plane)) != 1:
            raise ValueError("name one place: a link, a node or a plane")
        return self


class ClearRequest(BaseModel):
    """Faults to clear."""

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str | None = None  # of one fault; None: all manual ones


class LabControl:
    """Faults of one lab, one change at a time."""

    def __init__(self, lab: str) -> None:
        self._lab = lab
        self._lock = threading.Lock()

    def inject(self, wanted: FaultRequest) -> str:
        """Add a fault and return its id."""
        with self._lock, LabFaults(self._lab) as faults:
            place, selector = _select(wanted, faults.clos)
            ways = _FIELDS[place]
            if wanted.kind not in ways:
                raise UsageError(f"kind {wanted.kind!r} is not one of a {place}: {', '.join(ways)}")
            fields = {"for": f"{round(wanted.seconds * 1000)}ms", **ways[wanted.kind]}
            fault = parse_fault(wanted.kind, selector, fields, faults.taken_ids())
            faults.add(fault, _SEED)
            return fault.id

    def clear(self, wanted: ClearRequest) -> list[str]:
        """Ids of the faults that were taken back; those of a run only by their id."""
        with self._lock, LabFaults(self._lab) as faults:
            ids = [wanted.id]
            if wanted.id is None:
                ids = [entry.fault.fault_id for entry in faults.shown_entries() if entry.lease is None]
            return [faults.clear(fault_id).fault_id for fault_id in ids if fault_id is not None]


def _select(wanted: FaultRequest, clos: Clos) -> tuple[Place, str]:
    """Kind of the place, and a selector of it alone: no glob of many."""
    if wanted.link is not None:
        return "link", clos.link(wanted.link).name
    if wanted.node is not None:
        node = clos.node(wanted.node)
        if node.tier is Tier.HOST:
            return "host", str(node.name)
        return "switch", f"{{links: {{node: {node.name}}}}}" if wanted.kind == "drain" else str(node.name)
    if wanted.kind == "drain":
        return "plane", f"{{links: {{plane: {wanted.plane}}}}}"
    return "plane", str(wanted.plane)
