"""libmrc's control API on EV formats, EV profiles and CC profiles: messages that change or query one.

Every number from 0 to the most there are exists: one without an entry in the agent's tables is in INIT. A
message that fails changes nothing, except that EVs before the one at which an array of them fails stay as it
made them. A query fills in the message, arrays too: whoever has less room sees their lengths.

Source: mrc_agents/include/mrc/control_abi.h.
"""

import errno
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from enum import IntEnum
from typing import Any, Final, TypeVar

from mrc_agents.abi import Control, ControlField, ControlLimit, EvLayout, Limit
from mrc_agents.abi import CtlCcProfileAttrMask as CcMask
from mrc_agents.abi import CtlEvFmtMode as FormatMode
from mrc_agents.abi import CtlEvFmtProfileAttrMask as FormatMask
from mrc_agents.abi import CtlEvMode as EvMode
from mrc_agents.abi import CtlEvOp as EvOp
from mrc_agents.abi import CtlEvProfileAttrMask as EvMask
from mrc_agents.abi import CtlEvState as EvState
from mrc_agents.abi import CtlProfileState as StateNumber
from mrc_agents.errors import UsageError
from mrc_agents.nic import ev_profile
from mrc_agents.nic.cc_profile_verbs import ALGORITHM, CC_PROFILES_MAX, CcProfileEntry, CcProfileVerbs
from mrc_agents.nic.cc_words import cc_config, cc_words
from mrc_agents.nic.ev_format import EvField, check_fields
from mrc_agents.nic.ev_profile import EvFormat, EvProfile, ProfileState, next_state
from mrc_agents.nic.profile_verbs import ProfileVerbs
from mrc_agents.protocol.cc_profile import derive_profile

_Entry = EvFormat | EvProfile | CcProfileEntry
_Names = TypeVar("_Names", bound=IntEnum)

_EV_MODES: Final = {EvMode.AUTO: "AUTO", EvMode.EXP: "EXPLICIT", EvMode.GEN: "GENERATED"}
_EV_NEEDS: Final = {
    "AUTO": EvMask.MODE | EvMask.COUNT,
    "EXPLICIT": EvMask.MODE | EvMask.COUNT | EvMask.FMT_ID,
    "GENERATED": EvMask.MODE | EvMask.COUNT | EvMask.FMT_ID | EvMask.EV_FIELDS_OP,
}
_EV_NEEDS_ONLINE: Final = EvMask.MIN_ACTIVE | EvMask.EVENT_MASK
_EV_WHILE_ONLINE: Final = EvMask.EVENT_MASK | EvMask.EV_OP | EvMask.EV_FIELDS_OP
_EVENTS: Final = {name: EvState[name] for name in ev_profile.EVENT_STATES}


