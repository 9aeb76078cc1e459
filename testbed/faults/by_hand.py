"""Faults added from the command line: they outlive their command, until their time is over or cleared."""

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Final, Literal

from testbed.document import Tree, validate_values
from testbed.errors import UsageError, did_you_mean
from testbed.fabric.state import lab_paths
from testbed.faults.binding import bind
from testbed.faults.flap import Flap
from testbed.faults.injector import FaultEvent, Injector
from testbed.faults.keeper import ensure_keeper
from testbed.faults.lab_target import LabTarget
from testbed.faults.ledger import Entry, Ledger, own_identity
from testbed.faults.link_kinds import LinkFlap
from testbed.faults.node_kinds import PlaneDown
from testbed.faults.occurrence import FaultAction, FaultKind
from testbed.faults.spec import KINDS, Fault
from testbed.faults.spec_base import NodeFault
from testbed.faults.targets import check_fabric, target_fault
from testbed.topology.clos import Clos
from testbed.topology.selector import (
    LinkSelector,
    NodeSelector,
    PlaneSelector,
    parse_link_selector,
    parse_node_selector,
    parse_plane_selector,
)

_CHOICE_FIELDS: Final = ("pick", "count", "optic")


def parse_fault(
    kind: FaultKind, selector: str, fields: Mapping[str, str | int | float], taken_ids: Collection[str]
) -> Fault:
    """The fault that a command line asks for.

    Args:
        kind: what breaks.
        selector: as `parse_selector` takes it.
        fields: the other fields as a file would hold them; those of a selector belong to it.
        taken_ids: ids that a made-up id must avoid when *fields* has none.

    Raises:
        UsageError: lists every problem.
    """
    choice = {key: fields[key] for key in _CHOICE_FIELDS if key in fields}
    parsed = parse_selector(kind, selector)
    values: dict[str, Tree] = {
        "id": next(name for number in count(1) if (name := f"{kind}-{number}") not in taken_ids),
        "kind": kind,
        "at": "0s",
        "select": {**parsed.model_dump(mode="json", exclude_unset=True), **choice},
        **{key: value for key, value in fields.items() if key not in choice},
    }
    return validate_values(values, KINDS[kind], "command line")


def parse_kind(text: str) -> FaultKind:
    """The kind of that name.

    Raises:
        UsageError: there is none; names the nearest.
    """
    for kind in KINDS:
        if kind == text:
            return kind
    meant = did_you_mean(text, list(KINDS))
    raise UsageError(f"there is no kind of fault {text!r}{meant}", hint="mrc-testbed fault kinds lists them")


def selects(kind: FaultKind) -> Literal["link", "node", "plane"]:
    """What a selector of that kind chooses from."""
    model = KINDS[kind]
    if issubclass(model, NodeFault):
        return "node"
    return "plane" if issubclass(model, PlaneDown) else "link"


def parse_selector(kind: FaultKind, text: str) -> LinkSelector | NodeSelector | PlaneSelector:
    """The selector of a command line, of links, nodes or planes as the kind wants it.

    Raises:
        UsageError: it is none of these.
    """
    match selects(kind):
        case "node":
            return parse_node_selector(text)
        case "plane":
            return parse_plane_selector(text)
        case "link":
            return parse_link_selector(text)


def plan_fault(fault: Fault, clos: Clos, seed: int) -> FaultAction:
    """What `LabFaults.add` injects: the links chosen, the seed fixed.

    Raises:
        UsageError: the selector matches nothing, or the kind cannot act on what it matches or in this fabric.
    """
    check_fabric(fault, clos)
    return target_fault(fault, clos, seed, seed)


class LabFaults:
    """All faults of a lab, whoever injected them; stale ones are reverted on the way in.

    Args:
        lab: name of a lab that is up.

    Raises:
        FaultError: there is no such lab.
        CleanupError: a stale fault could not be reverted.
    """

    def __init__(self, lab: str) -> None:
        self._lab = lab
        self._target = LabTarget(lab)
        self._ledger = Ledger(lab_paths(lab).faults)
        self._injector = Injector(self._ledger, self._target)
        self.clos = self._target.clos
        self._injector.clear_stale()

    def add(self, fault: Fault, seed: int) -> FaultEvent | None:
        """The event of *fault* having begun; None for a flap, which its keeper begins.

        Its `at` is now, whatever it says.

        Raises:
            UsageError: its selector matches nothing, or it cannot act on what it matches.
            FaultError: its id is active already, or the lab could not be changed.
        """
        bound = bind(plan_fault(fault, self.clos, seed), self.clos)
        if fault.for_ns is None and not isinstance(fault, LinkFlap):
            return self._injector.apply(bound)
        # The keeper first, so that the fault's time does not begin while it starts; announced, this process
        # keeps it from ending before there is a fault to look after.
        with self._announced():
            ensure_keeper(self._lab)
            expires_ns = None if fault.for_ns is None else time.monotonic_ns() + fault.for_ns
            if isinstance(fault, LinkFlap):
                flap = Flap(fault.every_ns, fault.down_ns, fault.jitter_ratio, seed)
                self._injector.schedule(bound, flap, expires_ns=expires_ns)
                return None
            return self._injector.apply(bound, expires_ns=expires_ns)

    def entries(self) -> list[Entry]:
        """What is injected now, oldest first."""
        return self._injector.entries()

    def clear(self, fault_id: str) -> FaultEvent:
        """The event of the fault having ended.

        Raises:
            FaultError: no such fault is active.
            CleanupError: the lab could not be restored.
        """
        return self._injector.clear(fault_id)

    def clear_all(self) -> list[FaultEvent]:
        """Events of all faults having ended, newest first.

        Raises:
            CleanupError: some could not be reverted; all were tried.
        """
        return self._injector.clear_all()

    @contextmanager
    def _announced(self) -> Iterator[None]:
        this_process = own_identity()
        self._ledger.register(this_process)
        try:
            yield
        finally:
            self._ledger.unregister(this_process)

    def close(self) -> None:
        """Gives the lab's maps back; faults stay as they are."""
        self._target.close()
