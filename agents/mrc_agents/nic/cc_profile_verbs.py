"""Verbs about CC profiles: named sets of congestion control parameters, which QPs are created with."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from mrc_agents.abi import Limit
from mrc_agents.algorithms import FIXED
from mrc_agents.errors import UsageError
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.ev_profile import ProfileState, next_state
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.qp import largest_window_packets
from mrc_agents.nic.verb import verb
from mrc_agents.protocol.cc_profile import CcLink, CcParameters, Setting, derive_profile

ALGORITHM: Final = "uet-1.0-nscc"
NO_ALGORITHM: Final = "none"
"""The window is fixed."""

CC_PROFILES_MAX: Final = 16


@dataclass(slots=True)
class CcProfileEntry:
    """A profile that is not in INIT."""

    algorithm: str  # ALGORITHM or NO_ALGORITHM
    config: Mapping[str, Setting]  # parameters that were given, by standard name
    has_config: bool  # whether any set was, an empty one too
    state: ProfileState  # of its life


class CcProfileVerbs(NicState):
    """CC profiles: each number from 0 has one, which is in INIT until it is given attributes."""

    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        self._cc_profiles: dict[int, CcProfileEntry] = {}

    @verb
    def modify_cc_profile(
        self,
        cc_profile_id: int,
        state: str | None = None,
        algorithm: str | None = None,
        config: Mapping[str, Any] | None = None,
    ) -> None:
        """Sets attributes of a profile, then its state.

        Args:
            cc_profile_id: from 0.
            state: OFFLINE, then ONLINE; back the same way to INIT, once no QP uses it.
            algorithm: `uet-1.0-nscc`, or `none` for a fixed window. This and what follows: on the way to
                OFFLINE, or while it is.
            config: parameters by standard name, instead of those given before. The others follow from the
                NIC's rate and base RTT.
        """
        entry = self._checked_entry(cc_profile_id)
        given = {name for name, value in (("algorithm", algorithm), ("config", config)) if value is not None}
        wanted = next_state(entry, state, given, (), lambda: self._check_cc_unused(cc_profile_id))
        if wanted is ProfileState.INIT:
            self._cc_profiles.pop(cc_profile_id, None)
            return
        chosen = algorithm or (entry.algorithm if entry else "")
        if chosen not in {ALGORITHM, NO_ALGORITHM}:
            raise UsageError(f"algorithm: {chosen}; {ALGORITHM}, {NO_ALGORITHM} are accepted")
        settings = (entry.config if entry else {}) if config is None else dict(config)
        if chosen == ALGORITHM:
            self._cc_parameters(settings, int(Limit.PMTU_MAX))
        has_config = config is not None or (entry is not None and entry.has_config)
        self._cc_profiles[cc_profile_id] = CcProfileEntry(chosen, settings, has_config, wanted)

    @verb
    def query_cc_profile(self, cc_profile_id: int) -> dict[str, Any]:
        """State, what was given, and the window that a QP with full packets begins with, if it is adaptive.

        Args:
            cc_profile_id: the profile.
        """
        entry = self._checked_entry(cc_profile_id)
        is_nscc = entry is not None and entry.algorithm == ALGORITHM
        parameters = self._cc_parameters(entry.config, int(Limit.PMTU_MAX)) if entry and is_nscc else None
        return {
            "cc_profile_id": cc_profile_id,
            "algorithm": entry.algorithm if entry else None,
            "state": str(entry.state if entry else ProfileState.INIT),
            "config": dict(entry.config) if entry else {},
            "max_cwnd_bytes": parameters and parameters.max_cwnd_bytes,
            "max_cwnd_packets": parameters and largest_window_packets(parameters),
            "base_rtt_ns": parameters and parameters.base_rtt_ns,
        }

    def _usable_cc_config(self, cc_profile_id: int) -> Mapping[str, Setting] | None:
        entry = self._checked_entry(cc_profile_id)
        state = entry.state if entry else ProfileState.INIT
        if entry is None or state is not ProfileState.ONLINE:
            raise UsageError(f"cc_profile: {cc_profile_id} is {state}; ONLINE is needed")
        if entry.algorithm == ALGORITHM:
            return entry.config
        return {"is_fixed": True} if self._config.rate_bps and self._config.cc != FIXED else None

    def _checked_entry(self, cc_profile_id: int) -> CcProfileEntry | None:
        """A CC profile; None: it is in INIT."""
        if not 0 <= cc_profile_id <= CC_PROFILES_MAX:
            raise UsageError(f"cc_profile_id: {cc_profile_id}; 0 to {CC_PROFILES_MAX} is accepted")
        return self._cc_profiles.get(cc_profile_id)

    def _check_cc_unused(self, cc_profile_id: int) -> None:
        count = sum(qp.cc_profile == cc_profile_id for qp in self._qps.values())
        if count:
            raise UsageError(f"cc_profile_id: {cc_profile_id} is in use by {count} QPs", number=errno.EBUSY)

    def _cc_parameters(self, settings: Mapping[str, Setting] | None, pmtu_bytes: int) -> CcParameters:
        """Parameters of congestion control for the NIC's ports and packets of that payload."""
        link = self._cc_link(pmtu_bytes)
        return CcParameters.from_profile(derive_profile(link, settings)) if settings else _defaults(link)

    def _cc_link(self, pmtu_bytes: int) -> CcLink:
        config = self._config
        if not config.rate_bps:
            raise UsageError(
                f"cc: {config.cc} needs ports with a rate: without one there is no bandwidth-delay product",
                hint="give the topology a port_rate, or use cc: fixed",
            )
        return CcLink(config.rate_bps, config.base_rtt_ns, pmtu_bytes, is_trimming=config.is_trimming)


@cache
def _defaults(link: CcLink) -> CcParameters:
    return CcParameters.from_profile(derive_profile(link))
