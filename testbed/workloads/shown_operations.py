"""Lets metrics show the operations of collectives while they run."""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from testbed.metrics.measured import COLLECTIVE, STEP, MeasuredTimes
from testbed.workloads.collective import Collective
from testbed.workloads.operation_record import OperationRecord

_LOG: Final = logging.getLogger(__name__)

OperationListener = Callable[[Collective, OperationRecord], None]
"""Called with each operation that all ranks have completed."""


class ShownOperations:
    """An OperationListener that counts for the exporter of a lab.

    Args:
        state_dir: state folder of the lab.
    """

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._opened: dict[tuple[str, str], MeasuredTimes] = {}
        self._is_given_up = False

    def __call__(self, collective: Collective, record: OperationRecord) -> None:
        """Counts an operation, and the step that it was part of; what cannot be shown harms no workload."""
        if self._is_given_up:
            return
        kind = collective.kind
        bus_bytes = round(collective.size_bytes * collective.bus_factor)
        try:
            self._times(COLLECTIVE, kind).add(record.duration_ns, bus_bytes)
            if collective.is_training:
                self._times(STEP, kind).add(record.step_ns)
        except OSError as error:
            _LOG.warning("metrics will not show collectives any more: %s", error)
            self._is_given_up = True

    def close(self) -> None:
        """Gives its files up; what was counted stays."""
        for times in self._opened.values():
            times.close()
        self._opened.clear()

    def _times(self, what: str, kind: str) -> MeasuredTimes:
        if (what, kind) not in self._opened:
            self._opened[what, kind] = MeasuredTimes(self._state_dir, what, kind)
        return self._opened[what, kind]
