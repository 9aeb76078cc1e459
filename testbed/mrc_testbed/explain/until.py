"""Conditions of a run in virtual time, and the first moment at which one holds."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from mrc_agents.abi import EvReason, EvState, PortCounter, TraceKind
from mrc_testbed.errors import Interrupted, UsageError, did_you_mean
from mrc_testbed.explain.trace import PSN_MASK, Records, Tracer, repeat
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.units import parse_size_bytes
from mrc_testbed.virtual.lab import VirtualLab

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


@dataclass(frozen=True, slots=True)
class Awaited:
    """A condition."""

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
