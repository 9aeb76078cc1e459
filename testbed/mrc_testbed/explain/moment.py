"""The lab at moments of a run in virtual time, as rows; the run is repeated up to the last of them.
A condition names the first moment at which it holds.

Times are those of the run's own axis, 0 = end of warm-up; `zero_ns` is the lab's time then.
"""

import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from ctypes import sizeof, string_at
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mrc_agents.abi import (
    EvReason,
    EvState,
    LossReason,
    LossRule,
    PortCounter,
    PortEntry,
    Qp,
    QpState,
    QueueDescriptor,
    QueuePort,
    TraceKind,
    TrafficClass,
)
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_testbed.errors import Interrupted, TestbedError, UsageError, did_you_mean
from mrc_testbed.explain.trace import PSN_MASK, Records, Tracer, packet_name, repeat
from mrc_testbed.metrics.reader import qp_ev_states
from mrc_testbed.metrics.series import EV_STATES
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.shown import format_time
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.host_forwarding import MRC_UDP_PORT
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.units import parse_size_bytes
from mrc_testbed.virtual.lab import VirtualLab

Row = Mapping[str, Any]

STEPS: Final = (TraceKind.SENT, TraceKind.ACKED, TraceKind.DECLARED, TraceKind.TIMER)
_QP: Final = ("from", "to", "qpn")
KEYS: Final = {"faults": ("fault", "occurrence"), "ports": ("port",), "qps": _QP, "evs": (*_QP, "plane")}
"""Lists of a moment, to what names a row of each."""
_AT_PORT: Final = ("data_bytes", "control_bytes", "waiting", "on_wire")
_START_NS: Final = 1  # lab time at which a run begins
_IPV6_AT, _IPV6_BYTES, _NEXT_HEADER_AT, _NEXT_HEADER_IPV6 = 14, 40, 20, 41
_HEADERS: Final = struct.Struct(">I12xQ8xQHH4xB7xI")
"""IPv6, UDP, BTH: flow label, addresses, ports, opcode, PSN (include/mrc/wire.h)."""

CONDITIONS: Final = {
    "lost": TraceKind.LOST,
    "lost(PORT)": TraceKind.LOST,
    "trimmed": TraceKind.TRIMMED,
    "trimmed(PORT)": TraceKind.TRIMMED,
    "queue(PORT) > SIZE": TraceKind.QUEUED,
    "ev_bad": TraceKind.EV,
    "ev_bad(FROM, TO)": TraceKind.EV,
    "timeout": TraceKind.TIMER,
    "timeout(FROM, TO)": TraceKind.TIMER,
}
"""Forms of conditions, to the kind of record that each is about."""
_ARGUMENTS: Final = ("", "(PORT)", "(FROM, TO)")
_CONDITION: Final = re.compile(r"(\w+) *(?:\(([^()]+)\))? *(?:> *(.+))?")
_NOBODY: Final = 0xFFFF_FFFF
_LOOKS_NS: Final = 10_000_000
"""Time between two looks at the records: more than the condition needs takes so long at most."""


def moments_of(
    plan: Plan, zero_ns: int, times_ns: Sequence[int], kinds: Sequence[TraceKind] = ()
) -> tuple[list[Row], Records]:
    """The lab at some times, in their order, and records of some kinds from the first to the last."""
    if zero_ns + min(times_ns) < _START_NS:
        raise UsageError(f"{format_time(min(times_ns))} is before the run")
    due_ns = [max(zero_ns + time_ns, _START_NS + 1) for time_ns in times_ns]  # when work has been posted
    read: dict[int, Row] = {}
    moments: list[Row] = []
    tracer = Tracer(kinds, min(due_ns), max(due_ns))

    def begin(lab: VirtualLab) -> None:
        tracer.begin(lab)
        for time_ns in due_ns:
            lab.set_alarm(_Reading(lab, zero_ns, read), time_ns)

    def look(_: VirtualLab, recording: Recording) -> None:
        tracer.take()
        if read.keys() == set(due_ns):
            moments.extend({**read[ns], "faults": list(_faults(recording, zero_ns, ns))} for ns in due_ns)

    recording = repeat(plan, begin, look, max(due_ns))
    if recording.zero_ns not in (None, zero_ns):
        raise TestbedError("the run took another course: it was of another version of mrc-testbed")
    if not moments:
        end_ns = recording.end_ns or recording.readings[-1].time_ns
        raise UsageError(f"the run was over at {format_time(end_ns - zero_ns)}")
    return moments, tracer.records


