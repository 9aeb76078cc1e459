"""Selectors: which links or nodes something is meant for, apart from what is to happen to them.

    links: h0:2                              the link of a port; h0:2~p2-t0-0:0 is its full name
    links: [p0-t0-0:4, "p1-t1-*:*"]          names and globs of ports
    links: p0-t0-*~p0-t1-1                   links between such nodes, or ports
    links: {plane: 0, between: [t0, t1]}     by property; add node: p0-t1-3 for the links of one node
    nodes: {plane: 0, tier: t1}              likewise for nodes: h3, "p*-t1-0", [h0, h1]
    planes: 1                                a plane, several, or all
    optic: 4                                 whole optical modules of four links
    pick: random, count: 2                   take some of what matches; all without pick

Selecting nothing is an error, because a fault that hits nothing would look like a fabric that bears it.
"""

import re
from typing import Annotated, Any, Final, Literal, Self

from pydantic import Discriminator, Field, Tag, model_validator

from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.fields import StrictModel
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.naming import Tier

Pick = Literal["all", "first", "random"]

TIERS_JOINED: Final = ([Tier.HOST, Tier.T0], [Tier.T0, Tier.T1], [Tier.T1, Tier.T2])
"""The tiers that links join, the lower first, by level of the upper."""


def _form(value: object) -> str:
    """Which form of a field was written, so that errors speak of that form only."""
    if isinstance(value, str | int):
        return "one"
    return "several" if isinstance(value, list) else "filter"


_Index = Annotated[int, Field(ge=0)]
_Name = Annotated[str, Field(min_length=1)]
_Indices = Annotated[
    Annotated[_Index, Tag("one")] | Annotated[list[_Index], Field(min_length=1), Tag("several")],
    Discriminator(_form),
]


class LinkFilter(StrictModel):
    """Links by property; a link must have all given properties."""

    plane: _Indices | None = Field(default=None, description="Plane index, or a list of them.")
    between: Annotated[list[Tier], Field(min_length=2, max_length=2)] | None = Field(
        default=None,
        description="The two tiers a link joins, the lower first: [host, t0], [t0, t1] or [t1, t2].",
    )
    pod: _Indices | None = Field(
        default=None, description="Pod of the lower end, or a list of them; see tiers."
    )
    node: _Name | None = Field(
        default=None, description="A node at either end: `p0-t1-3`, `h3`, or a glob such as `p*-t1-0`."
    )

    @model_validator(mode="after")
    def _check_something_is_selected(self) -> Self:
        if all(given is None for given in (self.plane, self.between, self.pod, self.node)):
            raise ValueError("an empty filter selects nothing; give plane, between, pod or node")
        if self.between is not None and self.between not in TIERS_JOINED:
            # The order is fixed because a-to-b means from the lower end to the upper, whatever is written.
            written = ", ".join(self.between)
            raise ValueError(
                f"no link is written [{written}]: use [host, t0], [t0, t1] or [t1, t2], lower tier first"
            )
        return self


class NodeFilter(StrictModel):
    """Nodes by property; a node must have all given properties."""

    plane: _Indices | None = Field(default=None, description="Plane index, or a list of them; switches only.")
    tier: Tier | None = Field(default=None, description="host, t0, t1 or t2.")
    pod: _Indices | None = Field(
        default=None, description="Pod index, or a list of them: its T0s, T1s or hosts; see tiers."
    )

    @model_validator(mode="after")
    def _check_something_is_selected(self) -> Self:
        if self.plane is None and self.tier is None and self.pod is None:
            raise ValueError("an empty filter selects nothing; give plane, tier or pod")
        if self.pod is not None and self.tier is Tier.T2:
            raise ValueError("a T2 is in no pod: it joins them")
        if self.plane is not None and self.tier is Tier.HOST:
            raise ValueError("a host is in all planes: leave plane out, or select its port as a link (h3:0)")
        return self


class Choice(StrictModel):
    """The number of matches that are taken."""

    pick: Pick = Field(
        default="all",
        description="Take all matches, the first `count` in topology order, or `count` at random.",
    )
    count: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Number of matches to take; with pick first or random only. Left out: 1."
    )

    @model_validator(mode="after")
    def _check_count_has_a_meaning(self) -> Self:
        if self.count is not None and self.pick == "all":
            raise ValueError(f"count: {self.count} needs pick: first or pick: random")
        return self


class LinkSelector(Choice):
    """A choice of links."""

    links: Annotated[
        Annotated[_Name, Tag("one")]
        | Annotated[list[_Name], Field(min_length=1), Tag("several")]
        | Annotated[LinkFilter, Tag("filter")],
        Discriminator(_form),
    ] = Field(
        description="A link (`p0-t0-0:4~p0-t1-0:0`), the port at one end (`h0:2`), a glob of either "
        "(`p0-t1-1:*`), a list of these, or a filter."
    )
    optic: Annotated[int, Field(ge=2, le=64)] | None = Field(
        default=None,
        description="Number of links of an optical module, which fail together: neighbouring ports of a T0 "
        "(for 4: ports 0 to 3, 4 to 7). Takes `count` whole modules that contain a matching link.",
    )


class NodeSelector(Choice):
    """A choice of nodes."""

    nodes: Annotated[
        Annotated[_Name, Tag("one")]
        | Annotated[list[_Name], Field(min_length=1), Tag("several")]
        | Annotated[NodeFilter, Tag("filter")],
        Discriminator(_form),
    ] = Field(description="A node name, a glob of names (`p*-t1-0`), a list of these, or a filter.")


class PlaneSelector(Choice):
    """A choice of planes."""

    planes: Annotated[
        Annotated[Literal["all"], Tag("one")]
        | Annotated[_Index, Tag("number")]
        | Annotated[list[_Index], Field(min_length=1), Tag("several")],
        Discriminator(lambda value: "number" if isinstance(value, int) else _form(value)),
    ] = Field(description="A plane index, a list of them, or `all`.")


def parse_link_selector(text: str) -> LinkSelector:
    """The selector of a command line: names and globs with commas between, or the mapping a file would hold.

    Args:
        text: `h0:2`, `p0-t1-0:*,p0-t1-1:*`, or `{links: {plane: 0}, pick: random, count: 2}`.
    """
    return validate_values(_selector_values(text, "links"), LinkSelector, "selector")


def parse_node_selector(text: str) -> NodeSelector:
    """The selector of a command line, as for links: `h3`, `h0,h1`, `{nodes: {plane: 0, tier: t1}}`."""
    return validate_values(_selector_values(text, "nodes"), NodeSelector, "selector")


def parse_plane_selector(text: str) -> PlaneSelector:
    """The selector of a command line, as for links: `1`, `0,2`, `all`, `{planes: all, pick: random}`."""
    values = _selector_values(text, "planes")
    names = values.get("planes")
    if isinstance(names, list):
        numbers = [int(name) if isinstance(name, str) and name.isdecimal() else name for name in names]
        values = {**values, "planes": "all" if numbers == ["all"] else numbers}
    return validate_values(values, PlaneSelector, "selector")


def _selector_values(text: str, key: str) -> dict[str, Any]:
    stripped = text.strip()
    if stripped.startswith("{") or re.match(r"(links|nodes|planes|optic|pick|count):\s", stripped):
        from mrc_testbed.document.yaml_tree import parse_tree  # noqa: PLC0415 - names are not YAML

        tree, _ = parse_tree(stripped, "selector")
        if not isinstance(tree, dict):
            raise UsageError(f"selector {text!r}: expected a mapping with {key}")
        return tree
    names: list[Any] = [name.strip() for name in stripped.split(",")]
    return {key: names}
