"""Sends rounds of link probes at a steady pace; the kernel matches, judges and counts.

A round that comes late is no failure: a probe is judged when that of `lag_rounds` rounds later leaves.
"""

from contextlib import ExitStack

from mrc_agents.abi import LinkProbing
from mrc_agents.bpf.libbpf import open_map_in
from mrc_agents.bpf.maps import MappedArray
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import UsageError
from mrc_agents.nic.device import NicDevice

_PIN = "link_probing"


class LinkProber:
    """The link probes of one NIC, where its fabric has source routes.

    Args:
        device: of the NIC.
    """

    def __init__(self, device: NicDevice) -> None:
        self._device = device
        self._probing: LinkProbing | None = None
        self._interval_ns = 0
        self.next_ns: int | None = None  # when the next round is due; None when none are sent

    def start(self, interval_ns: int, lag_rounds: int) -> None:
        """Begins to send a round every *interval_ns*, or goes on at another pace."""
        if self._probing is None:
            with ExitStack() as opened:
                self._probing = MappedArray(open_map_in(opened, self._device.pins, _PIN), LinkProbing)[0]
        if not self._probing.path_count:
            raise UsageError("link probes need a fabric with source routes (forwarding: srv6)")
        self._probing.lag_rounds = lag_rounds
        self._interval_ns = interval_ns
        self.next_ns = monotonic_ns()
        self.send_due(self.next_ns)

    def stop(self) -> None:
        """Sends no more; what has been counted stays."""
        self.next_ns = None

    def send_due(self, now_ns: int) -> None:
        """Sends a round if one is due; rounds that this process had no time for are not made up for."""
        if self._probing is None or self.next_ns is None or self.next_ns > now_ns:
            return
        self._device.send_link_probes(self._probing.path_count)
        self.next_ns += self._interval_ns
        if self.next_ns < now_ns:
            self.next_ns = now_ns + self._interval_ns
