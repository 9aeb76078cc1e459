"""Messages of libmrc's control API, by which a controller sets up a NIC.

Source: mrc_agents/include/mrc/control_abi.h.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

from mrc_agents.abi import (
    ControlEntry,
    ControlEvent,
    ControlMessage,
    ControlObject,
    ControlWord,
    CtlEvState,
    CtlPortAdminState,
    Event,
    EvLayout,
    Limit,
)
from mrc_agents.algorithms import CC
from mrc_agents.errors import UsageError
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.ev_profile import EVENT_STATES
from mrc_agents.nic.reactions import Reactions

WAIT_NS_MAX = 3_600_000_000_000


class PathProbes:
    """Sends probes and collects what comes back; one answer to each request id."""

    def __init__(self, device: NicDevice) -> None:
        self._device = device
        self._waiting: dict[int, asyncio.Future[int]] = {}

    def check(self, peer_host: int, evs: Sequence[int], wait_ns: int) -> None:
        """Raises UsageError, naming the argument, for what cannot be probed."""
        config = self._device.config
        if not 0 <= peer_host <= 0xFFFFFFFF or peer_host == config.host_index:
            raise UsageError(f"peer_host: {peer_host}; the index of another host is accepted")
        if not 1 <= len(evs) <= Limit.EV_MAX:
            raise UsageError(f"evs: {len(evs)} of them; 1 to {int(Limit.EV_MAX)} are accepted")
        for ev in evs:
            if not 0 <= ev < config.plane_count << EvLayout.PLANE_SHIFT:
                most = config.plane_count - 1
                raise UsageError(f"evs: {ev:#x}; 32 bits that begin with a plane of 0 to {most} are accepted")
        if not 0 < wait_ns <= WAIT_NS_MAX:
            raise UsageError(f"wait_ns: {wait_ns}; 1 to {WAIT_NS_MAX} is accepted")

    async def probe(self, peer_host: int, evs: Sequence[int], wait_ns: int) -> list[dict[str, Any]]:
        """One outcome for each EV, in their order: `rtt_ns` is None where no answer came in time."""
        ids = self._device.send_path_probes(peer_host, list(evs))
        loop = asyncio.get_running_loop()
        answers = {number: loop.create_future() for number in ids}
        self._waiting |= answers
        try:
            await asyncio.wait(answers.values(), timeout=wait_ns / 1e9)
        finally:
            for number in ids:
                self._waiting.pop(number, None)
        return [
            {
                "ev": ev,
                "port": (ev >> EvLayout.PLANE_SHIFT) + 1,
                "req_id": number,
                "rtt_ns": answers[number].result() if answers[number].done() else None,
            }
            for number, ev in zip(ids, evs, strict=True)
        ]

    def answered(self, event: Event) -> None:
        waiting = self._waiting.get(event.a)
        if waiting is not None and not waiting.done():
            waiting.set_result(event.b)


class Controller:
    """Carries out messages, each in place: a query fills it in.

    Raises:
        UsageError: a message cannot be; its `number` is the errno.
    """

    def __init__(self, config: NicSettings, reactions: Reactions, probes: PathProbes) -> None:
        self._reactions = reactions
        self._verbs = reactions.verbs
        self._probes = probes
        self._has_nscc = config.rate_bps > 0 and config.cc == CC.usual

    async def carry_out(self, control: ControlMessage) -> None:
        """Waits for nothing but answers to probes."""
        match control.object:
            case ControlObject.DEVICE:
                self._describe_device(control)
            case ControlObject.EV_FORMAT:
                self._verbs.control_ev_format(control)
            case ControlObject.EV_PROFILE:
                self._verbs.control_ev_profile(control)
            case ControlObject.CC_PROFILE:
                self._verbs.control_cc_profile(control)
            case ControlObject.PORT:
                self._control_port(control)
            case ControlObject.PROBE:
                await self._probe(control)
            case _:
                raise UsageError(f"object: {control.object}; there is none of that number")

    def event(self, fields: dict[str, Any]) -> bytes | None:
        """A struct mrc_control_event of an event of an EV; None: no controller wants it."""
        profile = self._verbs.profile_of(fields["qpn"])
        if profile is None or fields["to"] not in EVENT_STATES:
            return None
        return bytes(
            ControlEvent(
                profile_id=profile,
                ev=fields["entropy"],
                port=fields["plane"] + 1,
                drop_count=fields["drop_count"],
                state=CtlEvState[fields["to"]],
            )
        )

    def _describe_device(self, control: ControlMessage) -> None:
        if not control.is_query:
            raise UsageError("is_query: 0; a device can be queried only")
        device = self._verbs.query_device()
        profiles = device["ev_profiles_max"] + 1  # JSON verbs leave number 0 out
        words = {
            ControlWord.FORMATS_MAX: device["ev_formats_max"] + 1,
            ControlWord.PROFILES_MAX: profiles,
            ControlWord.EVS_MAX: profiles * device["evs_per_profile_max"],
            ControlWord.EVS_FREE: profiles * device["evs_per_profile_max"] - self._verbs.evs_in_use(),
            ControlWord.EVS_PER_PROFILE: device["evs_per_profile_max"],
            ControlWord.EV_ALIGN: device["ev_count_alignment"],
            ControlWord.EV_WIDTH: device["ev_width_bits"],
            ControlWord.CC_PROFILES_MAX: device["cc_profiles_max"] + 1,
            ControlWord.PORT_MASK: device["phy_port_mask"],
            ControlWord.HAS_NSCC: self._has_nscc,
        }
        for place, value in words.items():
            control.words[place] = value

    def _control_port(self, control: ControlMessage) -> None:
        ports = self._verbs.port_status()
        if not 1 <= control.id <= len(ports):
            raise UsageError(f"id: {control.id}; port 1 to {len(ports)} is accepted")
        plane = control.id - 1
        if control.mask & ~1:
            raise UsageError(f"mask: {control.mask:#x}; bit 0, the administrative state, is accepted")
        if control.is_query:
            control.state = self._reactions.is_enabled[plane]
        elif control.mask:
            if control.state not in set(CtlPortAdminState):
                raise UsageError(f"state: {control.state}; 0 (disabled), 1 (enabled) are accepted")
            self._reactions.enable_port(plane, is_enabled=bool(control.state))

    async def _probe(self, control: ControlMessage) -> None:
        if not 1 <= control.entry_count <= Limit.EV_MAX:
            raise UsageError(f"entry_count: {control.entry_count}; 1 to {int(Limit.EV_MAX)} are accepted")
        of_peer: dict[int, list[ControlEntry]] = {}
        for entry in control.entries[: control.entry_count]:
            entry.ev, entry.rtt_ns = self._verbs.whole_ev(entry.ev, entry.port), 0
            of_peer.setdefault(entry.peer, []).append(entry)
        evs = {peer: [entry.ev for entry in entries] for peer, entries in of_peer.items()}
        for peer, its in evs.items():
            self._probes.check(peer, its, control.timeout_ns)
        answers = await asyncio.gather(
            *(self._probes.probe(peer, its, control.timeout_ns) for peer, its in evs.items())
        )
        for entries, outcomes in zip(of_peer.values(), answers, strict=True):
            for entry, outcome in zip(entries, outcomes, strict=True):
                rtt_ns = outcome["rtt_ns"]
                entry.rtt_ns = 0 if rtt_ns is None else max(1, rtt_ns)
