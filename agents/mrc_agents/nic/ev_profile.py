"""EV formats and EV profiles of a NIC, and their life, after libmrc: INIT, OFFLINE, ONLINE and back.

A format profile says what the bits of EVs mean; an EV profile holds EVs of one format, for QPs to be created
with. Both are plain state: verbs that touch the kernel are in mrc_agents.nic.profile_verbs.

Source: docs/reference/protocol.md, "EV profiles".
"""

import errno
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Any, Final

from mrc_agents.abi import EvLayout, Limit
from mrc_agents.errors import UsageError
from mrc_agents.nic.ev_format import (
    EV_BITS,
    MODES,
    USUAL_WIDTHS,
    EvField,
    check_fields,
    check_widths,
    generate_bodies,
    parse_fields,
)

BODY_MASK: Final = (1 << EvLayout.PLANE_SHIFT) - 1
"""The bits of an EV below its plane."""

EV_MODES: Final = ("AUTO", "EXPLICIT", "GENERATED")
EVENT_STATES: Final = ("GOOD", "ASSUMED_BAD")
"""States whose changes can be reported as events; SKIP is internal to the NIC."""

FORMATS_MAX: Final = 16
PROFILES_MAX: Final = 16


class ProfileState(StrEnum):
    """Life of a profile: only what is ONLINE can be used, and little of it changed."""

    INIT = "INIT"
    OFFLINE = "OFFLINE"
    ONLINE = "ONLINE"


_MAY_FOLLOW: Final = {
    ProfileState.INIT: {ProfileState.OFFLINE},
    ProfileState.OFFLINE: {ProfileState.INIT, ProfileState.ONLINE},
    ProfileState.ONLINE: {ProfileState.OFFLINE},
}


def next_state(present: ProfileState, wanted: str) -> ProfileState:
    """The state *wanted*, if it may follow *present*."""
    if wanted not in ProfileState.__members__:
        raise UsageError(f"state: {wanted}; {', '.join(ProfileState)} are accepted")
    state = ProfileState[wanted]
    if state != present and state not in _MAY_FOLLOW[present]:
        allowed = ", ".join(sorted(_MAY_FOLLOW[present]))
        raise UsageError(f"state: {wanted}; after {present} follows {allowed}")
    return state


@dataclass(slots=True)
class EvFormat:
    """The meaning of the bits of an EV."""

    mode: str  # STEV, SRV6 or UDP
    widths: tuple[int, ...] = ()  # of its fields in bits, the most significant first; EV_BITS at most
    state: ProfileState = ProfileState.INIT  # of its life

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"mode: {self.mode}; {', '.join(MODES)} are accepted")

    def modify(self, state: str | None, widths: Sequence[int] | None) -> None:
        """Sets the fields, then the state."""
        wanted = self.state if state is None else next_state(self.state, state)
        if widths is not None:
            if self.state is not ProfileState.OFFLINE:
                raise UsageError(f"fields: the format is {self.state}; OFFLINE is needed to set them")
            check_widths(widths)
        chosen = self.widths if widths is None else tuple(widths)
        if wanted is ProfileState.ONLINE and not chosen:
            usual = list(USUAL_WIDTHS[self.mode])
            raise UsageError(f"fields: a format needs them to be ONLINE; {usual} are usual for {self.mode}")
        self.widths = () if wanted is ProfileState.INIT else chosen
        self.state = wanted


