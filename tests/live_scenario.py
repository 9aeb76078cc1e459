"""A scenario on a lab that is up."""

from collections.abc import Callable
from pathlib import Path

from mrc_testbed.fabric import lab
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve


def run_live(
    name: str, text: str, runs: Path, progress: Callable[[str], None] = lambda _: None
) -> FinishedRun:
    """The finished run of a scenario file's text on the lab of that name."""
    plan = resolve(load_scenario(text))
    with (
        catching_signals() as clock,
        lab.attach(name) as attached,
        live_world(attached, plan, clock) as world,
    ):
        return execute(plan, text, world, LiveLab(attached), runs, progress)
