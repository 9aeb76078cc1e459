"""A journal of a run that nobody keeps."""

from mrc_testbed.scenario.measure.event import FaultChange, NicEvent, Note
from mrc_testbed.scenario.measure.recording import Recording


class SilentJournal:
    """Notes of a run that nobody keeps."""

    def note(self, recording: Recording, note: Note) -> None:
        """Do nothing."""

    def note_change(self, recording: Recording, change: FaultChange) -> None:
        """Do nothing."""

    def note_nic_event(self, recording: Recording, event: NicEvent) -> None:
        """Do nothing."""

    def note_reading(self, recording: Recording) -> None:
        """Do nothing."""

    def note_output(self, workload: str, line: bytes) -> None:
        """Do nothing."""
