"""The folder of a trace: an execution trace of each rank, and the faults."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.faults.ledger import Ledger, read_lines
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.traces.chakra import encode
from mrc_testbed.traces.graph import GroupCall, Message, RankTrace
from mrc_testbed.traces.recorded import begin_ns, recorded_ranks
from mrc_testbed.traces.rows import Row


def prepare_trace(folder: Path) -> None:
    """Make the folder; refuse one that has a trace."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--trace: {folder} cannot be made: {error.strerror}") from error
    if any(folder.glob("*.et")):
        raise UsageError(f"--trace: {folder} has a trace: expected a folder without *.et files")


def write_trace(
    settings: Settings,
    folder: Path,
    ranks: Sequence[Sequence[Row]],
    recording: Recording,
    attached: Lab | None,
) -> None:
    """Write what ranks have reported, and say so on stderr."""
    if not any(ranks):
        say(settings.stderr, "note: no trace: only programs that communicate by mrc-torch are recorded")
        return
    zero_ns = begin_ns(ranks)
    faults = [*_faults(recording), *(_faults_by_hand(attached, recording) if attached else ())]
    acted = [
        {**fault, "begin_ns": since_ns - zero_ns, "end_ns": None if end_ns is None else end_ns - zero_ns}
        for fault, since_ns, end_ns in faults
        if end_ns is None or end_ns > zero_ns
    ]
    traces = recorded_ranks(ranks)
    try:
        for rank, trace in enumerate(traces):
            (folder / f"rank.{rank}.et").write_bytes(encode(trace))
        (folder / "faults.json").write_text(json.dumps(acted, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise TestbedError(f"--trace: {folder} cannot be written to: {error.strerror}") from error
    operations = sum(map(_operations, range(len(traces)), traces))
    say(settings.stderr, f"trace: {folder}, {len(traces)} ranks, {operations} operations")


def _operations(rank: int, trace: RankTrace) -> int:
    """Count the messages that a rank sends, and the collectives of groups whose first it is."""
    works = [node.work for node in trace.nodes]
    sends = sum(isinstance(work, Message) and work.is_sent for work in works)
    return sends + sum(isinstance(work, GroupCall) and trace.groups[work.group][0] == rank for work in works)


_Fault = tuple[dict[str, Any], int, int | None]


def _faults(recording: Recording) -> Iterator[_Fault]:
    """Faults of the run, with begin and end of each of their occurrences."""
    for fault in recording.plan.faults:
        named = {"fault": fault.fault_id, "kind": fault.kind, "places": [*(fault.nodes or fault.links)]}
        for each in recording.occurrences(fault.fault_id):
            yield named, each.applied.before_ns, None if each.cleared is None else each.cleared.after_ns


def _faults_by_hand(attached: Lab, recording: Recording) -> Iterator[_Fault]:
    """Faults that the lab has had besides; a flap from its first outage to its end."""
    own = {fault.fault_id for fault in recording.plan.faults}
    begun: dict[str, _Fault] = {}
    for event in read_lines(Ledger(lab_paths(attached.name).faults).events_path):
        name = str(event.get("fault_id"))
        if event["event"] == "fault-applied" and name not in own:
            places = [*(event["nodes"] or event["links"])]
            begun[name] = {"fault": name, "kind": event["kind"], "places": places}, event["before_ns"], None
        elif event["event"] == "fault-cleared" and name in begun:
            fault, since_ns, _ = begun.pop(name)
            yield fault, since_ns, event["after_ns"]
    yield from begun.values()
