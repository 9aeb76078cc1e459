"""Text to a plain tree, with the line of every entry: the safe subset of YAML that our files use.

Left out on purpose: tags, merge keys, keys that are not text, and the surprises of YAML 1.1 (`on` and `no` as
booleans, `1:30` as a number, dates). Anchors and aliases work, within the limits below, which hold before any
memory is spent: a file comes from anybody.
"""

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, cast

import yaml
from yaml.composer import Composer
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.resolver import BaseResolver
from yaml.scanner import Scanner

from mrc_testbed.document.problem import Location, Position, Problem, Tree, usage_error
from mrc_testbed.document.text_file import TEXT_BYTES_MAX

DEPTH_MAX: Final = 32
NODE_COUNT_MAX: Final = 20_000
"""Entries once aliases are expanded: nine lines of nested aliases would otherwise make a thousand million."""

_TAG: Final = "tag:yaml.org,2002:"
_SURROGATE: Final = re.compile("[\ud800-\udfff]")

_SCALARS: Final[dict[str, tuple[re.Pattern[str], str, Callable[[str], Tree]]]] = {
    "null": (re.compile(r"|~|null"), "~n", lambda _: None),
    "bool": (re.compile(r"true|false"), "tf", lambda text: text == "true"),
    "int": (re.compile(r"[-+]?(0|[1-9][0-9]{0,18})"), "-+0123456789", int),
    "float": (re.compile(r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+][0-9]+)?"), "-+.0123456789", float),
}
"""Plain scalars that are not text: pattern, possible first characters, constructor.

Nothing that other YAML writers leave unquoted as text may match, so exponents need a point and a sign.
"""


class _LimitError(yaml.MarkedYAMLError):
    """Valid YAML, but more of it than a file of ours can need."""


class _Loader(Reader, Scanner, Parser, Composer, BaseResolver):
    """PyYAML's pure-Python front end with our scalars, counting depth as nodes are composed."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)
        Composer.__init__(self)
        BaseResolver.__init__(self)
        self.depth = 0

    def compose_node(self, parent: Node | None, index: int) -> Node | None:
        if parent is not None and self.depth >= DEPTH_MAX:
            raise _LimitError(
                problem=f"nested more than {DEPTH_MAX} levels deep", problem_mark=parent.start_mark
            )
        self.depth += 1
        node: Node | None = super().compose_node(parent, index)
        self.depth -= 1
        if isinstance(node, ScalarNode) and _SURROGATE.search(node.value):
            raise yaml.MarkedYAMLError(
                problem="half a surrogate pair is no character", problem_mark=node.start_mark
            )
        return node


for _name, (_pattern, _first, _) in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern.pattern})\Z"), list(_first))
_Loader.add_implicit_resolver(_TAG + "null", re.compile(r"\Z"), [""])


@dataclass(slots=True)
class _Expansion:
    """Turns composed nodes into a tree, collecting positions and problems on the way."""

    positions: dict[Location, Position] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    node_count: int = 0

    def refuse(self, location: Location, node: Node, message: str) -> None:
        self.positions[location] = _position(node)
        self.problems.append(Problem(location, message))

    def expand(self, node: Node, location: Location) -> Tree:
        self.node_count += 1
        if self.node_count > NODE_COUNT_MAX or len(location) > DEPTH_MAX:
            limit = f"{NODE_COUNT_MAX} entries or {DEPTH_MAX} levels"
            raise _LimitError(
                problem=f"more than {limit} once aliases are expanded", problem_mark=node.start_mark
            )
        self.positions.setdefault(location, _position(node))
        if isinstance(node, MappingNode) and node.tag == _TAG + "map":
            return dict(self.expand_entries(node, location))
        if isinstance(node, SequenceNode) and node.tag == _TAG + "seq":
            return [self.expand(item, (*location, index)) for index, item in enumerate(node.value)]
        if isinstance(node, ScalarNode):
            return self.expand_scalar(node, location)
        self.refuse(location, node, f"tag {node.tag.removeprefix(_TAG)!r} is not supported")
        return None

    def expand_entries(self, node: MappingNode, location: Location) -> Iterator[tuple[str, Tree]]:
        first_lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            position = _position(key_node)
            if not isinstance(key_node, ScalarNode) or key_node.tag != _TAG + "str":
                name = key_node.value if isinstance(key_node, ScalarNode) else "?"
                self.refuse((*location, name), key_node, "a key must be text; put it in quotes")
                continue
            key = cast("str", key_node.value)
            entry = (*location, key)
            if key == "<<":
                self.refuse(entry, key_node, "merge keys are not supported; write the entries out")
            elif key in first_lines:
                self.refuse(entry, key_node, f"key given twice; first in line {first_lines[key]}")
            else:
                first_lines[key] = position.line
                self.positions[entry] = position
                yield key, self.expand(value_node, entry)

    def expand_scalar(self, node: ScalarNode, location: Location) -> Tree:
        text = cast("str", node.value)
        name = node.tag.removeprefix(_TAG)
        if name == "str":
            return text
        if name not in _SCALARS:
            self.refuse(location, node, f"tag {name!r} is not supported")
            return None
        pattern, _, construct = _SCALARS[name]
        if not pattern.fullmatch(text):
            self.refuse(location, node, f"{text!r} does not suit the tag {name!r}")
            return None
        value = construct(text)
        if isinstance(value, float) and not math.isfinite(value):
            self.refuse(location, node, f"{text!r} is too large")
        return value


def _position(node: Node) -> Position:
    return Position(line=node.start_mark.line + 1, column=node.start_mark.column + 1)


def parse_tree(text: str, source: str) -> tuple[Tree, dict[Location, Position]]:
    """The tree of *text* (mappings, lists, text, numbers, booleans, None) and where each entry stands.

    Args:
        source: file name for messages.
    """
    if len(text.encode(errors="surrogatepass")) > TEXT_BYTES_MAX:
        raise usage_error(source, {}, [Problem((), f"larger than {TEXT_BYTES_MAX // 1024} KiB")])
    expansion = _Expansion()
    try:
        node = _Loader(text).get_single_node()
        tree = None if node is None else expansion.expand(node, ())
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        problem = Problem((), f"character #x{ord(text[error.position]):04x} is not allowed")
        raise usage_error(source, {(): Position(line, 1)}, [problem]) from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where: dict[Location, Position] = {}
        if mark is not None:
            where[()] = Position(mark.line + 1, mark.column + 1)
        context = "" if error.context is None else f" ({error.context})"
        prefix = "" if isinstance(error, _LimitError) else "not valid YAML: "
        raise usage_error(source, where, [Problem((), f"{prefix}{error.problem}{context}")]) from error
    if expansion.problems:
        raise usage_error(source, expansion.positions, expansion.problems)
    return tree, expansion.positions
