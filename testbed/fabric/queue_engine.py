"""The queue engine of a lab that is up: how it is served, which can be changed then, and how full it is."""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Self

from agents.bpf.libbpf import open_pinned
from agents.bpf.maps import ArrayMap, MappedArray, map_info
from agents.wire_abi import DrainerMode, QueueDrainer, QueuePool, QueueSettings
from testbed.fabric.state import LabPaths


@dataclass(frozen=True, slots=True)
class EngineState:
    """What the engine is doing.

    Attributes:
        drainer: auto, precise or eco.
        drainer_count: processes that send.
        port_count: ports of the lab.
        direct_port_count: those whose frames may go on without crossing an interface.
        frame_count: frames that wait or are on their way.
        frame_peak_count: most of them at a time, since the lab was made.
        frame_limit: most that the lab can hold.
    """

    drainer: str
    drainer_count: int
    port_count: int
    direct_port_count: int
    frame_count: int
    frame_peak_count: int
    frame_limit: int


class QueueEngine:
    """The pinned maps of a shaped lab's queues; a context that closes them.

    Raises:
        FabricError: a map is missing or of another build.
    """

    def __init__(self, paths: LabPaths) -> None:
        with ExitStack() as opened:

            def descriptor(name: str) -> int:
                number = open_pinned(paths.fabric_pins / name)
                opened.callback(os.close, number)
                return number

            self._settings = MappedArray(descriptor("queue_settings"), QueueSettings)
            self._drainers = MappedArray(descriptor("queue_drainer"), QueueDrainer)
            self._pool = ArrayMap(descriptor("queue_pool"), QueuePool, locked=True)
            self._frame_limit = map_info(descriptor("queue_frames")).max_entries
            self._opened = opened.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def state(self) -> EngineState:
        """How it is served, and how full it is."""
        pool = self._pool.read(0)
        return EngineState(
            drainer=DrainerMode(self._drainers[0].mode).name.lower(),
            drainer_count=len(self._drainers),
            port_count=len(self._settings),
            direct_port_count=sum(settings.is_direct for settings in self._settings),
            frame_count=pool.used,
            frame_peak_count=pool.used_peak,
            frame_limit=self._frame_limit,
        )

    def set_drainer(self, mode: DrainerMode) -> None:
        """Lets the drainers wait in another way; it holds from their next waking."""
        for drainer in self._drainers:
            drainer.mode = mode

    def set_direct(self, port_ids: Iterable[int], *, is_direct: bool) -> None:
        """Lets what leaves by some ports go on inside the engine, or cross their links again.

        It holds for what is due from now on. A frame may overtake one that is still crossing.
        """
        for port_id in port_ids:
            self._settings[port_id].is_direct = is_direct
