"""Warnings of a busy machine before a run, and advice after an UNTRUSTED one."""

from typing import Final

from mrc_testbed.cli.options import Settings
from mrc_testbed.cli.render import say
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.fabric.state import read_state
from mrc_testbed.metrics.other_load import ProcessTimes, look_at_load
from mrc_testbed.scenario.measure.verdict import Status

_WHAT_TO_DO: Final = (
    "run it when the machine is quiet, with --retry-untrusted N, with a lower port_rate, or with --virtual, "
    "which is exact on any machine"
)


class MachineWatch:
    """Watch other programs around a run, and warn when they take much of the machine.

    Args:
        settings: of the command.
        lab: name of the lab; its processes are not others.
    """

    def __init__(self, settings: Settings, lab: str) -> None:
        self._settings = settings
        self._lab = lab
        self._before = ProcessTimes.now()
        found = look_at_load(self._ours())
        if found.is_busy:
            say(settings.stderr, f"warning: {found}: this run may be UNTRUSTED; --virtual is exact")

    def begin(self) -> None:
        self._before = ProcessTimes.now()

    def explain(self, status: Status, retries: int = 0) -> None:
        """Print advice about a run that ended as *status*, when it is UNTRUSTED.

        Args:
            status: of the run.
            retries: how often it is repeated from here.
        """
        if status is not Status.UNTRUSTED:
            return
        found = ProcessTimes.now().load_since(self._before, self._ours())
        cause = f"{found} meanwhile" if found.is_busy else "no other program took much of the machine"
        then = f"repeating it, {retries} left" if retries else _WHAT_TO_DO
        say(self._settings.stderr, f"hint:  the run is UNTRUSTED; {cause}; {then}")

    def _ours(self) -> list[int]:
        state = read_state(lab_paths(self._lab))
        return [] if state is None else [process.pid for process in state.processes]
