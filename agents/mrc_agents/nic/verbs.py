"""The verbs of a NIC, by name: memory regions, QPs, posting and polling, EVs.

A verb checks its arguments, changes the kernel's maps, and returns a plain JSON value. It does no waiting and
no I/O of its own; the daemon does both. docs/reference/verbs.md describes each.
"""

from collections.abc import Callable
from typing import Any

from mrc_agents.nic.application_verbs import ApplicationVerbs
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.ev_verbs import EvVerbs
from mrc_agents.nic.kernel_events import KernelEvents
from mrc_agents.nic.link_probe_verbs import LinkProbeVerbs
from mrc_agents.nic.memory_verbs import MemoryVerbs
from mrc_agents.nic.path_watch import PathWatch
from mrc_agents.nic.profile_control import ProfileControl
from mrc_agents.nic.rc_verbs import RcVerbs
from mrc_agents.nic.verb import all_verbs, verb


class Verbs(
    MemoryVerbs, RcVerbs, ApplicationVerbs, EvVerbs, LinkProbeVerbs, ProfileControl, PathWatch, KernelEvents
):
    """All of them, over one state."""

    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        # the verbs that clients may call, by name
        self.table: dict[str, Callable[..., Any]] = all_verbs(self, that_wait=False)

    @verb
    def hello(self) -> dict[str, Any]:
        """The agent's host."""
        return {
            "host": self._config.host,
            "host_index": self._device.config.host_index,
            "memory_bytes": self._device.memory.length_bytes,
            "qps_max": self._device.qp_count,
        }

    @verb
    def counters(self) -> dict[str, int]:
        """Counters since the NIC was loaded."""
        return self._device.counters()

    @verb
    def port_status(self) -> list[bool]:
        """Carrier of each port, by plane."""
        mask = self._device.control.port_up_mask
        return [bool(mask >> plane & 1) for plane in range(self._device.config.plane_count)]
