"""Verbs about EVs: what state they are in, denying and allowing them, probing them."""

from dataclasses import asdict
from typing import Any

from mrc_agents.abi import Command, EvReason, EvState, ProbeKind
from mrc_agents.errors import UsageError
from mrc_agents.nic.denylist import DeniedPath
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.qp import MrcQueuePair, way_count
from mrc_agents.nic.verb import verb

_U32_MAX = 0xFFFFFFFF


class EvVerbs(NicState):
    @verb
    def ev_list(self, qpn: int) -> list[dict[str, Any]]:
        """Every EV of a QP: state, why and since when, and what it carried."""
        qp = self._find(qpn)
        value = self._device.qps.read(qp.index)
        rows = []
        for index in range(len(qp.attributes.evs)):
            ev = value.evs.ev[index]
            plane = value.evs.planes[ev.plane]
            rows.append(
                {
                    "index": index,
                    "entropy": ev.entropy,
                    "plane": ev.plane,
                    "state": EvState(ev.state).name,
                    "is_active": ev.state in {EvState.GOOD, EvState.SKIP}
                    and ev.position < plane.active_count,
                    "reason": EvReason(ev.reason).name.lower(),
                    "changed_ns": ev.changed_ns,
                    "bad_count": ev.bad_count,
                    "tx_packets": ev.tx_packets,
                    "lost_packets": ev.lost_packets,
                    "marks": ev.marks,
                    "rtt_ns": ev.rtt_ns,
                    "probe_successes": ev.probe_successes,
                }
            )
        return rows

    @verb
    def ev_deny(self, qpn: int, evs: list[int]) -> None:
        """Takes EVs of a QP, by index, out of use until they are allowed again.

        They are denied one after another; the first that is refused ends the list.
        """
        qp = self._find(qpn)
        for index in self._checked_evs(qp, evs):
            if not self._device.command(Command.DENY, qp.index, index):
                raise UsageError(f"evs: {index} is the last active EV of QP {qpn}")

    @verb
    def ev_allow(self, qpn: int, evs: list[int]) -> None:
        """Allow denied EVs of a QP, by index, again; those that are not denied are left as they are."""
        qp = self._find(qpn)
        for index in self._checked_evs(qp, evs):
            self._device.command(Command.ALLOW, qp.index, index)

    # -- paths ------------------------------------------------------------------------------------

    @verb
    def deny_path(self, plane: int, uplink: int | None = None, peer_host: int | None = None) -> int:
        """Denies EVs of all QPs, also of those to come, that take a path; the number denied now.

        The last active EV of a QP stays in use.

        Args:
            plane: number.
            uplink: number at this host's T0; None for all of the plane.
            peer_host: index of the host it leads to; None for all.
        """
        path = self._checked_path(plane, uplink, peer_host)
        if path not in self._denylist:
            self._denylist.append(path)
        return self._command_path(Command.DENY, path)

    @verb
    def allow_path(self, plane: int, uplink: int | None = None, peer_host: int | None = None) -> int:
        """Takes a path off the denylist, as `deny_path` put it there; the number of EVs allowed again."""
        path = self._checked_path(plane, uplink, peer_host)
        if path not in self._denylist:
            raise UsageError("plane, uplink, peer_host: no such entry; denied_paths lists those that are")
        self._denylist.remove(path)
        return self._command_path(Command.ALLOW, path)

    @verb
    def denied_paths(self) -> list[dict[str, int | None]]:
        """The denylist: plane, uplink and peer_host of each path, None where all are meant."""
        return [asdict(path) for path in self._denylist]

    def _checked_path(self, plane: int, uplink: int | None, peer_host: int | None) -> DeniedPath:
        config = self._device.config
        if not 0 <= plane < config.plane_count:
            raise UsageError(f"plane: {plane}; 0 to {config.plane_count - 1} is accepted")
        ways = way_count(config)
        if uplink is not None and not 0 <= uplink < ways:
            raise UsageError(f"uplink: {uplink}; 0 to {ways - 1} is accepted")
        if peer_host is not None and not 0 <= peer_host <= _U32_MAX:
            raise UsageError(f"peer_host: {peer_host}; 0 to {_U32_MAX} is accepted")
        return DeniedPath(plane, uplink, peer_host)

    def _command_path(self, command: Command, path: DeniedPath) -> int:
        changed = 0
        for qp in self._qps.values():
            peer = qp.attributes.peer_host
            states = self._device.qps.read(qp.index).evs.ev
            for place, ev in enumerate(qp.attributes.evs):
                is_denied = states[place].state == EvState.DENIED
                if not path.covers(ev, peer) or is_denied == (command == Command.DENY):
                    continue
                # What another entry denies stays denied.
                if command == Command.ALLOW and self._is_denied(ev, peer):
                    continue
                changed += self._device.command(command, qp.index, place)
        return changed

    @staticmethod
    def _checked_evs(qp: MrcQueuePair, evs: list[int]) -> list[int]:
        count = len(qp.attributes.evs)
        for index in evs:
            if not 0 <= index < count:
                raise UsageError(f"evs: {index}; 0 to {count - 1} is accepted")
        return evs

    @verb
    def probe(self, qpn: int, evs: list[int], kind: str = "ev") -> None:
        """Sends one probe on each EV of a QP, by index; the answer shows in `ev_list` and the counters.

        Args:
            qpn: the QP.
            evs: indices of any of its EVs, in use or not.
            kind: `ev`: connectionless; `reliability`: asks the peer's QP for a SACK and brings a bad EV back.
        """
        qp = self._find(qpn)
        if kind not in {"ev", "reliability"}:
            raise UsageError(f"kind: {kind}; ev or reliability is accepted")
        targets = [(qp.index, index) for index in self._checked_evs(qp, evs)]
        self._device.send_probes(targets, ProbeKind[kind.upper()])
