"""Verbs about queue pairs: creating them, changing their state, what they are."""

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from mrc_agents.abi import CcFormat, CcReason, Command, Limit, Qp, QpState
from mrc_agents.algorithms import FIXED
from mrc_agents.errors import UsageError
from mrc_agents.nic.cc_profile_verbs import CcProfileVerbs
from mrc_agents.nic.ev_profile import EvProfile
from mrc_agents.nic.qp import (
    CONNECTED,
    MrcQueuePair,
    QpAttributes,
    attribute_ranges,
    build_qp,
    distance_to,
    draw_psn,
    largest_window_packets,
    way_count,
)
from mrc_agents.nic.rc_qp import RcAttributes, RcQueuePair, build_rc_qp
from mrc_agents.nic.verb import verb
from mrc_agents.nic.work_queue import QPN_MAX, QPN_MIN, WorkQueue
from mrc_agents.protocol.cc_profile import CcParameters, Setting

_FIXED_WINDOW_PACKETS = 64
_EVS_PER_PLANE = 32
_LOSS_WINDOWS = 2
_BACKUP_SHARE = 4
_FLOOR_SHARE = 4


def check_transition(qp: WorkQueue, state: str, attributes: Mapping[str, int]) -> None:
    """Raises UsageError unless a QP may go to that state, and with those attributes."""
    if state not in qp.transitions:
        raise UsageError(f"state: {state}; {', '.join(qp.transitions)} are accepted")
    rule = qp.transitions[state]
    if qp.state not in rule.before:
        names = " or ".join(before.name for before in rule.before)
        raise UsageError(f"QP {qp.qpn} is in state {qp.state.name}; {state} follows {names}")
    for name in sorted(set(attributes) - rule.attributes):
        known = ", ".join(sorted(rule.attributes)) or "none"
        raise UsageError(f"{name}: not an attribute of the change to {state}; {known} may be given")


