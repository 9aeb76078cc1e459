"""Events of a run as the lines of events.jsonl. Pure.

Every line has `time_ns` on the run's axis (0 is the end of warm-up) and `event`, which says what the rest
of the keys are.
"""

from mrc_testbed.scenario.measure.event import (
    EvTransition,
    FaultChange,
    NicEvent,
    Note,
    PortTransition,
    QpTransition,
)
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.topology.ev import decode_ev
from mrc_testbed.topology.path import uplink_of_ev
from mrc_testbed.topology.resolve import resolve_topology

Record = dict[str, str | int | bool | list[str] | None]


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
