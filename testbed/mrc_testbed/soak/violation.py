"""Invariants that did not hold, kept: a small scenario file, and its results in a bundle."""

import logging
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from mrc_testbed.bundle.bundle import SUFFIX, write_bundle
from mrc_testbed.document.envelope import Kind, load
from mrc_testbed.document.one_step import latest_of, write_in_one_step, writing
from mrc_testbed.errors import TestbedError
from mrc_testbed.scenario.execution import execute
from mrc_testbed.soak.document import Values, commented, plan_of
from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.invariants import Failure
from mrc_testbed.soak.shrink import CANDIDATE_FACTOR, shrink
from mrc_testbed.soak.universe import EVENTS_MAX, IsStopped, Judged, UniverseLimit, judge_candidate
from mrc_testbed.virtual.world import VirtualLabView, planned_lab, world_in

CANDIDATE_EVENTS_MAX: Final = EVENTS_MAX // 3
"""Events of a candidate, which is smaller than a universe."""
SHRINK_EVENTS_MAX: Final = 20 * CANDIDATE_EVENTS_MAX
"""Events of all candidates together: a minute or two."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Violation:
    """A universe in which an invariant does not hold."""

    seed: int  # its number
    failures: tuple[Failure, ...]  # invariants that do not hold
    scenario: Path  # file of the smallest universe found that fails by the first of them
    bundle: Path  # results of that file


def keep_violation(judged: Judged, into: Path, is_hasty: IsStopped = lambda: False) -> Violation:
    """The violation of a universe, shrunk and written.

    Args:
        into: folder of scenario files and bundles.
        is_hasty: asked now and then whether to shrink no further, and to end the run of the results.
    """
    path = keep_scenario(draw_universe(judged.seed), judged.failures, into, is_hasty, judged.events)
    return Violation(judged.seed, judged.failures, path, _bundle_of(path, is_hasty))


def keep_scenario(
    document: Values,
    failures: tuple[Failure, ...],
    into: Path,
    is_hasty: IsStopped = lambda: False,
    events: int = EVENTS_MAX,
) -> Path:
    """The scenario file in folder *into* of the smallest document found that fails as *document* does."""
    invariant, found, spent = failures[0].invariant, failures, 0

    def fails(candidate: Values) -> bool:
        nonlocal found, spent
        events_max = min(CANDIDATE_FACTOR * events, CANDIDATE_EVENTS_MAX)
        outcome = judge_candidate(invariant, candidate, is_hasty, events_max)
        spent += outcome.events
        has_failed = invariant in {failure.invariant for failure in outcome.failures} and not is_over()
        if has_failed:
            found = outcome.failures
        return has_failed

    def is_over() -> bool:
        return spent >= SHRINK_EVENTS_MAX or is_hasty()

    small, _ = shrink(document, fails, is_over=is_over)
    name = f"{invariant}-{small['spec']['seed']}".lower()
    small["metadata"]["name"] = name
    path = into / f"{name}.yaml"
    write_failing(path, small, found)
    return path


def write_failing(path: Path, document: Values, failures: tuple[Failure, ...]) -> None:
    """Write a document as a scenario file that says how it fails."""
    with writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_in_one_step(path, commented(document, map(str, failures)))


def _bundle_of(path: Path, is_hasty: IsStopped) -> Path:
    """The results of a scenario file in a bundle beside it, as `run` and `bundle` make them, with a limit."""
    text = path.read_text(encoding="utf-8")
    plan = plan_of(dict(load(path, Kind.SCENARIO).tree))
    with TemporaryDirectory(prefix="mrc-testbed-soak-") as scratch:
        try:
            machine = UniverseLimit(is_hasty)
            with planned_lab(plan, machine) as lab, world_in(lab, plan, machine) as world:
                machine.lab = lab
                execute(plan, text, world, VirtualLabView(), Path(scratch))
        except TestbedError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug, which the results name
            _log.debug("%s: %s", path, error)
        return write_bundle(latest_of(Path(scratch) / plan.scenario), path.with_name(f"{path.stem}{SUFFIX}"))
