"""The unit of what a PromQL expression returns, from the names of its metrics.

Source: Prometheus, "Metric and label naming": a name ends with the base unit, counters with _total after it.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

import promql_parser as promql
from dashboard_files import PanelQuery

RATE: Final = "count:.../s"
"""Any unit of Grafana's for so many things per second; each of our panels names the things."""

_BY_SUFFIX: Final = {"seconds": (0, 1, 0), "bytes": (1, 0, 0), "ratio": (0, 0, 0), "saturated": (0, 0, 0)}
_UNITS: Final = {
    (1, -1, 0): {"Bps"},
    (1, 0, 0): {"bytes"},
    (0, 1, 0): {"s"},
    (0, -1, 1): {RATE},
    (0, 0, 0): {"percentunit"},
    (0, 0, 1): {"short"},
}
"""Powers of bytes, seconds and things -> units of Grafana that show them rightly."""

_DATES: Final = {"dateTimeFromNow", "dateTimeAsIso"}


@dataclass(frozen=True)
class Unit:
    """Powers of bytes, of seconds, and of things that are counted."""

    bytes: int = 0
    seconds: int = 0
    things: int = 0
    bits: bool = False  # values are bits, eight times the bytes
    is_date: bool = False  # values are times since 1970, not durations

    def times(self, other: "Unit", sign: int = 1) -> "Unit":
        """The unit of a product, or with *sign* -1 of a quotient."""
        return Unit(
            self.bytes + sign * other.bytes,
            self.seconds + sign * other.seconds,
            self.things + sign * other.things,
            self.bits or other.bits,
            self.is_date or other.is_date,
        )

    @property
    def of_grafana(self) -> set[str]:
        """The units of Grafana that show it rightly; none: there is no such unit."""
        if self.is_date:
            return _DATES
        of_what = self.things if self.bytes == 0 and self.seconds != 1 else 0  # seconds each are seconds
        return {"bps"} if self.bits else _UNITS.get((self.bytes, self.seconds, of_what), set())


def unit_of(query: PanelQuery) -> Unit:
    """The unit of what a query returns.

    Raises:
        ValueError: it adds, or has beside each other, what differs in its unit.
    """
    return _unit(promql.parse(query.for_lab("lab"))) or Unit(things=1)


def _unit(node: Any) -> Unit | None:
    """The unit of a part of an expression; None for a number, which has any."""
    if isinstance(node, promql.NumberLiteral | promql.StringLiteral):
        return None
    if isinstance(node, promql.VectorSelector | promql.MatrixSelector):
        return _of_metric(_metric_of(node))
    if isinstance(node, promql.AggregateExpr) and str(node.op) == "count":
        return Unit(things=1)
    if isinstance(node, promql.Call):
        return _of_call(node)
    return _of_pair(node) if isinstance(node, promql.BinaryExpr) else _unit(node.expr)


def _of_call(node: Any) -> Unit | None:
    if node.func.name == "histogram_quantile":
        return _of_metric(_metric_of(node.args[1]).removesuffix("_bucket"))
    if node.func.name in ("timestamp", "time"):
        return Unit(is_date=True)
    found = [unit for argument in node.args if (unit := _unit(argument)) is not None]
    is_rate = node.func.name == "rate"
    return found[0].times(Unit(seconds=1), -1) if found and is_rate else next(iter(found), None)


def _of_pair(node: Any) -> Unit | None:
    operator, left, right = str(node.op), _unit(node.lhs), _unit(node.rhs)
    if operator in ("and", "unless"):
        return left
    if left is None or right is None:
        known, literal = (right, node.lhs) if left is None else (left, node.rhs)
        is_bits = operator == "*" and isinstance(literal, promql.NumberLiteral) and literal.val == 8
        return replace(known, bits=True) if is_bits and known is not None else known
    if operator == "-" and left.is_date and right.is_date:
        return Unit(seconds=1)
    if operator in ("*", "/"):
        return left.times(right, 1 if operator == "*" else -1)
    if left != right and operator in ("or", "+", "-"):
        raise ValueError(f"{left} and {right} meet in {node.prettify()}")
    return left


def _metric_of(node: Any) -> str:
    """The name of the metric below a chain of aggregations and rates."""
    if isinstance(node, promql.VectorSelector):
        return str(node.name)
    if isinstance(node, promql.MatrixSelector):
        return _metric_of(node.vector_selector)
    return _metric_of(node.args[0] if isinstance(node, promql.Call) else node.expr)


def _of_metric(name: str) -> Unit:
    if name == "ALERTS_FOR_STATE":
        return Unit(is_date=True)
    if ":" in name:
        return _of_record(*name.split(":"))
    base = name.removesuffix("_total").removesuffix("_sum")
    return Unit(*_BY_SUFFIX.get(base.rpartition("_")[2], (0, 0, 1)))


def _of_record(_labels: str, metric: str, operation: str) -> Unit:
    """The unit of a recording rule. Source: Prometheus, "Recording rules": level:metric:operations."""
    if operation.startswith("ratio"):
        return Unit()
    if operation == "seconds":
        return Unit(seconds=1)
    is_rate = operation.startswith("rate")
    return _of_metric(metric).times(Unit(seconds=1), -1) if is_rate else _of_metric(metric)
