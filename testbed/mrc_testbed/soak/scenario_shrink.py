"""Any scenario file that fails in virtual time, made small."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from mrc_testbed.document.envelope import Kind, load
from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.scenario.measure.expectation import Outcome, evaluate_expectations
from mrc_testbed.scenario.measure.recording import Journal
from mrc_testbed.scenario.measure.verdict import unwritten_outcomes
from mrc_testbed.scenario.run.runner import Runner
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.load import load_scenario, scenario_variants
from mrc_testbed.soak.document import Values, commented, plan_of
from mrc_testbed.soak.shrink import CANDIDATE_FACTOR, RefusedDocumentError, shrink
from mrc_testbed.soak.universe import NO_LIMIT, IsStopped, UniverseLimit, judge, judge_candidate, require_plan
from mrc_testbed.virtual.world import virtual_world
from mrc_testbed.workloads.spec import TraceSpec

_ADDED: Final = ("variants", "compare", "figure", "published", "fidelity")
"""Parts of a scenario that no failure in virtual time depends on."""


@dataclass(frozen=True, slots=True)
class Size:
    # faults, workloads, hosts: how many
    faults: int
    workloads: int
    hosts: int
    run_ns: int | None  # how long it runs; None: as long as its iterations take

    @classmethod
    def of(cls, document: Values) -> "Size":
        plan = plan_of(document)
        hosts = plan.topology.numbering.host_count
        spec = document["spec"]
        run_ns = None if plan.end_ns is None else plan.end_ns - plan.start_ns
        return cls(len(spec.get("faults", ())), len(spec["workloads"]), hosts, run_ns)


@dataclass(frozen=True, slots=True)
class Shrunk:
    text: str  # of its file
    found: tuple[str, ...]  # how it fails, one line each
    runs: int  # number of runs that led to it
    # before, after: sizes
    before: Size
    after: Size


def read_failing(path: Path, variant: str | None = None, seed: int | None = None) -> Values:
    """The document of a scenario file, its topology written out, without what only reports need."""
    loaded = load_scenario(path)
    variants = {each.variant.name: each for each in scenario_variants(loaded) if each.variant is not None}
    if variant is not None and variant not in variants:
        known = ", ".join(variants) or "none"
        raise UsageError(
            f"{path} has no variant {variant!r}{did_you_mean(variant, list(variants))} (known: {known})"
        )
    if variants and variant is None:
        raise UsageError(
            f"{path} has the variants {', '.join(variants)}", hint="name the one that fails with --variant"
        )
    chosen = loaded if variant is None else variants[variant]
    tree: Any = chosen.document.tree
    spec = {key: value for key, value in tree["spec"].items() if key not in _ADDED}
    if isinstance(spec.get("topology"), str):
        spec["topology"] = load(path.parent / spec["topology"], Kind.TOPOLOGY).tree["spec"]
    expect = [text for text in spec.get("expect", ()) if not parse_expectation(text).is_across_variants]
    spec |= {"expect": expect, "faults": spec.get("faults", [])}
    if seed is not None:
        spec["seed"] = seed
    changed = tree | {"metadata": {"name": tree["metadata"]["name"]}, "spec": spec}
    document: Values = json.loads(json.dumps(changed))  # what anchors share is apart then
    for written, planned in zip(document["spec"]["workloads"], chosen.spec.workloads, strict=True):
        if isinstance(planned, TraceSpec):
            written["files"] = planned.files  # wherever the smaller one stands
    return document


def shrink_scenario(
    document: Values,
    runs_max: int,
    is_stopped: Callable[[], bool] = lambda: False,
    say: Callable[[int], object] = lambda _: None,
) -> Shrunk:
    """The smallest scenario found that fails by the same expectations; if all hold, by the same invariant.

    Args:
        document: of `read_failing`.
        is_stopped: asked now and then; once it is so, the smallest so far is the result.
    """
    before, judged = Size.of(document), partial(judge, is_candidate=True, events_max=NO_LIMIT)
    unmet = _unmet_expectations(document, is_stopped)
    if unmet:
        texts = [outcome.text for outcome in unmet]
        document["spec"]["expect"] = [text for text in document["spec"]["expect"] if text in texts]
        fails = partial(_fails_expectations, unmet, is_stopped=is_stopped)
    else:
        first = judged(document, is_repeated=True, is_stopped=is_stopped)
        if not first.failures or is_stopped():
            raise UsageError("it does not fail: all expectations hold in virtual time, and all invariants")
        del document["spec"]["expect"]
        invariant, events_max = first.failures[0].invariant, CANDIDATE_FACTOR * first.events
        fails = partial(_fails_by, invariant, is_stopped=is_stopped, events_max=events_max)

    small, runs = shrink(document, fails, runs_max, is_stopped, say)
    if unmet:
        found = [f"{outcome.text}: {outcome.reason}" for outcome in _unmet_expectations(small)]
    else:
        found = [str(failure) for failure in judged(small).failures]
    return Shrunk(commented(small, found), tuple(found), runs, before, Size.of(small))


def _fails_by(invariant: str, document: Values, is_stopped: IsStopped, events_max: int) -> bool:
    """Return True if an invariant does not hold in a document's universe; see `judge_candidate`."""
    found = judge_candidate(invariant, document, is_stopped, events_max).failures
    return invariant in {failure.invariant for failure in found}


def _fails_expectations(unmet: list[Outcome], document: Values, is_stopped: IsStopped) -> bool:
    """Return True if the same expectations, and maybe others, do not hold in a run of a document."""
    require_plan(document)
    try:
        found = _unmet_expectations(document, is_stopped)
    except UsageError as error:
        raise RefusedDocumentError(error.message) from error
    return {_identity(outcome) for outcome in unmet} <= {_identity(outcome) for outcome in found}


def _unmet_expectations(document: Values, is_stopped: IsStopped = lambda: False) -> list[Outcome]:
    """The expectations that do not hold, as `run --virtual` judges; none of a run without its end."""
    plan = plan_of(document)
    with virtual_world(plan, UniverseLimit(is_stopped)) as world:
        runner = Runner(plan, world, Journal(), lambda _: None)
        if runner.run() is not None:
            return []
    written = evaluate_expectations(plan.expect, runner.recording)
    unwritten = unwritten_outcomes(runner.recording, written)
    return [outcome for outcome in written + unwritten if not outcome.has_passed]


def _identity(outcome: Outcome) -> tuple[str, bool, str]:
    """Its text, whether it could be measured, and the error of a QP: another failure differs in one."""
    error = outcome.reason.rpartition(": ")[2] if " -> " in outcome.reason else ""
    return outcome.text, bool(outcome.measured), error
