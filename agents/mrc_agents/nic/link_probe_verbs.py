"""Verbs about link probes."""

from mrc_agents.abi import Limit
from mrc_agents.errors import UsageError
from mrc_agents.nic.link_prober import LinkProber
from mrc_agents.nic.nic_state import NicState
from mrc_agents.nic.verb import verb

_INTERVAL_MIN_NS = 1_000_000


class LinkProbeVerbs(NicState):
    _link_prober: LinkProber | None = None

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
        if self._link_prober is None:
            self._link_prober = LinkProber(self._device)
        self._link_prober.start(interval_ns, lag_rounds)

    def next_link_probe_ns(self) -> int | None:
        """When the next round of link probes is due; None when none are sent."""
        return None if self._link_prober is None else self._link_prober.next_ns

    def send_link_probes_due(self, now_ns: int) -> None:
        """Sends a round of link probes if one is due."""
        if self._link_prober is not None:
            self._link_prober.send_due(now_ns)

    @verb
    def stop_link_probes(self) -> None:
        """Sends no more link probes."""
        if self._link_prober is not None:
            self._link_prober.stop()
