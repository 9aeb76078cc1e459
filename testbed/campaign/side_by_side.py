"""Variants of a scenario side by side: what each measured, which expectations held across them. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from testbed.scenario.measure.expectation import evaluate, format_measured
from testbed.scenario.measure.measurement import Measures
from testbed.scenario.measure.recording import NotMeasured
from testbed.scenario.spec.expression import parse_expectation, parse_quantity
from testbed.scenario.spec.expression_tree import Quantity

_WORST_FIRST: Final = ("interrupted", "error", "aborted", "not run", "untrusted", "failed", "passed")


@dataclass(frozen=True, slots=True)
class VariantRun:
    """One variant's run.

    Attributes:
        name: of the variant.
        values: axis -> value.
        status: of the run; `not run` before it.
        reason: one sentence; empty before it.
        folder: its result folder, from the campaign's own; None without one.
        expectations: those that hold for each variant, as in its manifest.
        measures: quantity -> as in its manifest; empty when there is none.
        flows: flow -> goodput, bit/s, all its QPs together; empty unless the scenario draws flows.
    """

    name: str
    values: Mapping[str, str]
    status: str
    reason: str
    folder: str | None
    expectations: tuple[Mapping[str, Any], ...]
    measures: Mapping[str, Mapping[str, Any]]
    flows: Mapping[str, float] = field(default_factory=dict)

    def shown(self, quantity: str) -> str:
        """The value of a quantity for people; a dash for none."""
        found = self.measures.get(quantity)
        if found is None or found["value"] is None:
            return "-"
        return format_measured(float(found["value"]), parse_quantity(quantity))

    def value(self, quantity: str) -> float | None:
        """The value of a quantity in its base unit; None when it was not measured."""
        found = self.measures.get(quantity)
        return None if found is None or found["value"] is None else float(found["value"])


class _Across(Measures):
    """Values of quantities that name a variant."""

    def __init__(self, runs: Sequence[VariantRun]) -> None:
        self._runs = {run.name: run for run in runs}

    def measure(self, quantity: Quantity) -> float:
        run = self._runs[quantity.variant or ""]
        found = run.measures.get(quantity.within_run)
        if found is None:
            raise NotMeasured(f"{quantity}: the variant has no result ({run.status})")
        if found["value"] is None:
            raise NotMeasured(f"{quantity}: {found['reason']}")
        return float(found["value"])


def judge_across(expect: Sequence[str], runs: Sequence[VariantRun]) -> tuple[Mapping[str, Any], ...]:
    """Outcome of each expectation of a scenario with variants, in the shape that manifests have.

    Args:
        expect: all of them, in the order of the file. One that names variants compares them; one that names
            none has to hold in each.
        runs: of all variants.
    """
    return tuple(
        _compared(text, runs) if parse_expectation(text).is_across_variants else _in_each(text, runs)
        for text in expect
    )


def worst_status(runs: Sequence[VariantRun], expectations: Sequence[Mapping[str, Any]]) -> str:
    """Worst status of the variants, or `failed` when a comparison did not hold."""
    statuses = {run.status for run in runs}
    if not all(each["passed"] for each in expectations):
        statuses.add("failed")
    return next(status for status in _WORST_FIRST if status in statuses)


def reason_of(status: str, runs: Sequence[VariantRun], expectations: Sequence[Mapping[str, Any]]) -> str:
    """Why the variants came to *status*, in one sentence."""
    if status == "not run":
        return ""
    if status == "passed":
        return f"all {len(expectations)} expectations held, of {len(runs)} variants"
    if status == "failed":
        failed = sum(not each["passed"] for each in expectations)
        return f"{failed} of {len(expectations)} expectations did not hold"
    return "; ".join(f"{run.name}: {run.reason}" for run in runs if run.status == status)


def _compared(text: str, runs: Sequence[VariantRun]) -> Mapping[str, Any]:
    outcome = evaluate(parse_expectation(text), _Across(runs))
    return {
        "text": text,
        "passed": outcome.has_passed,
        "reason": outcome.reason,
        "dimension": outcome.dimension.value,
        "left": outcome.left,
        "right": outcome.right,
        "measured": {str(each.quantity): each.value for each in outcome.measured},
    }


def _in_each(text: str, runs: Sequence[VariantRun]) -> Mapping[str, Any]:
    found = {run.name: each for run in runs for each in run.expectations if each["text"] == text}
    wanting = [run.name for run in runs if run.name not in found]
    failed = [f"{name}: {each['reason']}" for name, each in found.items() if not each["passed"]]
    failed += [f"{name}: it has no result" for name in wanting]
    return {
        "text": text,
        "passed": not failed,
        "reason": "; ".join(failed) or f"held in each of {len(runs)} variants",
        "dimension": parse_expectation(text).left.dimension.value,
        "left": None,
        "right": None,
        "measured": {
            f"{quantity} in {name}": value
            for name, each in found.items()
            for quantity, value in each["measured"].items()
        },
    }
