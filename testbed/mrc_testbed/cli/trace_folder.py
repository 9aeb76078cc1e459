"""The folder of a trace: an execution trace of each rank, and the faults."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.errors import TestbedError, UsageError
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.ranks import TRACE_VARIABLE
from mrc_testbed.faults.ledger import Ledger, read_lines
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.spec.plan import Plan, PlannedWorkload
from mrc_testbed.traces.chakra import encode
from mrc_testbed.traces.graph import GroupCall, Message, RankTrace
from mrc_testbed.traces.recorded import begin_ns, recorded_ranks
from mrc_testbed.workloads.recorded_work import collective_traces, flow_traces

_Fault: TypeAlias = tuple[dict[str, Any], int, int | None]
"""Begin and end."""


def prepare_trace(folder: Path) -> None:
    """Make the folder; refuse one that has a trace."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--trace: {folder} cannot be made: {error.strerror}") from error
    if any(folder.rglob("*.et")):
        raise UsageError(f"--trace: {folder} has a trace: expected a folder without *.et files")


def traced(plan: Plan) -> Plan:
    """*plan*, with programs whose ranks report rows of a trace."""

    def work_of(work: PlannedWorkload) -> PlannedWorkload:
        if work.program is None:
            return work
        environment = {**work.program.environment, TRACE_VARIABLE: "1"}
        return replace(work, program=replace(work.program, environment=environment))

    return replace(plan, workloads=tuple(map(work_of, plan.workloads)))


def write_trace(settings: Settings, folder: Path, recording: Recording, attached: Lab | None = None) -> None:
    """Write the trace of each workload, and say so on stderr; of several, each into a folder of its own."""
    for work in recording.plan.workloads:
        place = folder if len(recording.plan.workloads) == 1 else folder / work.name
        zero_ns, ranks = _traces(work, recording)
        if ranks:
            _write(place, ranks, zero_ns, [*_faults(recording), *_faults_by_hand(attached, recording)])
            operations = sum(map(_operations, range(len(ranks)), ranks))
            say(settings.stderr, f"trace: {place}, {len(ranks)} ranks, {operations} operations")
        else:
            why = "nothing was recorded; of programs, those that communicate by mrc-torch are"
            say(settings.stderr, f"note: no trace of {work.name}: {why}")


def _traces(work: PlannedWorkload, recording: Recording) -> tuple[int, list[RankTrace]]:
    """Time 0, and the graphs of a workload's ranks."""
    state, records = recording.programs.get(work.name), recording.operations.get(work.name)
    batches = recording.batches.get(work.name, {})
    if state is not None and any(state.rows):
        return begin_ns(state.rows), recorded_ranks(state.rows)
    if work.collective is not None and records:
        return records[0].step_begin_ns, collective_traces(work.collective, records)
    if work.shared_work is None and any(batches.values()):
        begins = [each[0].begin_ns for each in batches.values() if each]
        return min(begins), flow_traces(batches, work.size_bytes)
    return 0, []


def _write(folder: Path, ranks: Sequence[RankTrace], zero_ns: int, faults: Sequence[_Fault]) -> None:
    acted = [
        {**fault, "begin_ns": since_ns - zero_ns, "end_ns": None if end_ns is None else end_ns - zero_ns}
        for fault, since_ns, end_ns in faults
        if end_ns is None or end_ns > zero_ns
    ]
    try:
        folder.mkdir(exist_ok=True)
        for rank, trace in enumerate(ranks):
            (folder / f"rank.{rank}.et").write_bytes(encode(trace))
        (folder / "faults.json").write_text(json.dumps(acted, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise TestbedError(f"--trace: {folder} cannot be written to: {error.strerror}") from error


def _operations(rank: int, trace: RankTrace) -> int:
    """Count the messages that a rank sends, and the collectives of groups whose first it is."""
    works = [node.work for node in trace.nodes]
    sends = sum(isinstance(work, Message) and work.is_sent for work in works)
    return sends + sum(isinstance(work, GroupCall) and trace.groups[work.group][0] == rank for work in works)


def _faults(recording: Recording) -> Iterator[_Fault]:
    """Faults of the run, with begin and end of each of their occurrences."""
    for fault in recording.plan.faults:
        named = {"fault": fault.fault_id, "kind": fault.kind, "places": [*(fault.nodes or fault.links)]}
        for each in recording.occurrences(fault.fault_id):
            yield named, each.applied.before_ns, None if each.cleared is None else each.cleared.after_ns


def _faults_by_hand(attached: Lab | None, recording: Recording) -> Iterator[_Fault]:
    """Faults that the lab has had besides; a flap from its first outage to its end."""
    if attached is None:
        return
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
