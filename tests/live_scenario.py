"""A scenario on a lab that is up."""

from collections.abc import Callable
from pathlib import Path

from testbed.fabric import lab
from testbed.scenario.execution import FinishedRun, execute
from testbed.scenario.run.live import LiveLab, live_world
from testbed.scenario.run.signal_clock import catching_signals
from testbed.scenario.spec.load import load_scenario
from testbed.scenario.spec.resolve import resolve


def run_live(
    name: str, text: str, runs: Path, progress: Callable[[str], None] = lambda _: None
) -> FinishedRun:
    """The finished run of a scenario file's text on the lab of that name."""
    with catching_signals() as clock, lab.attach(name) as attached, live_world(attached, clock) as world:
        return execute(resolve(load_scenario(text)), text, world, LiveLab(attached), runs, progress)
