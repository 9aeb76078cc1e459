"""Faults added from the command line, which outlive it, and those of a runner, which end with it."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_agents.closing import Closing
from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.process import ProcessIdentity, owner_identity
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.drill import Score, score_faults
from mrc_testbed.faults.fault import FaultEvent, ScheduledFault
from mrc_testbed.faults.lab_target import LabTarget
from mrc_testbed.faults.ledger import Entry, Ledger, read_lines
from mrc_testbed.faults.raw_load import prepare_load, stop_load
from mrc_testbed.faults.reaper import ensure_reaper
from mrc_testbed.faults.rule import FLAP_PLACE, mix_seed
from mrc_testbed.faults.spec import KINDS, own_fields, target_fault
from mrc_testbed.faults.spec_base import AnyFault
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.selector_spec import parse_link_selector, parse_node_selector, parse_plane_selector

_CHOICE_FIELDS: Final = ("pick", "count", "optic")
_PARSERS: Final = {"link": parse_link_selector, "node": parse_node_selector, "plane": parse_plane_selector}


def parse_fault(
    kind: str, selector: str, fields: Mapping[str, str | int | float], taken_ids: Collection[str]
) -> AnyFault:
    """The fault that a command line asks for.

    Args:
        selector: of links, nodes or planes, as the kind wants it; see `parse_link_selector`.
        fields: the other fields as a file would hold them; those of a selector belong to it.
        taken_ids: ids that a made-up id must avoid when *fields* has none.
    """
    _check_options(kind, fields)
    choice = {key: fields[key] for key in _CHOICE_FIELDS if key in fields}
    parsed = _PARSERS[KINDS[kind].selects](selector)
    stem = "hidden" if fields.get("hidden") else kind
    values: dict[str, Tree] = {
        "id": next(name for number in count(1) if (name := f"{stem}-{number}") not in taken_ids),
        "kind": kind,
        "at": "0s",
        "select": {**parsed.model_dump(mode="json", exclude_unset=True), **choice},
        **{key: value for key, value in fields.items() if key not in choice},
    }
    return validate_values(values, KINDS[kind], "command line")


def _check_options(kind: str, fields: Mapping[str, object]) -> None:
    """Says in options what a file's check would say in keys."""
    if ("for" in fields) == ("until" in fields):
        raise UsageError("a fault needs exactly one end: --for 2s, or --until cleared")
    model = KINDS[kind]
    required = {field.alias or name for name, field in model.model_fields.items() if field.is_required()}
    absent = [name for name in own_fields(kind) if name in required and name not in fields]
    if absent:
        properties = model.model_json_schema()["properties"]
        examples = {name: properties[name].get("examples", ())[:1] for name in absent}
        options = (" ".join((f"--{name}", *map(str, examples[name]))) for name in absent)
        raise UsageError(f"{kind} needs {', '.join(options)}")


def plan_fault(fault: AnyFault, clos: Clos, seed: int) -> ScheduledFault:
    """The fault that `LabFaults.add` injects: the links chosen, the seed fixed."""
    return target_fault(fault, clos, seed, seed)


class LabFaults(FaultController, Closing):
    """All faults of a lab that is up; those that are overdue or whose run died are cleared on the way in."""

    _ledger: Ledger
    _target: LabTarget

    def __init__(self, lab: str) -> None:
        self._lab = lab
        super().__init__(Ledger(lab_paths(lab).faults), LabTarget(lab))
        self.clos = self._target.clos
        self.clear_stale()

    def taken_ids(self) -> set[str]:
        """Ids of faults that are in force, or yet to be revealed."""
        hidden = read_lines(self._ledger.hidden_path)
        return {*self._ledger.entries(), *(each["fault_id"] for each in hidden if "fault_id" in each)}

    def shown_entries(self) -> list[Entry]:
        """The entries, but for hidden ones."""
        return list(self._ledger.shown_entries().values())

    def reveal(self) -> list[Score]:
        """Show the hidden faults everywhere; their scores."""
        return score_faults(self.clos, self._ledger.reveal())

    def add(self, fault: AnyFault, seed: int) -> FaultEvent:
        """Inject a fault now, whatever its `at`; a flap begins with its first period."""
        bound = plan_fault(fault, self.clos, seed)
        flap = fault.flap(mix_seed(seed, FLAP_PLACE))
        self.require_new(bound)
        if fault.for_ns is None:
            return self.apply(bound, flap=flap)
        # First what takes a while, so that the fault's time does not begin meanwhile. The lease keeps the
        # reaper from ending before there is a fault to look after.
        with self._leased() as process:
            ensure_reaper(self._lab)
            if bound.loads:
                prepare_load(self._lab, bound, process)
            return self.apply(bound, end_ns=monotonic_ns() + fault.for_ns, flap=flap)

    @contextmanager
    def _leased(self) -> Iterator[ProcessIdentity]:
        this_process = owner_identity()
        self._ledger.take_lease(this_process)
        try:
            yield this_process
        finally:
            self._ledger.end_lease(this_process)

    def close(self) -> None:
        """Close the lab's maps; faults stay as they are."""
        self._target.close()


class FaultSession(LabFaults, Closing):
    """The faults of the calling process in one lab; the reaper clears them should it be killed.

    Args:
        is_idle: there will be none, so that no reaper has to be started.
    """

    _lease: ProcessIdentity

    def __init__(self, lab: str, *, is_idle: bool = False) -> None:
        super().__init__(lab)
        self._ready: list[str] = []
        self._is_drill = False
        self._lease = owner_identity()
        if is_idle:
            return
        self._ledger.take_lease(self._lease)
        try:
            ensure_reaper(lab)
        except BaseException:
            self._ledger.end_lease(self._lease)
            raise

    def make_ready(self, faults: Iterable[ScheduledFault]) -> None:
        for fault in faults:
            self._is_drill |= fault.is_hidden
            if fault.loads:
                self._ready.append(fault.fault_id)
                prepare_load(self._lab, fault, self._lease)

    def clear_all(self) -> list[FaultEvent]:
        """Clear all faults of this session; those of others stay."""
        return self.clear_leased(self._lease)

    def close(self) -> None:
        """Clear what is left, reveal it and end the lease; the lab may be gone already."""
        try:
            if self._ledger.active_folder.is_dir():
                self.clear_all()
                if self._is_drill:
                    self._ledger.reveal()
            for fault_id in self._ready:
                stop_load(self._lab, fault_id, at_once=True)
        finally:
            self._ledger.end_lease(self._lease)
            super().close()
