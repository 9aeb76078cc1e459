"""The verbs of a NIC, by name: memory regions, QPs, posting and polling, EVs.

A verb checks its arguments, changes the kernel's maps, and returns a plain JSON value. It does no waiting and
no I/O of its own; the daemon does both. docs/reference/verbs.md describes each.
"""

from collections.abc import Callable
from typing import Any, Final

from agents.nic.config import NicSettings
from agents.nic.device import NicDevice
from agents.nic.ev_verbs import EvVerbs
from agents.nic.kernel_events import KernelEvents
from agents.nic.link_probe_verbs import LinkProbeVerbs
from agents.nic.memory_verbs import MemoryVerbs
from agents.nic.path_watch import PathWatch
from agents.nic.profile_verbs import ProfileVerbs
from agents.nic.stream_verbs import StreamVerbs
from agents.nic.work_verbs import WorkVerbs

NAMES: Final = (
    "hello",
    "register_memory",
    "deregister_memory",
    "fill",
    "verify",
    "create_qp",
    "create_rc_qp",
    "create_stream",
    "await_stream",
    "modify_qp",
    "connect_qp",
    "adjust_qp",
    "destroy_qp",
    "list_qps",
    "query_qp",
    "post_write",
    "post_receive",
    "stop_work",
    "poll",
    "poll_receive",
    "ev_list",
    "ev_deny",
    "ev_allow",
    "deny_path",
    "allow_path",
    "denied_paths",
    "probe",
    "query_device",
    "create_ev_format",
    "modify_ev_format",
    "query_ev_format",
    "destroy_ev_format",
    "create_ev_profile",
    "modify_ev_profile",
    "query_ev_profile",
    "list_ev_profiles",
    "destroy_ev_profile",
    "ev_profile_op",
    "create_cc_profile",
    "modify_cc_profile",
    "query_cc_profile",
    "destroy_cc_profile",
    "start_link_probes",
    "stop_link_probes",
    "counters",
    "port_status",
)


class Verbs(
    MemoryVerbs, StreamVerbs, WorkVerbs, EvVerbs, LinkProbeVerbs, ProfileVerbs, PathWatch, KernelEvents
):
    """All of them, over one state.

    Attributes:
        table: the verbs that clients may call, by name.
    """

    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        self.table: dict[str, Callable[..., Any]] = {name: getattr(self, name) for name in NAMES}

    def hello(self) -> dict[str, Any]:
        """Who answers."""
        return {
            "host": self._config.host,
            "host_index": self._device.config.host_index,
            "memory_bytes": self._device.memory.length_bytes,
            "qps_max": self._device.qp_count,
        }

    def counters(self) -> dict[str, int]:
        """Counters since the NIC was loaded."""
        return self._device.counters()

    def port_status(self) -> list[bool]:
        """Carrier of each port, by plane."""
        mask = self._device.control.port_up_mask
        return [bool(mask >> plane & 1) for plane in range(self._device.config.plane_count)]
