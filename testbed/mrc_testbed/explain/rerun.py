"""A run in virtual time, repeated to be looked at: the same events, without results.

A plan, its seed and this version give the same run to the byte, so nothing of it has to be kept. Who looks
sets an alarm of the lab, or has the library write a trace.
"""

from collections.abc import Callable

from mrc_testbed.scenario.measure.recording import Journal, Recording
from mrc_testbed.scenario.run.runner import Runner
from mrc_testbed.scenario.run.signal_clock import NO_DESCRIPTOR, SignalClock
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.virtual.lab import VirtualLab
from mrc_testbed.virtual.world import planned_lab, world_in

Look = Callable[[VirtualLab, Recording], object]


class _Alarm:
    """Has somebody look at the lab at a time, and ends the run."""

    def __init__(self, lab: VirtualLab, recording: Recording, machine: SignalClock, look: Look) -> None:
        self._lab, self._recording, self._machine, self._look = lab, recording, machine, look
        self.has_looked = False

    def on_time(self) -> None:
        if not self.has_looked:
            self.has_looked = True
            self._look(self._lab, self._recording)
            self._machine.interrupt("the moment")


def repeat(
    plan: Plan, begin: Callable[[VirtualLab], object], look: Look, until_ns: int | None = None
) -> Recording:
    """The recording of a run that was repeated, as a whole or up to a time.

    Args:
        begin: called before anything happens.
        look: called once: at that time, after all events that are due then, or when the run is over.
        until_ns: lab time at which the run ends; None: it takes place as a whole.
    """
    machine = SignalClock(NO_DESCRIPTOR)
    with planned_lab(plan, machine) as lab:
        begin(lab)
        with world_in(lab, plan, machine) as world:
            runner = Runner(plan, world, Journal(), lambda _: None)
            alarm = _Alarm(lab, runner.recording, machine, look)
            lab.set_alarm(alarm, until_ns)
            runner.run()
            alarm.on_time()
            return runner.recording
