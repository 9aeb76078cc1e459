"""Events of the kernel: recorded with their QP, and translated for subscribers."""

from typing import Any

from mrc_agents.abi import CompletionStatus, Event, EventKind, EvLayout, EvReason, EvState, QpState
from mrc_agents.nic.ev_profile import EVENT_STATES
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.qp import MrcQueuePair
from mrc_agents.nic.work_queue import DeliveredWrite, FinishedWork, WorkQueue


class KernelEvents(NicState):
    def take_event(self, event: Event) -> dict[str, Any] | None:
        """Records one kernel event; returns the event for subscribers, None if there is none."""
        qp: WorkQueue | None = self._qps.get(event.qp_index) or self._rc_qps.get(event.qp_index)
        if qp is None:
            return None
        fields: dict[str, Any] = {"time_ns": event.time_ns, "host": self._config.host, "qpn": qp.qpn}
        if event.kind == EventKind.COMPLETION:
            status = CompletionStatus(event.c).name.lower()
            qp.completions.append(FinishedWork(event.a, event.b, status, event.time_ns))
            if event.a in qp.posted:
                qp.posted.remove(event.a)
            return fields | {
                "event": "completion",
                "work_id": event.a,
                "iterations": event.b,
                "status": status,
                "length": event.d,
            }
        if event.kind == EventKind.EV_STATE and isinstance(qp, MrcQueuePair):
            return fields | self._ev_state_fields(qp, event) if self._is_wanted(qp, event) else None
        if event.kind == EventKind.RECEIVE:
            qp.arrivals[event.a] = DeliveredWrite(event.a, event.b, event.d, event.time_ns)
            return fields | {
                "event": "receive",
                "number": event.a,
                "immediate": event.b,
                "length": event.d,
            }
        if event.kind == EventKind.QP_STATE:
            qp.state = QpState(event.b)
            qp.status = CompletionStatus(event.c).name.lower()
            self._flush(qp, event)
            return fields | {
                "event": "qp_state",
                "from": QpState(event.a).name,
                "to": qp.state.name,
                "status": qp.status,
            }
        return None

    def _is_wanted(self, qp: MrcQueuePair, event: Event) -> bool:
        """Return True if the profile of the QP's EVs lets this change be reported; without one all are."""
        profile = self._profiles.get(qp.ev_profile) if qp.ev_profile is not None else None
        name = EvState(event.c).name
        return profile is None or name not in EVENT_STATES or name in profile.event_mask

    @staticmethod
    def _ev_state_fields(qp: MrcQueuePair, event: Event) -> dict[str, Any]:
        entropy = qp.attributes.evs[event.a]
        return {
            "event": "ev_state",
            "ev": event.a,
            "entropy": entropy,
            "plane": entropy >> EvLayout.PLANE_SHIFT,
            "peer_host": qp.attributes.peer_host,
            "from": EvState(event.b).name,
            "to": EvState(event.c).name,
            "reason": EvReason(event.d).name.lower(),
            "drop_count": event.drop_count,
        }

    def _flush(self, qp: WorkQueue, event: Event) -> None:
        """Completes what a failed QP still had to do: the first with the reason, the rest as flushed."""
        status = qp.status
        while qp.posted:
            qp.completions.append(FinishedWork(qp.posted.popleft(), 0, status, event.time_ns))
            status = CompletionStatus.FLUSHED.name.lower()
