"""Verbs about EV formats and EV profiles: what a controller prepares, and QPs are created with."""

import errno
from collections.abc import Callable, Mapping
from typing import Any

from mrc_agents.abi import Command, EvLayout, EvState, Limit
from mrc_agents.errors import UsageError
from mrc_agents.nic.arguments import check_arguments
from mrc_agents.nic.cc_profile_verbs import ALGORITHM, CC_PROFILES_MAX
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.ev_format import EV_BITS, FIELDS_MAX, MODES
from mrc_agents.nic.ev_profile import (
    EV_MODES,
    FORMATS_MAX,
    PROFILES_MAX,
    EvFormat,
    EvProfile,
    ProfileState,
    describe_format,
    describe_profile,
    next_state,
    parse_profile,
)
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.qp import MrcQueuePair, replacement_path
from mrc_agents.nic.verb import verb

_STATE_COMMANDS = {"GOOD": Command.GOOD, "ASSUMED_BAD": Command.ASSUMED_BAD, "DENIED": Command.DENY}
_U32_MAX = 0xFFFFFFFF


class ProfileVerbs(NicState):
    """EV formats and EV profiles. They last until they are destroyed or the agent ends."""

    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        self._formats: dict[int, EvFormat] = {}

    @verb
    def query_device(self) -> dict[str, Any]:
        """The NIC's capabilities, and how much of them is left."""
        config = self._device.config
        return {
            "phy_port_mask": ((1 << config.plane_count) - 1) << 1,
            "qps_max": self._device.qp_count,
            "memory_bytes": self._device.memory.length_bytes,
            "ev_formats_max": FORMATS_MAX,
            "ev_profiles_max": PROFILES_MAX,
            "evs_per_profile_max": int(Limit.EV_MAX) // config.plane_count * config.plane_count,
            "ev_count_alignment": config.plane_count,
            "ev_width_bits": EV_BITS,
            "ev_fields_max": FIELDS_MAX,
            "ev_format_modes": list(MODES),
            "ev_modes": list(EV_MODES),
            "probes_per_call_max": int(Limit.KICK_PROBES),
            "cc_algorithms": [ALGORITHM],
            "cc_profiles_max": CC_PROFILES_MAX,
            "capabilities": [
                "EV_PROFILE_MODIFY_ONLINE",
                "EV_EVENTS",
                "EV_EVENT_DROP_COUNT",
                "EV_PROBE",
            ],
        }

    # -- formats ----------------------------------------------------------------------------------

    @verb
    def create_ev_format(self, mode: str) -> int:
        """A format profile in state INIT; returns its id.

        Args:
            mode: STEV, SRV6 or UDP.
        """
        number = _free_number(self._formats, FORMATS_MAX, "EV format profiles")
        self._formats[number] = EvFormat(mode)
        return number

    @verb
    def modify_ev_format(
        self, format_id: int, state: str | None = None, fields: list[int] | None = None
    ) -> None:
        """Sets the widths of a format's fields, then its state.

        Args:
            format_id: the format.
            state: OFFLINE, then ONLINE; back the same way.
            fields: widths in bits, the most significant field first, up to 32 together; while OFFLINE.
        """
        value = self._format(format_id)
        self._check_format_rests(format_id)
        value.modify(state, fields)

    def _check_format_rests(self, format_id: int) -> None:
        """Raises UsageError where a format cannot change, for an EV profile is ONLINE with it."""
        for number, profile in self._profiles.items():
            if profile.format_id == format_id and profile.state is ProfileState.ONLINE:
                raise UsageError(
                    f"format_id: {format_id} is in use: EV profile {number} is ONLINE", number=errno.EBUSY
                )

    @verb
    def query_ev_format(self, format_id: int) -> dict[str, Any]:
        """Mode, state and field widths of a format."""
        return describe_format(format_id, self._format(format_id))

    @verb
    def destroy_ev_format(self, format_id: int) -> None:
        """Takes a format away that no EV profile names."""
        self._format(format_id)
        users = [number for number, profile in self._profiles.items() if profile.format_id == format_id]
        if users:
            raise UsageError(f"format_id: {format_id} is in use by EV profile {users[0]}")
        del self._formats[format_id]

    def _format(self, format_id: int) -> EvFormat:
        if format_id not in self._formats:
            raise UsageError(f"format_id: no EV format profile {format_id}")
        return self._formats[format_id]

    # -- profiles ---------------------------------------------------------------------------------

    @verb
    def create_ev_profile(self, mode: str, count: int, **attributes: Any) -> int:
        """An EV profile in state INIT; returns its id.

        Args:
            mode: AUTO: the NIC chooses EVs itself. GENERATED: it does so from descriptions of fields.
                EXPLICIT: REPLACE_EV gives each one.
            count: EVs, a multiple of the planes.
            attributes: `format_id` but for AUTO; `fields` for GENERATED, each with `width`, `init_val`,
                `min`, `max`, `mask`; `min_active`: losses leave so many active, a quarter by default;
                `event_mask`: states that are reported as events, of GOOD and ASSUMED_BAD; `seed`.
        """
        known = {"format_id", "fields", "min_active", "event_mask", "seed"}
        unknown = sorted(set(attributes) - known)
        if unknown:
            raise UsageError(f"no attribute {unknown[0]}; known: {', '.join(sorted(known))}")
        number = _free_number(self._profiles, PROFILES_MAX, "EV profiles")
        profile = parse_profile(
            {"mode": mode, "count": count, **attributes}, int(self._device.config.plane_count)
        )
        if profile.format_id is not None:
            self._format(profile.format_id)
        self._profiles[number] = profile
        return number

    @verb
    def modify_ev_profile(
        self,
        profile_id: int,
        state: str | None = None,
        min_active: int | None = None,
        event_mask: list[str] | None = None,
    ) -> None:
        """Sets attributes of a profile, then its state.

        Args:
            profile_id: the profile.
            state: OFFLINE, then ONLINE, for which its format must be ONLINE and all EVs be there; back the
                same way, once no QP uses it.
            min_active: for QPs created from now on; not while ONLINE.
            event_mask: takes effect at once.
        """
        profile = self._profile(profile_id)
        wanted = profile.state if state is None else next_state(profile.state, state)
        if min_active is not None:
            if profile.state is ProfileState.ONLINE:
                raise UsageError("min_active: the profile is ONLINE; it is set before")
            profile.check_min_active(min_active)
        if event_mask is not None:
            profile.check_event_mask(event_mask)
        if wanted is not profile.state and profile.state is ProfileState.ONLINE:
            self._check_unused(profile_id)
        if wanted is ProfileState.ONLINE and profile.state is ProfileState.OFFLINE:
            self._fill(profile)
        profile.state = wanted
        if min_active is not None:
            profile.min_active = min_active
        if event_mask is not None:
            profile.event_mask = tuple(event_mask)

    def _fill(self, profile: EvProfile) -> None:
        if profile.mode == "AUTO":
            profile.fill_auto(self._device.config.uplink_count)
            return
        chosen = self._format(profile.format_id or 0)
        if chosen.state is not ProfileState.ONLINE:
            raise UsageError(f"state: EV format {profile.format_id} is {chosen.state}; ONLINE is needed")
        if profile.mode == "GENERATED":
            profile.fill_generated(chosen)
        profile.check_complete()

    @verb
    def query_ev_profile(self, profile_id: int) -> dict[str, Any]:
        """Attributes and state of a profile, and how many QPs use it."""
        return describe_profile(profile_id, self._profile(profile_id), len(self._users(profile_id)))

    @verb
    def list_ev_profiles(self) -> list[dict[str, Any]]:
        """Every EV profile, as `query_ev_profile` describes it."""
        return [self.query_ev_profile(number) for number in self._profiles]

    @verb
    def destroy_ev_profile(self, profile_id: int) -> None:
        """Takes a profile away that no QP uses."""
        self._profile(profile_id)
        self._check_unused(profile_id)
        del self._profiles[profile_id]

    def _check_unused(self, profile_id: int) -> None:
        users = self._users(profile_id)
        if users:
            raise UsageError(f"profile_id: {profile_id} is in use by {len(users)} QPs", number=errno.EBUSY)

    def _users(self, profile_id: int) -> list[MrcQueuePair]:
        return [qp for qp in self._qps.values() if qp.ev_profile == profile_id]

    # -- EVs of a profile -------------------------------------------------------------------------

    @verb
    def ev_profile_op(self, profile_id: int, ops: list[dict[str, Any]]) -> list[Any]:
        """Carries out operations on EVs of a profile, one after another; their results.

        The first that fails ends the list; those before it stay done.

        Args:
            profile_id: the profile.
            ops: each with `op`, and `ev`, `port` (from 1), `new_ev`, `state`, `all_copies` as it needs them.
                REPLACE_EV gives a vacant place of a port `new_ev`, or replaces `ev` in the profile and its
                QPs; `state` may be DENIED. MODIFY_EV_STATE sets GOOD, ASSUMED_BAD or DENIED in all its QPs.
                QUERY_EV_STATE: the state, the worst of those that its QPs have. QUERY_EV_ARRAY: all EVs with
                port and state.
        """
        profile = self._profile(profile_id)
        handlers: dict[str, Callable[..., Any]] = {
            "REPLACE_EV": self._replace_ev,
            "MODIFY_EV_STATE": self._modify_ev_state,
            "QUERY_EV_STATE": self._query_ev_state,
            "QUERY_EV_ARRAY": self._query_ev_array,
        }
        results = []
        for number, operation in enumerate(ops):
            arguments = dict(operation)
            name = arguments.pop("op", None)
            if name not in handlers:
                raise UsageError(f"ops[{number}].op: {name}; {', '.join(handlers)} are accepted")
            try:
                arguments |= {"profile_id": profile_id, "profile": profile}
                check_arguments(handlers[name], arguments)
                results.append(handlers[name](**arguments))
            except UsageError as error:
                raise UsageError(f"ops[{number}].{error.message}", hint=error.hint) from error
        return results

    def _replace_ev(
        self,
        profile_id: int,
        profile: EvProfile,
        new_ev: int,
        port: int | None = None,
        ev: int | None = None,
        all_copies: bool = False,
        state: str | None = None,
    ) -> None:
        if profile.mode != "EXPLICIT":
            raise UsageError(f"op: REPLACE_EV; a profile of mode {profile.mode} makes its EVs itself")
        if profile.state is ProfileState.INIT:
            raise UsageError("op: REPLACE_EV; the profile is INIT, OFFLINE or ONLINE is needed")
        plane = self._plane_of(new_ev, port)
        if state not in {None, "GOOD", "DENIED"}:
            raise UsageError(f"state: {state}; GOOD, DENIED are accepted for a new EV")
        if ev is not None and ev >> EvLayout.PLANE_SHIFT != plane:
            raise UsageError(f"ev: {ev:#010x} is of another port than new_ev")
        places = profile.vacancies(plane) if ev is None else profile.places_of(ev)
        for place in places if all_copies else places[:1]:
            self._put_ev(profile_id, profile, place, new_ev)
        if state == "DENIED" or new_ev in profile.denied:
            self._modify_ev_state(profile_id, profile, new_ev, state or "DENIED")

    def _put_ev(self, profile_id: int, profile: EvProfile, place: int, ev: int) -> None:
        profile.evs[place] = ev
        for qp in self._users(profile_id):
            path = replacement_path(self._device.qps.read(qp.index), qp.attributes, place, ev)
            self._command_ev(Command.REPLACE, qp, place, ev, path)
            qp.replace_ev(place, ev)

    def _plane_of(self, ev: int, port: int | None) -> int:
        planes = self._device.config.plane_count
        if not 0 <= ev <= _U32_MAX:
            raise UsageError(f"new_ev: {ev}; 32 bits are accepted")
        plane = ev >> EvLayout.PLANE_SHIFT
        if plane >= planes:
            raise UsageError(f"new_ev: {ev:#010x} names plane {plane}; 0 to {planes - 1} is accepted")
        if port is not None and port != plane + 1:
            raise UsageError(f"port: {port}; {ev:#010x} is of port {plane + 1}")
        return plane

    def _modify_ev_state(self, profile_id: int, profile: EvProfile, ev: int, state: str) -> None:
        places = profile.places_of(ev)
        if state not in _STATE_COMMANDS:
            raise UsageError(f"state: {state}; {', '.join(_STATE_COMMANDS)} are accepted")
        for qp in self._users(profile_id):
            for place in places:
                self._command_ev(_STATE_COMMANDS[state], qp, place)
        if state == "DENIED":
            profile.denied.add(ev)
        else:
            profile.denied.discard(ev)

    def _command_ev(self, command: Command, qp: MrcQueuePair, place: int, *arguments: int) -> None:
        if not self._device.command(command, qp.index, place, *arguments):
            raise UsageError(f"ev: {command.name} was refused: it is the last active EV of QP {qp.qpn}")

    def _query_ev_state(self, profile_id: int, profile: EvProfile, ev: int) -> str:
        place, *_ = profile.places_of(ev)
        return self._ev_states(profile_id, profile)[place]

    def _query_ev_array(self, profile_id: int, profile: EvProfile) -> list[dict[str, Any]]:
        return [
            {"ev": ev, "port": place // profile.per_plane + 1, "state": state}
            for place, (ev, state) in enumerate(
                zip(profile.evs, self._ev_states(profile_id, profile), strict=True)
            )
        ]

    def _ev_states(self, profile_id: int, profile: EvProfile) -> list[str]:
        """The state of each EV of a profile: the worst of those that its QPs have."""
        tables = [self._device.qps.read(qp.index).evs.ev for qp in self._users(profile_id)]
        states = []
        for place, ev in enumerate(profile.evs):
            is_bad = any(table[place].state == EvState.ASSUMED_BAD for table in tables)
            state = "UNKNOWN" if ev is None else "ASSUMED_BAD" if is_bad else "GOOD"
            states.append("DENIED" if ev in profile.denied else state)
        return states


def _free_number(taken: Mapping[int, object], most: int, what: str) -> int:
    number = next((number for number in range(1, most + 1) if number not in taken), None)
    if number is None:
        raise UsageError(f"all {most} {what} of the NIC are in use")
    return number