class _Reading:
    def __init__(self, lab: VirtualLab, zero_ns: int, into: dict[int, Row]) -> None:
        self._lab, self._zero_ns, self._into = lab, zero_ns, into

    def on_time(self) -> None:
        self._into[self._lab.runtime.now_ns()] = read_moment(self._lab, self._zero_ns)


def changes_between(before: Row, after: Row) -> dict[str, list[Row]]:
    """Numbers that differ, by list; of what is not there they are 0."""
    found: dict[str, list[Row]] = {}
    for part, key in KEYS.items():
        then, now = _numbers(before[part], key), _numbers(after[part], key)
        found[part] = [
            {"name": name, "figure": figure, "before": then.get(of, 0), "after": now.get(of, 0)}
            for of in {**then, **now}
            for name, figure in [of]
            if then.get(of, 0) != now.get(of, 0)
        ]
    return found


def _numbers(rows: Sequence[Row], key: Sequence[str]) -> dict[tuple[str, str], int]:
    return {
        (" ".join(str(row[name]) for name in key), figure): value
        for row in rows
        for figure, value in row.items()
        if isinstance(value, int) and figure not in (*key, "since_ns", "timer_due_ns")
    }


def steps_of(records: Records, zero_ns: int, host: int, peer: int) -> Iterator[Row]:
    """Packets of the QPs from one host to another: sent, acknowledged, found lost; timers that expired."""
    ours = records[(records["host"] == host) & (records["source"] == peer)]
    for record in ours[ours["time_ns"].argsort(kind="stable")]:
        kind, what, entropy = TraceKind(record["kind"]), int(record["what"]), int(record["entropy"])
        why = {TraceKind.SENT: LossReason, TraceKind.DECLARED: LossRule}.get(kind)
        yield {
            "time_ns": int(record["time_ns"]) - zero_ns,
            "qp": int(record["qp"]),
            "step": kind.name.lower(),
            "why": why(what).name.lower().removeprefix("none") if why else "",
            "psn": int(record["psn"]) & PSN_MASK,
            "ev": f"{entropy:#010x}" if kind is not TraceKind.TIMER else None,
            "after_ns": int(record["time_ns"] - record["start_ns"]) if record["start_ns"] else None,
            "window_bytes": int(record["value"]),
            "in_flight": int(record["extra"]),
        }


def read_moment(lab: VirtualLab, zero_ns: int) -> Row:
    """The lab now, but for its faults."""
    packets = list(_packets(lab)) if lab.clos.spec.is_shaped else []
    ports = {each["port"]: {"port": each["port"], **dict.fromkeys(_AT_PORT, 0)} for each in packets}
    for each in packets:
        port = ports[each["port"]]
        port["waiting" if (waits := each["place"] == "waiting") else "on_wire"] += 1
        port[f"{each['class']}_bytes"] += each["bytes"] if waits else 0
    packets.sort(key=lambda packet: -ports[packet["port"]]["data_bytes"])
    longest = sorted(ports.values(), key=lambda port: -port["data_bytes"])
    qps, evs = _qps(lab, zero_ns)
    parts = {"faults": [], "ports": longest, "packets": packets, "qps": qps, "evs": evs}
    return {"time_ns": lab.runtime.now_ns() - zero_ns, **parts}


def _faults(recording: Recording, zero_ns: int, now_ns: int) -> Iterator[Row]:
    """Those that act."""
    for fault in recording.plan.faults:
        for index, each in enumerate(recording.occurrences(fault.fault_id)):
            since_ns, places = each.applied.before_ns, fault.links or fault.nodes
            is_over = each.cleared is not None and each.cleared.after_ns <= now_ns
            if since_ns <= now_ns and not is_over and not fault.is_hidden:
                row = {"fault": fault.fault_id, "occurrence": index, "kind": fault.kind, "acts": 1}
                yield {**row, "since_ns": since_ns - zero_ns, "places": ", ".join(places)}


_Frame = tuple[int, QueueDescriptor]  # id, descriptor


