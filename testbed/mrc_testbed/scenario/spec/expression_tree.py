"""The parsed expectation: a comparison of terms over quantities and numbers. Pure."""

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, TypeVar

from mrc_testbed.errors import did_you_mean
from mrc_testbed.scenario.spec.quantity import WORKLOAD_TIMES, Dimension, QuantityKind
from mrc_testbed.units import format_duration_ns
from mrc_testbed.workloads.collective import COLLECTIVE_KINDS

Window = Literal["before", "during", "after", "from"]
ArithmeticOperator = Literal["+", "-", "*", "/"]
ComparisonOperator = Literal["<", "<=", ">", ">=", "==", "!="]


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the text, in the base unit of its dimension (ns, bit/s, bytes, fraction of one)."""

    value: float
    dimension: Dimension
    column: int


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something measured, over a window of the run or over all of it.

    `workload` is the one it is of, whether that is its argument or stands within it; None for none.
    `fault_id` belongs to the windows before, during and after; `stretch_ns`, (start, end), to from.
    `variant` names the run of a scenario with variants; None: the run itself.
    """

    kind: QuantityKind
    name: str
    argument: str | None
    workload: str | None
    window: Window | None
    fault_id: str | None
    column: int
    stretch_ns: tuple[int, int] | None = None
    variant: str | None = None

    @property
    def dimension(self) -> Dimension:
        return self.kind.dimension

    def misfit(self, workload_kind: str) -> str | None:
        """The complaint about a workload of that kind, which it has no value for; None: it has one."""
        of = {"step_time": "job", "collective_time": "collective"}.get(
            self.argument or "", self.kind.argument
        )
        is_program = workload_kind == "program"
        is_collective = workload_kind in (*COLLECTIVE_KINDS, "training")
        is_trace = workload_kind == "trace"
        match of:
            case "workload" if is_program:
                return "whose flows and data are its own; name another workload"
            case "collective" if is_program or is_trace:
                return "whose collectives are its own; name a collective or training"
            case "collective" if not is_collective:
                return "which has no operations; name a collective or training"
            case "job" if not (is_collective or is_program or is_trace):
                return "which has no operations; name a collective, training, program or trace"
            case "program" if not is_program:
                return f"which reports no {self.name}; name a program"
        return None

    def __str__(self) -> str:
        called = self.name
        if self.argument is not None:
            inner = f"({self.workload})" if self.argument in WORKLOAD_TIMES else ""
            called = f"{self.name}({self.argument}{inner})"
        if self.stretch_ns is not None:
            start, end = (format_duration_ns(time_ns) for time_ns in self.stretch_ns)
            called = f"{called} from {start} to {end}"
        elif self.window:
            called = f"{called} {self.window} {self.fault_id}"
        return f"{called} in {self.variant}" if self.variant else called

    def unknown_names(self, workloads: Sequence[str], faults: Sequence[str]) -> Iterator[str]:
        """Say of each workload or fault that it names and that is not among these, that there is none."""
        for name, known, what in (
            (self.workload, workloads, "workload"),
            (self.argument if self.kind.argument == "fault" else None, faults, "fault"),
            (self.fault_id, faults, "fault"),
        ):
            if name is not None and name not in known:
                listed = ", ".join(dict.fromkeys(known)) or "none"
                yield f"no {what} {name!r}{did_you_mean(name, known)} (known: {listed})"

    @property
    def within_run(self) -> str:
        """The same without the variant: what that run measures."""
        return str(replace(self, variant=None))


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two terms joined; `97% of x` is a multiplication."""

    operator: ArithmeticOperator
    left: "Term"
    right: "Term"
    dimension: Dimension
    column: int


Term = Number | Quantity | Arithmetic


_OPERATIONS: Final[dict[ArithmeticOperator, Callable[[Any, Any], Any]]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}
Value = TypeVar("Value")


def fold(term: Term, of_number: Callable[[float], Value], of_quantity: Callable[[Quantity], Value]) -> Value:
    """Value of a term, in whatever numbers and quantities become: they have the operators of Python.

    Raises:
        ZeroDivisionError: it divides by zero, of numbers that say so.
    """
    match term:
        case Number():
            return of_number(term.value)
        case Quantity():
            return of_quantity(term)
        case Arithmetic():
            sides = (fold(side, of_number, of_quantity) for side in (term.left, term.right))
            found: Value = _OPERATIONS[term.operator](*sides)
            return found


@dataclass(frozen=True, slots=True)
class Comparison:
    """A whole expectation."""

    operator: ComparisonOperator
    left: Term
    right: Term
    text: str
    # left_text, right_text: the two sides as they were written
    left_text: str
    right_text: str

    def quantities(self) -> Iterator[Quantity]:
        """The measured quantities of both sides, in the order of the text."""
        yield from _quantities(self.left)
        yield from _quantities(self.right)

    @property
    def has_quotient(self) -> bool:
        """Return True if a quantity divides another one."""
        return any(
            term.operator == "/" and any(_quantities(term.right))
            for side in (self.left, self.right)
            for term in _arithmetic(side)
        )

    @property
    def is_across_variants(self) -> bool:
        """Return True if it names variants, so that no single run can tell."""
        return any(quantity.variant is not None for quantity in self.quantities())


def _arithmetic(term: Term) -> Iterator[Arithmetic]:
    if isinstance(term, Arithmetic):
        yield term
        yield from _arithmetic(term.left)
        yield from _arithmetic(term.right)


def _quantities(term: Term) -> Iterator[Quantity]:
    if isinstance(term, Quantity):
        yield term
    elif isinstance(term, Arithmetic):
        yield from _quantities(term.left)
        yield from _quantities(term.right)
