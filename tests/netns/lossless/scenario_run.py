"""A scenario on a lab of these tests that is up."""

from pathlib import Path

from testbed.fabric import lab
from testbed.fabric.live import Lab
from testbed.scenario.execution import FinishedRun, execute
from testbed.scenario.run.live import LiveLab, live_world
from testbed.scenario.run.signal_clock import catching_signals
from testbed.scenario.spec.load import load_scenario
from testbed.scenario.spec.resolve import resolve


def run_on(live: Lab, scenario: str, runs: Path) -> FinishedRun:
    """The finished run of a scenario file's text, in which `{topology}` stands for that of the lab."""
    text = scenario.format(topology=live.spec.model_dump_json(exclude_defaults=True))
    with catching_signals() as clock, lab.attach(live.name) as attached, live_world(attached, clock) as world:
        return execute(resolve(load_scenario(text)), text, world, LiveLab(attached), runs, lambda _: None)
