"""Verbs about link probes."""

from contextlib import ExitStack

from mrc_agents.abi import Limit, LinkProbing
from mrc_agents.bpf.libbpf import open_map_in
from mrc_agents.bpf.maps import MappedArray
from mrc_agents.clock import monotonic_ns
from mrc_agents.errors import UsageError
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.device import NicDevice
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.verb import verb

_PIN = "link_probing"

_INTERVAL_MIN_NS = 1_000_000


class LinkProber:
    """Sends rounds of link probes at a steady pace; the kernel matches, judges and counts.

    A round that comes late is no failure: a probe is judged when that of `lag_rounds` rounds later leaves.
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


class LinkProbeVerbs(NicState):
    def __init__(self, config: NicSettings, device: NicDevice) -> None:
        super().__init__(config, device)
        self.link_prober = LinkProber(device)  # sends them, once they are wanted

    @verb
    def start_link_probes(self, interval_ns: int, lag_rounds: int) -> None:
        """Sends a probe on every probe path of the NIC, again and again.

        Args:
            interval_ns: from one round to the next, at least 1 ms.
            lag_rounds: rounds after which a probe that is not back has failed; 1 to 63.
        """
        if interval_ns < _INTERVAL_MIN_NS:
            raise UsageError(f"interval_ns: {interval_ns}; {_INTERVAL_MIN_NS} or more is accepted")
        if not 1 <= lag_rounds < Limit.LINK_PROBE_ROUNDS:
            raise UsageError(f"lag_rounds: {lag_rounds}; 1 to {Limit.LINK_PROBE_ROUNDS - 1} is accepted")
        self.link_prober.start(interval_ns, lag_rounds)

    @verb
    def stop_link_probes(self) -> None:
        """Sends no more link probes."""
        self.link_prober.stop()
