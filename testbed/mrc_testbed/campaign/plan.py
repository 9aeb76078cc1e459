"""From a Campaign file to the runs it stands for, in the order in which they are done.

Runs on the same topology come one after the other, so that they can share a lab. Among them a seed shuffles,
or the order is that of the file: scenarios, then combinations of the matrix with its first key varying
slowest, then seeds.
"""

import itertools
import math
import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final, Self, TypeVar

from mrc_testbed.campaign.cell_expectation import SCENARIO, CampaignExpectation, CellId, check_quantities
from mrc_testbed.campaign.spec import REPEAT_IS_GONE, RUNS_MAX, CampaignSpec, ScenarioEntry, seed_list
from mrc_testbed.campaign.statistics import SEEDS_MIN
from mrc_testbed.document import envelope as document
from mrc_testbed.document.envelope import Document, Kind, Metadata
from mrc_testbed.document.problem import Location, Problem, Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.expression_tree import Quantity
from mrc_testbed.scenario.spec.load import Scenario, build_scenario, scenario_variants
from mrc_testbed.scenario.spec.plan import Plan
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.scenario.spec.scenario_spec import compared_quantities, published_comparisons
from mrc_testbed.scenario.spec.variation import vary
from mrc_testbed.transport.transport_kind import refuse_gone

_SHARD: Final = re.compile(r"([1-9][0-9]{0,3})/([1-9][0-9]{0,3})")
_Run = TypeVar("_Run")


@dataclass(frozen=True, slots=True)
class Shard:
    """Part *part* of *of* parts, from 1."""

    part: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The shard that a text such as `3/10` means."""
        found = _SHARD.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise UsageError(f"{text!r} is not a shard: write it like 3/10, from 1/10 to 10/10")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.part}/{self.of}"

    def select(self, runs: Sequence[_Run]) -> Sequence[_Run]:
        """Each of-th run from the part-th: neighbours, which are alike, fall to different parts."""
        return runs[self.part - 1 :: self.of]


Admit = Callable[[Scenario, Plan], None]
"""Looks at a scenario and its plan before it becomes a run; refuses it with a UsageError."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    index: int  # its number in the order of the file, from 1
    scenario: str  # name of the scenario
    varied: Mapping[str, str]  # dotted key -> value, as text for people
    axes: Mapping[str, str]  # axis of the scenario's variants -> value; empty without variants
    metadata: Metadata  # of the scenario
    plan: Plan  # what it does
    source: str  # text of the scenario file
    # all expectations of the scenario, those across variants too; empty without variants
    expect: tuple[str, ...]
    compare: tuple[str, ...]  # quantities that its variants are compared by
    published: tuple[str, ...]  # published figures of the scenario, as comparisons
    is_extra: bool = False  # one that the repetition of 0.3 may have asked for: only the journal knows

    @property
    def key(self) -> str:
        """Name of the run in its campaign, such as `flap transport.window=32 seed=7`."""
        variant = "" if self.plan.variant is None else f" {self.plan.variant}"
        return f"{self.scenario}{variant}{self._varied} seed={self.plan.seed}"

    @property
    def group(self) -> str:
        """The same for all variants that are compared with one another."""
        return f"{self.scenario}{self._varied} seed={self.plan.seed}"

    @property
    def place(self) -> dict[str, str]:
        """Varied values: dotted key, or axis of a variant -> value; the same for all seeds of a cell."""
        return {**self.varied, **self.axes}

    @property
    def cell(self) -> CellId:
        return CellId.of(self.scenario, self.place)

    @property
    def _varied(self) -> str:
        return "".join(f" {key}={value}" for key, value in self.varied.items())


@dataclass(frozen=True, slots=True)
class CampaignPlan:
    # name, description: of its file
    name: str
    description: str
    source: str  # text of the file
    runs: tuple[PlannedRun, ...]  # in the order in which they are done
    # what is varied -> its value in the cells that others are compared with; empty for none
    baseline: Mapping[str, str] = field(default_factory=dict)
    expect: tuple[CampaignExpectation, ...] = ()  # what must hold of its cells
    shard: Shard | None = None  # the part of the runs that is done; None for all

    @property
    def own_runs(self) -> Sequence[PlannedRun]:
        """Runs of the shard; without one, all."""
        return self.runs if self.shard is None else self.shard.select(self.runs)

    @property
    def too_few_seeds(self) -> str:
        """Note that cells which are repeated or compared have too few seeds; empty where they have enough."""
        counts = Counter(run.cell for run in self.runs).values()
        least = min((count for count in counts if count > 1 or self.baseline), default=SEEDS_MIN)
        wanted = f"intervals, comparisons and the gate take at least {SEEDS_MIN}"
        return f"{least} seed{'s' * (least > 1)} in a cell: {wanted}" if least < SEEDS_MIN else ""

    def check_known(self) -> None:
        """Return if this version can carry the plan out, which 0.3 may have made."""
        for run in self.runs:
            refuse_gone(run.plan.transport.kind)
        if any(run.is_extra for run in self.runs):
            raise UsageError(REPEAT_IS_GONE)


