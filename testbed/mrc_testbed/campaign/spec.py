"""Campaigns as a user writes them. Pure; `mrc_testbed.campaign.plan` reads scenarios, lays out runs."""

from typing import Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, JsonValue, Tag
from pydantic.json_schema import SkipJsonSchema

from mrc_testbed.campaign.cell_expectation import parse_campaign_expectation
from mrc_testbed.document.envelope import Kind, json_schema
from mrc_testbed.document.fields import StrictModel
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.scenario_spec import SEED_MAX, accepted_by
from mrc_testbed.scenario.spec.variant import VariedKey

RUNS_MAX: Final = 1000
"""Limit of one campaign: more is an accident of a matrix, not a wish."""

REPEAT_IS_GONE: Final = (
    "repeating until medians are certain is gone since 0.4: give the campaign more `seeds`; `campaign stats` "
    "shows its intervals, and --timeout ends it in time"
)


def _form(value: object) -> str:
    return "path" if isinstance(value, str) else "mapping"


class SeedRange(StrictModel):
    """Consecutive seeds."""

    first: int = Field(alias="from", ge=0, le=SEED_MAX, description="The first seed.")
    count: int = Field(ge=1, le=RUNS_MAX, description="Number of seeds.")


ExpectationText = Annotated[str, accepted_by(parse_campaign_expectation)]


class ExpectationEntry(StrictModel):
    """An expectation on some cells."""

    that: ExpectationText = Field(description="Condition that must hold.")
    cells: dict[str, str | int | float] = Field(
        description="The cells: dotted key of the matrix, axis of a scenario's variants, or `scenario` -> "
        "value."
    )


ExpectationOrText = Annotated[
    Annotated[ExpectationText, Tag("path")] | Annotated[ExpectationEntry, Tag("mapping")],
    Discriminator(_form),
]


class ShuffledOrder(StrictModel):
    """An order that depends on a seed."""

    shuffle: int = Field(ge=0, le=SEED_MAX, description="The seed.")


Order = Annotated[
    Annotated[Literal["file"], Tag("file")] | Annotated[ShuffledOrder, Tag("shuffled")],
    Discriminator(lambda value: "file" if isinstance(value, str) else "shuffled"),
]
Matrix = dict[VariedKey, Annotated[list[JsonValue], Field(min_length=1)]]
SeedList = Annotated[list[Annotated[int, Field(ge=0, le=SEED_MAX)]], Field(min_length=1)]
Seeds = Annotated[
    Annotated[SeedList, Tag("list")] | Annotated[SeedRange, Tag("range")],
    Discriminator(lambda value: "list" if isinstance(value, list | tuple) else "range"),
]


class ScenarioEntry(StrictModel):
    """A scenario with its own matrix or seeds."""

    path: str = Field(min_length=1, description="Scenario file, relative to this file.")
    matrix: Matrix = Field(default={}, description="Further parameters, varied for this scenario only.")
    seeds: Seeds | None = Field(default=None, description="Seeds instead of the common ones.")


ScenarioOrPath = Annotated[
    Annotated[Annotated[str, Field(min_length=1)], Tag("path")] | Annotated[ScenarioEntry, Tag("mapping")],
    Discriminator(_form),
]


def _refuse_repeat(_: object) -> None:
    raise UsageError(REPEAT_IS_GONE)


class CampaignSpec(StrictModel):
    """Scenarios, their varied parameters, and the number of repetitions."""

    scenarios: Annotated[list[ScenarioOrPath], Field(min_length=1)] = Field(
        description="Scenario files, relative to this file."
    )
    matrix: Matrix = Field(
        default={},
        description="Dotted key of a scenario, such as transport.window, topology.port_rate, "
        "workloads.main.size or faults.flap1.down -> its values. Every combination runs.",
    )
    seeds: Seeds | None = Field(
        default=None, description="Seeds of each combination. Left out: the scenario's seed."
    )

    repeat: SkipJsonSchema[Annotated[None, BeforeValidator(_refuse_repeat)]] = None
    order: Order = Field(
        default=ShuffledOrder(shuffle=0),
        description="Order of the runs of a topology: shuffled, so that a machine that slows down affects "
        "all cells, or `file`: as in the file.",
    )
    baseline: dict[str, str | int | float] = Field(
        default={},
        description="Dotted key of the matrix, or axis of a scenario's variants -> one of its values. Each "
        "cell is compared with the cell that has these values and is otherwise the same.",
    )

    expect: list[ExpectationOrText] = Field(
        default=[],
        description="Expectations on each cell, as in scenarios: on the median of its runs (a percentile: "
        "on all their times together), or on runs, with `for all seeds` or `in 19 of 20 runs` at the end. "
        "`in baseline` after a quantity means the baseline cell.",
    )

    def expectations(self) -> list[ExpectationEntry]:
        return [
            ExpectationEntry(that=entry, cells={}) if isinstance(entry, str) else entry
            for entry in self.expect
        ]

    def entries(self) -> list[ScenarioEntry]:
        return [ScenarioEntry(path=entry) if isinstance(entry, str) else entry for entry in self.scenarios]


def seed_list(seeds: Seeds) -> list[int]:
    if isinstance(seeds, SeedRange):
        return list(range(seeds.first, seeds.first + seeds.count))
    return seeds


def campaign_schema() -> dict[str, Any]:
    """JSON Schema of a Campaign file, for editors and for `mrc-testbed validate --schema Campaign`."""
    return json_schema(Kind.CAMPAIGN, CampaignSpec)
