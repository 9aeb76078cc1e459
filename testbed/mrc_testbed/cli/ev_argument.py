"""Notation of EVs, paths and planes on the command line."""

import re
from dataclasses import dataclass
from typing import Annotated, Final

import typer

from mrc_testbed.cli.suggestion import hosts
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.path import find_ev

Source = Annotated[str, typer.Argument(metavar="FROM", autocompletion=hosts, help="Sending host.")]
Target = Annotated[str, typer.Argument(metavar="TO", autocompletion=hosts, help="Receiving host.")]

_PATH_FORM: Final = re.compile(r"(\d+):(\d+)(?::(\d+))?")


@dataclass(frozen=True, slots=True)
class EvChoice:
    """A plane, a path in it, or one EV."""

    text: str  # as written
    plane: int  # number
    uplink: int | None = None  # number at the sender's T0; None for the whole plane
    ev: int | None = None  # 32 bits; None for a plane or a path


def parse_ev(clos: Clos, source: int, target: int, text: str) -> int:
    """Parse an EV between two hosts."""
    if match := _PATH_FORM.fullmatch(text):
        return find_ev(clos, source, target, *(int(part or 0) for part in match.groups()))
    try:
        return int(text, 0)
    except ValueError as error:
        raise UsageError(
            f"{text!r} is no EV: write 32 bits, like 0x10010000, or plane:uplink[:copy], like 1:1"
        ) from error


def parse_choice(clos: Clos, text: str) -> EvChoice:
    """Parse `2` as plane 2, `2:1` as its uplink 1, `0x20010003` as one EV."""
    planes, uplinks = clos.spec.planes, clos.numbering.way_count(len(clos.tiers) - 1)
    if text.isdecimal():
        choice = EvChoice(text, int(text))
    elif match := re.fullmatch(r"(\d+):(\d+)", text):
        choice = EvChoice(text, int(match[1]), int(match[2]))
        if clos.spec.forwarding == "ecmp":
            raise UsageError(
                f"{text!r}: switches of this fabric hash, no EV has an uplink of its own",
                hint="name a plane, or one EV by its 32 bits",
            )
    elif re.fullmatch(r"0x[0-9a-fA-F]{1,8}", text):
        choice = EvChoice(text, int(text, 16) >> 28, None, int(text, 16))
    else:
        raise UsageError(
            f"{text!r} is no EV: write a plane, like 1, a path, like 1:1, or 32 bits, like 0x10010000"
        )
    if choice.plane >= planes:
        raise UsageError(f"{text!r}: plane {choice.plane}; 0 to {planes - 1} are there")
    if choice.uplink is not None and choice.uplink >= uplinks:
        owner = "a T0 has" if len(clos.tiers) == 2 else "paths have"
        raise UsageError(f"{text!r}: uplink {choice.uplink}; {owner} 0 to {uplinks - 1}")
    return choice
