"""libmrc's control API on EV formats, EV profiles and CC profiles: messages become verbs about them.

A message that fails changes nothing, except that EVs before the one at which an array of them fails stay as
it made them. A query fills in the message, arrays too: whoever has less room sees their lengths.

Source: mrc_agents/include/mrc/control_abi.h.
"""

import errno
import struct
from collections.abc import Iterable
from copy import copy
from enum import IntEnum
from math import isfinite
from typing import Any, Final, TypeVar

from mrc_agents.abi import ControlField, ControlLimit, ControlMessage, EvLayout, Limit
from mrc_agents.abi import CtlCcProfileAttrMask as CcMask
from mrc_agents.abi import CtlEvFmtMode as FormatMode
from mrc_agents.abi import CtlEvFmtProfileAttrMask as FormatMask
from mrc_agents.abi import CtlEvMode as EvMode
from mrc_agents.abi import CtlEvOp as EvOp
from mrc_agents.abi import CtlEvOpFlags as EvOpFlags
from mrc_agents.abi import CtlEvProfileAttrMask as EvMask
from mrc_agents.abi import CtlEvState as EvState
from mrc_agents.abi import CtlProfileState as StateNumber
from mrc_agents.errors import UsageError
from mrc_agents.nic.cc_profile_verbs import ALGORITHM, NO_ALGORITHM, CcProfileVerbs
from mrc_agents.nic.ev_profile import BODY_MASK, EVENT_STATES, EvProfile
from mrc_agents.nic.profile_verbs import ProfileVerbs
from mrc_agents.protocol.cc_profile import ATTRIBUTES, NO_QA_THRESHOLD_NS, CcProfile, Setting, derive_profile

_Names = TypeVar("_Names", bound=IntEnum)

_EV_MODES: Final = {EvMode.AUTO: "AUTO", EvMode.EXP: "EXPLICIT", EvMode.GEN: "GENERATED"}
_EVENTS: Final = {name: EvState[name] for name in EVENT_STATES}
_NAMES: Final = (
    *("disable_qa", "adjust_bytes_threshold", "adjust_period_threshold", "base_rtt", "eta", "fi"),
    *("fi_scale", "gamma", "max_md_jump", "max_cwnd", "qa_gate", "qa_threshold", "target_delay"),
)
_FLOATS: Final = {"eta", "fi", "fi_scale", "gamma", "max_md_jump"}
_BYTES: Final = {"disable_qa", "qa_gate"}
"""Members of a byte, in words whose other bytes are padding."""
_DEFAULTED: Final = {"base_rtt", "fi", "max_cwnd", "qa_threshold", "target_delay"}
"""0 stands for the NIC's default."""


def cc_config(words: Iterable[Any]) -> dict[str, Setting]:
    """Parameters by standard name."""
    config: dict[str, Setting] = {}
    for name, word in zip(_NAMES, words, strict=False):
        value: float = word & 0xFF if name in _BYTES else word
        if name in _FLOATS:
            value = struct.unpack("f", struct.pack("I", word))[0]
        unit = ATTRIBUTES[name].unit
        if not isfinite(value):
            raise UsageError(f"CC profile: {name} is {value}, expected a number")
        if value or name not in _DEFAULTED:
            config[name] = bool(value) if unit == "bool" else value if unit == "ratio" else round(value)
    if config.get("qa_threshold") == NO_QA_THRESHOLD_NS:
        config["qa_threshold"] = None
    return config


def cc_words(profile: CcProfile) -> list[int]:
    """The words of the parameters in force; a threshold that no delay is above has all bits set."""
    names = profile.__match_args__
    values = {name.removesuffix("_ns").removesuffix("_bytes"): getattr(profile, name) for name in names}
    if values["qa_threshold"] is None:
        values["qa_threshold"] = NO_QA_THRESHOLD_NS
    return [
        struct.unpack("I", struct.pack("f", values[name]))[0] if name in _FLOATS else int(values[name])
        for name in _NAMES
    ]


