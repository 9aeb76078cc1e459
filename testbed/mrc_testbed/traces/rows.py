"""Rows of a trace as the ranks of a program report them, by mrc-torch: see its reports.py. Pure."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, get_args

from mrc_testbed.traces.graph import GroupCallKind

COLLECTIVES: Final[dict[str, GroupCallKind]] = {
    kind.replace("-", "_"): kind for kind in get_args(GroupCallKind)
}
"""By their names in torch."""

_KINDS: Final = (*COLLECTIVES, "send", "recv")

Row: TypeAlias = tuple[Any, ...]
"""Its name, and values; a step that ends is one too: ("step", NUMBER, NS)."""

_Check: TypeAlias = tuple[str, Callable[[Any], bool]]
_COUNT: Final[_Check] = ("a whole number from 0", lambda value: _is_whole(value, 0))
_WHOLE: Final[_Check] = ("a whole number", lambda value: _is_whole(value, -(2**63)))


class RankRows(list[Row]):
    """Rows of one rank, in the order in which it reported them.

    Args:
        ranks: how many there are.
    """

    def __init__(self, ranks: int) -> None:
        super().__init__()
        self._started: set[int] = set()
        self._groups: set[str] = set()
        self._step = -1
        rank = f"a rank from 0 to {ranks - 1}"
        known = "an operation that has started"
        self._fields: Mapping[str, Mapping[str, _Check]] = {
            "begin": {"NS": _COUNT},
            "group": {
                "NAME": ("a text", lambda value: isinstance(value, str)),
                "RANKS": (f"a list, each {rank}", lambda value: _is_list(value, range(ranks))),
            },
            "start": {
                "IN": (f"null, {known}, or less than 0", self._is_thread),
                "ID": ("a new number from 0", lambda value: _COUNT[1](value) and value not in self._started),
                "NS": _COUNT,
                "KIND": (f"one of {', '.join(_KINDS)}", lambda value: value in _KINDS),
                "GROUP": ("a group of a row before", lambda value: _is_list([value], self._groups)),
                "BYTES": _COUNT,
                "PEER": (f"null or {rank}", lambda value: value is None or _is_list([value], range(ranks))),
                "TAG": _WHOLE,
            },
            "end": {"ID": (known, lambda value: _is_list([value], self._started)), "NS": _COUNT},
            "wait": {
                "IN": (f"null, {known}, or less than 0", self._is_thread),
                "IDS": (f"a list, each {known}", lambda value: _is_list(value, self._started)),
                "BEGIN_NS": _COUNT,
                "END_NS": _COUNT,
            },
        }

    def take(self, line: bytes) -> None:
        """Append the row in a line.

        Raises:
            ValueError: it is none, or does not fit those before.
        """
        try:
            name, *values = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"expected JSON, got {line[:80].decode(errors='replace')!r}") from error
        names = [each for each in self._fields if (each == "begin") is not bool(self)]
        _require("", " or ".join(names), name in names, name)
        fields = self._fields[name]
        _require(f"{name}: ", ", ".join(fields), len(values) == len(fields), values)
        for (field, (expected, is_right)), value in zip(fields.items(), values, strict=True):
            _require(f"{name}: {field}: ", expected, is_right(value), value)
        match name, *values:
            case "group", group, ranks:
                self._groups.add(group)
                values = [group, tuple(ranks)]
            case "start", _, number, _, kind, _, _, peer, _:
                _require("start: PEER: ", "a rank", kind in COLLECTIVES or peer is not None, peer)
                self._started.add(number)
        self.append((name, *values))

    def end_step(self, step: int, end_ns: int) -> None:
        """Append the end of a step, if the rank reports rows and this is a later one."""
        if self and step > self._step:
            self._step = step
            self.append(("step", step, end_ns))

    def _is_thread(self, value: object) -> bool:
        return value is None or (_WHOLE[1](value) and (value in self._started or not _COUNT[1](value)))


def _is_whole(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 2**63


def _is_list(value: object, items: range | set[int] | set[str]) -> bool:
    return isinstance(value, list) and all(isinstance(each, int | str) and each in items for each in value)


def _require(field: str, expected: str, is_right: bool, value: object) -> None:
    if not is_right:
        raise ValueError(f"{field}expected {expected}, got {json.dumps(value)[:80]}")
