"""The steps by which a scenario becomes smaller: each document is the given one without something.

What they lead to may be no scenario at all: the scenario language says so.
"""

import copy
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from mrc_testbed.errors import UsageError
from mrc_testbed.soak.document import Values
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import DURATION, SIZE, Units, format_duration_ns, parse_duration_ns

Steps = tuple[str | int, ...]
"""Keys and indices from the spec to a place in it."""

RUN_NS_MIN: Final = 1_000_000
"""Time that a run is not made shorter than."""
FAULT_NS_MIN: Final = 100_000
"""Likewise for the beginning of a fault and for its length."""
_FABRIC: Final = ("planes", "t0", "t1", "hosts_per_t0", "uplinks_per_pair")
_KEPT: Final = frozenset(
    {"seed", "timeout", "retry_limit", "workloads", "faults", "expect", "topology", "id", "name", "kind"}
)
"""Keys that are not simply left out: the default of some would change what a failure means."""
_LESS: Final = ("at", "for", "size", "iterations", "count")
"""Keys of workloads and faults whose values are made smaller."""
_PLACES: Final = re.compile(
    r"\bh(?P<host>\d+)\b(:(?P<port>\d+)\b)?|\bp(?P<plane>\d+)(?=-)|\b(?P<tier>t[01])-(?P<switch>\d+)\b"
)