class ProfileControl(ProfileVerbs, CcProfileVerbs):
    def control_ev_format(self, control: ControlMessage) -> None:
        """Carries out a message about an EV format."""
        _check_mask(control, FormatMask)
        found = self.query_ev_format(control.id)
        if control.is_query:
            control.state = StateNumber[found["state"]]
            control.mode = FormatMode[found["mode"]] if found["mode"] else 0
            _answer_fields(control, [ControlField(width=width) for width in found["fields"]])
            return
        attributes: dict[str, Any] = {}
        if control.mask & FormatMask.PROFILE_MODE:
            attributes["mode"] = _named(FormatMode, "mode", control.mode).name
            if attributes["mode"] == "SRV6":
                raise UsageError("mode: SRV6; STEV, UDP are accepted", number=errno.EOPNOTSUPP)
        if control.mask & FormatMask.PROFILE_OP:
            attributes["fields"] = [field.width for field in _given_fields(control)]
        self.modify_ev_format(control.id, _wanted_state(control, found), **attributes)

    def control_ev_profile(self, control: ControlMessage) -> None:
        """Carries out a message about an EV profile."""
        _check_mask(control, EvMask)
        found = self.query_ev_profile(control.id)
        has_evs = bool(control.mask & EvMask.EV_OP)
        if has_evs and control.mask & EvMask.EV_FIELDS_OP:
            raise UsageError("mask: EV_OP and EV_FIELDS_OP; one of them is accepted")
        _check_fit("entry_count", control.entry_count, int(Limit.EV_MAX))
        if control.is_query:
            self._answer_ev_profile(control, found)
            return
        state, attributes = _wanted_state(control, found), _ev_attributes(control)
        before = copy(self._profiles.get(control.id))
        given = set(attributes) | (before.given if before else set())
        if state == "ONLINE":
            _check_given(given, {"min_active", "event_mask"}, "ONLINE")
        try:
            first = state if before is None or not has_evs else None
            self.modify_ev_profile(control.id, first, **attributes)
            if has_evs:
                self._change_evs(control, control.id, self._profile(control.id))
            if first is None and state is not None:
                self.modify_ev_profile(control.id, state)
        except UsageError:
            self._profiles.pop(control.id, None)
            if before is not None:
                self._profiles[control.id] = before
            raise

    def _change_evs(self, control: ControlMessage, number: int, profile: EvProfile) -> None:
        if control.op not in {EvOp.REPLACE_EV, EvOp.MODIFY_EV_STATE}:
            raise UsageError(f"op: {control.op}; REPLACE_EV, MODIFY_EV_STATE are accepted")
        for place, entry in enumerate(control.entries[: control.entry_count]):
            try:
                state = _named(EvState, "state", entry.state).name
                is_vacancy = control.op == EvOp.REPLACE_EV and not (entry.ev or entry.port)
                ev = None if is_vacancy else self.whole_ev(entry.ev, entry.port)
                if ev is not None and control.op == EvOp.MODIFY_EV_STATE:
                    self._modify_ev_state(number, profile, ev, state)
                else:
                    new_ev = self.whole_ev(entry.ev_new, entry.port_new)
                    all_copies = bool(entry.flags & EvOpFlags.CTL_EV_OP_F_ALL_COPIES)
                    self._replace_ev(number, profile, new_ev, ev=ev, all_copies=all_copies, state=state)
            except UsageError as error:
                raise UsageError(f"entries[{place}].{error.message}", number=error.number) from error

    def _answer_ev_profile(self, control: ControlMessage, found: dict[str, Any]) -> None:
        control.state = StateNumber[found["state"]]
        control.mode = next((mode for mode, name in _EV_MODES.items() if name == found["mode"]), 0)
        for name in ("format_id", "count", "min_active"):
            setattr(control, name, found[name] or 0)
        control.event_mask = sum(_EVENTS[name] for name in found["event_mask"])
        _answer_fields(control, [ControlField(*each.values()) for each in found["fields"]])
        if not control.mask & EvMask.EV_OP:
            return
        if control.op == EvOp.QUERY_EV_ARRAY:
            profile = self._profiles.get(control.id)
            evs = self._query_ev_array(control.id, profile) if profile else []
            control.entry_count = len(evs)
            for entry, each in zip(control.entries, evs, strict=False):
                entry.ev, entry.state = each["ev"] or 0, EvState[each["state"]]
                entry.port = 0 if each["ev"] is None else each["port"]
        elif control.op == EvOp.QUERY_EV_STATE:
            profile = self._profile(control.id)
            states = self._ev_states(control.id, profile)
            for entry in control.entries[: control.entry_count]:
                entry.ev = self.whole_ev(entry.ev, entry.port)
                entry.state = EvState[states[profile.places_of(entry.ev)[0]]]
        else:
            raise UsageError(f"op: {control.op}; QUERY_EV_STATE, QUERY_EV_ARRAY are accepted")

    def whole_ev(self, ev: int, port: int) -> int:
        """An EV with its plane, which a controller may leave out."""
        planes = self._device.config.plane_count
        if not 1 <= port <= planes:
            raise UsageError(f"port: {port}; 1 to {planes} is accepted")
        its_port = (ev >> EvLayout.PLANE_SHIFT) + 1
        if ev > BODY_MASK and its_port != port:
            raise UsageError(f"ev: {ev:#010x} is of port {its_port}, not {port}")
        return port - 1 << EvLayout.PLANE_SHIFT | ev & BODY_MASK

    def profile_of(self, qpn: int) -> int | None:
        return self._find(qpn).ev_profile

    def evs_in_use(self) -> int:
        return sum(profile.count for profile in self._profiles.values())

    def control_cc_profile(self, control: ControlMessage) -> None:
        """Carries out a message about a CC profile."""
        _check_mask(control, CcMask)
        entry = self._checked_entry(control.id)
        found = {"state": str(entry.state) if entry else "INIT"}
        is_nscc = entry is not None and entry.algorithm == ALGORITHM
        if control.is_query:
            control.state, control.mode = StateNumber[found["state"]], is_nscc
            if entry and is_nscc and control.mask & CcMask.CONFIG:
                words = cc_words(derive_profile(self._cc_link(int(Limit.PMTU_MAX)), entry.config))
                for place, word in enumerate(words):
                    control.words[place] = word
            return
        attributes: dict[str, Any] = {}
        if control.mask & CcMask.ALGORITHM:
            attributes["algorithm"] = ALGORITHM if control.mode else NO_ALGORITHM
            is_nscc = bool(control.mode)
        if control.mask & CcMask.CONFIG:
            attributes["config"] = cc_config(control.words) if is_nscc else {}
        state = _wanted_state(control, found)
        if state == "ONLINE" and is_nscc and not (entry and entry.has_config):
            _check_given(set(attributes), {"config"}, "ONLINE")
        self.modify_cc_profile(control.id, state, **attributes)


