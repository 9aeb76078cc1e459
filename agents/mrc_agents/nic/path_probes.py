"""Probes of paths without a QP that wait for their answers."""

import asyncio
from collections.abc import Sequence
from typing import Any

from mrc_agents.abi import Event, EvLayout, Limit
from mrc_agents.errors import UsageError
from mrc_agents.nic.device import NicDevice

WAIT_NS_MAX = 3_600_000_000_000


class PathProbes:
    """Sends probes and collects what comes back; one answer to each request id."""

    def __init__(self, device: NicDevice) -> None:
        self._device = device
        self._waiting: dict[int, asyncio.Future[int]] = {}

    def check(self, peer_host: int, evs: Sequence[int], wait_ns: int) -> None:
        """Raises UsageError, naming the argument, for what cannot be probed."""
        config = self._device.config
        if not 0 <= peer_host <= 0xFFFFFFFF or peer_host == config.host_index:
            raise UsageError(f"peer_host: {peer_host}; the index of another host is accepted")
        if not 1 <= len(evs) <= Limit.EV_MAX:
            raise UsageError(f"evs: {len(evs)} of them; 1 to {int(Limit.EV_MAX)} are accepted")
        for ev in evs:
            if not 0 <= ev < config.plane_count << EvLayout.PLANE_SHIFT:
                most = config.plane_count - 1
                raise UsageError(f"evs: {ev:#x}; 32 bits that begin with a plane of 0 to {most} are accepted")
        if not 0 < wait_ns <= WAIT_NS_MAX:
            raise UsageError(f"wait_ns: {wait_ns}; 1 to {WAIT_NS_MAX} is accepted")

    async def probe(self, peer_host: int, evs: Sequence[int], wait_ns: int) -> list[dict[str, Any]]:
        """One outcome for each EV, in their order: `rtt_ns` is None where no answer came in time."""
        ids = self._device.send_path_probes(peer_host, list(evs))
        loop = asyncio.get_running_loop()
        answers = {number: loop.create_future() for number in ids}
        self._waiting |= answers
        try:
            await asyncio.wait(answers.values(), timeout=wait_ns / 1e9)
        finally:
            for number in ids:
                self._waiting.pop(number, None)
        return [
            {
                "ev": ev,
                "port": (ev >> EvLayout.PLANE_SHIFT) + 1,
                "req_id": number,
                "rtt_ns": answers[number].result() if answers[number].done() else None,
            }
            for number, ev in zip(ids, evs, strict=True)
        ]

    def answered(self, event: Event) -> None:
        waiting = self._waiting.get(event.a)
        if waiting is not None and not waiting.done():
            waiting.set_result(event.b)
