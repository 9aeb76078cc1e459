"""One workload while it runs: warm-up, messages, end. The engine's thread drives it."""

import enum
import time
from collections.abc import Callable, Mapping

from testbed.errors import TestbedError
from testbed.workloads.flow import Flow
from testbed.workloads.load import Load
from testbed.workloads.sender import FlowSender


class _Phase(enum.Enum):
    PREPARED = enum.auto()
    WARMING = enum.auto()
    COOLING = enum.auto()
    """Warm-up is over, its last messages complete."""
    SENDING = enum.auto()
    OVER = enum.auto()


class RunningWorkload:
    """A workload and its flows.

    Args:
        load: what is sent.
        senders: by flow, prepared before `start`.

    Attributes:
        warm_until_ns: CLOCK_MONOTONIC at which `advance` has to be called again; None for no such time.
    """

    def __init__(self, load: Load, senders: Mapping[Flow, FlowSender]) -> None:
        self.load = load
        self.senders = dict(senders)
        self.warm_until_ns: int | None = None
        self._phase = _Phase.PREPARED

    @property
    def is_over(self) -> bool:
        """Whether every message has completed, or the QPs have failed."""
        return self._phase is _Phase.OVER

    @property
    def is_under_way(self) -> bool:
        """Whether it was started and is not over."""
        return self._phase not in (_Phase.PREPARED, _Phase.OVER)

    def start(self) -> None:
        """Begins to send: without end, or the warm-up, or the iterations."""
        if self.load.iterations is not None and self.load.warmup_ns > 0:
            self._phase = _Phase.WARMING
            self.warm_until_ns = time.monotonic_ns() + self.load.warmup_ns
            self._send(None)
        else:
            self._phase = _Phase.SENDING
            self._send(self.load.iterations)

    def stop(self) -> None:
        """Posts nothing more; it is over when what has begun has completed."""
        self.warm_until_ns = None
        if self.is_under_way:
            self._phase = _Phase.SENDING
        self._each(lambda sender: sender.stop())

    def give_up(self, reason: str) -> None:
        """Fails every flow that is still under way."""
        for sender in self.senders.values():
            if not sender.is_idle:
                sender.fail(reason)
        self.advance()

    def advance(self) -> None:
        """Goes on to the next phase if this one is over."""
        if self.warm_until_ns is not None and time.monotonic_ns() >= self.warm_until_ns:
            self.warm_until_ns = None
            self._phase = _Phase.COOLING
            self._each(lambda sender: sender.stop())
        if not all(sender.is_idle for sender in self.senders.values()):
            return
        if self._phase is _Phase.COOLING:
            self._phase = _Phase.SENDING
            self._send(self.load.iterations)
        elif self._phase in (_Phase.SENDING, _Phase.WARMING):
            self._phase = _Phase.OVER

    def _send(self, messages: int | None) -> None:
        self._each(lambda sender: sender.start(messages))

    def _each(self, work: Callable[[FlowSender], None]) -> None:
        """Does *work* with every flow that has not failed; one that refuses has failed."""
        for sender in self.senders.values():
            if sender.error is not None:
                continue
            try:
                work(sender)
            except TestbedError as error:
                sender.fail(error.message)
