"""What `top` and `serve` may change: faults of one link, for a while, and their end."""

import contextlib
import threading
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from testbed.faults.interactive import LabFaults, parse_fault

LinkFaultKind = Literal["link-down", "link-flap", "loss"]

_SEED: Final = 1
_LONGEST_S: Final = 600
_FIELDS: Final[dict[LinkFaultKind, dict[str, str | int | float]]] = {
    "link-down": {},
    "link-flap": {"every": "1s", "down": "300ms"},
    "loss": {"ratio": "5%"},
}


class FaultRequest(BaseModel):
    """A fault of one link.

    Attributes:
        kind: what breaks; a flap is down for 300 ms every second, loss takes 5 % of packets.
        link: name of the link.
        seconds: how long it lasts.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    kind: LinkFaultKind
    link: str
    seconds: Annotated[float, Field(gt=0, le=_LONGEST_S)] = 5


class ClearRequest(BaseModel):
    """Which faults to take back.

    Attributes:
        id: of one fault; None: all that were injected by hand.
    """

    model_config = ConfigDict(extra="forbid", strict=True)

    id: str | None = None


class LabControl:
    """Faults of one lab, one change at a time.

    Args:
        lab: its name.
    """

    def __init__(self, lab: str) -> None:
        self._lab = lab
        self._lock = threading.Lock()

    def inject(self, wanted: FaultRequest) -> str:
        """The id of the fault that was added.

        Raises:
            UsageError: there is no such link.
            FaultError: the lab is not up, or could not be changed.
        """
        fields = {"for": f"{round(wanted.seconds * 1000)}ms", **_FIELDS[wanted.kind]}
        with self._lock, contextlib.closing(LabFaults(self._lab)) as faults:
            link = faults.clos.link(wanted.link)  # one link, by name: no selector of many
            taken = {entry.fault.fault_id for entry in faults.entries()}
            fault = parse_fault(wanted.kind, link.name, fields, taken)
            faults.add(fault, _SEED)
            return fault.id

    def clear(self, wanted: ClearRequest) -> list[str]:
        """Ids of the faults that were taken back; those of a run only by their id.

        Raises:
            FaultError: no such fault is active, or the lab is not up.
            CleanupError: the lab could not be restored.
        """
        with self._lock, contextlib.closing(LabFaults(self._lab)) as faults:
            ids = [wanted.id]
            if wanted.id is None:
                ids = [entry.fault.fault_id for entry in faults.entries() if entry.lease is None]
            return [faults.clear(fault_id).fault_id for fault_id in ids if fault_id is not None]
