"""Values of the terms of an expectation, wherever those of its quantities come from. Pure."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from mrc_testbed.scenario.measure.recording import NotMeasured
from mrc_testbed.scenario.spec.expression_tree import Comparison, Quantity, Term, fold


@dataclass(frozen=True, slots=True)
class Measured:
    """Value of one quantity: base unit of its dimension."""

    quantity: Quantity
    value: float


class Measures(ABC):
    """Where values of quantities come from: one run, or the variants of a scenario."""

    @abstractmethod
    def measure(self, quantity: Quantity) -> float:
        """Value of a quantity, in the base unit of its dimension.

        Raises:
            NotMeasured: it has no value; says why.
        """

    def evaluate(self, term: Term) -> float:
        """Value of a term, in the base unit of its dimension."""
        try:
            return fold(term, float, self.measure)
        except ZeroDivisionError as error:
            raise NotMeasured("it divides by a measured zero") from error

    def measured(self, comparison: Comparison) -> tuple[Measured, ...]:
        """Value of each quantity of an expectation, in the order of the text, each once."""
        by_text = {str(quantity): quantity for quantity in comparison.quantities()}
        return tuple(Measured(quantity, self.measure(quantity)) for quantity in by_text.values())
