"""Invariants that did not hold, kept: a small scenario file, and its results in a bundle."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from mrc_testbed.bundle.bundle import SUFFIX, write_bundle
from mrc_testbed.document import Kind, load
from mrc_testbed.document.latest import latest_of
from mrc_testbed.document.one_step import write_in_one_step
from mrc_testbed.errors import TestbedError
from mrc_testbed.soak.document import Values, commented, plan_of
from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.failing import fails_by
from mrc_testbed.soak.invariants import Failure
from mrc_testbed.soak.judging import Judged, judge
from mrc_testbed.soak.shrink import shrink
from mrc_testbed.virtual.run import run_virtually

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Violation:
    """A universe in which an invariant does not hold.

    Attributes:
        seed: its number.
        failures: invariants that do not hold.
        scenario: file of the smallest universe found that fails by the first of them.
        bundle: results of that file.
    """

    seed: int
    failures: tuple[Failure, ...]
    scenario: Path
    bundle: Path


def keep_violation(judged: Judged, into: Path, is_hasty: Callable[[], bool] = lambda: False) -> Violation:
    """The violation of a universe, shrunk and written.

    Args:
        judged: a universe that failed.
        into: folder of scenario files and bundles.
        is_hasty: asked now and then whether to shrink no further.

    Raises:
        TestbedError: a file cannot be written.
    """
    path = keep_scenario(draw_universe(judged.seed), judged.failures, into, is_hasty)
    return Violation(judged.seed, judged.failures, path, _bundle_of(path))


def keep_scenario(
    document: Values,
    failures: tuple[Failure, ...],
    into: Path,
    is_hasty: Callable[[], bool] = lambda: False,
) -> Path:
    """The scenario file in folder *into* of the smallest document found that fails as *document* does."""
    small, _ = shrink(document, partial(fails_by, failures[0].invariant), is_over=is_hasty)
    name = f"{failures[0].invariant}-{small['spec']['seed']}".lower()
    small["metadata"]["name"] = name
    found = judge(small, is_candidate=True).failures or failures
    path = into / f"{name}.yaml"
    try:
        into.mkdir(parents=True, exist_ok=True)
        write_in_one_step(path, commented(small, map(str, found)))
    except OSError as error:
        raise TestbedError(f"{path} cannot be written: {error.strerror}") from error
    return path


def _bundle_of(path: Path) -> Path:
    """The results of a scenario file in a bundle beside it, as `run` and `bundle` make them."""
    text = path.read_text(encoding="utf-8")
    plan = plan_of(dict(load(path, Kind.SCENARIO).tree))
    with TemporaryDirectory(prefix="mrc-testbed-soak-") as scratch:
        try:
            run_virtually(plan, text, Path(scratch))
        except TestbedError:
            raise
        except Exception as error:  # noqa: BLE001 - a bug, which the results name
            _log.debug("%s: %s", path, error)
        return write_bundle(latest_of(Path(scratch) / plan.scenario), path.with_name(f"{path.stem}{SUFFIX}"))
