"""Judging documents, and the plans that once failed: small scenario files, which `make test` runs."""

import logging
from pathlib import Path
from typing import Final

from mrc_testbed.document import Kind, load
from mrc_testbed.errors import UsageError
from tests.universes.document import Values, as_text, plan_of
from tests.universes.draw import draw_universe
from tests.universes.invariants import Failure
from tests.universes.shrink import shrink
from tests.universes.universe import Outcome, run_document

CORPUS: Final = Path(__file__).parent / "corpus"
KNOWN: Final = Path(__file__).parent / "known"
"""Plans that fail by open bugs; avoided.py keeps universes off them."""
REPEATED: Final = 10
"""One in so many universes runs twice."""

Judged = tuple[str, Outcome, Path | None]
"""Universe, verdict, and the file that keeps it if it failed."""

_log = logging.getLogger(__name__)
_candidate_log = _log.getChild("candidate")
_candidate_log.setLevel(logging.CRITICAL)


def read_plan(path: Path) -> Values:
    """The document in a scenario file.

    Raises:
        UsageError: it is none.
    """
    return dict(load(path, Kind.SCENARIO).tree)


def judge(document: Values, *, is_repeated: bool = False, is_candidate: bool = False) -> Outcome:
    """Judge a universe; an exception is a failure of its own kind.

    Args:
        document: of a scenario that the language accepts.
        is_repeated: whether it runs twice, and both have to come to the same.
        is_candidate: whether it is one of many that lead to a smaller failure: its exceptions go unlogged.
    """
    log = _candidate_log if is_candidate else _log
    try:
        outcome = run_document(document)
        again = run_document(document) if is_repeated else outcome
    except Exception as error:
        log.exception("%s", document["metadata"]["name"])
        return Outcome((Failure(type(error).__name__, str(error)),), "", 0, 0)
    if again == outcome:
        return outcome
    digests = Failure("digest", f"{outcome.digest} and {again.digest} of one universe")
    return Outcome((*outcome.failures, digests), outcome.digest, outcome.time_ns, outcome.events)


def judge_seed(corpus: Path, seed: int) -> Judged:
    """The universe of a number; one that fails is shrunk and kept in *corpus*."""
    document = draw_universe(seed)
    outcome = judge(document, is_repeated=seed % REPEATED == 0)
    kept = keep(document, outcome.failures, corpus) if outcome.failures else None
    return f"universe {seed}", outcome, kept


def judge_plan(path: Path) -> Judged:
    """The plan in a scenario file; it runs twice."""
    return str(path), judge(read_plan(path), is_repeated=True), None


def shrink_failure(document: Values, failure: Failure) -> Values:
    """A smaller document that fails by the same invariant."""
    is_repeated = failure.invariant == "digest"

    def fails(candidate: Values) -> bool:
        try:
            plan_of(candidate)
        except UsageError:
            return False  # what is left is no scenario
        found = judge(candidate, is_repeated=is_repeated, is_candidate=True).failures
        return failure.invariant in {each.invariant for each in found}

    return shrink(document, fails)


def keep(document: Values, failures: tuple[Failure, ...], folder: Path) -> Path:
    """Shrinks a failing document and writes it to *folder*; the file."""
    small = shrink_failure(document, failures[0])
    name = f"{failures[0].invariant}-{small['spec']['seed']}".lower()
    small["metadata"]["name"] = name
    found = judge(small, is_candidate=True).failures
    said = "".join(f"# {failure}\n" for failure in found)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.yaml"
    path.write_text(said + as_text(small), encoding="utf-8")
    return path