class QueuePairVerbs(CcProfileVerbs):
    @verb
    def create_qp(
        self,
        peer_host: int,
        evs: list[int] | None = None,
        ev_profile: int | None = None,
        cc: str | None = None,
        cc_profile: Mapping[str, Any] | int | None = None,
        **attributes: int,
    ) -> int:
        """A QP in state INIT; returns its number. EVs on paths that are denied begin as DENIED.

        Args:
            peer_host: index of the far host.
            evs: EVs, plane by plane; or
            ev_profile: number of a profile that is ONLINE, whose EVs it gets. Without either it gets 32 in
                each plane, spread over the uplinks.
            cc: congestion control: the NIC's algorithm, usually `nscc`, or `fixed`. Left out: the algorithm
                where ports have a rate, unless window_packets is given, the size of a fixed window.
            cc_profile: its parameters by standard name, or the id of a CC profile that is ONLINE; the
                others follow from rate and base RTT.
            attributes: any of the other QpAttributes; what is left out gets the NIC's default.
        """
        checked = self._attributes(peer_host, evs, ev_profile, cc, cc_profile, attributes)
        qp = MrcQueuePair(self.numbers.take(), checked)
        qp.ev_profile, qp.cc_profile = ev_profile, cc_profile if isinstance(cc_profile, int) else None
        index = qp.index
        self._empty_ring(index)
        self._write(qp, QpState.INIT)
        self._qps[index] = qp
        self._deny_paths(qp)
        return qp.qpn

    def _attributes(
        self,
        peer_host: int,
        evs: list[int] | None,
        ev_profile: int | None,
        cc: str | None,
        cc_profile: Mapping[str, Any] | int | None,
        attributes: dict[str, int],
    ) -> QpAttributes:
        """The attributes of a new QP, checked, with the NIC's defaults for what is left out."""
        profile = None if ev_profile is None else self._profile(ev_profile)
        if evs is not None and profile is not None:
            raise UsageError("evs, ev_profile: one of them is accepted")
        chosen = self._automatic_evs() if evs is None else evs
        if profile is not None:
            chosen = profile.usable_evs()
            if profile.min_active is not None:
                attributes = {"min_active": profile.min_active} | attributes
        known = {field.name for field in fields(QpAttributes)} - {"peer_host", "evs", "cc"}
        unknown = sorted(set(attributes) - known)
        if unknown:
            raise UsageError(f"create_qp: no attribute {unknown[0]}; known: {', '.join(sorted(known))}")
        pmtu_bytes = attributes.get("pmtu_bytes", int(Limit.PMTU_MAX))
        settings = self._usable_cc_config(cc_profile) if isinstance(cc_profile, int) else cc_profile
        congestion = self._congestion(cc, settings, pmtu_bytes, attributes.get("window_packets"))
        window = attributes.get("window_packets", _FIXED_WINDOW_PACKETS)
        if congestion is not None:
            window = largest_window_packets(congestion)
        per_plane = len(chosen) // self._device.config.plane_count
        defaults = {
            "backup_per_plane": per_plane // _BACKUP_SHARE,
            "min_active": max(1, len(chosen) // _FLOOR_SHARE),
            "window_packets": window,
            "loss_threshold_acks": _LOSS_WINDOWS * window,
            "pmtu_bytes": int(Limit.PMTU_MAX),
            "rto_ns": self._config.rto_ns,
            "rto_min_ns": self._config.rto_min_ns,
            "pto_min_ns": self._config.pto_min_ns,
            "reo_wnd_min_ns": self._config.reo_wnd_min_ns,
            "byte_time_ps": self._byte_time_ps(peer_host),
            "shares_paths": int(self._config.shares_paths),
            "evs_name_paths": int(self._config.evs_name_paths),
            "reorder_packets": self._config.reorder_packets,
            "retry_limit": self._config.retry_limit,
            "probe_success_target": self._config.probe_success_target,
            "seed": 0,
            "first_psn": draw_psn(),
        }
        checked = QpAttributes(
            peer_host=peer_host, evs=tuple(chosen), cc=congestion, **(defaults | attributes)
        )
        checked.check(self._device.config)
        return checked

    def _automatic_evs(self) -> list[int]:
        """EVs for a QP to any peer, spread over the uplinks of every plane."""
        planes = int(self._device.config.plane_count)
        profile = EvProfile("AUTO", min(_EVS_PER_PLANE, int(Limit.EV_MAX) // planes) * planes, planes)
        profile.fill_auto(way_count(self._device.config))
        return [ev for ev in profile.evs if ev is not None]

    def _deny_paths(self, qp: MrcQueuePair) -> None:
        """Takes EVs of a QP that the kernel has just been given out of use, as denylist and profile say."""
        denied = self._profiles[qp.ev_profile].denied if qp.ev_profile is not None else set()
        if not (denied or self._denylist):
            return
        for place, ev in enumerate(qp.attributes.evs):
            if self._is_denied(ev, qp.attributes.peer_host) or ev in denied:
                self._device.command(Command.DENY, qp.index, place)

    def _byte_time_ps(self, peer_host: int) -> int:
        return self._config.byte_times_ps[distance_to(self._device.config, peer_host)]

    def _congestion(
        self, cc: str | None, settings: Mapping[str, Setting] | None, pmtu_bytes: int, window: int | None
    ) -> CcParameters | None:
        """Parameters of a new QP's congestion control; None: its window is fixed."""
        config = self._config
        is_adaptive = settings is not None or (config.rate_bps > 0 and window is None)
        known = (config.cc, FIXED)
        chosen = cc or (config.cc if is_adaptive else FIXED)
        if chosen not in known:
            raise UsageError(f"cc: {cc!r}; {' or '.join(known)} is accepted")
        if chosen == FIXED:
            if settings is not None:
                raise UsageError("cc_profile: the window is fixed, and has none; use window_packets")
            return None
        if window is not None:
            raise UsageError(
                f"window_packets: it is for a fixed window; {chosen} has max_cwnd in its cc_profile"
            )
        return self._cc_parameters(settings, pmtu_bytes)

    @verb
    def modify_qp(self, qpn: int, state: str, **attributes: int) -> int:
        """Moves a QP from one state to another, and sets what goes with that; returns its number.

        Args:
            qpn: the QP.
            state: RTR, from INIT: it receives. RTS, from RTR: it sends as well. ERROR, from any: what it had
                to do completes as flushed. RESET, from any. INIT, from RESET: as new, with
                another number and another first PSN, for packets of its last connection may be on their way.
            attributes: to RTR `peer_qpn` and `peer_first_psn`, and where they differ from what the QP was
                created with `peer_host`, `mpr_dest`, `max_wimm_dest` and `dynamic_mpr`; to RTS `mpr`,
                `max_wimm` and `first_psn` likewise. A reliable connection has the first three, `first_psn`,
                and no RESET.
        """
        qp = self._queue(qpn)
        check_transition(qp, state, attributes)
        target = QpState[state]
        if target == QpState.RTR:
            self._to_rtr(qp, attributes)
        elif target == QpState.RTS:
            qp.change(attributes, self._device.config)
            self._start(qp)
        elif target == QpState.ERROR:
            self._command(Command.ERROR, qp)
        else:
            if target == QpState.INIT:
                qp.qpn = self.numbers.renew(qpn)
                qp.change({"first_psn": draw_psn(), "peer_first_psn": None}, self._device.config)
            self._empty_ring(qp.index)
            self._write(qp, target)
            qp.forget_work()
        qp.state = target
        return qp.qpn

    def _to_rtr(self, qp: MrcQueuePair | RcQueuePair, attributes: dict[str, int]) -> None:
        peer_qpn = attributes.pop("peer_qpn", 0)
        if not QPN_MIN <= peer_qpn <= QPN_MAX:
            raise UsageError(f"peer_qpn: {peer_qpn}; {QPN_MIN} to {QPN_MAX} is accepted")
        if attributes.get("peer_first_psn", qp.attributes.peer_first_psn) is None:
            raise UsageError(
                f"peer_first_psn: needed to connect QP {qp.qpn}",
                hint="it is the first_psn of the peer's QP, as query_qp gives it",
            )
        before = qp.attributes.peer_host
        qp.change(attributes, self._device.config)
        is_other_peer = qp.attributes.peer_host != before
        if isinstance(qp, MrcQueuePair) and is_other_peer:
            qp.change({"byte_time_ps": self._byte_time_ps(qp.attributes.peer_host)}, self._device.config)
        self._write(qp, QpState.RTR, peer_qpn)
        if isinstance(qp, MrcQueuePair) and is_other_peer:
            self._deny_paths(qp)

    def _write(self, qp: MrcQueuePair | RcQueuePair, state: QpState, peer_qpn: int = 0) -> None:
        """Give a QP to the kernel, as new but for its state and its peer."""
        config = self._device.config
        if isinstance(qp, RcQueuePair):
            rc_value = build_rc_qp(qp, config)
            rc_value.state, rc_value.head.peer_qpn = state, peer_qpn
            self._device.rc_qps.write(qp.index, rc_value)
        else:
            value = build_qp(qp, config)
            value.state, value.head.peer_qpn = state, peer_qpn
            self._device.qps.write(qp.index, value)

    def _start(self, qp: MrcQueuePair | RcQueuePair) -> None:
        """Has the kernel take a QP from RTR to RTS."""
        attributes = qp.attributes
        if isinstance(attributes, RcAttributes):
            self._command(Command.RC_RTS, qp, attributes.first_psn)
        else:
            psns = attributes.mpr * Limit.MPR_UNIT
            self._command(Command.RTS, qp, psns, attributes.max_wimm, attributes.first_psn)

    def _command(self, command: Command, qp: WorkQueue, *arguments: int) -> None:
        if not self._device.command(command, qp.index, *arguments):
            raise UsageError(f"QP {qp.qpn} is in state {qp.state.name}; {command.name} was refused")

    @verb
    def connect_qp(self, qpn: int, peer_qpn: int, peer_first_psn: int | None = None) -> None:
        """Moves a QP through RTR to RTS towards the peer's QP.

        Args:
            qpn: the QP, in INIT.
            peer_qpn: number of the peer's QP.
            peer_first_psn: the `first_psn` of the peer's QP; None where the QP was created with it.
        """
        qp = self._queue(qpn)
        if qp.state != QpState.INIT:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; connect_qp needs INIT")
        given = {} if peer_first_psn is None else {"peer_first_psn": peer_first_psn}
        self.modify_qp(qpn, QpState.RTR.name, peer_qpn=peer_qpn, **given)
        self.modify_qp(qpn, QpState.RTS.name)

    @verb
    def adjust_qp(self, qpn: int, mpr_dest: int | None = None, receiver_penalty: int | None = None) -> None:
        """Changes what a QP that receives asks of its peer.

        Args:
            qpn: the QP, in RTR or RTS.
            mpr_dest: PSN range it tracks from now on, in units of 128, at most what was negotiated. Nothing
                that may be under way is retracted. The peer is notified if `dynamic_mpr` is set at both ends.
            receiver_penalty: bytes that the peer's window is to lose, in 1/128 of the bytes received; 64 for
                a round trip halves it. 0 ends it, and gives the window back.
        """
        qp = self._find(qpn)
        if qp.state not in CONNECTED:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; adjust_qp needs RTR or RTS")
        for name, value, low, high in (
            ("mpr_dest", mpr_dest, 1, qp.attributes.mpr_dest),
            ("receiver_penalty", receiver_penalty, 0, int(Limit.PENALTY_MAX)),
        ):
            if value is not None and not low <= value <= high:
                raise UsageError(f"{name}: {value}; {low} to {high} is accepted")
        if mpr_dest is not None:
            self._command(Command.TRACK, qp, mpr_dest * Limit.MPR_UNIT)
        if receiver_penalty is not None:
            self._command(Command.PENALTY, qp, receiver_penalty)

    @verb
    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use; packets for it are dropped from now on."""
        qp = self._find(qpn)
        self._device.qps.write(qp.index, Qp(state=QpState.RESET))
        del self._qps[qp.index]
        self.numbers.release(qpn)

    @verb
    def query_qp(self, qpn: int) -> dict[str, Any]:
        """Attributes and state of a QP: what its peer has to know before they connect, among them.

        Args:
            qpn: the QP.
        """
        qp = self._find(qpn)
        attributes = qp.attributes
        numbers = attribute_ranges(self._device.config, len(attributes.evs))
        return {
            "qpn": qp.qpn,
            "state": qp.state.name,
            "status": qp.status,
            "host": int(self._device.config.host_index),
            "ev_profile": qp.ev_profile,
            "cc_profile": qp.cc_profile,
            "evs": list(attributes.evs),
            **{name: getattr(attributes, name) for name in numbers},
        }

    @verb
    def list_qps(self) -> list[dict[str, Any]]:
        """Every QP: number, state, peer, and what is under way."""
        rows = []
        for qp in self._qps.values():
            value = self._device.qps.peek(qp.index)
            rows.append(
                {
                    "qpn": qp.qpn,
                    "peer_qpn": value.head.peer_qpn,
                    "peer_host": value.head.peer_host,
                    "state": QpState(value.state).name,
                    "status": qp.status,
                    "inflight": value.req.inflight,
                    "next_psn": value.req.next_psn,
                    "una_psn": value.comp.una_psn,
                    "lost_waiting": value.req.lost_count,
                    "active_evs": value.evs.active_total,
                    "cc": FIXED if value.cc_parameters.is_fixed else self._config.cc,
                    "cwnd_bytes": value.cc.cwnd_bytes,
                    "max_wnd_bytes": value.cc.max_wnd_bytes,
                    "inflight_bytes": value.cc.inflight_bytes,
                    "avg_delay_ns": value.cc.avg_delay_q8 >> CcFormat.DELAY_SHIFT,
                    "target_delay_ns": value.cc_parameters.target_delay_ns,
                    "base_rtt_ns": value.cc.base_rtt_ns,
                    "mpr_psns": value.req.mpr_psns,
                    "cwnd_reason": CcReason(value.cc.reason).name.lower(),
                }
            )
        return rows