class ProfileControl(ProfileVerbs, CcProfileVerbs):
    """Messages about profiles. JSON verbs see the same profiles."""

    def control_ev_format(self, control: Control) -> None:
        """Carries out a message about an EV format."""
        number = _checked_number(control, ev_profile.FORMATS_MAX, FormatMask)
        present = self._formats.get(number)
        if control.is_query:
            _answer_state(control, present)
            control.mode = FormatMode[present.mode] if present else 0
            fields = [ControlField(width=width) for width in present.widths] if present else []
            _answer_fields(control, fields)
            return
        wanted = _next_state(control, present, self._check_format_rests)
        if wanted is ProfileState.INIT:
            self._formats.pop(number, None)
            return
        mode, widths = (present.mode, present.widths) if present else ("", ())
        if control.mask & FormatMask.PROFILE_MODE:
            mode = _named(FormatMode, "mode", control.mode).name
            if mode == "SRV6":
                raise UsageError("mode: SRV6; STEV, UDP are accepted", number=errno.EOPNOTSUPP)
        before = present.state if present else ProfileState.INIT
        draft = EvFormat(mode, widths, wanted if before is ProfileState.INIT else before)
        has_fields = control.mask & FormatMask.PROFILE_OP
        draft.modify(wanted, [field.width for field in _given_fields(control)] if has_fields else None)
        self._formats[number] = draft

    def control_ev_profile(self, control: Control) -> None:
        """Carries out a message about an EV profile."""
        number = _checked_number(control, ev_profile.PROFILES_MAX, EvMask)
        present = self._profiles.get(number)
        has_evs, has_fields = control.mask & EvMask.EV_OP, control.mask & EvMask.EV_FIELDS_OP
        if has_evs and has_fields:
            raise UsageError("mask: EV_OP and EV_FIELDS_OP; one of them is accepted")
        _check_fit("entry_count", control.entry_count, int(Limit.EV_MAX))
        if control.is_query:
            self._answer_ev_profile(control, number, present)
            return
        before = present.state if present else ProfileState.INIT
        wanted = _next_state(control, present, self._check_unused, _EV_WHILE_ONLINE)
        if wanted is ProfileState.INIT:
            self._profiles.pop(number, None)
            return
        draft = self._drafted(control, present, wanted)
        if has_evs:
            self._change_evs(control, number, draft)
        is_refilled = has_fields and before is ProfileState.ONLINE
        if is_refilled or (wanted is ProfileState.ONLINE and before is not wanted):
            self._fill(draft)
        self._profiles[number] = draft
        for place, ev in enumerate(draft.evs if is_refilled else ()):
            self._put_ev(number, draft, place, ev or 0)
            if ev in draft.denied:
                self._modify_ev_state(number, draft, ev or 0, "DENIED")

    def _drafted(self, control: Control, present: EvProfile | None, wanted: ProfileState) -> EvProfile:
        """The profile with a message's attributes; its EVs are *present*'s own where they can stay."""
        values: dict[str, Any] = {"mode": "AUTO", "count": 0, "format_id": None}
        if present:
            values = {name: getattr(present, name) for name in values}
        if control.mask & EvMask.MODE:
            values["mode"] = _EV_MODES[_named(EvMode, "mode", control.mode)]
        if control.mask & EvMask.COUNT:
            values["count"] = control.count
        if control.mask & EvMask.FMT_ID:
            values["format_id"] = control.format_id
        if values["mode"] == "AUTO":
            values["format_id"] = None
        elif (values["format_id"] or 0) > ev_profile.FORMATS_MAX:
            raise UsageError(f"format_id: {values['format_id']}; 0 to {ev_profile.FORMATS_MAX} is accepted")
        given = control.mask | (present.given if present else 0)
        needs_more = wanted is ProfileState.ONLINE
        _check_given(given, _EV_NEEDS[values["mode"]] | needs_more * _EV_NEEDS_ONLINE, EvMask, wanted)
        if present is None:
            planes = int(self._device.config.plane_count)
            draft = EvProfile(planes=planes, event_mask=(), **values)
        elif values == {name: getattr(present, name) for name in values}:
            draft = copy(present)
        else:
            draft = replace(present, **values, denied=set())
        draft.given, draft.state = given, wanted
        self._set_attributes(control, draft)
        return draft

    def _set_attributes(self, control: Control, draft: EvProfile) -> None:
        if control.mask & EvMask.EV_FIELDS_OP:
            if draft.mode != "GENERATED":
                raise UsageError(f"fields: not an attribute of mode {draft.mode}; GENERATED has it")
            draft.fields = tuple(
                EvField(field.width, field.init_val, field.min_val, field.max_val, field.mask)
                for field in _given_fields(control)
            )
            chosen = self._formats.get(draft.format_id or 0)
            if chosen and chosen.widths:
                check_fields(draft.fields, chosen.widths)
        if control.mask & EvMask.MIN_ACTIVE:
            draft.min_active = control.min_active
        if draft.min_active is not None:
            draft.check_min_active(draft.min_active)
        if control.mask & EvMask.EVENT_MASK:
            if control.event_mask & ~sum(_EVENTS.values()):
                raise UsageError(f"event_mask: {control.event_mask:#x}; {', '.join(_EVENTS)} are accepted")
            draft.event_mask = tuple(name for name, bit in _EVENTS.items() if control.event_mask & bit)

    def _change_evs(self, control: Control, number: int, profile: EvProfile) -> None:
        if control.op not in {EvOp.REPLACE_EV, EvOp.MODIFY_EV_STATE}:
            raise UsageError(f"op: {control.op}; REPLACE_EV, MODIFY_EV_STATE are accepted")
        for place, entry in enumerate(control.entries[: control.entry_count]):
            try:
                state = _named(EvState, "state", entry.state).name
                ev = self.whole_ev(entry.ev, entry.port) if entry.ev or entry.port else None
                if control.op == EvOp.MODIFY_EV_STATE:
                    self._modify_ev_state(number, profile, self.whole_ev(entry.ev, entry.port), state)
                else:
                    new_ev = self.whole_ev(entry.ev_new, entry.port_new)
                    self._replace_ev(
                        number, profile, new_ev, ev=ev, all_copies=bool(entry.flags & 1), state=state
                    )
            except UsageError as error:
                raise UsageError(f"entries[{place}].{error.message}", number=error.number) from error

    def _answer_ev_profile(self, control: Control, number: int, present: EvProfile | None) -> None:
        _answer_state(control, present)
        planes = int(self._device.config.plane_count)
        profile = present or EvProfile("AUTO", planes, planes, event_mask=())
        if present is None:
            profile.mode, profile.count, profile.evs = "", 0, []
        control.mode = next((mode for mode, name in _EV_MODES.items() if name == profile.mode), 0)
        control.format_id, control.count = profile.format_id or 0, profile.count
        control.min_active = profile.min_active or 0
        control.event_mask = sum(_EVENTS[name] for name in profile.event_mask)
        fields = [
            ControlField(each.width, each.init_val, each.min, each.max, each.mask) for each in profile.fields
        ]
        _answer_fields(control, fields)
        if control.mask & EvMask.EV_OP:
            self._answer_evs(control, number, profile)

    def _answer_evs(self, control: Control, number: int, profile: EvProfile) -> None:
        states = [EvState[state] for state in self._ev_states(number, profile)]
        if control.op == EvOp.QUERY_EV_ARRAY:
            control.entry_count = len(states)
            for entry, ev, state in zip(control.entries, profile.evs, states, strict=False):
                port = 0 if ev is None else _port_of(ev)
                entry.ev, entry.port, entry.state = ev or 0, port, state
        elif control.op == EvOp.QUERY_EV_STATE:
            for entry in control.entries[: control.entry_count]:
                entry.ev = self.whole_ev(entry.ev, entry.port)
                entry.state = states[profile.places_of(entry.ev)[0]]
        else:
            raise UsageError(f"op: {control.op}; QUERY_EV_STATE, QUERY_EV_ARRAY are accepted")

    def whole_ev(self, ev: int, port: int) -> int:
        """An EV with its plane, which a controller may leave out."""
        planes = self._device.config.plane_count
        if not 1 <= port <= planes:
            raise UsageError(f"port: {port}; 1 to {planes} is accepted")
        if ev > ev_profile.BODY_MASK and _port_of(ev) != port:
            raise UsageError(f"ev: {ev:#010x} is of port {_port_of(ev)}, not {port}")
        return port - 1 << EvLayout.PLANE_SHIFT | ev & ev_profile.BODY_MASK

    def profile_of(self, qpn: int) -> int | None:
        """The number of a QP's EV profile."""
        return self._find(qpn).ev_profile

    def evs_in_use(self) -> int:
        """EVs of all EV profiles."""
        return sum(profile.count for profile in self._profiles.values())

    def control_cc_profile(self, control: Control, *, has_algorithm: bool) -> None:
        """Carries out a message about a CC profile; *has_algorithm*: the NIC has ALGORITHM."""
        number = _checked_number(control, CC_PROFILES_MAX, CcMask)
        present = self._cc_profiles.get(number)
        mtu_bytes = int(Limit.PMTU_MAX)
        if control.is_query:
            _answer_state(control, present)
            control.mode = int(present is not None and present.algorithm is not None)
            if present and control.mode and control.mask & CcMask.CONFIG:
                words = cc_words(derive_profile(self._cc_link(mtu_bytes), present.config))
                for place, word in enumerate(words):
                    control.words[place] = word
            return
        wanted = _next_state(control, present, self._check_cc_unused)
        if wanted is ProfileState.INIT:
            self._cc_profiles.pop(number, None)
            return
        draft = copy(present) if present else CcProfileEntry(given=0)
        draft.given |= control.mask
        if control.mask & CcMask.ALGORITHM:
            if control.mode > has_algorithm:
                raise UsageError(f"algorithm: {control.mode}; 0, or 1 where the NIC has {ALGORITHM}")
            draft.algorithm = ALGORITHM if control.mode else None
        if control.mask & CcMask.CONFIG and draft.algorithm:
            draft.config = cc_config(control.words)
            self._cc_parameters(draft.config, mtu_bytes)
        needs_more = wanted is ProfileState.ONLINE and draft.algorithm is not None
        _check_given(draft.given, CcMask.ALGORITHM | needs_more * CcMask.CONFIG, CcMask, wanted)
        draft.state = wanted
        self._cc_profiles[number] = draft


