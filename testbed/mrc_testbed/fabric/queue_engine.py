"""The service of the ports of a lab that is up, which can be changed then, and its queue occupancy."""

from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial

from mrc_agents.abi import DrainerMode, PortEntry, QueueDrainer, QueuePool
from mrc_agents.bpf.libbpf import open_pinned_in
from mrc_agents.bpf.maps import ArrayMap, MappedArray, map_info
from mrc_agents.closing import Holder
from mrc_testbed.fabric.paths import LabPaths


@dataclass(frozen=True, slots=True)
class EngineState:
    # auto, precise or eco; None in an unshaped lab, where nothing queues and all else is 0 but for the ports
    drainer: str | None
    drainer_count: int  # processes that send
    port_count: int  # ports of the lab
    direct_port_count: int  # those whose frames may go on without crossing an interface
    frame_count: int  # frames that wait or are on their way
    frame_peak_count: int  # most of them at a time, since the lab was made
    frame_limit: int  # most that the lab can hold

    def describe(self) -> str:
        """One line: how frames are sent, what links are, how many frames are under way."""
        count = self.drainer_count
        links = {0: "veth links", self.port_count: "direct links"}.get(
            self.direct_port_count, f"{self.direct_port_count} of {self.port_count} ports direct"
        )
        if self.drainer is None:
            return f"none, ports have no rate; {links}"
        drainers = f"{self.drainer} drainer" if count == 1 else f"{count} {self.drainer} drainers"
        frames = f"{self.frame_count} of {self.frame_limit} frames in use, {self.frame_peak_count} at most"
        return f"{drainers}, {links}, {frames}"


class QueueEngine(Holder):
    """The pinned maps of a lab's ports and queues; a context that closes them."""

    def __init__(self, paths: LabPaths, *, is_shaped: bool) -> None:
        self._is_shaped = is_shaped
        with ExitStack() as opened:
            descriptor = partial(open_pinned_in, opened, paths.fabric_pins)
            self._ports = MappedArray(descriptor("port_table"), PortEntry)
            self._drainers = MappedArray(descriptor("queue_drainer"), QueueDrainer)
            self._pool = ArrayMap(descriptor("queue_pool"), QueuePool, locked=True)
            self._frame_limit = map_info(descriptor("queue_frames")).max_entries
            self._opened = opened.pop_all()

    def state(self) -> EngineState:
        port_count, direct_count = len(self._ports), sum(port.is_direct for port in self._ports)
        if not self._is_shaped:
            return EngineState(None, 0, port_count, direct_count, 0, 0, 0)
        pool = self._pool.read(0)
        return EngineState(
            drainer=DrainerMode(self._drainers[0].mode).name.lower(),
            drainer_count=len(self._drainers),
            port_count=port_count,
            direct_port_count=direct_count,
            frame_count=pool.used,
            frame_peak_count=pool.used_peak,
            frame_limit=self._frame_limit,
        )

    def set_drainer(self, mode: DrainerMode) -> None:
        """Lets the drainers wait in another way; it holds from their next waking."""
        for drainer in self._drainers:
            drainer.mode = mode

    def set_direct(self, port_ids: Iterable[int], *, is_direct: bool) -> None:
        """Lets what leaves by some ports go on inside the data plane, or cross their links again.

        It holds for what is due from now on. A frame may overtake one that is still crossing.
        """
        for port_id in port_ids:
            self._ports[port_id].is_direct = is_direct