def _packets(lab: VirtualLab) -> Iterator[dict[str, Any]]:
    """Packets at ports: those that wait, next first, and those on the wire."""
    queues, entries, frames = map(lab.fabric_pins.map_fd, ("queue_ports", "port_table", "queue_frames"))
    first = lab.fabric_pins.map_fd("queue_descriptors").address_of(0) or 0

    def listed(id_: int) -> Iterator[_Frame]:
        while id_:
            descriptor = QueueDescriptor.from_address(first + (id_ - 1) * sizeof(QueueDescriptor))
            yield id_, descriptor
            id_ = descriptor.next

    ports = zip(MappedArray(queues, QueuePort), MappedArray(entries, PortEntry), strict=True)
    for port_id, (queue, entry) in enumerate(ports):
        waiting, on_wire = [list(listed(head)) for head in queue.head], list(listed(queue.wire_head))
        if lab.clos.spec.flow_control == "none" and entry.rate_bps:
            _serve(queue, entry, waiting, on_wire, lab.runtime.now_ns())
        places = zip(("waiting", "waiting", "on the wire"), (*waiting, on_wire), strict=True)
        for place, (id_, descriptor) in ((place, each) for place, of in places for each in of):
            class_, length = TrafficClass(descriptor.traffic_class & 1).name.lower(), descriptor.length_bytes
            row = {"port": lab.clos.port(port_id).name, "place": place, "class": class_}
            yield {**row, **_headers(lab, frames.address_of(id_ - 1) or 0), "bytes": length}


def _serve(
    queue: QueuePort, port: PortEntry, waiting: list[list[_Frame]], on_wire: list[_Frame], now_ns: int
) -> None:
    """Begin the transmissions that began by now: a port does so when it is looked at next (queue/port.h)."""
    free_ns, carry = queue.free_at_ns, queue.carry
    while any(waiting):
        arrivals_ns = [frames[0][1].time_ns if frames else 1 << 64 for frames in waiting]
        start_ns = max(free_ns, min(arrivals_ns))
        if start_ns > now_ns:
            return
        on_wire.append(waiting[arrivals_ns[TrafficClass.CONTROL] > start_ns].pop(0))
        work = on_wire[-1][1].length_bytes * 8 * 10**9 + (carry if start_ns == free_ns else 0)
        took_ns, carry = divmod(work, port.rate_bps)
        free_ns = start_ns + took_ns


def _headers(lab: VirtualLab, address: int) -> dict[str, Any]:
    """Facts from the headers of a frame; background traffic has none."""
    data = string_at(address, _IPV6_AT + _IPV6_BYTES + _HEADERS.size)
    at = _IPV6_AT + _IPV6_BYTES * (data[_NEXT_HEADER_AT] == _NEXT_HEADER_IPV6)
    label, source, target, port, to_port, opcode, psn = _HEADERS.unpack_from(data, at)
    if to_port != MRC_UDP_PORT:
        return {"packet": "other", **dict.fromkeys(("from", "to", "psn", "ev"))}
    return {
        "packet": packet_name(opcode),
        "from": lab.clos.host(source - 1).name,
        "to": lab.clos.host(target - 1).name,
        "psn": psn & PSN_MASK,
        "ev": f"{(label & 0xFFFF) << 16 | port:#010x}",
    }


def _qps(lab: VirtualLab, zero_ns: int) -> tuple[list[Row], list[Row]]:
    """QPs of MRC in RTS, and how many of their EVs are in which state, by plane."""
    qps: list[Row] = []
    evs: list[Row] = []
    for host in lab.clos.hosts():
        table = ArrayMap(lab.node_pins(host.name).map_fd("qps"), Qp)
        for qp in filter(lambda qp: qp.state == QpState.RTS, map(table.peek, range(len(table)))):
            head, req, comp, states = qp.head, qp.req, qp.comp, Counter(qp_ev_states(qp))
            name = {"from": host.name, "to": lab.clos.host(head.peer_host).name, "qpn": head.qpn}
            evs += [
                {**name, "plane": plane, **{state.name: states[plane, state] for state in EV_STATES}}
                for plane in range(lab.clos.spec.planes)
            ]
            due_ns = head.timer_due_ns - zero_ns if head.is_timer_armed else None
            row = {"window_bytes": qp.cc.cwnd_bytes, "in_flight": req.inflight, "lost": req.lost_count}
            row |= {"una_psn": comp.una_psn & PSN_MASK, "next_psn": req.next_psn & PSN_MASK}
            last = {"timer_due_ns": due_ns, "retries": head.retries, "srtt_ns": comp.srtt_ns or None}
            qps.append({**name, **row, **last})
    return qps, evs


