"""The faults of one runner, which end with it, however it ends."""

from collections.abc import Iterable
from typing import Self

from testbed.fabric.owner import owner_identity
from testbed.fabric.paths import lab_paths
from testbed.faults.controller import FaultController
from testbed.faults.event import FaultEvent
from testbed.faults.fault import ScheduledFault
from testbed.faults.lab_target import LabTarget
from testbed.faults.ledger import Ledger
from testbed.faults.raw_load import prepare_load, stop_load
from testbed.faults.reaper import ensure_reaper


class FaultSession:
    """The faults of the calling process in one lab; the reaper reverts them should it be killed.

    Faults that earlier runners left behind are reverted first.

    Args:
        lab: name of a lab that is up.

    Raises:
        UsageError: there is no such lab.
        FaultError: its reaper did not start.
        CleanupError: what an earlier runner left could not be reverted.
    """

    def __init__(self, lab: str) -> None:
        self._lab = lab
        self._ready: list[str] = []
        self._process = owner_identity()
        self._target = LabTarget(lab)
        self._ledger = Ledger(lab_paths(lab).faults)
        self._controller = FaultController(self._ledger, self._target)
        self._controller.clear_stale()
        self._ledger.take_lease(self._process)
        try:
            ensure_reaper(lab)
        except BaseException:
            self._ledger.end_lease(self._process)
            raise

    def make_ready(self, faults: Iterable[ScheduledFault]) -> None:
        """Makes ready what takes a while, so that each fault acts at once when it is applied.

        Raises:
            FaultError: background traffic could not be made ready.
        """
        for fault in faults:
            if fault.loads:
                self._ready.append(fault.fault_id)
                prepare_load(self._lab, fault, self._process)

    def apply(self, fault: ScheduledFault, *, end_ns: int | None = None) -> FaultEvent:
        """The event of *fault* having begun; its planned times are the caller's to keep.

        Args:
            fault: what to inject.
            end_ns: CLOCK_MONOTONIC at which it ends should the caller hang.

        Raises:
            FaultError: its id is active already, or the lab could not be changed.
        """
        return self._controller.apply(fault, lease=self._process, end_ns=end_ns)

    def clear(self, fault_id: str) -> FaultEvent:
        """The event of the fault having ended.

        Raises:
            FaultError: it is not active.
            CleanupError: the lab could not be restored.
        """
        return self._controller.clear(fault_id)

    def clear_all(self) -> list[FaultEvent]:
        """Events of all faults of this session having ended; those of others stay.

        Raises:
            CleanupError: some could not be reverted; all were tried.
        """
        return self._controller.clear_leased(self._process)

    def close(self) -> None:
        """Reverts what is left and ends the lease; the lab may be gone already.

        Raises:
            CleanupError: some faults could not be reverted.
        """
        try:
            if self._ledger.active_folder.is_dir():
                self.clear_all()
            for fault_id in self._ready:
                stop_load(self._lab, fault_id, at_once=True)
        finally:
            self._ledger.end_lease(self._process)
            self._target.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
