"""What one runner injects: its faults die with it, however it ends."""

from collections.abc import Iterable
from typing import Self

from testbed.fabric.state import lab_paths
from testbed.faults.binding import bind
from testbed.faults.injector import FaultEvent, Injector
from testbed.faults.keeper import ensure_keeper
from testbed.faults.lab_target import LabTarget
from testbed.faults.ledger import Ledger, own_identity
from testbed.faults.occurrence import FaultAction, FaultOccurrence
from testbed.faults.raw_load import prepare_load, stop_load


class FaultSession:
    """The faults of the calling process in one lab; the keeper reverts them should it be killed.

    Faults that earlier runners left behind are reverted first.

    Args:
        lab: name of a lab that is up.

    Raises:
        FaultError: there is no such lab, or its keeper did not start.
        CleanupError: what an earlier runner left could not be reverted.
    """

    def __init__(self, lab: str) -> None:
        self._lab = lab
        self._ready: list[str] = []
        self._owner = own_identity()
        self._target = LabTarget(lab)
        self._ledger = Ledger(lab_paths(lab).faults)
        self._injector = Injector(self._ledger, self._target)
        self._injector.clear_stale()
        self._ledger.register(self._owner)
        try:
            ensure_keeper(lab)
        except BaseException:
            self._ledger.unregister(self._owner)
            raise

    def make_ready(self, actions: Iterable[FaultAction]) -> None:
        """Makes ready what takes a while, so that each fault acts at once when it is applied.

        Raises:
            FaultError: background traffic could not be made ready.
        """
        for action in actions:
            fault = bind(action, self._target.clos)
            if fault.loads:
                self._ready.append(fault.fault_id)
                prepare_load(self._lab, fault, self._owner)

    def apply(self, occurrence: FaultOccurrence, *, expires_ns: int | None = None) -> FaultEvent:
        """The event of *occurrence* having begun; its planned times are the caller's to keep.

        Args:
            occurrence: what to inject.
            expires_ns: CLOCK_MONOTONIC at which the keeper reverts it should the caller hang.

        Raises:
            FaultError: its id is active already, or the lab could not be changed.
        """
        fault = bind(occurrence, self._target.clos)
        return self._injector.apply(fault, owner=self._owner, expires_ns=expires_ns)

    def clear(self, fault_id: str) -> FaultEvent:
        """The event of the fault having ended.

        Raises:
            FaultError: it is not active.
            CleanupError: the lab could not be restored.
        """
        return self._injector.clear(fault_id)

    def clear_all(self) -> list[FaultEvent]:
        """Events of all faults of this session having ended; those of others stay.

        Raises:
            CleanupError: some could not be reverted; all were tried.
        """
        return self._injector.clear_owned(self._owner)

    def close(self) -> None:
        """Reverts what is left and takes the announcement back; the lab may be gone already.

        Raises:
            CleanupError: some faults could not be reverted.
        """
        try:
            if self._ledger.active_folder.is_dir():
                self.clear_all()
            for fault_id in self._ready:
                stop_load(self._lab, fault_id, at_once=True)
        finally:
            self._ledger.unregister(self._owner)
            self._target.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
