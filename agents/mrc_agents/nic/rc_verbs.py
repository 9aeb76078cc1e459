"""Verbs about reliable connections: RoCEv2 and what differs from it in one respect
(docs/explanation/transports.md).
"""

from dataclasses import asdict, fields
from typing import Any

from mrc_agents.abi import Limit, QpState, RcQp
from mrc_agents.errors import UsageError
from mrc_agents.nic.qp import draw_psn
from mrc_agents.nic.qp_verbs import QueuePairVerbs
from mrc_agents.nic.rc_qp import RcAttributes, RcQueuePair
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
        self._write(qp, QpState.INIT)
        self._device.reliable_connections.add(qp.index)
        self._rc_qps[qp.index] = qp
        return qp.qpn

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
