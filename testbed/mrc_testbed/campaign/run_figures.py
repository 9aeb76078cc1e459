"""Figures of a run by name; two runs compared by them. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from mrc_testbed.scenario.measure.expectation import format_value
from mrc_testbed.scenario.spec.expression import parse_expectation, parse_quantity
from mrc_testbed.scenario.spec.quantity import Better, Dimension

_WORKLOAD_FIGURES: Final = (("goodput", "goodput_bps"), ("fairness", "fairness"))
_TIMES: Final = (("p50", "p50_ns"), ("p99", "p99_ns"), ("max", "max_ns"))
_PHASES: Final = ("detect", "avoid", "restore")


@dataclass(frozen=True, slots=True)
class Figure:
    value: float | None  # in the base unit of its dimension; None when it could not be measured
    dimension: Dimension  # of the value
    better: Better | None = None  # which of two values is the better one; None where the name does not say


def run_figures(manifest: Mapping[str, Any]) -> dict[str, Figure]:
    """Every figure of a run's manifest: of its workloads, expectations, comparisons and faults."""
    return dict(_figures(manifest))


def format_figure(value: float | None, dimension: Dimension) -> str:
    """Text of a value; a dash for none."""
    return "-" if value is None else format_value(value, dimension)


def _figures(manifest: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    for each in manifest.get("workloads", ()):
        yield from _workload_figures(each)
    for each in manifest.get("expectations", ()):
        for name, value in each["measured"].items():
            yield name, _figure_of(name, value)
        text = parse_expectation(each["text"]).left_text
        if text not in each["measured"]:
            yield text, Figure(each["left"], Dimension(each["dimension"]))
    for each in manifest.get("measures", ()):
        yield each["quantity"], _figure_of(each["quantity"], each["value"])
    for each in manifest.get("faults", ()):
        yield f"lost({each['id']})", Figure(each["lost_packets"], Dimension.COUNT)
        for phase in _PHASES:
            yield f"{phase}({each['id']})", Figure(each[phase]["longest_ns"], Dimension.TIME, "less")


def _workload_figures(workload: Mapping[str, Any]) -> Iterator[tuple[str, Figure]]:
    name = workload["name"]
    for what, key in _WORKLOAD_FIGURES:
        yield f"{what}({name})", _figure_of(f"{what}({name})", workload.get(key))
    collective, program = workload.get("collective"), workload.get("program")
    if collective is not None:
        yield f"busbw({name})", Figure(collective["busbw_bps"], Dimension.RATE, "more")
    times = {"operation": None, "step": None} | (collective or program or {})
    for what, key in (("collective_time", "operation"), ("step_time", "step")):
        for percentile, field in _TIMES if times[key] is not None else ():
            yield f"{percentile}({what}({name}))", Figure(times[key][field], Dimension.TIME, "less")
    if program is not None:
        yield f"loss({name})", Figure(program["loss"], Dimension.COUNT, "less")
        return
    yield f"wrong_bytes({name})", Figure(workload["wrong_bytes"], Dimension.COUNT, "less")


def _figure_of(name: str, value: float | None) -> Figure:
    kind = parse_quantity(name).kind
    return Figure(value, kind.dimension, kind.better)


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    name: str  # what it is
    dimension: Dimension  # of both values
    # before, after: values in the base unit; None where a run has none
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """The second by the first; None when that is not defined."""
        if self.before is None or self.after is None or self.before == 0:
            return None
        return self.after / self.before

    def shown(self, value: float | None) -> str:
        return format_figure(value, self.dimension)


def compare_runs(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ComparedFigure, ...]:
    """Every figure of two runs' manifests: workloads, expectations, recovery; those of the first lead."""
    first, second = run_figures(before), run_figures(after)
    return tuple(
        ComparedFigure(
            name,
            (first.get(name) or second[name]).dimension,
            first[name].value if name in first else None,
            second[name].value if name in second else None,
        )
        for name in dict.fromkeys((*first, *second))
    )
