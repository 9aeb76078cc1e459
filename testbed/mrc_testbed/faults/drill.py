"""Drills: the parts that commands named while people were to find a hidden fault, and how right that was."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.errors import UsageError
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.faults.ledger import Ledger, read_lines
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.naming import parse_node_name

_BEST_FIRST: Final = ("named", "named with an or", "in part", "false")


@dataclass(frozen=True, slots=True)
class Score:
    """The answer of a command to a hidden fault."""

    fault_id: str
    fault_kind: str  # with what distinguishes it from others of its kind
    places: tuple[str, ...]  # nodes or links
    begin_ns: int  # CLOCK_MONOTONIC
    named: str = "missed"  # or one of _BEST_FIRST
    after_ns: int | None = None  # from its begin to that answer; None where it was missed
    by: str | None = None  # the command; likewise


def note_named(lab: str, command: str, names: Iterable[str]) -> None:
    """Notes the parts that *command* has just named, if people are to find a fault."""
    ledger, named = Ledger(lab_paths(lab).faults), {"command": command, "names": sorted(set(names))}
    if any(entry.fault.is_hidden for entry in ledger.entries().values()):
        with ledger.locked():
            ledger.record({"time_ns": monotonic_ns(), "event": "named", "is_hidden": True, **named})


def score_run(lab: str, clos: Clos, begun_ns: int) -> list[Score]:
    """The scores of hidden faults that came since *begun_ns* (CLOCK_MONOTONIC), and are revealed."""
    events = (each for each in read_lines(Ledger(lab_paths(lab).faults).events_path) if each.get("is_hidden"))
    return score_faults(clos, [each for each in events if each["time_ns"] >= begun_ns])


def score_faults(clos: Clos, events: Sequence[Mapping[str, Any]]) -> list[Score]:
    """For each fault, the best and then earliest answer of each command that named parts. Pure."""
    begun = {event["fault_id"]: event for event in reversed(events) if event["event"] == "fault-applied"}
    ends_ns = {event["fault_id"]: event["after_ns"] for event in events if event["event"] == "fault-cleared"}
    notes = [event for event in events if event["event"] == "named"]
    scores: list[Score] = []
    for name, fault in reversed(begun.items()):
        begin_ns, broken = fault["before_ns"], set(fault["links"])
        others = {link for each in begun.values() for link in each["links"]} - broken
        kind, places = f"{fault['kind']} {fault['detail']}".rstrip(), tuple(fault["nodes"] or fault["links"])
        missed = Score(name, kind, places, begin_ns)
        best: dict[str, Score] = {}
        for note in notes:
            named, by = set().union(*(_links(clos, each) for each in note["names"])) - others, note["command"]
            if named and begin_ns <= note["time_ns"] <= ends_ns.get(name, note["time_ns"]):
                answer = _answer(named, broken)
                if by not in best or _BEST_FIRST.index(answer) < _BEST_FIRST.index(best[by].named):
                    best[by] = replace(missed, named=answer, after_ns=note["time_ns"] - begin_ns, by=by)
        scores += best.values() or [missed]
    return scores


def _answer(named: set[str], broken: set[str]) -> str:
    if not broken <= named:
        return "in part" if broken & named else "false"
    return "named" if named == broken else "named with an or"


def _links(clos: Clos, name: str) -> set[str]:
    """The links of a part: of a node all of its own, of a link itself; what is neither has none."""
    try:
        if parse_node_name(name) is None:
            return {clos.link(name).name}
        return {clos.link(port.link_id).name for port in clos.ports_of(clos.node(name))}
    except UsageError:
        return set()  # a plane, or of another lab
