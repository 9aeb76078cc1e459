"""The critical path of a message, backwards from its end, from the records of a trace. Pure.

What ended a message is one packet; where that was before, and why it had not been sent earlier, is looked up
until the message's begin is reached. A packet that waited for the window waited for an acknowledgement: then
the path goes on with what that one, and the packet that it acknowledges, had to go through. So each
nanosecond has one cause.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from mrc_agents.abi import LossRule, PortCounter, PortKind, TraceKind
from mrc_testbed.explain.causes import Cause, CauseKind, FaultTimes, Segment
from mrc_testbed.explain.trace import Index, QpPlace, Records, packet_name
from mrc_testbed.topology.clos import Clos

KINDS: Final = (
    TraceKind.HOP,
    TraceKind.QUEUED,
    TraceKind.LOST,
    TraceKind.TRIMMED,
    TraceKind.TAKEN,
    TraceKind.HELD,
    TraceKind.DECLARED,
)
"""Records that a path needs."""

RULES: Final = {
    LossRule.RACK: "RACK",
    LossRule.OVERTAKEN: "a later packet of its path",
    LossRule.TLP: "a tail loss probe",
    LossRule.IDLE_PATH: "the silence of its path",
    LossRule.RTO: "the RTO",
    LossRule.NACK: "a NACK",
    LossRule.PROBE: "the PTO",
}
"""Names of what finds a loss."""

_WRITES: Final = ("WRITE",)
_RESPONSES: Final = ("ACK", "SACK", "NACK")


class Pair(NamedTuple):
    """The QPs of a connection that sends one way."""

    source: QpPlace
    target: QpPlace


class CriticalPath:
    """Segments from the end of an operation towards its begin; none overlaps another, and none is missing.

    Args:
        end_ns: of the operation.
        zero_ns: end of warm-up, from which times of losses are counted.
    """

    def __init__(self, records: Records, clos: Clos, faults: FaultTimes, end_ns: int, zero_ns: int) -> None:
        self._clos, self._faults, self._zero_ns = clos, faults, zero_ns
        self._hops = Index(records, TraceKind.HOP)
        self._queued = Index(records, TraceKind.QUEUED)
        self._lost = Index(records, TraceKind.LOST, TraceKind.TRIMMED)
        self._unanswered = Index(records, TraceKind.LOST, TraceKind.TRIMMED, by_psn=False)
        self._seen = Index(records, TraceKind.HOP, TraceKind.QUEUED)
        self._declared = Index(records, TraceKind.DECLARED)
        self._taken = Index(records, TraceKind.TAKEN, by_psn=False)
        self._held = records[records["kind"] == TraceKind.HELD]
        self._at_ns = end_ns
        self._segments: list[Segment] = []

    @property
    def segments(self) -> list[Segment]:
        """Those found so far, the earliest first."""
        return self._segments[::-1]

    def spend(self, begin_ns: int, floor_ns: int, cause: Cause) -> None:
        """Account for the time from a moment, or from the floor, up to what is accounted for."""
        begin_ns = max(begin_ns, floor_ns)
        if begin_ns < self._at_ns:
            self._segments.append(Segment(begin_ns, self._at_ns, cause))
            self._at_ns = begin_ns

    def arrival(self, pair: Pair, floor_ns: int) -> None:
        """Explain the time up to the arrival of a packet, from the floor on: it completed a message."""
        taken = self._data(pair, floor_ns)
        if taken is None:
            return
        psn, sent_ns = int(taken["psn"]), self._frame(taken, floor_ns)
        hops = self._hops.of(pair.target, psn)
        first = hops[[self._is_nic(place) for place in hops["place"]]]
        sent = [int(each) for each in first["time_ns"] if each <= (sent_ns or 0)]
        for before_ns, again_ns in zip(sent[-2::-1], sent[:0:-1], strict=True):
            found = self._declared.of(pair.source, psn)
            found = found[(found["time_ns"] > before_ns) & (found["time_ns"] <= again_ns)]
            found_ns = int(found[0]["time_ns"]) if len(found) else again_ns
            self._wait(pair, max(found_ns, floor_ns))
            rule = RULES[LossRule(int(found[0]["what"]))] if len(found) else "a request for its ACK"
            lost = self._lost.of(pair.target, psn) if len(found) else self._unanswered.of(pair.source)
            lost = lost[(lost["time_ns"] >= before_ns) & (lost["time_ns"] <= found_ns)]
            way = self._seen.of(pair.target, psn)
            way = way[(way["time_ns"] >= before_ns) & (way["time_ns"] < found_ns)]["place"][::-1]
            self._spend_on_loss(pair, lost, way, rule, before_ns, found_ns, floor_ns)
        self._wait(pair, floor_ns)

    def acknowledgement(self, pair: Pair, floor_ns: int) -> None:
        """Explain the time up to the acknowledgement that completed a message of its sender."""
        taken = self._latest(pair.source, _RESPONSES)
        if taken is None or taken["time_ns"] != self._at_ns:
            self._wait(pair, floor_ns)
        elif self._frame(taken, floor_ns) is not None:
            self.arrival(pair, floor_ns)
        self.spend(floor_ns, floor_ns, Cause("not explained"))

    def _wait(self, pair: Pair, floor_ns: int) -> None:
        """Explain why nothing was sent earlier: the round trips for whose acknowledgements a QP waited."""
        while self._at_ns > floor_ns:
            response = self._latest(pair.source, _RESPONSES)
            self._idle(
                pair.source, pair, floor_ns if response is None else int(response["time_ns"]), floor_ns
            )
            if self._at_ns <= floor_ns or response is None or self._frame(response, floor_ns) is None:
                break
            data = self._data(pair, floor_ns)
            if data is None or self._frame(data, floor_ns) is None:
                break
        self.spend(floor_ns, floor_ns, Cause("not explained"))

    def _data(self, pair: Pair, floor_ns: int) -> Any:
        """The latest data that the receiver took; the time since is accounted for. None: before the floor."""
        data = self._latest(pair.target, _WRITES)
        self._idle(pair.target, pair, floor_ns if data is None else int(data["time_ns"]), floor_ns)
        return data if self._at_ns > floor_ns else None

    def _idle(self, place: QpPlace, pair: Pair, since_ns: int, floor_ns: int) -> None:
        """Account for time in which a QP did nothing: its agent did not run, or it was not asked to."""
        since_ns = max(since_ns, floor_ns)
        if since_ns >= self._at_ns:
            return
        hosts = [self._clos.host(each[0]).name for each in (place, pair.source, pair.target)]
        host, fault = self._faults.of_hosts(hosts, since_ns, self._at_ns)
        lost = np.concatenate([self._unanswered.of(each) for each in (pair.source, pair.target)])
        lost = lost[(lost["time_ns"] >= since_ns) & (lost["time_ns"] < self._at_ns)]
        if host:
            self.spend(since_ns, floor_ns, Cause("agent did not run", host, fault=fault))
        elif len(lost):
            self._spend_on_loss(pair, lost, [], "the timer of its QP", since_ns, self._at_ns, floor_ns)
        else:
            self.spend(since_ns, floor_ns, Cause("could do nothing", hosts[0]))

    def _latest(self, place: QpPlace, names: Sequence[str]) -> Any:
        """The latest frame that a QP took up to now."""
        taken = self._taken.of(place)
        taken = taken[: np.searchsorted(taken["time_ns"], self._at_ns, "right")]
        for each in taken[::-1]:
            if packet_name(int(each["what"])) in names:
                return each
        return None

    def _frame(self, taken: Any, floor_ns: int) -> int | None:
        """Explain the way of a frame; returns when it was sent, None if its way is not known as a whole."""
        hops = self._hops.of((int(taken["host"]), int(taken["qp"])), int(taken["psn"]))
        hops = hops[np.all([hops[name] == taken[name] for name in ("source", "entropy", "what")], axis=0)]
        places = [int(taken["place"])]
        while True:
            found = hops[np.isin(hops["place"], places) & (hops["end_ns"] <= self._at_ns)]
            if not len(found):
                return None
            hop = found[np.argmax(found["end_ns"])]
            place, came_ns = int(hop["place"]), int(hop["time_ns"])
            self._spend_at("delayed on a link", place, int(hop["end_ns"]), floor_ns)
            self._spend_at("on the wire", place, int(hop["start_ns"]), floor_ns)
            self._queue(hop, floor_ns)
            if self._is_nic(place):
                return came_ns
            places = [port.peer_id for port in self._clos.ports_of(self._clos.port(place).node)]

    def _spend_at(self, kind: CauseKind, place: int, begin_ns: int, floor_ns: int, flow: str = "") -> None:
        if begin_ns < self._at_ns:
            fault = self._faults.behind(kind, place, begin_ns, self._at_ns)
            self.spend(begin_ns, floor_ns, Cause(kind, self._clos.port(place).name, flow, fault))

    def _queue(self, hop: Any, floor_ns: int) -> None:
        """Explain the time that a frame waited at a port: held by flow control, or behind others."""
        place, came_ns = int(hop["place"]), int(hop["time_ns"])
        if came_ns >= self._at_ns:
            return
        queued = self._queued.of((int(hop["host"]), int(hop["qp"])), int(hop["psn"]))
        queued = queued[(queued["place"] == place) & (queued["time_ns"] == came_ns) & (queued["value"] > 0)]
        flow = self._flow(int(queued[0]["what"])) if len(queued) else ""
        held = self._held[(self._held["place"] == place) & (self._held["end_ns"] > came_ns)]
        for each in held[np.argsort(held["end_ns"])][::-1]:
            self._spend_at("queueing", place, max(came_ns, int(each["end_ns"])), floor_ns, flow)
            self._spend_at("held by flow control", place, max(came_ns, int(each["time_ns"])), floor_ns)
        self._spend_at("queueing", place, came_ns, floor_ns, flow)

    def _spend_on_loss(
        self,
        pair: Pair,
        lost: Records,
        way: Iterable[int],
        rule: str,
        sent_ns: int,
        found_ns: int,
        floor_ns: int,
    ) -> None:
        """Account for the time from a packet's transmission until it was found lost.

        Args:
            lost: records of its loss, if there are any.
            way: ports that have sent it, the last first.
        """
        flow = " > ".join(self._clos.host(host).name for host, _ in (pair.source, pair.target))
        places = [int(each) for each in (*lost["place"][:1], *way)]
        lost_ns = int(lost[0]["time_ns"]) if len(lost) else None
        kinds: tuple[CauseKind, ...] = ("lost packets", "queueing", "delayed on a link")
        blamed = (
            (kind, at, self._faults.behind(kind, at, sent_ns, found_ns)) for kind in kinds for at in places
        )
        kind, place, fault = next(
            (each for each in blamed if each[2]), ("", places[0] if places else None, "")
        )
        name = "" if place is None else self._clos.port(place).name
        if len(lost) and lost[0]["kind"] == TraceKind.TRIMMED:
            fault, rule = "", f"{rule} of the trimmed packet"
        elif len(lost) and lost[0]["what"] == PortCounter.DROP_QUEUE_FULL:
            fault, name = "", f"the full queue of {name}"
        waited_ns = found_ns - (sent_ns if lost_ns is None else min(lost_ns, found_ns))
        is_lost = lost_ns is not None or kind == "lost packets"
        at_ns = None if lost_ns is None else lost_ns - self._zero_ns
        cause = Cause(
            "lost packets" if is_lost else "late packets", name, flow, fault, rule, at_ns, waited_ns
        )
        self.spend(sent_ns, floor_ns, cause)

    def _flow(self, hosts: int) -> str:
        near, far = hosts >> 16, hosts & 0xFFFF
        if max(near, far) >= self._clos.numbering.host_count:
            return "background traffic"
        return f"{self._clos.host(near).name} > {self._clos.host(far).name}"

    def _is_nic(self, place: int) -> bool:
        return self._clos.port(int(place)).kind is PortKind.NIC