def plan_campaign(
    path: Path, *, seed: int | None = None, admit: Admit = lambda _scenario, _plan: None
) -> CampaignPlan:
    """The plan of the Campaign file at *path*.

    Args:
        seed: in place of all seeds that the file gives.
        admit: called with each scenario as it is varied, and its plan.
    """
    loaded = document.load(path, Kind.CAMPAIGN)
    spec = document.validate(loaded, CampaignSpec)
    expect = tuple(
        CampaignExpectation(each.that, {key: _text(value) for key, value in each.cells.items()})
        for each in spec.expectations()
    )
    settings = _Settings(spec, seed, expect, admit)
    runs: list[PlannedRun] = []
    problems: list[Problem] = []
    for place, entry in enumerate(spec.entries()):
        location: Location = ("spec", "scenarios", place)
        try:
            scenario = document.load(path.parent / entry.path, Kind.SCENARIO)
        except UsageError as error:
            problems.append(Problem(location, error.message))
            continue
        wanted = len(runs) + settings.count(entry)
        if wanted <= RUNS_MAX:
            runs += _runs_of(scenario, settings, entry, len(runs), location, problems)
            wanted = len(runs)
        if wanted > RUNS_MAX:
            problems.append(Problem(location, f"makes more than {RUNS_MAX} runs of the campaign: {wanted}"))
            break
    problems += _same_keys(runs)
    baseline = {key: _text(value) for key, value in spec.baseline.items()}
    if not problems:
        problems += _unknown_values(runs, baseline, ("spec", "baseline"))
        for place, each in enumerate(expect):
            location = ("spec", "expect", place)
            problems += _unknown_values(runs, each.cells, location)
            if each.parsed.needs_baseline and not baseline:
                problems.append(Problem(location, "speaks of a baseline, and the campaign has none"))
    if problems:
        raise loaded.usage_error(problems)
    metadata = loaded.metadata
    shuffle = None if isinstance(spec.order, str) else spec.order.shuffle
    ordered = _in_order(runs, shuffle)
    return CampaignPlan(metadata.name, metadata.description, loaded.text, ordered, baseline, expect)


def plan_variants(
    scenario: Scenario, *, seed: int | None = None, admit: Admit = lambda _scenario, _plan: None
) -> CampaignPlan:
    """The plan of a scenario's variants, as a campaign of that scenario alone."""
    source = scenario.document.text
    runs = [
        _planned(number, variant, {}, _admitted(variant, seed, admit), source)
        for number, variant in enumerate(scenario_variants(scenario), start=1)
    ]
    metadata = scenario.metadata
    return CampaignPlan(metadata.name, metadata.description, source, _in_order(runs, None))


@dataclass(frozen=True, slots=True)
class _Settings:
    spec: CampaignSpec
    seed: int | None
    expect: tuple[CampaignExpectation, ...]
    admit: Admit

    def seeds(self, entry: ScenarioEntry) -> Sequence[int | None]:
        """Seeds of the runs; None for the scenario's own."""
        if self.seed is not None:
            return (self.seed,)
        seeds = entry.seeds or self.spec.seeds
        return (None,) if seeds is None else seed_list(seeds)

    def count(self, entry: ScenarioEntry) -> int:
        """Runs of a scenario, without its variants: to refuse a matrix before each of its values is tried."""
        combinations = math.prod(len(values) for values in {**self.spec.matrix, **entry.matrix}.values())
        return combinations * len(self.seeds(entry))

    def compared(self, scenario: Scenario, values: Mapping[str, Tree], plan: Plan) -> Plan:
        """The plan, with everything measured that the campaign asks for."""
        asked: list[Quantity] = []
        for each in self.expect:
            quantities = list(each.parsed.that.quantities())
            place = {**{key: _text(value) for key, value in values.items()}, **_axes(scenario)}
            try:
                check_quantities(quantities, plan)
            except UsageError:
                if each.is_of(CellId.of(scenario.metadata.name, place)):
                    raise
                continue  # it is of other cells
            asked += quantities
        named = dict.fromkeys((*plan.measures, *(each.within_run for each in asked)))
        return replace(plan, measures=tuple(named))


