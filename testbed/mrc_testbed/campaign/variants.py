"""Variants of a scenario side by side: values, expectations across them, the factor between two. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.measure.expectation import Answer, answer_of, evaluate, format_measured
from mrc_testbed.scenario.measure.measurement import Measures
from mrc_testbed.scenario.measure.recording import NotMeasured
from mrc_testbed.scenario.spec.expression import parse_expectation, parse_quantity
from mrc_testbed.scenario.spec.expression_tree import Comparison, Quantity
from mrc_testbed.scenario.spec.quantity import Dimension
from mrc_testbed.shown import format_number, format_share
from mrc_testbed.units import parse_size_bytes

_WORST_FIRST: Final = ("interrupted", "error", "aborted", "not run", "untrusted", "failed", "passed")
_WINDOWS: Final = (None, "before", "during", "after", "from")
"""In the order of time."""
_TELLING: Final = ("during", "after", None, "from", "before")
"""Windows, the most telling of a comparison first."""
_EQUAL_RATIO: Final = 1.05


@dataclass(frozen=True, slots=True)
class VariantRun:
    name: str  # of the variant
    values: Mapping[str, str]  # axis -> value
    status: str  # of the run; `not run` before it
    reason: str  # one sentence; empty before it
    folder: str | None  # its result folder, from the campaign's own; None without one
    expectations: tuple[Mapping[str, Any], ...]  # those that hold for each variant, as in its manifest
    measures: Mapping[str, Mapping[str, Any]]  # quantity -> as in its manifest; empty when there is none
    # flow -> goodput, bit/s, all its QPs together; empty unless the scenario draws flows
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
            raise NotMeasured(f"{quantity}: {run.name or 'the run'} has no result ({run.status})")
        if found["value"] is None:
            raise NotMeasured(f"{quantity}: {found['reason']}")
        return float(found["value"])


def judge_across(expect: Sequence[str], runs: Sequence[VariantRun]) -> tuple[Mapping[str, Any], ...]:
    """Outcome of each expectation of a scenario with variants, in the shape that manifests have.

    Args:
        expect: all of them, in the order of the file. One that names variants compares them; one that names
            none has to hold in each.
    """
    across = _Across(runs)
    return tuple(
        evaluate(parsed, across).document() if parsed.is_across_variants else _in_each(parsed, runs)
        for parsed in map(parse_expectation, expect)
    )


def judge_published(texts: Sequence[str], runs: Sequence[VariantRun]) -> tuple[Mapping[str, Any], ...]:
    """Each published figure beside the measured one, in the shape that manifests have of expectations.

    Args:
        texts: comparisons of a measured figure, left, with a published one, right.
        runs: of all variants, or the only one, without a name.
    """
    across = _Across(runs)
    return tuple(evaluate(parse_expectation(text), across).document() for text in texts)


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


def _in_each(parsed: Comparison, runs: Sequence[VariantRun]) -> Mapping[str, Any]:
    text = parsed.text
    found = {run.name: each for run in runs for each in run.expectations if each["text"] == text}
    wanting = [run.name for run in runs if run.name not in found]
    failed = [f"{name}: {each['reason']}" for name, each in found.items() if not each["passed"]]
    failed += [f"{name}: it has no result" for name in wanting]
    return {
        "text": text,
        "passed": not failed,
        "outcome": _answer_in_each(found.values(), len(runs)),
        "reason": "; ".join(failed) or f"held in each of {len(runs)} variants",
        "dimension": parsed.left.dimension.value,
        "left": None,
        "right": None,
        "measured": {
            f"{quantity} in {name}": value
            for name, each in found.items()
            for quantity, value in each["measured"].items()
        },
    }


def _answer_in_each(found: Collection[Mapping[str, Any]], wanted: int) -> Answer:
    answers = {answer_of(each) for each in found}
    if "failed" in answers or len(found) < wanted:
        return "failed"
    return "cannot tell" if "cannot tell" in answers else "held"


def in_order(names: Sequence[str]) -> tuple[str, ...]:
    """Quantities, those of one kind together, before left of during."""
    quantities = [parse_quantity(name) for name in names]
    kinds = list(dict.fromkeys(map(without_window, quantities)))
    quantities.sort(key=lambda each: (kinds.index(without_window(each)), _WINDOWS.index(each.window)))
    return tuple(map(str, quantities))


def size_axis(runs: Sequence[VariantRun]) -> str | None:
    """The axis whose values are all sizes; None when there is none with two."""
    for axis in runs[0].values:
        values = {run.values[axis] for run in runs}
        if len(values) > 1 and all(size_of(value) is not None for value in values):
            return axis
    return None


def size_of(value: str) -> int | None:
    """Bytes of the value of an axis; None if it is no size."""
    try:
        return parse_size_bytes(value)
    except UsageError:
        return None


def without_window(quantity: Quantity) -> str:
    """The text of a quantity, of whatever window it is."""
    return str(replace(quantity, window=None, fault_id=None, stretch_ns=None))


def factor_sentence(compare: Sequence[str], runs: Sequence[VariantRun]) -> str:
    """The best and the worst variant: the share each kept of its own before a fault, or what each had.

    Such as `mrc kept 99 % of its 4 steps/s, roce 60 % of its 3 steps/s: 1.65 times (job_throughput(job)
    during gray)` where the same was measured before the fault; else such as `mrc had 3 Mbit/s, roce 2
    Mbit/s: 1.5 times (goodput(main))`. Of several quantities, the first of those that tell most: during a
    fault before others. Of several sizes, the largest. Empty where fewer than two variants have measured
    anything that is better one way.
    """
    named = [quantity for quantity in map(parse_quantity, compare) if quantity.kind.better is not None]
    axis = size_axis(runs) if runs else None
    if axis is not None:
        largest = max(size_of(run.values[axis]) or 0 for run in runs)
        runs = [run for run in runs if size_of(run.values[axis]) == largest]
    for quantity in sorted(named, key=lambda each: _TELLING.index(each.window)):
        values = _values(quantity, runs)
        if len(values) > 1 and any(values.values()):
            is_trusted = not any(run.status == "untrusted" for run in runs if run.name in values)
            sentence = _sentence(quantity, values, _before(quantity, runs))
            return sentence if is_trusted else f"{sentence} (untrusted)"
    return ""


def _values(quantity: Quantity, runs: Sequence[VariantRun]) -> dict[str, float]:
    return {run.name: value for run in runs if (value := run.value(str(quantity))) is not None}


def _before(quantity: Quantity, runs: Sequence[VariantRun]) -> dict[str, float]:
    """Values of the same before the fault; none of a quantity that grows with the length of its window."""
    if quantity.kind.grows or quantity.window not in ("during", "after"):
        return {}
    return _values(replace(quantity, window="before"), runs)


def _sentence(quantity: Quantity, values: Mapping[str, float], before: Mapping[str, float]) -> str:
    has = "took" if quantity.dimension is Dimension.TIME else "had"
    if all(before.get(name) for name in values):
        compared: Mapping[str, float] = {name: value / before[name] for name, value in values.items()}
        verb, same = ("kept" if quantity.kind.better == "more" else has), "the same share"
        own = {name: format_measured(value, quantity) for name, value in before.items()}
        texts = {
            name: f"{format_share(share) if share else '0 %'} of its {own[name]}"
            for name, share in compared.items()
        }
    else:
        compared, verb, same = values, has, "the same"
        texts = {name: format_measured(value, quantity) for name, value in values.items()}
    ordered = sorted(compared, key=lambda name: compared[name], reverse=quantity.kind.better == "more")
    best, worst = ordered[0], ordered[-1]
    low, high = sorted((compared[best], compared[worst]))
    if low > 0 and high / low < _EQUAL_RATIO:
        which = "both" if len(values) == 2 else f"all {len(values)}"
        factor = f": {same} in {which} variants, within 5 %"
    else:
        factor = f": {format_number(high / low)} times" if low > 0 else ""
    return f"{best} {verb} {texts[best]}, {worst} {texts[worst]}{factor} ({quantity})"
