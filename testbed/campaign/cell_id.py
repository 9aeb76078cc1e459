"""Identity of a cell: everything that its runs share but for the seed. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class CellId:
    """A cell of a campaign.

    Attributes:
        scenario: name of the scenario.
        values: what is varied (dotted key, or axis of a variant) and its value.
    """

    scenario: str
    values: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return " ".join((self.scenario, *(f"{name}={value}" for name, value in self.values)))

    @classmethod
    def of(cls, scenario: str, place: Mapping[str, str]) -> Self:
        return cls(scenario, tuple(place.items()))

    def with_values(self, chosen: Mapping[str, str]) -> Self:
        """The cell that differs from it by those of *chosen* that it has."""
        return replace(self, values=tuple((name, chosen.get(name, value)) for name, value in self.values))
