"""Two runs side by side: what was measured in both, and how far apart it is. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.scenario.measure.expectation import format_value
from testbed.scenario.spec.quantity import Dimension

_WORKLOAD_FIGURES = (("goodput", "goodput_bps", Dimension.RATE), ("fairness", "fairness", Dimension.RATIO))
_TIMES = (("p50", "p50_ns"), ("p99", "p99_ns"), ("max", "max_ns"))


@dataclass(frozen=True, slots=True)
class ComparedFigure:
    """One figure in two runs.

    Attributes:
        name: what it is.
        dimension: of both values.
        before, after: values in the base unit; None where a run has none.
    """

    name: str
    dimension: Dimension
    before: float | None
    after: float | None

    @property
    def ratio(self) -> float | None:
        """The second by the first; None when that is not defined."""
        if self.before is None or self.after is None or self.before == 0:
            return None
        return self.after / self.before

    def shown(self, value: float | None) -> str:
        """A value for people."""
        return "-" if value is None else format_value(value, self.dimension)


def compare_runs(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ComparedFigure, ...]:
    """Every figure of two runs' manifests: workloads, expectations, recovery; those of the first lead."""
    first, second = (dict(_figures(manifest)) for manifest in (before, after))
    return tuple(
        ComparedFigure(
            name,
            (first.get(name) or second[name])[1],
            first[name][0] if name in first else None,
            second[name][0] if name in second else None,
        )
        for name in dict.fromkeys((*first, *second))
    )


def _figures(manifest: Mapping[str, Any]) -> Iterator[tuple[str, tuple[float | None, Dimension]]]:
    for each in manifest.get("workloads", ()):
        for what, key, dimension in _WORKLOAD_FIGURES:
            yield f"{what}({each['name']})", (each.get(key), dimension)
        collective = each.get("collective")
        if collective is not None:
            yield f"busbw({each['name']})", (collective["busbw_bps"], Dimension.RATE)
            for what, key in (("collective_time", "operation"), ("step_time", "step")):
                for name, field in _TIMES if collective[key] is not None else ():
                    figure = collective[key][field]
                    yield f"{name}({what}({each['name']}))", (figure, Dimension.TIME)
        yield f"wrong_bytes({each['name']})", (each["wrong_bytes"], Dimension.COUNT)
    for each in manifest.get("expectations", ()):
        left = each["text"].split("<")[0].split(">")[0].split("=")[0].split("!")[0].strip()
        yield left, (each["left"], Dimension(each["dimension"]))
    for each in manifest.get("faults", ()):
        yield f"lost packets of {each['id']}", (each["lost_packets"], Dimension.COUNT)
        for phase in ("detect", "avoid", "restore"):
            yield f"{phase}({each['id']})", (each[phase]["longest_ns"], Dimension.TIME)
