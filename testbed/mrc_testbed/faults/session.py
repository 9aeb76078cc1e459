"""The faults of one runner, which end with it, however it ends."""

from collections.abc import Iterable

from mrc_agents.closing import Closing
from mrc_testbed.fabric.owner import owner_identity
from mrc_testbed.fabric.process import ProcessIdentity
from mrc_testbed.faults.fault import ScheduledFault
from mrc_testbed.faults.fault_event import FaultEvent
from mrc_testbed.faults.interactive import LabFaults
from mrc_testbed.faults.raw_load import prepare_load, stop_load
from mrc_testbed.faults.reaper import ensure_reaper


class FaultSession(LabFaults, Closing):
    """The faults of the calling process in one lab; the reaper clears them should it be killed.

    Args:
        is_idle: there will be none, so that no reaper has to be started.
    """

    _lease: ProcessIdentity

    def __init__(self, lab: str, *, is_idle: bool = False) -> None:
        super().__init__(lab)
        self._ready: list[str] = []
        self._is_drill = False
        self._lease = owner_identity()
        if is_idle:
            return
        self._ledger.take_lease(self._lease)
        try:
            ensure_reaper(lab)
        except BaseException:
            self._ledger.end_lease(self._lease)
            raise

    def make_ready(self, faults: Iterable[ScheduledFault]) -> None:
        for fault in faults:
            self._is_drill |= fault.is_hidden
            if fault.loads:
                self._ready.append(fault.fault_id)
                prepare_load(self._lab, fault, self._lease)

    def clear_all(self) -> list[FaultEvent]:
        """Clear all faults of this session; those of others stay."""
        return self.clear_leased(self._lease)

    def close(self) -> None:
        """Clear what is left, reveal it and end the lease; the lab may be gone already."""
        try:
            if self._ledger.active_folder.is_dir():
                self.clear_all()
                if self._is_drill:
                    self._ledger.reveal()
            for fault_id in self._ready:
                stop_load(self._lab, fault_id, at_once=True)
        finally:
            self._ledger.end_lease(self._lease)
            super().close()
