"""One run in virtual time, from plan to result folder."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.run.signal_clock import catching_signals
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.virtual.world import SayTime, VirtualLabView, virtual_world


def run_virtually(
    plan: Plan,
    source: str | None,
    runs: Path,
    *,
    force: Callable[[], object] | None = None,
    progress: Callable[[str], None] = lambda _: None,
    say_time: SayTime = lambda *_: None,
) -> FinishedRun:
    """The finished run of *plan*, in a lab that exists for it alone; see `execute`.

    Args:
        source: text of the scenario file, kept with the results.
        force: called at the second signal.
        say_time: called again and again while time passes.
    """
    with ExitStack() as stack:
        machine = stack.enter_context(catching_signals(force))
        world = stack.enter_context(virtual_world(plan, machine, say_time=say_time))
        return execute(plan, source, world, VirtualLabView(), runs, progress)
