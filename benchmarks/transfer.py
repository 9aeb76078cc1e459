"""A lab of the benchmarks' own, and one verified flow between two of its hosts."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from mrc_agents.nic.context import Completion
from mrc_testbed.errors import AgentError
from mrc_testbed.fabric import lab as labs
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

LAB_NAME = os.environ.get("MRC_BENCH_LAB", "bench")
"""Another, where several run on one machine: what bears the name is removed before a run."""
_DRAIN_NS = 30_000_000_000
_ENDLESS = 1 << 31
_LOCAL_SLOTS = 9
_REMOTE_SLOTS = 8


@contextmanager
def live_lab(spec: TopologySpec, runtime: str = "netns") -> Iterator[Lab]:
    """A lab that is up inside the block and gone after it."""
    labs.down(LAB_NAME)
    labs.up(spec, name=LAB_NAME, runtime=runtime)
    try:
        with labs.attach(LAB_NAME) as lab:
            yield lab
    finally:
        labs.down(LAB_NAME)


def pause(seconds: float) -> None:
    threading.Event().wait(seconds)


class Transfer:
    """Endless RDMA WRITEs from one host to another, compared byte for byte at the end.

    Message i comes from one of nine intervals of memory and goes to one of eight, so successive batches
    carry different bytes: what is there at the end must be exactly the last batch. No more messages than that
    are outstanding: the network swaps packets, and those of two messages must not meet on one interval.

    Args:
        lab: a live lab.
        source, target: indices of the hosts.
        message_bytes: of each message.
        window_packets: of the QP.
    """

    def __init__(
        self,
        lab: Lab,
        source: int,
        target: int,
        *,
        message_bytes: int = 65536,
        window_packets: int | None = 64,
    ) -> None:
        clos = lab.clos
        self._length = message_bytes
        self.near, self.far = lab.nic(f"h{source}"), lab.nic(f"h{target}")
        self._memory = self.near.register_memory(_LOCAL_SLOTS * message_bytes)
        self._target = self.far.register_memory(_REMOTE_SLOTS * message_bytes)
        for slot in range(_LOCAL_SLOTS):
            self._memory.fill(slot * message_bytes, message_bytes, slot)
        window = {} if window_packets is None else {"window_packets": window_packets}
        self._qp = self.near.create_qp(target, build_ev_set(clos, source, target), **window)
        far = self.far.create_qp(source, build_ev_set(clos, target, source))
        far.connect(self._qp.exchange())
        self._qp.connect(far.exchange())
        self.qpn = self._qp.qpn
        self._work: int | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.near.close()
        self.far.close()

    def start(self, depth: int = _REMOTE_SLOTS) -> None:
        """Begins to send, with *depth* messages outstanding, at most eight."""
        if depth > _REMOTE_SLOTS:
            raise ValueError(f"{depth} messages outstanding on {_REMOTE_SLOTS} intervals of memory")
        self._work = self._qp.post_write(
            self._memory,
            self._target.remote,
            length=self._length,
            iterations=_ENDLESS,
            depth=depth,
            local_slots=_LOCAL_SLOTS,
            remote_slots=_REMOTE_SLOTS,
        )

    def finish(self) -> int:
        """Stops sending, waits for what is in flight; returns the number of wrong bytes of the last batch.

        Raises:
            AgentError: the messages under way did not complete, or failed.
        """
        if self._work is None:
            raise AgentError("nothing was started")
        self._qp.stop_work(self._work)
        (done,) = self.near.completions.wait(timeout_ns=_DRAIN_NS)
        if not isinstance(done, Completion) or done.error:
            raise AgentError(f"the transfer ended with {done}")
        count = done.iterations
        wrong = 0
        for iteration in range(max(0, count - _REMOTE_SLOTS), count):
            offset = iteration % _REMOTE_SLOTS * self._length
            wrong += self._target.count_wrong(offset, self._length, iteration % _LOCAL_SLOTS)
        return wrong

    def acked_rate(self, seconds: float) -> tuple[float, float]:
        """(packets/s, payload bytes/s) acknowledged over an interval."""
        before, start_ns = self.near.verbs.counters(), time.monotonic_ns()
        pause(seconds)
        after, end_ns = self.near.verbs.counters(), time.monotonic_ns()
        interval_s = (end_ns - start_ns) / 1e9
        return (
            (after["acked_packets"] - before["acked_packets"]) / interval_s,
            (after["acked_bytes"] - before["acked_bytes"]) / interval_s,
        )
