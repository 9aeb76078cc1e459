"""Verbs about EV formats and EV profiles: what a controller prepares, and QPs are created with."""

import errno
from collections.abc import Callable
from dataclasses import asdict, replace
from typing import Any, Final

from mrc_agents.abi import Command, EvLayout, EvState, Limit
from mrc_agents.errors import UsageError
from mrc_agents.nic.arguments import check_arguments
from mrc_agents.nic.cc_profile_verbs import ALGORITHM, CC_PROFILES_MAX
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.ev_format import EV_BITS, FIELDS_MAX, MODES, check_fields, parse_fields
from mrc_agents.nic.ev_profile import (
    EV_MODES,
    FORMATS_MAX,
    PROFILES_MAX,
    EvFormat,
    EvProfile,
    ProfileState,
    next_state,
)
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.qp import MrcQueuePair, replacement_path, way_count
from mrc_agents.nic.verb import verb

_STATE_COMMANDS = {"GOOD": Command.GOOD, "ASSUMED_BAD": Command.ASSUMED_BAD, "DENIED": Command.DENY}
_U32_MAX = 0xFFFFFFFF
_EV_ATTRIBUTES: Final = ("mode", "count", "format_id", "fields", "min_active", "event_mask", "seed")
_MAKES_EVS: Final = ("mode", "count", "format_id")
"""Attributes with another value of which a profile has no EVs at first."""