def _runs_of(
    scenario: Document,
    settings: _Settings,
    entry: ScenarioEntry,
    done: int,
    location: Location,
    problems: list[Problem],
) -> list[PlannedRun]:
    matrix = {**settings.spec.matrix, **entry.matrix}
    runs: list[PlannedRun] = []
    for chosen in itertools.product(*matrix.values()):
        values = dict(zip(matrix, chosen, strict=True))
        try:
            varied = build_scenario(vary(scenario, values))
            variants = scenario_variants(varied)
            plans = [
                (variant, settings.compared(variant, values, _admitted(variant, each, settings.admit)))
                for each in settings.seeds(entry)
                for variant in variants
            ]
        except UsageError as error:
            shown = ", ".join(f"{key}={_text(value)}" for key, value in values.items())
            where = f"with {shown}: " if shown else ""
            problems.append(Problem(location, f"{where}{error.message}"))
            continue
        runs += [
            _planned(done + len(runs) + number, variant, values, plan, scenario.text)
            for number, (variant, plan) in enumerate(plans, start=1)
        ]
    return runs


def _admitted(scenario: Scenario, seed: int | None, admit: Admit) -> Plan:
    plan = resolve(scenario, seed=seed)
    admit(scenario, plan)
    return plan


def _planned(
    index: int, scenario: Scenario, values: Mapping[str, Tree], plan: Plan, source: str
) -> PlannedRun:
    return PlannedRun(
        index=index,
        scenario=scenario.metadata.name,
        varied={key: _text(value) for key, value in values.items()},
        axes=_axes(scenario),
        metadata=scenario.metadata,
        plan=plan,
        source=source,
        expect=() if scenario.variant is None else tuple(scenario.spec.expect),
        compare=compared_quantities(scenario.spec),
        published=tuple(published_comparisons(scenario.spec).values()),
    )


def _axes(scenario: Scenario) -> Mapping[str, str]:
    return {} if scenario.variant is None else scenario.variant.values


def _text(value: Tree) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_text(entry)}" for key, entry in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_text(entry) for entry in value) + "]"
    return str(value)


def _same_keys(runs: list[PlannedRun]) -> list[Problem]:
    """Two runs that nothing distinguishes: the same file twice, or a value twice."""
    return [
        Problem(("spec",), f"two runs are {key!r}; name each scenario and value once")
        for key, count in Counter(run.key for run in runs).items()
        if count > 1
    ]


def _unknown_values(runs: Sequence[PlannedRun], chosen: Mapping[str, str], within: Location) -> list[Problem]:
    """Keys and values of a baseline or a selection of cells that no run has."""
    values: dict[str, dict[str, None]] = {}
    is_selection = "expect" in within
    for run in runs:
        for key, value in {**run.place, **({SCENARIO: run.scenario} if is_selection else {})}.items():
            values.setdefault(key, {})[value] = None
    problems = []
    for key, value in chosen.items():
        location: Location = (*within, key)
        if key not in values:
            known = ", ".join(each for each in values if each != SCENARIO) or "nothing"
            problems.append(Problem(location, f"is not varied by this campaign (varied: {known})"))
        elif value not in values[key]:
            problems.append(Problem(location, f"{value!r} is none of its values: {', '.join(values[key])}"))
    return problems


def _in_order(runs: Sequence[PlannedRun], shuffle: int | None) -> tuple[PlannedRun, ...]:
    """Runs of one topology side by side, topologies in the order in which they first occur.

    Args:
        runs: in the order of the file.
        shuffle: the seed that decides the order among runs of a topology; None for that of the file.
    """
    topologies = []
    for run in runs:
        if run.plan.topology not in topologies:
            topologies.append(run.plan.topology)
    ordered = list(runs)
    if shuffle is not None:
        random.Random(shuffle).shuffle(ordered)
    return tuple(sorted(ordered, key=lambda run: topologies.index(run.plan.topology)))
