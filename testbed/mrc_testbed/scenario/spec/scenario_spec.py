"""The models of a Scenario file and the rules between their fields. Pure.

Rules that need the fabric (does this host exist, does that selector match) are in `resolve`.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Discriminator,
    Field,
    Tag,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails

from mrc_testbed.document.fields import Multiple, StrictModel
from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.faults.node_kinds import Clear
from mrc_testbed.faults.spec import Fault, FaultOrClear
from mrc_testbed.metrics.fidelity import LATE_RATIO
from mrc_testbed.scenario.spec.abort import parse_abort
from mrc_testbed.scenario.spec.expression import parse_expectation, parse_quantity
from mrc_testbed.scenario.spec.expression_tree import Quantity
from mrc_testbed.scenario.spec.figure_spec import DRAWN, PUBLISHED_KINDS, FigureSpec
from mrc_testbed.scenario.spec.variant import VARIANTS_MAX, Axes, variants_of
from mrc_testbed.topology.algorithm import check_ev_selector
from mrc_testbed.topology.resolve import check_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.transport_kind import AnyAlgorithm, TransportKind, refuse_gone
from mrc_testbed.units import format_duration_ns
from mrc_testbed.workloads.spec import Workload, has_operations, workload_names

SEED_MAX = 2**63 - 1


class TransportSpec(StrictModel):
    """The transport of messages across the fabric."""

    kind: Annotated[TransportKind, BeforeValidator(refuse_gone)] = Field(
        default="mrc",
        description="The transport protocol: mrc; rocev2 and infiniband: a reliable connection on one path "
        "per QP; spray-gbn: one that takes all paths in turn. "
        "docs/explanation/transports.md describes how each differs.",
    )
    qps: int = Field(
        default=1, ge=1, le=256, description="QPs per pair of hosts, for workloads that name none."
    )
    evs: int | None = Field(
        default=None, ge=1, le=256, description="EVs of a QP over all planes. Left out: the topology's."
    )
    ev_selector: Annotated[str, AfterValidator(check_ev_selector)] | None = Field(
        default=None,
        description="Selector of the EV of a QP's next packet: shuffle, round_robin, reps, or your own "
        "(docs/guide/your-own-congestion-control.md); mrc only. Left out: the topology's.",
    )
    cc: AnyAlgorithm | None = Field(
        default=None,
        description="Congestion control. mrc: nscc, aimd, your own "
        "(docs/guide/your-own-congestion-control.md) or fixed (a window); rocev2, infiniband and spray-gbn: "
        "dcqcn or fixed. Left out: if ports have a rate, the topology's nic.cc for mrc (unless window is "
        "given), fixed for infiniband, else dcqcn.",
    )
    cc_profile: dict[str, int | float | bool | None] | None = Field(
        default=None,
        description="Parameters of mrc's congestion control by their standard names, such as target_delay "
        "(ns) or max_cwnd (bytes); the others follow from port_rate and the idle RTT. "
        "docs/reference/protocol.md lists them.",
    )
    window: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="Packets a QP may have in flight with a fixed window. Left out: the topology's number.",
    )


class FidelitySpec(StrictModel):
    """The limit beyond which a run is late: what lateness could have turned makes it UNTRUSTED."""

    late: Multiple = Field(
        default=LATE_RATIO,
        gt=0,
        le=10,
        description="Lateness that 99 of 100 frames may have when they leave their queues, as a share of "
        "the idle RTT, but at least 0.1 ms. A third is less than half of NSCC's target delay. Less is "
        "stricter; more, up to 1000%, is looser, and reports say so.",
    )


def accepted_by(parse: Callable[[str], object]) -> AfterValidator:
    """Validator of a text that *parse* takes; the text stays as it is."""

    def check(text: str) -> str:
        parse(text)
        return text

    return AfterValidator(check)


ExpectationText = Annotated[str, accepted_by(parse_expectation)]
QuantityText = Annotated[str, accepted_by(parse_quantity)]


TopologyOrPath = Annotated[
    Annotated[TopologySpec, AfterValidator(check_topology), Tag("inline")]
    | Annotated[str, Field(min_length=1), Tag("path")],
    Discriminator(lambda value: "path" if isinstance(value, str) else "inline"),
]


class ScenarioSpec(StrictModel):
    """A fabric, its traffic, its faults, and the expectations."""

    seed: int = Field(
        default=1,
        ge=0,
        le=SEED_MAX,
        description="Decides every random choice; the same seed gives the same plan.",
    )
    topology: TopologyOrPath = Field(
        default=TopologySpec.model_construct(),
        description="The fabric, or the path of a Topology file, relative to this file.",
    )
    transport: TransportSpec = Field(
        default=TransportSpec.model_construct(), description="The transport protocol and its parameters."
    )
    workloads: Annotated[list[Workload], Field(min_length=1)] = Field(description="The traffic.")
    faults: list[FaultOrClear] = Field(default=[], description="The faults, when, and for how long.")
    expect: list[ExpectationText] = Field(
        default=[], description="Conditions that must hold for the run to pass."
    )
    abort: list[Annotated[str, accepted_by(parse_abort)]] = Field(
        default=[], description="Conditions that end the run at once; its faults end too."
    )
    fidelity: FidelitySpec = Field(
        default=FidelitySpec.model_construct(), description="The limits of the machine during the run."
    )
    published: dict[str, str | int | float] = Field(
        default={},
        description="Measured quantity -> published value, or an expression of quantities: campaigns show "
        "both, and their deviation. No verdict depends on them.",
    )
    figure: list[FigureSpec] = Field(
        default=[], description="Drawings for figure.svg and the top of the report, from the top down."
    )

    variants: Axes = Field(
        default={},
        description="Runs to compare: axis -> value -> dotted key -> its value in this variant; null "
        "instead of a whole workload or fault removes it. Every combination runs. Expectations name a "
        "combination with `in`, its values joined by `-`.",
    )
    compare: list[QuantityText] = Field(
        default=[],
        description="Quantities to compare over all variants, in the table and in a plot each. Left out: "
        "those that expectations name with `in`.",
    )

    @property
    def end_ns(self) -> int | None:
        """When the last workload ends, from time 0; None when one ends by iterations, not by time."""
        durations = [workload.duration_ns for workload in self.workloads if workload.duration_ns is not None]
        return max(durations) if len(durations) == len(self.workloads) else None

    def injected(self) -> Iterator[tuple[int, Fault]]:
        """(place in the list, fault) of those that break something."""
        for index, fault in enumerate(self.faults):
            if not isinstance(fault, Clear):
                yield index, fault

    def end_of(self, fault: Fault) -> int | None:
        """When a fault ends, from time 0; None when that is with the run."""
        ends_ns = [each.at_ns for each in self.faults if isinstance(each, Clear) and fault.id in each.faults]
        if fault.for_ns is not None:
            ends_ns.append(fault.at_ns + fault.for_ns)
        return min(ends_ns, default=None)

    @model_validator(mode="after")
    def _check_across_fields(self) -> Self:
        problems = list(self._unreadable())
        if problems:
            raise ValidationError.from_exception_data("scenario", problems)
        problems = [
            *self._duplicates(),
            *self._faults_outside_the_run(),
            *self._idle_clears(),
            *self._unknown_names(),
            *self._misfits(),
            *self._empty_windows(),
            *self._undrawable(),
            *self._wrong_variants(),
        ]
        if problems:
            raise ValidationError.from_exception_data("scenario", problems)
        return self

    def _unreadable(self) -> Iterator[InitErrorDetails]:
        for measured, text in published_comparisons(self).items():
            try:
                parse_expectation(text)
            except UsageError as error:
                yield _problem(("published", measured), text, error.message)

    def _duplicates(self) -> Iterator[InitErrorDetails]:
        for key, names in (
            ("workloads", [workload.name for workload in self.workloads]),
            ("faults", ["" if isinstance(fault, Clear) else fault.id for fault in self.faults]),
        ):
            field = "name" if key == "workloads" else "id"
            for index, name in enumerate(names):
                if name and name in names[:index]:
                    first = names.index(name)
                    yield _problem(
                        (key, index, field), name, f"{name!r} is already the {field} of {key}[{first}]"
                    )

    def _faults_outside_the_run(self) -> Iterator[InitErrorDetails]:
        if self.end_ns is None:
            return
        over = f"the last workload is over at {format_duration_ns(self.end_ns)}"
        for index, fault in self.injected():
            if fault.at_ns >= self.end_ns:
                yield _problem(("faults", index, "at"), fault.at_ns, f"nothing is left to disturb: {over}")
            elif fault.for_ns is not None and fault.at_ns + fault.for_ns > self.end_ns:
                end = format_duration_ns(fault.at_ns + fault.for_ns)
                yield _problem(
                    ("faults", index, "for"), fault.for_ns, f"it would last until {end}, but {over}"
                )

    def _idle_clears(self) -> Iterator[InitErrorDetails]:
        faults = {fault.id: fault for _, fault in self.injected()}
        for index, clear in enumerate(self.faults):
            if not isinstance(clear, Clear):
                continue
            for place, name in enumerate(clear.faults):
                where = ("faults", index, "faults", place)
                if name not in faults:
                    listed = ", ".join(faults) or "none"
                    message = (
                        f"there is no fault {name!r}{did_you_mean(name, list(faults))} (known: {listed})"
                    )
                    yield _problem(where, name, message)
                elif clear.at_ns <= faults[name].at_ns:
                    start = format_duration_ns(faults[name].at_ns)
                    yield _problem(where, name, f"{name} has not begun yet: it starts at {start}")
                elif self.end_of(faults[name]) != clear.at_ns:
                    yield _problem(where, name, f"{name} is over by then")

    def _unknown_names(self) -> Iterator[InitErrorDetails]:
        workloads = workload_names(self.workloads)
        faults = [fault.id for _, fault in self.injected()]
        for place, quantity, text in self._quantities():
            for unknown in quantity.unknown_names(workloads, faults):
                yield _problem(place, text, f"column {quantity.column}: there is {unknown}")

    def _misfits(self) -> Iterator[InitErrorDetails]:
        kinds = {workload.name: workload.kind for workload in self.workloads}
        for place, quantity, text in self._quantities():
            kind = kinds.get(quantity.workload or "")
            if kind is not None and (misfit := quantity.misfit(kind)) is not None:
                message = f"column {quantity.column}: {quantity.workload} is {kind}, {misfit}"
                yield _problem(place, text, message)

    def _empty_windows(self) -> Iterator[InitErrorDetails]:
        faults = {fault.id: fault for _, fault in self.injected()}
        for place, quantity, text in self._quantities():
            if quantity.stretch_ns is not None:
                yield from self._beyond_the_run(place, text, quantity.stretch_ns[1], quantity.column)
            fault = faults.get(quantity.fault_id or "")
            if fault is None:
                continue
            where = f"column {quantity.column}: "
            if quantity.window == "before" and fault.at_ns == 0:
                yield _problem(
                    place, text, f"{where}nothing is measured before {fault.id}, which starts at 0s"
                )
            ends_with_run = self.end_of(fault) in {None, self.end_ns}
            if quantity.window == "after" and ends_with_run:
                yield _problem(
                    place, text, f"{where}nothing is measured after {fault.id}, which lasts until the end"
                )

    def _beyond_the_run(
        self, place: tuple[str, int | str], text: str, window_end_ns: int, column: int
    ) -> Iterator[InitErrorDetails]:
        if self.end_ns is not None and window_end_ns > self.end_ns:
            over = f"the last workload is over at {format_duration_ns(self.end_ns)}"
            message = (
                f"column {column}: the window lasts until {format_duration_ns(window_end_ns)}, but {over}"
            )
            yield _problem(place, text, message)

    def _undrawable(self) -> Iterator[InitErrorDetails]:
        names = workload_names(self.workloads)
        kinds = {workload.name: workload.kind for workload in self.workloads}
        able = {
            "operations": [workload.name for workload in self.workloads if has_operations(workload)],
            "flows": [name for name in names if kinds.get(name) != "program"],
        }
        for index, figure in enumerate(self.figure):
            of = DRAWN.get(figure.kind)
            for place, name in enumerate(figure.workloads or ()):
                where = ("figure", index, "workloads", place)
                if name not in names:
                    known = f"(known: {', '.join(names)})"
                    message = f"there is no workload {name!r}{did_you_mean(name, names)} {known}"
                    yield _problem(where, name, message)
                elif of is not None and name not in able[of]:
                    kind = kinds.get(name, "a victim flow")
                    yield _problem(where, name, f"{name} is {kind}, which has no {of} to draw")
            if of is not None and not able[of]:
                message = f"{figure.kind} draws {of}, which no workload has"
                yield _problem(("figure", index, "kind"), figure.kind, message)
            if figure.by is not None and figure.kind != "goodput-over-time":
                message = f"only goodput-over-time can be drawn by something, not {figure.kind}"
                yield _problem(("figure", index, "by"), figure.by, message)
            if figure.published and figure.kind not in PUBLISHED_KINDS:
                message = f"only {' and '.join(PUBLISHED_KINDS)} are drawn beside a published curve"
                yield _problem(("figure", index, "published"), figure.kind, message)
            for place, (earlier, later) in enumerate(pairwise(figure.published), start=1):
                if later.at_ns <= earlier.at_ns:
                    at = ("figure", index, "published", place, "at")
                    yield _problem(at, later.at_ns, "changes are in the order of their time")

    def _wrong_variants(self) -> Iterator[InitErrorDetails]:
        count = math.prod(len(values) for values in self.variants.values())
        if count > VARIANTS_MAX:
            yield _problem(("variants",), count, f"{count} combinations; {VARIANTS_MAX} are allowed")
            return
        names = [variant.name for variant in variants_of(self.variants)]
        for name in {name for name in names if names.count(name) > 1}:
            yield _problem(("variants",), name, f"two combinations are called {name!r}")
        for place, text in self._comparisons():
            comparison = parse_expectation(text)
            is_published = place[0] == "published"
            for quantity in comparison.quantities():
                where = f"column {quantity.column}: "
                if quantity.variant is None and (comparison.is_across_variants or (is_published and names)):
                    message = f"{where}in which variant? name one with `in`"
                    yield _problem(place, text, message)
                elif quantity.variant is not None and quantity.variant not in names:
                    known = f"known: {', '.join(names)}" if names else "the scenario has no `variants`"
                    near = did_you_mean(quantity.variant, names)
                    message = f"{where}there is no variant {quantity.variant!r}{near} ({known})"
                    yield _problem(place, text, message)
        for index, text in enumerate(self.compare):
            if not names:
                yield _problem(("compare", index), text, "there is nothing to compare without `variants`")
            elif parse_quantity(text).variant is not None:
                yield _problem(("compare", index), text, "it is compared in all variants; leave out `in`")

    def _comparisons(self) -> Iterator[tuple[tuple[str, int | str], str]]:
        """Place and text of each expectation and of each published figure."""
        for index, text in enumerate(self.expect):
            yield ("expect", index), text
        for measured, text in published_comparisons(self).items():
            yield ("published", measured), text

    def _quantities(self) -> Iterator[tuple[tuple[str, int | str], Quantity, str]]:
        for place, text in self._comparisons():
            for quantity in parse_expectation(text).quantities():
                yield place, quantity, text
        for index, text in enumerate(self.compare):
            yield ("compare", index), parse_quantity(text), text


def published_comparisons(spec: ScenarioSpec) -> dict[str, str]:
    """By measured quantity, its comparison with the published figure."""
    return {measured: f"{measured} >= {published}" for measured, published in spec.published.items()}


def compared_quantities(spec: ScenarioSpec) -> tuple[str, ...]:
    """The quantities that variants are compared by; empty for a scenario without variants."""
    if not spec.variants:
        return ()
    named = (
        quantity.within_run
        for text in spec.expect
        for quantity in parse_expectation(text).quantities()
        if quantity.variant is not None
    )
    return tuple(dict.fromkeys(str(parse_quantity(text)) for text in spec.compare) or dict.fromkeys(named))


def _problem(location: tuple[str | int, ...], found: object, message: str) -> InitErrorDetails:
    """An error at its own key, so that it gets a line of the file."""
    return InitErrorDetails(type="value_error", loc=location, input=found, ctx={"error": ValueError(message)})
