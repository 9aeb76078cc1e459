"""One workload while it runs: its flows start, stop and end together. The engine's thread drives it."""

import enum
from collections.abc import Callable, Mapping

from testbed.errors import TestbedError
from testbed.workloads.flow import Flow
from testbed.workloads.load import Load
from testbed.workloads.sender import FlowSender


class _Phase(enum.Enum):
    PREPARED = enum.auto()
    SENDING = enum.auto()
    OVER = enum.auto()


class RunningWorkload:
    """A workload and its flows.

    Args:
        load: what is sent.
        senders: by flow, prepared before `start`.
    """

    def __init__(self, load: Load, senders: Mapping[Flow, FlowSender]) -> None:
        self.load = load
        self.senders = dict(senders)
        self._phase = _Phase.PREPARED

    @property
    def is_over(self) -> bool:
        """Whether every message has completed, or the QPs have failed."""
        return self._phase is _Phase.OVER

    @property
    def is_under_way(self) -> bool:
        """Whether it was started and is not over."""
        return self._phase is _Phase.SENDING

    def start(self) -> None:
        """Begins to send: the iterations, or without end."""
        self._phase = _Phase.SENDING
        self._each(lambda sender: sender.start(self.load.iterations))

    def stop(self) -> None:
        """Posts nothing more; it is over when what has begun has completed."""
        self._each(lambda sender: sender.stop())

    def give_up(self, reason: str) -> None:
        """Fails every flow that is still under way."""
        for sender in self.senders.values():
            if not sender.is_idle:
                sender.fail(reason)
        self.advance()

    def advance(self) -> None:
        """Notes the end of the workload when nothing of it is under way any more."""
        if self.is_under_way and all(sender.is_idle for sender in self.senders.values()):
            self._phase = _Phase.OVER

    def _each(self, work: Callable[[FlowSender], None]) -> None:
        """Does *work* with every flow that has not failed; one that refuses has failed."""
        for sender in self.senders.values():
            if sender.error is not None:
                continue
            try:
                work(sender)
            except TestbedError as error:
                sender.fail(error.message)
