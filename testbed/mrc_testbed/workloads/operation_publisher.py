"""Lets metrics, and those who watch a lab live, see operations and steps of programs as they end."""

import logging
from pathlib import Path
from typing import Final

from mrc_testbed.metrics.measured import COLLECTIVE, STEP, MeasuredTimes
from mrc_testbed.workloads.collective import Collective
from mrc_testbed.workloads.job_ring import JobRing
from mrc_testbed.workloads.operation_record import OperationRecord
from mrc_testbed.workloads.program import SharedWork

_LOG: Final = logging.getLogger(__name__)


class OperationPublisher:
    """Counts operations for a lab's exporter, and keeps the latest steps for `top` and `serve`."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._opened: dict[tuple[str, str, str], MeasuredTimes] = {}
        self._rings: dict[str, tuple[SharedWork, JobRing]] = {}
        self._is_given_up = False

    def completed(self, name: str, work: SharedWork, record: OperationRecord) -> None:
        """Counts an operation, and the step that it was part of; what cannot be shown harms no workload."""
        if self._is_given_up:
            return
        try:
            if isinstance(work, Collective):
                bus_bytes = round(work.size_bytes * work.bus_factor)
                self._times(COLLECTIVE, work.kind).add(record.duration_ns, bus_bytes)
            if work.is_training:
                self._times(STEP, work.kind, name).add(record.step_ns)
            self._ring(name, work).add(record)
        except OSError as error:
            _LOG.warning("metrics will not show operations any more: %s", error)
            self._is_given_up = True

    def ended(self, name: str) -> None:
        """Takes a job away from those who watch the lab; its counts stay."""
        known = self._rings.pop(name, None)
        if known is not None:
            known[1].close()

    def close(self) -> None:
        """Close its files; the counts stay, jobs are over."""
        for times in self._opened.values():
            times.close()
        self._opened.clear()
        for name in list(self._rings):
            self.ended(name)

    def _ring(self, name: str, work: SharedWork) -> JobRing:
        """That of a job; a later run may have another one of the same name."""
        known = self._rings.get(name)
        if known is not None and known[0] == work:
            return known[1]
        self.ended(name)
        ring = JobRing(self._state_dir, name, work)
        self._rings[name] = work, ring
        return ring

    def _times(self, what: str, kind: str, name: str = "") -> MeasuredTimes:
        if (what, kind, name) not in self._opened:
            self._opened[what, kind, name] = MeasuredTimes(self._state_dir, what, kind, name)
        return self._opened[what, kind, name]
