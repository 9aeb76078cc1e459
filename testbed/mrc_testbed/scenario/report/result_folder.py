"""runs/<scenario>/<UTC>-<id>/: one folder per run, and `latest` pointing at the last finished one.

    manifest.json  status, expectations, recovery, provenance     events.jsonl  what happened, in ns
    plan.json      the resolved plan, for `replay`                series.csv    one row per 100 ms
    scenario.yaml  the file as it was                             flows.csv     one row per QP
    samples.csv    the same, one row per value    figure.svg, figure.pdf  where the scenario asks for one
    histograms.json  all times by bucket          operations.csv  one row per collective or step
    summary.md  junit.xml  report.html            <workload>.log  what the ranks of a program wrote

While a run goes on, its manifest says `running`, and events.jsonl and series.csv grow line by line: a killed
run leaves what it had measured. Everything else, and at the end these two as well, is written beside its
place and moved there in one step.
"""

import io
import json
import secrets
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import Final

from mrc_agents.closing import Holder
from mrc_testbed.document.one_step import point_latest, room_hint, write_in_one_step
from mrc_testbed.errors import TestbedError
from mrc_testbed.report.chart_file import figure_files
from mrc_testbed.report.page import chart_script
from mrc_testbed.scenario.measure.event import (
    EvTransition,
    FaultChange,
    NicEvent,
    Note,
    PortTransition,
    QpTransition,
)
from mrc_testbed.scenario.measure.provenance import Provenance
from mrc_testbed.scenario.measure.recording import Journal, Recording
from mrc_testbed.scenario.measure.series_rows import format_row, intervals, series_columns, series_row
from mrc_testbed.scenario.report.figure import run_charts
from mrc_testbed.scenario.report.junit import build_junit
from mrc_testbed.scenario.report.kept_times import FILE_NAME as HISTOGRAMS
from mrc_testbed.scenario.report.kept_times import build_histograms, dump_histograms
from mrc_testbed.scenario.report.result import RunResult
from mrc_testbed.scenario.report.result_text import (
    build_flows,
    build_operations,
    build_samples,
    build_summary,
)
from mrc_testbed.scenario.report.run_page import build_report
from mrc_testbed.scenario.report.run_record import BegunRecord, RunRecord, dump_record
from mrc_testbed.scenario.spec.plan import Plan, dump_plan
from mrc_testbed.topology.ev import decode_ev
from mrc_testbed.topology.path import uplink_of_ev
from mrc_testbed.topology.resolve import resolve_topology

Record = dict[str, str | int | bool | list[str] | None]

_ID_BYTES: Final = 3


def change_record(recording: Recording, change: FaultChange) -> Record:
    """A fault began or ceased to act; `took_ns` is how long the injector was at it."""
    fault = next(fault for fault in recording.plan.faults if fault.fault_id == change.fault_id)
    record: Record = {
        "time_ns": recording.relative_ns(change.before_ns),
        "event": f"fault-{change.action}",
        "fault": change.fault_id,
        "occurrence": change.occurrence,
        "kind": fault.kind,
        "detail": fault.detail,
        "links": list(fault.links),
        "nodes": list(fault.nodes),
        "took_ns": change.after_ns - change.before_ns,
    }
    if change.action == "cleared":
        last_ns = change.last_lost_ns
        record["hit_packets"] = change.hit_packets
        record["lost_packets"] = change.lost_packets
        record["last_lost_ns"] = None if last_ns is None else recording.relative_ns(last_ns)
    return record


def nic_event_record(recording: Recording, event: NicEvent) -> Record:
    record: Record = {"time_ns": recording.relative_ns(event.time_ns)}
    match event:
        case EvTransition():
            clos = resolve_topology(recording.plan.topology)
            hosts = clos.node(event.host).index, clos.node(event.peer).index
            ev = decode_ev(event.entropy)
            record |= {
                "event": "ev-state",
                "host": event.host,
                "peer": event.peer,
                "qpn": event.qpn,
                "ev": f"0x{event.entropy:08x}",
                "plane": ev.plane,
                "uplink": uplink_of_ev(clos, event.entropy, *hosts),
                "before": event.before.name,
                "after": event.after.name,
                "reason": event.reason,
            }
        case QpTransition():
            record |= {
                "event": "qp-state",
                "host": event.host,
                "qpn": event.qpn,
                "before": event.before.name,
                "after": event.after.name,
                "reason": event.reason,
            }
        case PortTransition():
            record |= {"event": "nic-port", "host": event.host, "plane": event.plane, "is_up": event.is_up}
    return record


def note_record(recording: Recording, note: Note) -> Record:
    return {"time_ns": recording.relative_ns(note.time_ns), "event": note.what, **note.details}


def all_records(recording: Recording) -> list[Record]:
    """All events of a run in the order of their times."""
    records = [change_record(recording, change) for change in recording.fault_changes]
    records += [nic_event_record(recording, event) for event in recording.nic_events]
    records += [note_record(recording, note) for note in recording.notes]
    return sorted(records, key=_time_ns)


def _time_ns(record: Record) -> int:
    time_ns = record["time_ns"]
    return time_ns if isinstance(time_ns, int) else 0