@dataclass(frozen=True, slots=True)
class Awaited:
    kind: TraceKind
    port_id: int | None = None  # None: anywhere
    hosts: Sequence[int] = ()  # of the QP and its peer; empty: any
    more_than_bytes: int = 0

    def holding(self, records: Records) -> Records:
        """Those of records of its kind with which it holds."""
        holds = records["source"] != _NOBODY  # else it is background traffic
        if self.kind is TraceKind.EV:
            holds &= records["what"] >> 8 & 0xFF == EvState.ASSUMED_BAD
        elif self.kind is TraceKind.QUEUED:
            holds &= records["value"] > self.more_than_bytes
        if self.hosts:
            holds &= (records["host"] == self.hosts[0]) & (records["source"] == self.hosts[1])
        return np.asarray(records[holds])


def parse_condition(text: str, clos: Clos) -> Awaited:
    """A condition as written; raises UsageError."""
    match = _CONDITION.fullmatch(text.strip())
    name, listed, limit = match.groups() if match else (text, None, None)
    names = [each.strip() for each in listed.split(",")] if listed else []
    form = "".join((name, *_ARGUMENTS[len(names) : len(names) + 1], " > SIZE" if limit else ""))
    if form not in CONDITIONS:
        known = ", ".join(CONDITIONS)
        raise UsageError(f"{text!r} is no condition{did_you_mean(form, CONDITIONS)}", hint=f"known: {known}")
    kind = CONDITIONS[form]
    if kind in (TraceKind.EV, TraceKind.TIMER):
        return Awaited(kind, hosts=[host_index(clos, each) for each in names])
    port = clos.port(names[0]).id if names else None
    return Awaited(kind, port, more_than_bytes=parse_size_bytes(limit) if limit else 0)


def host_index(clos: Clos, name: str) -> int:
    node = clos.node(name)
    if node.is_switch:
        raise UsageError(f"{name} is a switch: only hosts have QPs")
    return node.index


class _Watch:
    """Looks at the records from time to time, and ends the run with the first that meets a condition."""

    def __init__(self, lab: VirtualLab, condition: Awaited, from_ns: int) -> None:
        self._lab, self._condition, self._from_ns = lab, condition, from_ns
        self._tracer = Tracer([condition.kind], from_ns, port_id=condition.port_id)
        self.record: Any = None
        lab.set_alarm(self, self._begin())

    def _begin(self) -> int:
        """Record from now on; return when to look."""
        self._tracer.begin(self._lab)
        return max(self._from_ns, self._lab.runtime.now_ns()) + _LOOKS_NS

    def look(self) -> None:
        self._tracer.take()
        holding = self._condition.holding(self._tracer.records)
        if self.record is None and len(holding):
            self.record = holding[np.argmin(holding["time_ns"])]

    def on_time(self) -> int:
        self.look()
        if self.record is not None:
            raise Interrupted("the condition holds")
        return self._begin()


def first_moment(plan: Plan, zero_ns: int, from_ns: int | None, condition: Awaited) -> tuple[int, str] | None:
    """The first time from `from_ns` on at which a condition holds, and what makes it so; None: it never does.

    Times are of the run's own axis.
    """
    watches: list[_Watch] = []
    begin_ns = 0 if from_ns is None else zero_ns + from_ns
    repeat(plan, lambda lab: watches.append(_Watch(lab, condition, begin_ns)), lambda *_: watches[0].look())
    if (record := watches[0].record) is None:
        return None
    return int(record["time_ns"]) - zero_ns, _described(record, resolve_topology(plan.topology))


def _described(record: Any, clos: Clos) -> str:
    what, host, source = (
        int(record["what"]),
        *(clos.host(int(record[end])).name for end in ("host", "source")),
    )
    kind, ev = TraceKind(record["kind"]), f"EV {record['entropy']:#010x}"
    if kind in (TraceKind.EV, TraceKind.TIMER):
        did = f"{ev} is bad: {EvReason(what & 0xFF).name.lower()}" if kind is TraceKind.EV else "time-out"
        return f"QP of {host} towards {source}: {did}"
    did = f"behind {record['value']} bytes" if kind is TraceKind.QUEUED else "trimmed"
    if kind is TraceKind.LOST:
        did = PortCounter(what).name.lower().replace("drop_", "lost: ").replace("_", " ")
    port = clos.port(int(record["place"])).name
    return f"{port}: PSN {record['psn'] & PSN_MASK} of {source} towards {host}, {ev}: {did}"
