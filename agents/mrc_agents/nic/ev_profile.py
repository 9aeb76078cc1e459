"""EV formats and EV profiles of a NIC, and their life, after libmrc: INIT, OFFLINE, ONLINE and back.

A format profile says what the bits of EVs mean; an EV profile holds EVs of one format, for QPs to be created
with. Both are plain state: verbs that touch the kernel are in mrc_agents.nic.profile_verbs.

Source: docs/reference/protocol.md, "EV profiles".
"""

import errno
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random
from typing import Final, Protocol

from mrc_agents.abi import EvLayout, Limit
from mrc_agents.errors import UsageError
from mrc_agents.nic.ev_format import (
    MODES,
    USUAL_WIDTHS,
    EvField,
    check_fields,
    check_widths,
    generate_bodies,
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


class _Entry(Protocol):
    state: ProfileState


def next_state(
    entry: _Entry | None,
    wanted: str | None,
    attributes: Collection[str],
    while_online: Collection[str],
    check_unused: Callable[[], None],
) -> ProfileState:
    """The state that a change of a profile leads to, on the way to which its attributes are set.

    Args:
        entry: the profile; None: it is in INIT.
        wanted: its state afterwards; None: as it is.
        attributes: names of those that the change sets.
        while_online: those that can be set while it is ONLINE; what else changes then is for *check_unused*.

    Raises:
        UsageError: the state does not follow, or an attribute cannot be set on the way to it.
    """
    present = entry.state if entry else ProfileState.INIT
    if wanted not in {None, *ProfileState.__members__}:
        raise UsageError(f"state: {wanted}; {', '.join(ProfileState)} are accepted")
    state = present if wanted is None else ProfileState[wanted]
    if state != present and state not in _MAY_FOLLOW[present]:
        allowed = ", ".join(sorted(_MAY_FOLLOW[present]))
        raise UsageError(f"state: {wanted}; after {present} follows {allowed}")
    name = min(attributes, default="")
    if name and state is ProfileState.INIT:
        raise UsageError(f"{name}: what is INIT has no attributes; they are set on the way to OFFLINE")
    rests = min(set(attributes) - set(while_online), default="")
    if present is ProfileState.ONLINE and (rests or state is not present):
        check_unused()
        if rests:
            raise UsageError(f"{rests}: what is ONLINE keeps it; it is set while OFFLINE")
    return state


@dataclass(slots=True)
class EvFormat:
    """The meaning of the bits of an EV."""

    mode: str  # STEV, SRV6 or UDP
    widths: tuple[int, ...]  # of its fields in bits, the most significant first; EV_BITS at most
    state: ProfileState  # of its life

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise UsageError(f"mode: {self.mode}; {', '.join(MODES)} are accepted")
        if self.widths:
            check_widths(self.widths)
        elif self.state is ProfileState.ONLINE:
            usual = list(USUAL_WIDTHS[self.mode])
            raise UsageError(f"fields: a format needs them to be ONLINE; {usual} are usual for {self.mode}")


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
    state: ProfileState = ProfileState.OFFLINE  # of its life
    given: frozenset[str] = frozenset()  # names of the attributes that have been set

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
        if self.fields and self.mode != "GENERATED":
            raise UsageError(f"fields: not an attribute of mode {self.mode}; GENERATED has it")
        if self.min_active is not None and not 1 <= self.min_active <= self.count:
            raise UsageError(f"min_active: {self.min_active}; 1 to {self.count} is accepted")
        for state in self.event_mask:
            if state not in EVENT_STATES:
                raise UsageError(f"event_mask: {state}; {', '.join(EVENT_STATES)} are accepted")
        self.evs = self.evs or [None] * self.count

    @property
    def per_plane(self) -> int:
        return self.count // self.planes

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

    def fill_auto(self, way_count: int) -> None:
        """Fill it with EVs spread over the paths of every plane, in an order of its own in each."""
        self.evs = []
        for plane in range(self.planes):
            random = Random(f"{self.seed}/auto/{plane}")
            ways = random.sample(range(way_count), min(self.per_plane, way_count))
            for k in range(self.per_plane):
                copy, place = divmod(k, len(ways))
                bits = ways[place] << EvLayout.UPLINK_SHIFT | copy
                self.evs.append(plane << EvLayout.PLANE_SHIFT | bits)

    def check_complete(self) -> None:
        """Raises UsageError unless every EV is there."""
        missing = sum(ev is None for ev in self.evs)
        if missing:
            raise UsageError(f"evs: {missing} of {self.count} have not been given yet; REPLACE_EV gives one")

    def usable_evs(self) -> list[int]:
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