class ResultFolder(Holder, Journal):
    """The folder of one run, and the journal that its runner keeps.

    Args:
        runs: folder of all runs, made if it is missing.
        source: text of the scenario file; None for a run without one.
        started: now, in UTC.
    """

    def __init__(
        self, runs: Path, plan: Plan, source: str | None, started: datetime, provenance: Provenance
    ) -> None:
        chart_script()  # what the report needs is missed now, not after the run
        self._plan = plan
        self._rows: list[tuple[int, str]] = []  # end of each interval, and the rest of its row
        self.started = started
        self.provenance = provenance
        try:
            self.path = _create_folder(runs / plan.scenario, started)
            self._write("plan.json", dump_plan(plan))
            if source is not None:
                self._write("scenario.yaml", source)
            begun = BegunRecord.of(self.run_id, started, plan, provenance)
            self._write("manifest.json", dump_record(begun))
            with ExitStack() as opened:
                self._events = opened.enter_context(_open_journal(self.path / "events.jsonl"))
                self._series = opened.enter_context(_open_journal(self.path / "series.csv"))
                self._append(self._series, ",".join(series_columns(plan)))
                self._outputs = {
                    workload.name: opened.enter_context(_open_journal(self.path / f"{workload.name}.log"))
                    for workload in plan.workloads
                    if workload.program is not None
                }
                self._opened = opened.pop_all()
        except OSError as error:
            raise _unwritable(runs, error) from error

    @property
    def run_id(self) -> str:
        """Name of the folder."""
        return self.path.name

    def note(self, recording: Recording, note: Note) -> None:
        """Appends something the runner did to events.jsonl."""
        self._append(self._events, _line(note_record(recording, note)))

    def note_change(self, recording: Recording, change: FaultChange) -> None:
        """Appends a change of a fault to events.jsonl."""
        self._append(self._events, _line(change_record(recording, change)))

    def note_nic_event(self, recording: Recording, event: NicEvent) -> None:
        """Appends what a NIC reported to events.jsonl."""
        self._append(self._events, _line(nic_event_record(recording, event)))

    def note_reading(self, recording: Recording) -> None:
        """Appends the interval up to the latest reading to series.csv."""
        for interval in intervals(recording.readings[-2:]):
            end, rest = format_row(series_row(recording, interval)).split(",", 1)
            self._rows.append((interval.end_ns, rest))
            self._append(self._series, f"{end},{rest}")

    def note_output(self, workload: str, line: bytes) -> None:
        """Appends a line that a rank of a program wrote to the program's log."""
        self._append_bytes(self._outputs[workload], line)

    def finish(self, result: RunResult) -> None:
        """Writes all files of a run that has ended, and points `latest` at it."""
        recording = result.recording
        try:
            self._opened.close()
            self._write("events.jsonl", "".join(_line(record) + "\n" for record in all_records(recording)))
            series = self._series_text(recording)
            self._write("series.csv", series)
            self._write("samples.csv", build_samples(series))
            self._write("flows.csv", build_flows(result))
            self._write(HISTOGRAMS, dump_histograms(build_histograms(recording)))
            if any(workload.shared_work is not None for workload in result.plan.workloads):
                self._write("operations.csv", build_operations(result))
            self._write("summary.md", build_summary(result))
            self._write("junit.xml", build_junit(result))
            self._write("manifest.json", dump_record(RunRecord.of_result(result)))
            self._write("report.html", build_report(result))
            for kind, content in figure_files(run_charts(recording)).items():
                write_in_one_step(self.path / f"figure.{kind}", content)
        except OSError as error:
            raise _unwritable(self.path, error) from error
        point_latest(self.path)

    def _series_text(self, recording: Recording) -> str:
        """The whole series again: times of warm-up are only known exactly once it is over.

        Live, so is what was between two readings of thousands of flows.
        """
        if recording.is_simulated:
            rows = [f"{recording.relative_ns(end_ns)},{rest}" for end_ns, rest in self._rows]
        else:
            rows = [format_row(series_row(recording, each)) for each in intervals(recording.readings)]
        return "\n".join([",".join(series_columns(self._plan)), *rows]) + "\n"

    def _append(self, stream: io.FileIO, line: str) -> None:
        self._append_bytes(stream, (line + "\n").encode())

    def _append_bytes(self, stream: io.FileIO, content: bytes) -> None:
        try:
            while content:
                content = content[stream.write(content) :]
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def _write(self, name: str, text: str) -> None:
        write_in_one_step(self.path / name, text)


def _open_journal(path: Path) -> io.FileIO:
    """An unbuffered file: each line is with the kernel before the run goes on, and none is left to flush."""
    return io.FileIO(path, "w")


def _create_folder(parent: Path, started: datetime) -> Path:
    """A new folder of *parent*, named by the time and random bytes so that runs of one second differ."""
    parent.mkdir(parents=True, exist_ok=True)
    stamp = started.strftime("%Y%m%dT%H%M%SZ")
    path = parent / f"{stamp}-{secrets.token_hex(_ID_BYTES)}"
    path.mkdir()
    return path


def _line(record: Record) -> str:
    return json.dumps(record, ensure_ascii=False, allow_nan=False)


def _unwritable(path: Path, error: OSError) -> TestbedError:
    return TestbedError(
        f"results cannot be written to {path}: {error.strerror or error}",
        hint=f"{room_hint(error)}choose another folder with --runs",
    )
