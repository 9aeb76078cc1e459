"""Requests of applications through their verbs library: pages, regions over them, QPs without a peer.

Source: mrc_agents/include/mrc/application_abi.h.
"""

from typing import Any

from mrc_agents.abi import ApplicationTransport, Command, CompletionStatus, QpState
from mrc_agents.entropy import randbits
from mrc_agents.errors import UsageError
from mrc_agents.nic.memory import MemoryRegistration, RegionPlace
from mrc_agents.nic.qp import CONNECTED
from mrc_agents.nic.qp_verbs import QueuePairVerbs
from mrc_agents.nic.work_queue import QpLimits, qp_index
from mrc_agents.nic.work_verbs import WorkVerbs

_EV_DRAW_BITS = 32


class ApplicationVerbs(WorkVerbs, QueuePairVerbs):
    """Requests that are no verbs of the agent's socket."""

    def allocate(self, length: int, wanted: int | None) -> int:
        """Offset of pages of the NIC's memory for an application, at *wanted* if there is room.

        Raises:
            UsageError: it cannot be, and the NIC's memory cannot grow.
        """
        return self._regions.allocate(length, wanted, grows=True)

    def free(self, offset: int, length: int) -> None:
        """Takes back pages of an application."""
        self._regions.free(offset, length)

    def give_back_memory(self) -> None:
        """Has memory removed that was added for applications, as far as none has any of it."""
        self._regions.give_back()

    def register_over(
        self, address: int, length: int, place: RegionPlace, *, is_remote_writable: bool, pd: int
    ) -> MemoryRegistration:
        """A region over pages of an application.

        Raises:
            UsageError: it cannot be.
        """
        return self._regions.register_over(
            address, length, place, is_remote_writable=is_remote_writable, pd=pd
        )

    def join_domain(self, qpn: int, pd: int) -> None:
        """Put a new QP into the protection domain whose regions its peer may write to."""
        self._queue(qpn).pd = pd

    def limit_qp(self, qpn: int, limits: QpLimits) -> None:
        """Puts limits of a QP in force; of one without a peer, with its change to RTR."""
        qp = self._queue(qpn)
        qp.limits = limits
        if qp.state in CONNECTED:
            values = (limits.give_up_us, limits.rnr_timer_us, limits.rnr_limit, limits.is_writable)
            self._device.command(Command.LIMITS, qp.index, *values)

    def creation(self, transport: int) -> tuple[str, dict[str, Any]]:
        """The verb that creates a QP, and its arguments; its peer becomes known on the way to RTR.

        Raises:
            UsageError: the NIC has no such transport.
        """
        arguments: dict[str, Any] = {"peer_host": int(self._device.config.host_index)}
        match transport:
            case ApplicationTransport.MRC:
                return "create_qp", arguments
            case ApplicationTransport.ROCEV2 if self._config.rocev2 is not None:
                evs = self._automatic_evs()
                chosen = evs[randbits(_EV_DRAW_BITS) % len(evs)]
                return "create_rc_qp", arguments | {"evs": [chosen], **self._config.rocev2}
            case ApplicationTransport.ROCEV2:
                raise UsageError(
                    "transport: rocev2 takes packets in order only, which this fabric does not keep"
                )
        raise UsageError(f"transport: {transport}; there is none of that number")

    def profile_qp(self, qpn: int, ev_profile: int | None, cc_profile: int | None) -> None:
        """Give a QP in INIT the EVs and the congestion control of profiles; without one the NIC's own.

        Raises:
            UsageError: the QP is not in INIT, or a profile is not ONLINE.
        """
        qp = self._find(qpn)
        if qp.state != QpState.INIT:
            raise UsageError(f"QP {qpn} is in state {qp.state.name}; profiles are set in INIT")
        qp.attributes = self._attributes(qp.attributes.peer_host, None, ev_profile, None, cc_profile, {})
        qp.ev_profile, qp.cc_profile = ev_profile, cc_profile
        self._write(qp, QpState.INIT)

    def sending_of(self, qpn: int) -> tuple[int, int]:
        """Packets that a QP may have under way at most, and the payload bytes of one."""
        attributes = self._queue(qpn).attributes
        return attributes.window_packets, attributes.pmtu_bytes

    def forget_reports(self, qpn: int) -> None:
        """Drops completions and arrivals of a QP, which its application reads from the ring."""
        queue = self._queue(qpn)
        queue.completions.clear()
        queue.arrivals.clear()

    def publish_failure(self, qpn: int, status: str) -> None:
        """Lets the application of a QP in ERROR see why it is."""
        self._device.work[qp_index(qpn)].failure = CompletionStatus[status.upper()] + 1