def _checked_number(control: Control, most: int, attributes: type[IntEnum]) -> int:
    if control.id > most:
        raise UsageError(f"id: {control.id}; 0 to {most} is accepted")
    if control.mask & EvMask.VENDOR_CFG:
        raise UsageError("mask: VENDOR_CFG; there is none", number=errno.EOPNOTSUPP)
    if control.mask & ~sum(attributes):
        raise UsageError(f"mask: {control.mask:#x}; {', '.join(each.name for each in attributes)} are known")
    return int(control.id)


def _next_state(
    control: Control, entry: _Entry | None, check_unused: Callable[[int], None], while_online: int = 0
) -> ProfileState:
    """The state that a message leads to, on the way to which the attributes in its mask can be set."""
    present = wanted = entry.state if entry else ProfileState.INIT
    if control.mask & EvMask.CUR_STATE and control.cur_state != StateNumber[present]:
        raise UsageError(f"cur_state: {control.cur_state}; it is {present}")
    if control.mask & EvMask.STATE:
        wanted = next_state(present, _named(StateNumber, "state", control.state).name)
    attributes = control.mask & ~(EvMask.STATE | EvMask.CUR_STATE)
    if attributes and wanted is ProfileState.INIT:
        raise UsageError("mask: there are attributes in it, which a profile in INIT does not have")
    needs_offline = attributes & ~while_online
    if present is ProfileState.ONLINE and (needs_offline or wanted is not present):
        check_unused(control.id)
        if needs_offline:
            raise UsageError(f"mask: {needs_offline:#x} is not set while a profile is ONLINE")
    return wanted


def _check_given(given: int, needed: int, attributes: type[IntEnum], wanted: ProfileState) -> None:
    lacking = [each.name for each in attributes if each & needed & ~given]
    if lacking:
        raise UsageError(f"{', '.join(lacking)}: needed to be {wanted}")


def _named(names: type[_Names], what: str, number: int) -> _Names:
    if number not in set(names):
        raise UsageError(f"{what}: {number}; {', '.join(f'{int(each)} ({each.name})' for each in names)}")
    return names(number)


def _check_fit(what: str, count: int, room: int) -> None:
    if count > room:
        raise UsageError(f"{what}: {count} are more than the {room} there is room for", number=errno.E2BIG)


def _given_fields(control: Control) -> list[ControlField]:
    _check_fit("field_count", control.field_count, int(ControlLimit.FIELDS))
    return list(control.fields[: control.field_count])


def _answer_state(control: Control, entry: _Entry | None) -> None:
    control.state = control.cur_state = StateNumber[entry.state if entry else ProfileState.INIT]


def _answer_fields(control: Control, fields: list[ControlField]) -> None:
    control.field_count = len(fields)
    control.fields[: len(fields)] = fields


def _port_of(ev: int) -> int:
    return (ev >> EvLayout.PLANE_SHIFT) + 1
