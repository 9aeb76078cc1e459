"""The runs of a campaign that are still to be done, in order, and the time left."""

from collections.abc import Callable
from typing import Final

from mrc_agents.clock import monotonic_ns
from mrc_testbed.campaign.folder import CampaignFolder, RunEntry
from mrc_testbed.campaign.plan import PlannedRun

_MINUTES_FROM_S: Final = 120


class RunQueue:
    """The runs of a campaign's folder that are still to be done.

    Args:
        folder: of the campaign; entries are noted through `note`.
        retry: statuses of finished runs that are done again.
        room: number of runs that are done at a time now.
        now_ns: a clock that only goes forward.
    """

    def __init__(
        self,
        folder: CampaignFolder,
        retry: frozenset[str] = frozenset(),
        *,
        room: Callable[[], int] = lambda: 1,
        now_ns: Callable[[], int] = monotonic_ns,
    ) -> None:
        self._folder = folder
        self._pending = folder.pending(retry)
        self._total = len(folder.wanted)
        self._room = room
        self._now_ns = now_ns
        self._begun_ns: dict[str, int] = {}
        self._took_ns: list[int] = []

    def next(self) -> PlannedRun | None:
        """The run to begin now; None when there is none."""
        return next(iter(self._pending), None)

    def begin(self, run: PlannedRun) -> str:
        """Takes a run out of the queue; returns what to say of it, with the time that the rest takes."""
        self._pending.remove(run)
        self._begun_ns[run.key] = self._now_ns()
        number = self._total - len(self._pending)
        return f"run {number} of {self._total}{self._eta()}: {run.key}"

    def note(self, run: PlannedRun, entry: RunEntry) -> None:
        """Writes the end of a run to the journal."""
        self._folder.note(entry)
        if run.key in self._begun_ns:
            self._took_ns.append(self._now_ns() - self._begun_ns.pop(run.key))

    def _eta(self) -> str:
        if not self._took_ns:
            return ""
        mean_ns = sum(self._took_ns) / len(self._took_ns)
        left_s = round(mean_ns * (len(self._pending) + 1) / max(1, self._room()) / 1e9)
        return f", {left_s} s left" if left_s < _MINUTES_FROM_S else f", {round(left_s / 60)} min left"