class ProfileVerbs(NicState):
    """EV formats and EV profiles: each number from 0 has one, in INIT until it is given attributes."""

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
    def modify_ev_format(
        self,
        format_id: int,
        state: str | None = None,
        mode: str | None = None,
        fields: list[int] | None = None,
    ) -> None:
        """Sets attributes of a format, then its state.

        Args:
            format_id: from 0.
            state: OFFLINE, then ONLINE; back the same way to INIT.
            mode: STEV, SRV6 or UDP. This and what follows: on the way to OFFLINE, or while it is.
            fields: widths in bits, the most significant field first, up to 32 together.
        """
        _check_number("format_id", format_id, FORMATS_MAX)
        present = self._formats.get(format_id)
        given = {name for name, value in (("mode", mode), ("fields", fields)) if value is not None}
        wanted = next_state(present, state, given, (), lambda: self._check_format_rests(format_id))
        if wanted is ProfileState.INIT:
            self._formats.pop(format_id, None)
            return
        self._formats[format_id] = EvFormat(
            mode or (present.mode if present else ""),
            (present.widths if present else ()) if fields is None else tuple(fields),
            wanted,
        )

    def _check_format_rests(self, format_id: int) -> None:
        """Raises UsageError where a format cannot change, for an EV profile is ONLINE with it."""
        for number, profile in self._profiles.items():
            if profile.format_id == format_id and profile.state is ProfileState.ONLINE:
                raise UsageError(
                    f"format_id: {format_id} is in use: EV profile {number} is ONLINE", number=errno.EBUSY
                )

    @verb
    def query_ev_format(self, format_id: int) -> dict[str, Any]:
        """Mode, state and field widths of a format; in INIT it has neither mode nor fields."""
        _check_number("format_id", format_id, FORMATS_MAX)
        value = self._formats.get(format_id)
        return {
            "format_id": format_id,
            "mode": value.mode if value else None,
            "state": str(value.state if value else ProfileState.INIT),
            "fields": list(value.widths) if value else [],
            "width": EV_BITS,
        }

    # -- profiles ---------------------------------------------------------------------------------

    @verb
    def modify_ev_profile(self, profile_id: int, state: str | None = None, **attributes: Any) -> None:
        """Sets attributes of a profile, then its state.

        Args:
            profile_id: from 0.
            state: OFFLINE, then ONLINE, for which its format must be ONLINE and all EVs be there; back the
                same way to INIT, once no QP uses it.
            attributes: on the way to OFFLINE, or while it is. `mode`: AUTO, the NIC chooses EVs itself;
                GENERATED, it does so from descriptions of fields; EXPLICIT, REPLACE_EV gives each one.
                `count`: EVs, a multiple of the planes. `format_id` but for AUTO. `fields` for GENERATED, each
                with `width`, `init_val`, `min`, `max`, `mask`; set while ONLINE, it makes other EVs.
                `min_active`: losses leave so many active, a quarter by default. `event_mask`: states that are
                reported as events, of GOOD and ASSUMED_BAD; also while ONLINE. `seed`.
        """
        _check_number("profile_id", profile_id, PROFILES_MAX)
        for name in sorted(attributes.keys() - set(_EV_ATTRIBUTES)):
            raise UsageError(f"no attribute {name}; known: {', '.join(_EV_ATTRIBUTES)}")
        present = self._profiles.get(profile_id)
        is_online = present is not None and present.state is ProfileState.ONLINE
        wanted = next_state(
            present, state, attributes, ("event_mask", "fields"), lambda: self._check_unused(profile_id)
        )
        if wanted is ProfileState.INIT:
            self._profiles.pop(profile_id, None)
            return
        draft = self._drafted(present, attributes)
        is_refilled = is_online and "fields" in attributes
        if is_refilled or (wanted is ProfileState.ONLINE and not is_online):
            self._fill(draft)
        draft.state = wanted
        self._profiles[profile_id] = draft
        for place, ev in enumerate(draft.evs if is_refilled else ()):
            self._put_ev(profile_id, draft, place, ev or 0)
            if ev in draft.denied:
                self._modify_ev_state(profile_id, draft, ev or 0, "DENIED")

    def _drafted(self, present: EvProfile | None, attributes: dict[str, Any]) -> EvProfile:
        """A profile with these attributes besides; its EVs are those of *present* where they can stay."""
        values = dict(attributes)
        if "fields" in values:
            values["fields"] = parse_fields(values["fields"])
        if "event_mask" in values:
            values["event_mask"] = tuple(values["event_mask"])
        if values.get("mode") == "AUTO":
            values.setdefault("format_id", None)
        if values.get("format_id") is not None:
            _check_number("format_id", values["format_id"], FORMATS_MAX)
        given = frozenset(attributes)
        if present is None:
            for name in ("mode", "count"):
                if name not in values:
                    raise UsageError(f"{name}: needed to be OFFLINE")
            draft = EvProfile(planes=int(self._device.config.plane_count), given=given, **values)
        else:
            if any(getattr(present, name) != values.get(name, getattr(present, name)) for name in _MAKES_EVS):
                values |= {"evs": [], "denied": set()}
            draft = replace(present, given=present.given | given, **values)
        chosen = self._formats.get(draft.format_id) if draft.format_id is not None else None
        if draft.mode == "GENERATED":
            check_fields(draft.fields, chosen.widths if chosen and chosen.widths else (EV_BITS,) * FIELDS_MAX)
        return draft

    def _fill(self, profile: EvProfile) -> None:
        if profile.format_id is None:
            profile.fill_auto(way_count(self._device.config))
            return
        chosen = self._formats.get(profile.format_id)
        if chosen is None or chosen.state is not ProfileState.ONLINE:
            found = chosen.state if chosen else ProfileState.INIT
            raise UsageError(f"state: EV format {profile.format_id} is {found}; ONLINE is needed")
        if profile.mode == "GENERATED":
            profile.fill_generated(chosen)
        profile.check_complete()

    @verb
    def query_ev_profile(self, profile_id: int) -> dict[str, Any]:
        """Attributes and state of a profile, and how many QPs use it; in INIT it has no attributes."""
        _check_number("profile_id", profile_id, PROFILES_MAX)
        value = self._profiles.get(profile_id)
        return {
            "profile_id": profile_id,
            **{name: getattr(value, name, None) for name in ("mode", "format_id", "count", "min_active")},
            "state": str(value.state if value else ProfileState.INIT),
            "event_mask": list(value.event_mask) if value else [],
            "fields": [asdict(each) for each in value.fields] if value else [],
            "qps": len(self._users(profile_id)),
        }

    @verb
    def list_ev_profiles(self) -> list[dict[str, Any]]:
        """Every EV profile that is not in INIT, as `query_ev_profile` describes it."""
        return [self.query_ev_profile(number) for number in self._profiles]

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


def _check_number(name: str, number: int, most: int) -> None:
    if not 0 <= number <= most:
        raise UsageError(f"{name}: {number}; 0 to {most} is accepted")
