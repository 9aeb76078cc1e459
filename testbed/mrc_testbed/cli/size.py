"""size: a planned fabric in numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from fractions import Fraction
from math import isclose
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from mrc_testbed.cli.options import COMMANDS, Settings, command
from mrc_testbed.cli.render import key_values, rows_table, show
from mrc_testbed.document.envelope import API_VERSION, Kind
from mrc_testbed.errors import UsageError
from mrc_testbed.report.table import Columns
from mrc_testbed.shown import format_rate, format_share
from mrc_testbed.soak.document import commented, tier_values
from mrc_testbed.topology.numbering import TierSize
from mrc_testbed.topology.sizing import Fabric, Parts, plan_fabric, scaled
from mrc_testbed.topology.usid import CARRIER_SLOTS, INDEX_COUNT, PLANE_COUNT, Role, usid_counts
from mrc_testbed.units import format_rate_bps, parse_rate_bps

_PLANES: Final = (1, 2, 4, 8)
_TIERS: Final = {2: "two tiers", 3: "three tiers"}
_PORTS: Final = "as many of a switch as there are planes"
_COUNTED: Final = ("links", "host_links", "optics", "host_optics", "paths", "ev_bits", "usids_of_packet")
_FABRIC_COLUMNS: Final[Columns] = {
    "#planes": "planes",
    "#NICs at most": "largest_nics",
    "#T0s": "t0",
    "#T1s": "t1",
    "#T2s": lambda row: row["t2"] or None,
    "#switches": "switches",
    "#links": "links",
    "#optics": "optics",
    "#EV bits": "ev_bits",
}
_PLANES_COLUMNS: Final[Columns] = {
    "#planes": "planes",
    "#NIC ports": lambda row: f"{row['planes']} x {format_rate(row['port_rate_bps'])}",
    "#switch ports": "switch_ports",
    "#a T0-T1 link": lambda row: f"{format_share(row['t0_t1_link_of_plane'])} of a plane",
    "#of a NIC's rate": lambda row: format_share(row["t0_t1_link_of_nic"]),
}
_LOSS_COLUMNS: Final[Columns] = {
    "lost": "part",
    "#in all": "count",
    "#NICs": "nics",
    "#of a plane": lambda row: format_share(row["of_plane"]),
    "#planes": "planes",
    "#of a NIC": lambda row: format_share(row["of_nic"]),
    "#of all": lambda row: format_share(row["of_fabric"]),
}


@command(COMMANDS, "size")
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
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write a topology file: the fabric as a small lab."),
    ] = None,
) -> None:
    """Plan a multi-plane Clos fabric: switches, links, optics, losses.

    Compares one, two, four and eight planes, in two tiers and in three. Then it
    shows one fabric in detail: paths, EV bits, uSIDs, and what the loss of each
    part takes from whom. docs/guide/size.md has the rules.

    [bold]Examples[/bold]

      mrc-testbed size 131072
      mrc-testbed size 4096 --planes 4
      mrc-testbed size 65536 --planes 1 --tiers 3 --save lab.yaml
      mrc-testbed size 16384 --nic-rate 400Gbit --switch-rate 25600Gbit
    """
    choices = _choices(planes, nic_rate, switch_rate)
    parts = next((each for each in choices if each.planes == planes), choices[-1])
    chosen = plan_fabric(parts, tiers or (2 if nics <= parts.largest_nics(2) else 3), nics)
    if save is not None:
        _save(save, chosen)
    fabrics = [_counted(each, count, nics) for count in _TIERS for each in choices]
    two = _counted(parts, 2, nics)
    comparisons = [
        _compared(two, each)
        for each in fabrics
        if two.numbering.uplink_count and each.tiers == 3 and each.parts.planes in (1, parts.planes)
    ]
    losses = [asdict(loss) for loss in chosen.losses()]
    usids = {role.name.lower(): count for role, count in usid_counts(chosen.numbering).items()}
    rows = [_row(each) for each in fabrics]
    show(
        settings,
        "FabricSize",
        {
            "nics": nics,
            "nic_rate_bps": nic_rate,
            "switch_rate_bps": switch_rate,
            "fabrics": rows,
            "comparisons": comparisons,
            "chosen": {**_row(chosen), "usids_of_plane": usids, "losses": losses},
        },
        lambda: Group(
            *_tables(rows, nics, nic_rate, switch_rate),
            *_comparison_lines(comparisons),
            *_details(chosen),
            Text(),
            Text("One part is lost: how many NICs lose rate, and how much each of them at most"),
            rows_table(_LOSS_COLUMNS, losses),
        ),
        lines="fabrics",
        version=2,
    )


def _save(path: Path, fabric: Fabric) -> None:
    """Write a topology file of a lab with the ratios of a fabric; its comments say what is scaled."""
    plan, lab = fabric.numbering, scaled(fabric.numbering)
    said = [
        f"Made by `mrc-testbed size`: {lab.host_count} hosts for {fabric.nics:,} NICs, with its planes, port "
        "rate and its ratios. Ports of a switch are scaled:"
    ]
    ports = zip(lab.downlinks, lab.uplinks, plan.downlinks, plan.uplinks, strict=True)
    for level, each in enumerate(ports):
        said.append("T{}: {:,} down, {:,} up; in the plan {:,} down, {:,} up".format(level, *each))
    spec = {
        "planes": lab.planes,
        "port_rate": format_rate_bps(fabric.parts.port_rate_bps),
        "tiers": tier_values(lab.tiers if lab.tiers[1:] else (*lab.tiers, TierSize(1))),
    }
    metadata = {"name": f"size-{fabric.nics}"}
    document = {"apiVersion": API_VERSION, "kind": Kind.TOPOLOGY.value, "metadata": metadata, "spec": spec}
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(commented(document, said))
    except OSError as error:
        raise UsageError(f"--save: {path} cannot be written: {error.strerror}") from error


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


def _row(fabric: Fabric) -> dict[str, Any]:
    """A fabric with the NICs that are wanted, or as many as it reaches."""
    parts = fabric.parts
    return {
        "planes": parts.planes,
        "tiers": fabric.tiers,
        "port_rate_bps": parts.port_rate_bps,
        "switch_ports": parts.switch_ports,
        "largest_nics": parts.largest_nics(fabric.tiers),
        "nics": fabric.nics,
        **{f"t{level}": parts.planes * fabric.switches(level) for level in range(3)},
        "switches": fabric.numbering.switch_count,
        **{key: getattr(fabric, key) for key in _COUNTED},
        "t0_t1_link_of_plane": 1 / parts.half,
        "t0_t1_link_of_nic": 1 / parts.half / parts.planes,
    }


def _compared(two: Fabric, three: Fabric) -> dict[str, Any]:
    """Two tiers against three, per NIC."""

    def per_nic(count: Callable[[Fabric], int]) -> float:
        return float(Fraction(count(two), two.nics) / Fraction(count(three), three.nics))

    return {
        "planes": two.parts.planes,
        "nics": two.nics,
        "three_tier_planes": three.parts.planes,
        "three_tier_nics": three.nics,
        "optics": per_nic(lambda fabric: fabric.optics),
        "switches": per_nic(lambda fabric: fabric.numbering.switch_count),
    }


def _tables(
    rows: Sequence[Mapping[str, Any]], nics: int, nic_rate_bps: int, switch_rate_bps: int
) -> Iterator[RenderableType]:
    nic, switch = format_rate(nic_rate_bps), format_rate(switch_rate_bps)
    yield Text(f"{nics:,} NICs of {nic}, switches of {switch}", style="bold")
    yield Text()
    yield rows_table(_PLANES_COLUMNS, [row for row in rows if row["tiers"] == 2])
    for tiers, words in _TIERS.items():
        yield Text()
        yield Text(words.capitalize(), style="bold")
        yield rows_table(_FABRIC_COLUMNS, [row for row in rows if row["tiers"] == tiers])
    yield Text()
    if any(row["nics"] < nics for row in rows):
        yield Text(f"A fabric that does not reach {nics:,} NICs is counted with all that it reaches.")
    yield Text(f"An optic is a module of {nic}: all ports of a NIC, or {_PORTS}.")


def _comparison_lines(comparisons: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    for each in comparisons:
        yield Text(
            f"Per NIC, two tiers of {_planes(each['planes'])} need {_part(each['optics'])} of the optics and "
            f"{_part(each['switches'])} of the switches\n"
            f"of three tiers of {_planes(each['three_tier_planes'])}."
        )
    yield Text()


def _planes(count: int) -> str:
    return f"{count} plane{'s' * (count > 1)}"


def _part(share: float) -> str:
    """A simple fraction where it is one: `2/3`."""
    simple = Fraction(share).limit_denominator(9)
    return str(simple) if isclose(simple, share) else format_share(share)


def _details(fabric: Fabric) -> Iterator[RenderableType]:
    planes, usids = fabric.parts.planes, usid_counts(fabric.numbering)
    yield Text(f"{_planes(planes)} in {_TIERS[fabric.tiers]}, {fabric.nics:,} NICs", style="bold")
    each = ", ".join(
        f"{count:,} {'downlink' if role is Role.DOWNLINK else role.name}" for role, count in usids.items()
    )
    named = f"{planes * sum(usids.values()):,}: {each} per plane; room for {INDEX_COUNT:,} each"
    apart = " of different T0s" if fabric.numbering.uplink_count else ""
    yield key_values(
        [
            ("paths", f"{fabric.paths:,} between NICs{apart}: {fabric.ev_bits} bits of an EV"),
            ("uSIDs", f"{fabric.usids_of_packet} in a packet, of {CARRIER_SLOTS} that an address carries"),
            ("", named),
            ("optics", f"{fabric.host_optics:,} of {fabric.optics:,} at host links; none with copper"),
        ]
    )
