"""Rounds on one live lab: faults over a training job, in the manner of Jepsen, and what they leave behind."""

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, Protocol

from mrc_testbed.bundle.bundle import SUFFIX, write_bundle
from mrc_testbed.document.latest import latest_of
from mrc_testbed.document.one_step import write_in_one_step
from mrc_testbed.errors import TestbedError
from mrc_testbed.scenario.execution import FinishedRun, execute
from mrc_testbed.scenario.measure.verdict import Status, Verdict
from mrc_testbed.scenario.run.live import LiveLab, live_world
from mrc_testbed.scenario.run.protocols import Clock
from mrc_testbed.scenario.run.stage import lab_for_run
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.soak.document import Values, as_text, commented, plan_of
from mrc_testbed.soak.invariants import Failure, Reach
from mrc_testbed.soak.judging import Judged
from mrc_testbed.soak.lab_state import left_behind, look
from mrc_testbed.soak.live_draw import LAB, draw_round
from mrc_testbed.soak.soaking import UNLIMITED, Control, Soak
from mrc_testbed.soak.violation import Violation

Say = Callable[[str], None]

_log = logging.getLogger(__name__)

_INVARIANTS: Final = {
    "wrong_bytes": "bytes",
    "qp_errors": "qp",
    "operations(job)": "stuck",
    "interruption(job)": "stall",
}
"""Names of the invariants of universes that expectations of rounds stand for, by their first word."""


class SoakedLab(Protocol):
    """A lab that is up, for one round after another."""

    def run(self, plan: Plan, source: str, runs: Path) -> FinishedRun:
        """Runs a round, its results below the folder *runs*."""

    def left_behind(self) -> list[str]:
        """One sentence for each part of the lab that is not as before the first round."""


Stage = Callable[[], AbstractContextManager[SoakedLab]]
"""A new lab, for as long as the context lasts."""


@dataclass(slots=True)
class LiveSoak(Soak):
    """The state of a soak of a lab; its universes are rounds."""

    untrusted: int = 0  # rounds in which the machine was late, so that their expectations count for nothing


def soak_lab(
    found: LiveSoak,
    seeds: Iterable[int],
    into: Path,
    stage: Stage,
    control: Control = UNLIMITED,
) -> None:
    """Run the rounds of numbers, and keep those that fail. A lab that is not as before is replaced.

    Args:
        found: the state, which says what was found also after an error.
        seeds: the numbers.
        into: folder for what fails; made when something does.
        stage: where rounds take place.
        control: of the rounds; once it is stopped, the one under way counts for nothing.
    """
    lab, is_stopped = None, control.is_stopped
    with ExitStack() as labs:
        for seed in seeds:
            if is_stopped() or control.is_over():
                break
            lab = labs.enter_context(stage()) if lab is None else lab
            with TemporaryDirectory(prefix="mrc-testbed-soak-") as scratch:
                done = _carry_out(lab, draw_round(seed), Path(scratch), is_stopped)
                left = [] if is_stopped() else lab.left_behind()
                if is_stopped() or done.status is Status.INTERRUPTED:
                    break
                failures = (*done.failures, *(Failure("fault", text) for text in left))
                if failures:
                    found.failed.append(Judged(seed, failures, 0, 0))
                    found.violations.append(_keep(draw_round(seed), failures, done.folder, into))
            found.universes += 1
            found.untrusted += not done.is_trusted
            control.report()
            if left or done.status is Status.ERROR:
                labs.close()
                lab = None


@dataclass(frozen=True, slots=True)
class _Done:
    """A round that was carried out: results, and invariants that do not hold."""

    folder: Path
    status: Status
    is_trusted: bool
    failures: tuple[Failure, ...]


def _carry_out(lab: SoakedLab, document: Values, runs: Path, is_stopped: Callable[[], bool]) -> _Done:
    """Run a round; an exception is a failure of its own kind, once there are results."""
    plan = plan_of(document)
    try:
        finished = lab.run(plan, as_text(document), runs)
    except Exception as error:
        results = latest_of(runs / plan.scenario)
        if is_stopped() or not results.is_dir():
            raise
        _log.exception("%s", plan.scenario)
        return _Done(results, Status.ERROR, True, (Failure(type(error).__name__, str(error)),))
    verdict = finished.result.verdict
    return _Done(finished.folder, verdict.status, verdict.is_trusted, tuple(_unmet(plan, verdict)))


def _unmet(plan: Plan, verdict: Verdict) -> Iterator[Failure]:
    """Expectations that do not hold, in a run that is to be believed."""
    if not verdict.is_trusted:
        return
    if verdict.status is Status.ERROR:
        yield Failure("ending", verdict.reason)
    is_killing = bool(Reach(plan).killed)  # then the collective fails as a whole
    for outcome in verdict.outcomes:
        if outcome.answer == "failed" and (outcome.is_written or not is_killing):
            yield Failure(_INVARIANTS.get(outcome.text.split()[0], "qp"), f"{outcome.text}: {outcome.reason}")


def _keep(document: Values, failures: tuple[Failure, ...], results: Path, into: Path) -> Violation:
    """The violation of a round: its scenario file with what was found, its results in a bundle."""
    seed = document["spec"]["seed"]
    path = into / f"{failures[0].invariant}-{document['metadata']['name']}.yaml"
    try:
        into.mkdir(parents=True, exist_ok=True)
        write_in_one_step(path, commented(document, map(str, failures)))
    except OSError as error:
        raise TestbedError(f"{path} cannot be written: {error.strerror}") from error
    return Violation(seed, failures, path, write_bundle(results, path.with_name(f"{path.stem}{SUFFIX}")))


def live_stage(name: str, runtime: str | None, clock: Clock, progress: Say) -> Stage:
    """Labs of this machine.

    Args:
        name: of the lab.
        runtime: of its nodes; None: as `up` chooses.
        clock: of the rounds.
        progress: called with the present step.
    """

    @contextmanager
    def stage() -> Iterator[SoakedLab]:
        with lab_for_run(LAB, name=name, runtime=runtime, progress=progress) as lab:
            before = look(lab)

            class _Lab:
                def run(self, plan: Plan, source: str, runs: Path) -> FinishedRun:
                    with live_world(lab, plan, clock) as world:
                        finished = execute(plan, source, world, LiveLab(lab), runs, progress)
                    verdict = finished.result.verdict
                    progress(f"{plan.scenario}: {verdict.status.value}: {verdict.reason}")
                    return finished

                def left_behind(self) -> list[str]:
                    return left_behind(lab, before, clock)

            yield _Lab()

    return stage