def smaller_documents(document: Values) -> Iterator[Values]:
    """Smaller ones, the largest steps first."""
    spec = document["spec"]
    count = len(spec.get("faults", ()))
    if count > 1:
        yield _edited(document, _drop_faults, range(count // 2, count))
        yield _edited(document, _drop_faults, range(count // 2))
    for index in range(count):
        yield _edited(document, _drop_faults, (index,))
    others = range(len(spec["workloads"])) if len(spec["workloads"]) > 1 else ()
    for index in others:
        yield _edited(document, _drop, ("workloads",), index)
    yield _edited(document, _compress)
    yield _edited(document, _cut_short)
    for key, number in fabric_of(spec).items():
        for fewer in sorted({1, number // 2, number - 1} & set(range(1, number))):
            yield _edited(document, _build_less, key, fewer)
    parts = [each for each in _mappings(spec) if each[0][:1] in {("workloads",), ("faults",)}]
    for path, mapping in parts:
        yield from _with_shorter_lists(document, path, mapping)
    for path, mapping in _mappings(spec):
        for key, value in mapping.items():
            if (key not in _KEPT or value == []) and "retry_limit" not in (
                value if isinstance(value, dict) else ()
            ):
                yield _edited(document, _drop, path, key)
    for path, mapping in parts:
        for key in filter(mapping.__contains__, _LESS):
            yield _edited(document, _make_less, path, key)


def fabric_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of planes, switches, hosts and links, those left out included."""
    topology = spec.get("topology", {})
    return {key: topology.get(key, TopologySpec.model_fields[key].default) for key in _FABRIC}


def quantity_of(text: str) -> tuple[Units, int] | None:
    """Scale and value of a time or size; None for another text."""
    unit = text.lstrip("0123456789. ")
    for scale in (DURATION, SIZE):
        if unit in scale.units:
            try:
                return scale, scale.parse(text)
            except UsageError:
                return None
    return None


def time_ns(entry: Mapping[str, Any], key: str) -> int:
    """The time under a key; 0 without one."""
    return parse_duration_ns(entry[key]) if key in entry else 0


def _edited(document: Values, edit: Callable[..., object], *arguments: object) -> Values:
    changed = copy.deepcopy(document)
    edit(changed["spec"], *arguments)
    return changed


def _drop(spec: Values, path: Steps, *keys: str | int) -> None:
    for key in keys:
        del _at(spec, path)[key]


def _drop_faults(spec: Values, gone: Collection[int]) -> None:
    _keep_faults(spec, [each for at, each in enumerate(spec["faults"]) if at not in gone])


def _keep_faults(spec: Values, kept: list[Values]) -> None:
    """Remove all faults but some, and what clears those."""
    ids = {each.get("id") for each in kept}
    for clear in kept:
        if "faults" in clear:
            clear["faults"] = [name for name in clear["faults"] if name in ids]
    spec["faults"] = [each for each in kept if each.get("faults") != []]


# ---- time


def _cut_short(spec: Values) -> None:
    """Halve the time; faults that begin later go, those that end later end with it."""
    _end_by(spec, _half(_run_ns(spec)))


def _compress(spec: Values) -> None:
    """Halve all times."""
    end_ns = _half(_run_ns(spec))
    if end_ns < RUN_NS_MIN:
        return
    for key in ("at", "for"):
        for fault in spec.get("faults", ()):
            if key in fault:
                fault[key] = format_duration_ns(_half(time_ns(fault, key)))
    for workload in spec["workloads"]:
        if "warmup" in workload:
            workload["warmup"] = format_duration_ns(_half(time_ns(workload, "warmup")))
    _end_by(spec, end_ns)


def _run_ns(spec: Values) -> int:
    return max(time_ns(workload, "duration") for workload in spec["workloads"])


def _end_by(spec: Values, end_ns: int) -> None:
    """End by a time, unless that is too early to matter."""
    if end_ns < RUN_NS_MIN:
        return
    for workload in spec["workloads"]:
        if time_ns(workload, "duration") > end_ns:
            workload["duration"] = format_duration_ns(end_ns)
    if "faults" in spec:
        _keep_faults(spec, [each for each in spec["faults"] if time_ns(each, "at") < end_ns])
    for fault in spec.get("faults", ()):
        left_ns = end_ns - time_ns(fault, "at")
        if time_ns(fault, "for") > left_ns:
            fault["for"] = format_duration_ns(left_ns)


def _half(value: int) -> int:
    """Half of a number, in two digits."""
    step: int = 10 ** max(0, len(str(value // 2)) - 2)
    return value // 2 // step * step


# ---- the fabric


def _build_less(spec: Values, key: str, fewer: int) -> None:
    """Fewer planes, switches, hosts or links; a name that has no place any more becomes its neighbour's."""
    before = fabric_of(spec)
    after = before | {key: fewer}
    topology = spec.setdefault("topology", {})
    topology[key] = fewer
    if key == "planes":
        for place in (topology.get("nic", {}), spec.get("transport", {})):
            if "evs" in place:
                place["evs"] = place["evs"] // before[key] * fewer or fewer
    for part in ("workloads", "faults"):
        if part in spec:
            spec[part] = _renamed(spec[part], before, after)
    hosts = after["t0"] * after["hosts_per_t0"]
    for workload in spec["workloads"]:
        if "shift" in workload:
            workload["shift"] = max(1, min(workload["shift"], hosts - 1))


def _renamed(value: Any, before: Mapping[str, int], after: Mapping[str, int]) -> Any:
    """Names of hosts, switches and ports as they are in the smaller fabric."""

    def rename(found: re.Match[str]) -> str:
        if found["host"]:
            row, place = divmod(int(found["host"]), before["hosts_per_t0"])
            row, place = min(row, after["t0"] - 1), min(place, after["hosts_per_t0"] - 1)
            port = f":{min(int(found['port']), after['planes'] - 1)}" if found["port"] else ""
            return f"h{row * after['hosts_per_t0'] + place}{port}"
        if found["plane"]:
            return f"p{min(int(found['plane']), after['planes'] - 1)}"
        return f"{found['tier']}-{min(int(found['switch']), after[found['tier']] - 1)}"

    if isinstance(value, dict):
        last = after["planes"] - 1
        return {
            key: _up_to(each, last)
            if key in {"plane", "planes"}
            else each
            if key in _KEPT
            else _renamed(each, before, after)
            for key, each in value.items()
        }
    if isinstance(value, list):
        changed = [_renamed(each, before, after) for each in value]
        is_names = all(isinstance(each, str) for each in changed)
        return list(dict.fromkeys(changed)) if is_names and changed != value else changed
    return _PLACES.sub(rename, value) if isinstance(value, str) else value


def _up_to(planes: Any, last: int) -> Any:
    """A plane or several, as a selector names them, none above the last."""
    if isinstance(planes, list):
        return list(dict.fromkeys(min(each, last) for each in planes))
    return min(planes, last) if isinstance(planes, int) else planes


# ---- the rest


def _with_shorter_lists(document: Values, path: Steps, mapping: Values) -> Iterator[Values]:
    """Without one of the hosts or places that are listed, or without a pair of hosts."""
    lists = {
        key: value
        for key, value in mapping.items()
        if isinstance(value, list) and len(value) > 1 and key != "command"
    }
    for key, value in lists.items():
        for index in range(len(value)):
            yield _edited(document, _drop, (*path, key), index)
    if {"from", "to"} <= lists.keys():
        for index in range(min(len(lists["from"]), len(lists["to"]))):
            yield _edited(document, _drop_pair, path, index)


def _drop_pair(spec: Values, path: Steps, index: int) -> None:
    for key in ("from", "to"):
        del _at(spec, path)[key][index]


def _make_less(spec: Values, path: Steps, key: str) -> None:
    """Halve a number, or what is a time or a size."""
    mapping = _at(spec, path)
    value = mapping[key]
    if isinstance(value, int):
        mapping[key] = value // 2
    elif (found := quantity_of(value)) is not None:
        scale, number = found
        half = _half(number) if scale is DURATION else number // 2
        if half >= (FAULT_NS_MIN if scale is DURATION else 1):
            mapping[key] = scale.format(half)


def _mappings(value: Any, path: Steps = ()) -> Iterator[tuple[Steps, Values]]:
    """All mappings, each with its place, the outer ones first."""
    if isinstance(value, dict):
        yield path, value
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _mappings(each, (*path, key))


def _at(value: Any, path: Steps) -> Any:
    for step in path:
        value = value[step]
    return value