@dataclass(slots=True)
class EvProfile:
    """A set of EVs for QPs."""

    mode: str  # AUTO, EXPLICIT or GENERATED
    count: int  # EVs over all planes, the same number in each
    planes: int  # of the NIC
    format_id: int | None = None  # of its format; None in mode AUTO
    fields: tuple[EvField, ...] = ()  # what varies from EV to EV; mode GENERATED
    min_active: int | None = None  # losses leave at least so many active
    event_mask: tuple[str, ...] = EVENT_STATES  # states whose changes are reported as events
    seed: int = 0  # of what is random
    # plane by plane; None where an EXPLICIT one has not been given yet
    evs: list[int | None] = field(default_factory=list)
    denied: set[int] = field(default_factory=set)  # EVs that are DENIED
    state: ProfileState = ProfileState.INIT  # of its life
    given: int = -1  # enum mrc_ctl_ev_profile_attr_mask: what libmrc has set, if it made the profile

    def __post_init__(self) -> None:
        if self.mode not in EV_MODES:
            raise UsageError(f"mode: {self.mode}; {', '.join(EV_MODES)} are accepted")
        if not self.planes <= self.count <= Limit.EV_MAX or self.count % self.planes:
            most = int(Limit.EV_MAX) // self.planes * self.planes
            raise UsageError(
                f"count: {self.count}; {self.planes} to {most} in steps of {self.planes} is accepted"
            )
        if (self.format_id is None) != (self.mode == "AUTO"):
            raise UsageError(
                f"format_id: {self.format_id}; "
                + ("none is accepted in mode AUTO" if self.mode == "AUTO" else f"mode {self.mode} needs one")
            )
        self.evs = [None] * self.count

    @property
    def per_plane(self) -> int:
        """EVs of each plane."""
        return self.count // self.planes

    def check_min_active(self, value: int) -> None:
        """Raises UsageError for a floor that cannot be."""
        if not 1 <= value <= self.count:
            raise UsageError(f"min_active: {value}; 1 to {self.count} is accepted")

    @staticmethod
    def check_event_mask(states: Sequence[str]) -> None:
        """Raises UsageError for states that are not reported as events."""
        for state in states:
            if state not in EVENT_STATES:
                raise UsageError(f"event_mask: {state}; {', '.join(EVENT_STATES)} are accepted")

    def fill_generated(self, chosen: EvFormat) -> None:
        """Fill it with random EVs, different ones in every plane."""
        check_fields(self.fields, chosen.widths)
        self.evs = [
            plane << EvLayout.PLANE_SHIFT | body & BODY_MASK
            for plane in range(self.planes)
            for body in generate_bodies(
                self.fields, chosen.widths, self.per_plane, Random(f"{self.seed}/generated/{plane}")
            )
        ]

    def fill_auto(self, uplink_count: int) -> None:
        """Fill it with EVs spread over the uplinks of every plane, in an order of its own in each."""
        self.evs = []
        for plane in range(self.planes):
            random = Random(f"{self.seed}/auto/{plane}")
            uplinks = random.sample(range(uplink_count), min(self.per_plane, uplink_count))
            for k in range(self.per_plane):
                copy, place = divmod(k, len(uplinks))
                bits = uplinks[place] << EvLayout.UPLINK_SHIFT | copy
                self.evs.append(plane << EvLayout.PLANE_SHIFT | bits)

    def check_complete(self) -> None:
        """Raises UsageError unless every EV is there."""
        missing = sum(ev is None for ev in self.evs)
        if missing:
            raise UsageError(f"evs: {missing} of {self.count} have not been given yet; REPLACE_EV gives one")

    def usable_evs(self) -> list[int]:
        """Its EVs, for a QP."""
        if self.state is not ProfileState.ONLINE:
            raise UsageError(f"ev_profile: it is {self.state}; ONLINE is needed")
        return [ev for ev in self.evs if ev is not None]

    def places_of(self, ev: int) -> list[int]:
        """The places of all copies of *ev*."""
        places = [place for place, present in enumerate(self.evs) if present == ev]
        if not places:
            raise UsageError(f"ev: {ev:#010x} is not in the profile", number=errno.ENOENT)
        return places

    def vacancies(self, plane: int) -> list[int]:
        """The places of a plane that have no EV yet."""
        places = range(plane * self.per_plane, (plane + 1) * self.per_plane)
        vacant = [place for place in places if self.evs[place] is None]
        if not vacant:
            raise UsageError(
                f"port: all {self.per_plane} EVs of port {plane + 1} have been given",
                number=errno.EINVAL if None in self.evs else errno.ENOENT,
            )
        return vacant


def describe_format(number: int, value: EvFormat) -> dict[str, Any]:
    return {
        "format_id": number,
        "mode": value.mode,
        "state": str(value.state),
        "fields": list(value.widths),
        "width": EV_BITS,
    }


def describe_profile(number: int, value: EvProfile, qp_count: int) -> dict[str, Any]:
    return {
        "profile_id": number,
        "mode": value.mode,
        "state": str(value.state),
        "format_id": value.format_id,
        "count": value.count,
        "min_active": value.min_active,
        "event_mask": list(value.event_mask),
        "fields": [
            {name: getattr(one, name) for name in ("width", "init_val", "min", "max", "mask")}
            for one in value.fields
        ],
        "qps": qp_count,
    }


def parse_profile(arguments: Mapping[str, Any], planes: int) -> EvProfile:
    """A new profile from what a client wrote."""
    described = arguments.get("fields") or []
    mask = tuple(arguments.get("event_mask", EVENT_STATES))
    EvProfile.check_event_mask(mask)
    profile = EvProfile(
        mode=arguments["mode"],
        count=arguments["count"],
        planes=planes,
        format_id=arguments.get("format_id"),
        fields=parse_fields(described),
        min_active=arguments.get("min_active"),
        event_mask=mask,
        seed=arguments.get("seed", 0),
    )
    if profile.min_active is not None:
        profile.check_min_active(profile.min_active)
    if profile.fields and profile.mode != "GENERATED":
        raise UsageError(f"fields: not an attribute of mode {profile.mode}; GENERATED has it")
    return profile
