"""size: a planned fabric in numbers."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import isclose
from typing import Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.options import Settings, command
from mrc_testbed.cli.render import key_values, show
from mrc_testbed.cli.rows import Column, Row, number, row_documents, rows_table
from mrc_testbed.errors import UsageError
from mrc_testbed.shown import format_rate, format_share
from mrc_testbed.topology.sizing import Fabric, PartLoss, Parts, plan_fabric
from mrc_testbed.topology.usid import CARRIER_SLOTS, INDEX_COUNT, PLANE_COUNT
from mrc_testbed.units import parse_rate_bps

SCHEMA_VERSION: Final = 2
_PLANES: Final = (1, 2, 4, 8)
_TIERS: Final = {2: "two tiers", 3: "three tiers"}
_PORTS: Final = "as many of a switch as there are planes"


@dataclass(frozen=True, slots=True)
class FabricRow(Row):
    """A fabric with the NICs that are wanted, or as many as it reaches."""

    planes: int
    tiers: int
    port_rate_bps: int
    switch_ports: int
    largest_nics: int
    nics: int
    t0: int
    t1: int
    t2: int
    switches: int
    links: int
    host_links: int
    optics: int
    host_optics: int
    paths: int
    ev_bits: int
    usids_of_packet: int
    t0_t1_link_of_plane: float
    t0_t1_link_of_nic: float

    COLUMNS = (
        number("planes", "planes"),
        number("NICs at most", "largest_nics"),
        number("T0s", "t0"),
        number("T1s", "t1"),
        number("T2s", lambda row: row.t2 or None),
        number("switches", "switches"),
        number("links", "links"),
        number("optics", "optics"),
        number("EV bits", "ev_bits"),
    )


@dataclass(frozen=True, slots=True)
class PlanesRow(Row):
    """The ports that a number of planes leads to, for the table alone."""

    fabric: FabricRow

    COLUMNS = (
        number("planes", lambda row: row.fabric.planes),
        number("NIC ports", lambda row: f"{row.fabric.planes} x {format_rate(row.fabric.port_rate_bps)}"),
        number("switch ports", lambda row: row.fabric.switch_ports),
        number("a T0-T1 link", lambda row: f"{format_share(row.fabric.t0_t1_link_of_plane)} of a plane"),
        number("of a NIC's rate", lambda row: format_share(row.fabric.t0_t1_link_of_nic)),
    )


@dataclass(frozen=True, slots=True)
class LossRow(Row):
    """A loss; the document has its fields."""

    loss: PartLoss

    COLUMNS = (
        Column("lost", lambda row: row.loss.part),
        number("in all", lambda row: row.loss.count),
        number("NICs", lambda row: row.loss.nics),
        number("of a plane", lambda row: format_share(row.loss.of_plane)),
        number("planes", lambda row: row.loss.planes),
        number("of a NIC", lambda row: format_share(row.loss.of_nic)),
        number("of all", lambda row: format_share(row.loss.of_fabric)),
    )


@dataclass(frozen=True, slots=True)
class ClosComparison:
    """Two tiers against three, per NIC."""

    planes: int
    nics: int
    three_tier_planes: int
    three_tier_nics: int
    optics: float
    switches: float


def register(app: typer.Typer) -> None:
    command(app, "size")(size)


def size(
    settings: Settings,
    nics: Annotated[int, typer.Argument(min=2, metavar="NICS", help="NICs of the fabric.")],
    nic_rate: Annotated[
        int,
        typer.Option("--nic-rate", parser=parse_rate_bps, metavar="RATE", help="Rate of all ports of a NIC."),
    ] = "800Gbit",  # type: ignore[assignment]
    switch_rate: Annotated[
        int,
        typer.Option(
            "--switch-rate", parser=parse_rate_bps, metavar="RATE", help="Rate of all ports of a switch."
        ),
    ] = "51200Gbit",  # type: ignore[assignment]
    planes: Annotated[
        int | None,
        typer.Option(
            "--planes",
            min=1,
            max=PLANE_COUNT,
            metavar="NUMBER",
            help="Planes of the fabric in detail (default: the most that are compared).",
        ),
    ] = None,
    tiers: Annotated[
        int | None,
        typer.Option(
            "--tiers",
            min=min(_TIERS),
            max=max(_TIERS),
            metavar="NUMBER",
            help="Tiers of the fabric in detail (default: two if they reach).",
        ),
    ] = None,
) -> None:
    """Plan a multi-plane Clos fabric: switches, links, optics, losses.

    Compares one, two, four and eight planes, in two tiers and in three. Then it
    shows one fabric in detail: paths, EV bits, uSIDs, and what the loss of each
    part takes from whom. docs/guide/size.md has the rules.

    [bold]Examples[/bold]

      mrc-testbed size 131072
      mrc-testbed size 4096 --planes 4
      mrc-testbed size 65536 --planes 1 --tiers 3
      mrc-testbed size 16384 --nic-rate 400Gbit --switch-rate 25600Gbit
    """
    choices = _choices(planes, nic_rate, switch_rate)
    parts = next((each for each in choices if each.planes == planes), choices[-1])
    chosen = plan_fabric(parts, tiers or (2 if nics <= parts.largest_nics(2) else 3), nics)
    fabrics = [_counted(each, count, nics) for count in _TIERS for each in choices]
    two = _counted(parts, 2, nics)
    comparisons = [
        _compared(two, each)
        for each in fabrics
        if two.t1 and each.tiers == 3 and each.parts.planes in (1, parts.planes)
    ]
    losses = [LossRow(loss) for loss in chosen.losses()]
    rows = [_row(each) for each in fabrics]
    show(
        settings,
        "FabricSize",
        SCHEMA_VERSION,
        {
            "nics": nics,
            "nic_rate_bps": nic_rate,
            "switch_rate_bps": switch_rate,
            "fabrics": row_documents(rows),
            "comparisons": [asdict(each) for each in comparisons],
            "chosen": {
                **asdict(_row(chosen)),
                "usids_of_plane": chosen.usids_of_plane,
                "losses": [asdict(row.loss) for row in losses],
            },
        },
        lambda: Group(
            *_tables(rows, nics, nic_rate, switch_rate),
            *_comparison_lines(comparisons),
            *_details(chosen),
            Text(),
            Text("One part is lost: how many NICs lose rate, and how much each of them at most"),
            rows_table(losses),
        ),
        lines="fabrics",
    )


def _choices(planes: int | None, nic_rate_bps: int, switch_rate_bps: int) -> list[Parts]:
    """The plane counts to compare: the usual ones that divide the rates, and the one that is asked for."""
    choices = [] if planes is None else [Parts(planes, nic_rate_bps, switch_rate_bps)]
    for usual in _PLANES:
        if usual != planes:
            with suppress(UsageError):
                choices.append(Parts(usual, nic_rate_bps, switch_rate_bps))
    return sorted(choices, key=lambda each: each.planes) or [Parts(1, nic_rate_bps, switch_rate_bps)]


def _counted(parts: Parts, tiers: int, nics: int) -> Fabric:
    return plan_fabric(parts, tiers, min(nics, parts.largest_nics(tiers)))


def _row(fabric: Fabric) -> FabricRow:
    parts = fabric.parts
    return FabricRow(
        planes=parts.planes,
        tiers=fabric.tiers,
        port_rate_bps=parts.port_rate_bps,
        switch_ports=parts.switch_ports,
        largest_nics=parts.largest_nics(fabric.tiers),
        nics=fabric.nics,
        t0=parts.planes * fabric.t0,
        t1=parts.planes * fabric.t1,
        t2=parts.planes * fabric.t2,
        switches=fabric.switches,
        links=fabric.links,
        host_links=fabric.host_links,
        optics=fabric.optics,
        host_optics=fabric.host_optics,
        paths=fabric.paths,
        ev_bits=fabric.ev_bits,
        usids_of_packet=fabric.usids_of_packet,
        t0_t1_link_of_plane=1 / parts.half,
        t0_t1_link_of_nic=1 / parts.half / parts.planes,
    )


def _compared(two: Fabric, three: Fabric) -> ClosComparison:
    def per_nic(count: Callable[[Fabric], int]) -> float:
        return float(Fraction(count(two), two.nics) / Fraction(count(three), three.nics))

    return ClosComparison(
        two.parts.planes,
        two.nics,
        three.parts.planes,
        three.nics,
        optics=per_nic(lambda fabric: fabric.optics),
        switches=per_nic(lambda fabric: fabric.switches),
    )


def _tables(
    rows: Sequence[FabricRow], nics: int, nic_rate_bps: int, switch_rate_bps: int
) -> Iterator[RenderableType]:
    nic, switch = format_rate(nic_rate_bps), format_rate(switch_rate_bps)
    yield Text(f"{nics:,} NICs of {nic}, switches of {switch}", style="bold")
    yield Text()
    yield rows_table([PlanesRow(row) for row in rows if row.tiers == 2])
    for tiers, words in _TIERS.items():
        yield Text()
        yield Text(words.capitalize(), style="bold")
        yield rows_table([row for row in rows if row.tiers == tiers])
    yield Text()
    if any(row.nics < nics for row in rows):
        yield Text(f"A fabric that does not reach {nics:,} NICs is counted with all that it reaches.")
    yield Text(f"An optic is a module of {nic}: all ports of a NIC, or {_PORTS}.")


def _comparison_lines(comparisons: Sequence[ClosComparison]) -> Iterator[RenderableType]:
    for each in comparisons:
        yield Text(
            f"Per NIC, two tiers of {_planes(each.planes)} need {_part(each.optics)} of the optics and "
            f"{_part(each.switches)} of the switches\nof three tiers of {_planes(each.three_tier_planes)}."
        )
    yield Text()


def _planes(count: int) -> str:
    return f"{count} plane{'s' * (count > 1)}"


def _part(share: float) -> str:
    """A simple fraction where it is one: `2/3`."""
    simple = Fraction(share).limit_denominator(9)
    return str(simple) if isclose(simple, share) else format_share(share)


def _details(fabric: Fabric) -> Iterator[RenderableType]:
    planes, usids = fabric.parts.planes, fabric.usids_of_plane
    yield Text(f"{_planes(planes)} in {_TIERS[fabric.tiers]}, {fabric.nics:,} NICs", style="bold")
    named = "not laid out: the lab has no T2s"
    if usids is not None:
        t0, t1, downlinks = usids.values()
        named = (
            f"{planes * (t0 + t1 + downlinks):,}: {t0:,} T0, {t1:,} T1, {downlinks:,} downlink per plane; "
            f"room for {INDEX_COUNT:,} each"
        )
    apart = " of different T0s" if fabric.t1 else ""
    yield key_values(
        [
            ("paths", f"{fabric.paths:,} between NICs{apart}: {fabric.ev_bits} bits of an EV"),
            ("uSIDs", f"{fabric.usids_of_packet} in a packet, of {CARRIER_SLOTS} that an address carries"),
            ("", named),
            ("optics", f"{fabric.host_optics:,} of {fabric.optics:,} at host links; none with copper"),
        ]
    )
