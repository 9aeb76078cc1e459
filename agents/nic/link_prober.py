"""Sends rounds of link probes at a steady pace; the kernel matches, judges and counts.

A round that comes late is no failure: a probe is judged when that of `lag_rounds` rounds later leaves.
"""

import asyncio
import os
import time
from pathlib import Path

from agents.bpf.libbpf import open_pinned
from agents.bpf.maps import MappedArray
from agents.nic.device import NicDevice
from agents.wire_abi import LinkProbing
from testbed.errors import UsageError

_PIN = "link_probing"


class LinkProber:
    """The link probes of one NIC, where its fabric has source routes.

    Args:
        device: of the NIC.
        pins: folder with its pinned maps.
    """

    def __init__(self, device: NicDevice, pins: Path) -> None:
        self._device = device
        self._file = pins / _PIN
        self._probing: LinkProbing | None = None
        self._interval_ns = 0
        self._next_ns = 0
        self._timer: asyncio.TimerHandle | None = None

    def start(self, interval_ns: int, lag_rounds: int) -> None:
        """Begins to send a round every *interval_ns*, or goes on at another pace.

        Raises:
            UsageError: the fabric has no source routes.
        """
        if self._probing is None:
            descriptor = open_pinned(self._file)
            self._probing = MappedArray(descriptor, LinkProbing)[0]
            os.close(descriptor)
        if not self._probing.path_count:
            raise UsageError("link probes need a fabric with source routes (forwarding: srv6)")
        self.stop()
        self._probing.lag_rounds = lag_rounds
        self._interval_ns = interval_ns
        self._next_ns = time.monotonic_ns()
        self._send()

    def stop(self) -> None:
        """Sends no more; what has been counted stays."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send(self) -> None:
        if self._probing is None:
            raise AssertionError("start() opens the map before it sends")
        self._device.send_link_probes(self._probing.path_count)
        now_ns = time.monotonic_ns()
        self._next_ns += self._interval_ns
        if self._next_ns < now_ns:  # rounds that this process had no time for are not made up for
            self._next_ns = now_ns + self._interval_ns
        delay_s = (self._next_ns - now_ns) / 1e9
        self._timer = asyncio.get_running_loop().call_later(delay_s, self._send)
