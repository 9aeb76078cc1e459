"""The fairness of flows. Pure."""

from collections.abc import Sequence


def jain_index(rates: Sequence[float]) -> float | None:
    """1 when all rates are equal, 1 / len(rates) when one flow has everything; None when all are zero.

    Source: Jain, Chiu, Hawe, "A Quantitative Measure of Fairness", 1984.
    """
    squares = sum(rate * rate for rate in rates)
    return sum(rates) ** 2 / (len(rates) * squares) if squares else None
