"""Verbs about reliable connections: RoCEv2 and what differs from it in one respect
(docs/explanation/transports.md).
"""

from dataclasses import asdict, fields
from typing import Any

from mrc_agents.abi import Command, Limit, QpState, RcQp
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import UsageError
from mrc_agents.nic.qp import draw_psn
from mrc_agents.nic.qp_verbs import (
    QueuePairVerbs,
    check_peer_qpn,
    check_transition,
    require_peer_first_psn,
)
from mrc_agents.nic.rc_qp import TRANSITIONS, RcAttributes, RcQueuePair, build_rc_qp
from mrc_agents.nic.verb import verb
from mrc_agents.protocol.dcqcn import DcqcnParameters


class RcVerbs(QueuePairVerbs):
    """QPs of both transports; what is said of an MRC QP elsewhere holds for the others where it can."""

    @verb
    def create_rc_qp(self, peer_host: int, evs: list[int], cc: dict[str, int], **attributes: int) -> int:
        """A reliable connection in state INIT; returns its number.

        Args:
            peer_host: index of the far host.
            evs: one EV: its path carries all packets. Several: packets take them in turn.
            cc: DCQCN's parameters, by name; all of them.
            attributes: any of the other RcAttributes; what is left out gets the NIC's default.
        """
        known = {each.name for each in fields(RcAttributes)} - {"peer_host", "evs", "cc"}
        unknown = sorted(set(attributes) - known)
        if unknown:
            raise UsageError(f"create_rc_qp: no attribute {unknown[0]}; known: {', '.join(sorted(known))}")
        names = {each.name for each in fields(DcqcnParameters)}
        if cc.keys() != names:
            wrong = sorted(cc.keys() ^ names)[0]
            raise UsageError(
                f"cc: {wrong} is missing or unknown; all of {', '.join(sorted(names))} are needed"
            )
        defaults = {
            "window_packets": 64,
            "pmtu_bytes": int(Limit.PMTU_MAX),
            "rto_ns": self._config.rto_ns,
            "retry_limit": self._config.retry_limit,
            "cnp_interval_ns": 0,
            "first_psn": draw_psn(),
        }
        checked = RcAttributes(
            peer_host=peer_host, evs=tuple(evs), cc=DcqcnParameters(**cc), **(defaults | attributes)
        )
        checked.check(self._device.config)
        qp = RcQueuePair(self.numbers.take(), checked)
        self._empty_ring(qp.index)
        self._device.rc_qps.write(qp.index, build_rc_qp(qp, self._device.config, monotonic_ns()))
        self._device.reliable_connections.add(qp.index)
        self._rc_qps[qp.index] = qp
        return qp.qpn

    def modify_qp(self, qpn: int, state: str, **attributes: int) -> int:
        """Moves a QP from one state to another, and sets what goes with that; returns its number.

        Args:
            qpn: the QP.
            state: RTR, RTS or ERROR.
            attributes: to RTR `peer_qpn`, `peer_first_psn` and `peer_host`, to RTS `first_psn`.
        """
        qp = self._find_rc(qpn)
        if qp is None:
            return super().modify_qp(qpn, state, **attributes)
        check_transition(qp, TRANSITIONS, state, attributes)
        target = QpState[state]
        if target == QpState.RTR:
            self._aim(qp, target, attributes.pop("peer_qpn", 0), attributes)
        elif target == QpState.RTS:
            qp.attributes = changed = qp.attributes.changed(attributes)
            changed.check(self._device.config)
            self._command(Command.RC_RTS, qp, changed.first_psn)
        else:
            self._command(Command.ERROR, qp)
        qp.state = target
        return qpn

    def _aim(self, qp: RcQueuePair, state: QpState, peer_qpn: int, attributes: dict[str, int]) -> None:
        check_peer_qpn(peer_qpn)
        changed = qp.attributes.changed(attributes)
        require_peer_first_psn(qp.qpn, changed.peer_first_psn)
        changed.check(self._device.config)
        qp.attributes = changed
        value = build_rc_qp(qp, self._device.config, monotonic_ns())
        value.head.peer_qpn = peer_qpn
        value.state = qp.state = state
        self._device.rc_qps.write(qp.index, value)

    def connect_qp(self, qpn: int, peer_qpn: int, peer_first_psn: int | None = None) -> None:
        """Moves a QP through RTR to RTS towards the peer's QP.

        Args:
            qpn: the QP, in INIT.
            peer_qpn: number of the peer's QP.
            peer_first_psn: the `first_psn` of the peer's QP; None where the QP was created with it.
        """
        qp = self._find_rc(qpn)
        if qp is None:
            super().connect_qp(qpn, peer_qpn, peer_first_psn)
            return
        if qp.state != QpState.INIT:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; connect_qp needs INIT")
        given = {} if peer_first_psn is None else {"peer_first_psn": peer_first_psn}
        self._aim(qp, QpState.RTS, peer_qpn, given)

    def destroy_qp(self, qpn: int) -> None:
        """Takes a QP out of use; packets for it are dropped from now on."""
        qp = self._find_rc(qpn)
        if qp is None:
            super().destroy_qp(qpn)
            return
        del self._rc_qps[qp.index]
        self._device.rc_qps.write(qp.index, RcQp(state=QpState.RESET))
        self._device.reliable_connections.discard(qp.index)
        self.numbers.release(qpn)

    def query_qp(self, qpn: int) -> dict[str, Any]:
        """Attributes and state of a QP: what its peer has to know before they connect, among them.

        Args:
            qpn: the QP.
        """
        qp = self._find_rc(qpn)
        if qp is None:
            return super().query_qp(qpn)
        return {
            "qpn": qp.qpn,
            "state": qp.state.name,
            "status": qp.status,
            "host": int(self._device.config.host_index),
            **asdict(qp.attributes),
        }

    def list_qps(self) -> list[dict[str, Any]]:
        """Every QP: number, state, peer, and what is under way."""
        return [*super().list_qps(), *(self._rc_row(qp) for qp in self._rc_qps.values())]

    def _rc_row(self, qp: RcQueuePair) -> dict[str, Any]:
        value = self._device.rc_qps.peek(qp.index)
        return {
            "qpn": qp.qpn,
            "peer_qpn": value.head.peer_qpn,
            "peer_host": value.head.peer_host,
            "state": QpState(value.state).name,
            "status": qp.status,
            "inflight": value.req.next_psn - value.req.acked_psn,
            "next_psn": value.req.next_psn,
            "una_psn": value.req.acked_psn,
            "lost_waiting": value.req.max_psn - value.req.next_psn,
            "active_evs": value.req.ev_count,
            "rate_bps": value.dcqcn.rate_kbps * 1000,
        }