def _ev_attributes(control: ControlMessage) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    if control.mask & EvMask.MODE:
        attributes["mode"] = _EV_MODES[_named(EvMode, "mode", control.mode)]
    if control.mask & EvMask.COUNT:
        attributes["count"] = control.count
    if control.mask & EvMask.FMT_ID and attributes.get("mode") != "AUTO":
        attributes["format_id"] = control.format_id
    if control.mask & EvMask.EV_FIELDS_OP:
        attributes["fields"] = [
            {"width": each.width, "init_val": each.init_val}
            | {"min": each.min_val, "max": each.max_val, "mask": each.mask}
            for each in _given_fields(control)
        ]
    if control.mask & EvMask.MIN_ACTIVE:
        attributes["min_active"] = control.min_active
    if control.mask & EvMask.EVENT_MASK:
        if control.event_mask & ~sum(_EVENTS.values()):
            raise UsageError(f"event_mask: {control.event_mask:#x}; {', '.join(_EVENTS)} are accepted")
        attributes["event_mask"] = [name for name, bit in _EVENTS.items() if control.event_mask & bit]
    return attributes


def _check_mask(control: ControlMessage, attributes: type[IntEnum]) -> None:
    if control.mask & EvMask.VENDOR_CFG:
        raise UsageError("mask: VENDOR_CFG; there is none", number=errno.EOPNOTSUPP)
    if control.mask & ~sum(attributes):
        raise UsageError(f"mask: {control.mask:#x}; {', '.join(each.name for each in attributes)} are known")


def _wanted_state(control: ControlMessage, found: dict[str, Any]) -> str | None:
    """The state that a message asks for; None: it leaves it as it is."""
    if control.mask & EvMask.CUR_STATE and control.cur_state != StateNumber[found["state"]]:
        raise UsageError(f"cur_state: {control.cur_state}; it is {found['state']}")
    return _named(StateNumber, "state", control.state).name if control.mask & EvMask.STATE else None


def _check_given(given: set[str], needed: set[str], state: str) -> None:
    lacking = sorted(needed - given)
    if lacking:
        raise UsageError(f"{', '.join(lacking)}: needed to be {state}")


def _named(names: type[_Names], what: str, number: int) -> _Names:
    if number not in set(names):
        raise UsageError(f"{what}: {number}; {', '.join(f'{int(each)} ({each.name})' for each in names)}")
    return names(number)


def _check_fit(what: str, count: int, room: int) -> None:
    if count > room:
        raise UsageError(f"{what}: {count} are more than the {room} there is room for", number=errno.E2BIG)


def _given_fields(control: ControlMessage) -> list[ControlField]:
    _check_fit("field_count", control.field_count, int(ControlLimit.FIELDS))
    return list(control.fields[: control.field_count])


def _answer_fields(control: ControlMessage, fields: list[ControlField]) -> None:
    control.field_count = len(fields)
    control.fields[: len(fields)] = fields
