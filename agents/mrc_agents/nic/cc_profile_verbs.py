"""Verbs about CC profiles: named sets of congestion control parameters, which QPs are created with."""

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
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
CC_PROFILES_MAX: Final = 16


@dataclass(slots=True)
class CcProfileEntry:
    """A profile: parameters that were given, by standard name, and where it is in its life."""

    config: dict[str, Setting] = field(default_factory=dict)
    state: ProfileState = ProfileState.OFFLINE
    algorithm: str | None = ALGORITHM  # None: the window is fixed
    given: int = -1  # enum mrc_ctl_cc_profile_attr_mask: what libmrc has set, if it made the profile


class CcProfileVerbs(NicState):
    """CC profiles. They last until they are destroyed or the agent ends; QPs keep what they began with."""

    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        self._cc_profiles: dict[int, CcProfileEntry] = {}

    @verb
    def create_cc_profile(self, algorithm: str) -> int:
        """A CC profile in state OFFLINE; returns its id.

        Args:
            algorithm: `uet-1.0-nscc`.
        """
        if algorithm != ALGORITHM:
            raise UsageError(f"algorithm: {algorithm}; {ALGORITHM} is accepted")
        free = (number for number in range(1, CC_PROFILES_MAX + 1) if number not in self._cc_profiles)
        number = next(free, None)
        if number is None:
            raise UsageError(f"all {CC_PROFILES_MAX} CC profiles of the NIC are in use")
        self._cc_profiles[number] = CcProfileEntry()
        return number

    @verb
    def modify_cc_profile(
        self, cc_profile_id: int, state: str | None = None, config: Mapping[str, Any] | None = None
    ) -> None:
        """Sets the parameters of a profile, then its state.

        Args:
            cc_profile_id: the profile.
            state: ONLINE, or OFFLINE again.
            config: parameters by standard name, instead of those given before; while OFFLINE. The others
                follow from the NIC's rate and base RTT.
        """
        entry = self._cc_profile(cc_profile_id)
        wanted = entry.state if state is None else next_state(entry.state, state)
        if wanted is ProfileState.INIT:
            raise UsageError("state: INIT; ONLINE, OFFLINE are accepted")
        if config is not None:
            if entry.state is ProfileState.ONLINE:
                raise UsageError("config: the profile is ONLINE; it is set while OFFLINE")
            self._cc_parameters(config, int(Limit.PMTU_MAX))
            entry.config = dict(config)
        entry.state = wanted

    @verb
    def query_cc_profile(self, cc_profile_id: int) -> dict[str, Any]:
        """State, what was given, and the window a QP with full packets begins with.

        Args:
            cc_profile_id: the profile.
        """
        entry = self._cc_profile(cc_profile_id)
        parameters = self._cc_parameters(entry.config, int(Limit.PMTU_MAX))
        return {
            "cc_profile_id": cc_profile_id,
            "algorithm": entry.algorithm,
            "state": str(entry.state),
            "config": dict(entry.config),
            "max_cwnd_bytes": parameters.max_cwnd_bytes,
            "max_cwnd_packets": largest_window_packets(parameters),
            "base_rtt_ns": parameters.base_rtt_ns,
        }

    @verb
    def destroy_cc_profile(self, cc_profile_id: int) -> None:
        """Takes a profile away; QPs created with it keep what they have.

        Args:
            cc_profile_id: the profile.
        """
        self._cc_profile(cc_profile_id)
        del self._cc_profiles[cc_profile_id]

    def _usable_cc_config(self, cc_profile_id: int) -> dict[str, Setting] | None:
        entry = self._cc_profile(cc_profile_id)
        if entry.state is not ProfileState.ONLINE:
            raise UsageError(f"cc_profile: {cc_profile_id} is {entry.state}; ONLINE is needed")
        if entry.algorithm is not None:
            return entry.config
        return {"is_fixed": True} if self._config.rate_bps and self._config.cc != FIXED else None

    def _cc_profile(self, cc_profile_id: int) -> CcProfileEntry:
        if cc_profile_id not in self._cc_profiles:
            raise UsageError(f"cc_profile_id: no CC profile {cc_profile_id}")
        return self._cc_profiles[cc_profile_id]

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
