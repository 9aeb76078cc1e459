"""The steps by which a scenario becomes smaller: each document has a part less, or a quantity halved.

What they lead to may be no scenario at all: the scenario language says so.
"""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from mrc_testbed.errors import UsageError
from mrc_testbed.soak.document import Values
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import DURATION, SIZE, Units, format_duration_ns, parse_duration_ns

Steps = tuple[str | int, ...]
"""Keys and indices to a place in a document or its spec."""

_LEAST_NS: Final = {"workloads": 1_000_000, "faults": 100_000}
"""By the part of the spec, what its times are not made shorter than."""
_FABRIC: Final = ("planes", "t0", "t1", "hosts_per_t0", "uplinks_per_pair")
_KEPT: Final = frozenset(
    {"seed", "timeout", "retry_limit", "workloads", "faults", "expect", "topology", "id", "name", "kind"}
)
"""Keys that are not simply left out: the default of some would change what a failure means."""
_NAMES: Final = re.compile(
    r"\bh(?P<host>\d+)\b(:(?P<port>\d+)\b)?|\bp(?P<plane>\d+)(?=-)|\b(?P<tier>t[01])-(?P<switch>\d+)\b"
)


def smaller_documents(document: Values) -> Iterator[Values]:
    """Those that weigh less, the largest steps first."""
    least = weight(document)
    return (each for each in _steps(document, document["spec"]) if weight(each) < least)


def weight(document: Values) -> tuple[int, int, int]:
    """Size of a document, most important first: fabric, entries, quantities."""
    quantities = [_quantity_of(value)[0] for _, value in _places(document)]
    return sum(_fabric_of(document["spec"]).values()), len(quantities), sum(quantities)


def _steps(document: Values, spec: Values) -> Iterator[Values]:
    parts = [
        (path, each, least_ns) for path, each in _places(spec) if (least_ns := _LEAST_NS.get(str(path[0])))
    ]
    halved = [(path, each, _half(each, least_ns)) for path, each, least_ns in parts if path[-1] not in _KEPT]
    halves = {path: half for path, each, half in halved if half != each}
    times = {path: half for path, half in halves.items() if _quantity_of(half)[1] is DURATION}
    yield _edited(document, _put, times)
    for key, number in _fabric_of(spec).items():
        for fewer in sorted({1, number // 2, number - 1} & set(range(1, number))):
            yield _edited(document, _build_less, key, fewer)
    for path, each, _ in parts:
        if isinstance(each, list) and path[-1] != "command":
            yield from _with_less(document, (path,), len(each))
        elif isinstance(each, dict) and all(isinstance(each.get(key), list) for key in ("from", "to")):
            pairs = min(len(each["from"]), len(each["to"]))
            yield from _with_less(document, ((*path, "from"), (*path, "to")), pairs)
    for path, each in _places(spec):
        is_limit = isinstance(each, dict) and "retry_limit" in each
        if isinstance(path[-1], str) and (path[-1] not in _KEPT or each == []) and not is_limit:
            yield _edited(document, _drop, (path[:-1],), path[-1])
    for path, half in halves.items():
        yield _edited(document, _put, {path: half})


def _fabric_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of planes, switches, hosts and links, those left out included."""
    topology = spec.get("topology", {})
    return {key: topology.get(key, TopologySpec.model_fields[key].default) for key in _FABRIC}


def _with_less(document: Values, lists: tuple[Steps, ...], length: int) -> Iterator[Values]:
    """Without one half of lists of one length, then without one of their elements."""
    for size in sorted({1, length // 2} - {0}, reverse=True):
        for start in range(0, length, size):
            yield _edited(document, _drop, lists, slice(start, start + size))


def _edited(document: Values, edit: Callable[..., object], *arguments: object) -> Values:
    changed = copy.deepcopy(document)
    edit(changed["spec"], *arguments)
    _end_faults(changed["spec"])
    return changed


def _drop(spec: Values, paths: tuple[Steps, ...], key: Any) -> None:
    for path in paths:
        del _at(spec, path)[key]


def _put(spec: Values, values: Mapping[Steps, Any]) -> None:
    for path, value in values.items():
        _at(spec, path[:-1])[path[-1]] = value


def _half(value: Any, least_ns: int) -> Any:
    """Half of a number, a time or a size; a time keeps two digits. Anything else, and a short time, stays."""
    if type(value) is int:
        return value // 2
    number, scale = _quantity_of(value)
    half, least = number // 2, 1
    if scale is DURATION:
        step: int = 10 ** max(0, len(str(half)) - 2)
        half, least = half // step * step, least_ns
    return value if scale is None or half < least else scale.format(half)


def _quantity_of(value: Any) -> tuple[int, Units | None]:
    """Value and scale of a time or size; a number has none; 0 for anything else."""
    unit = value.lstrip("0123456789. ") if isinstance(value, str) else None
    for scale in (each for each in (DURATION, SIZE) if unit in each.units):
        with suppress(UsageError):
            return scale.parse(value), scale
    return value if type(value) is int else 0, None


def _end_faults(spec: Values) -> None:
    """End faults with the run; those that begin later go, and so does what clears faults that are gone."""
    kept, ends_ns = spec.get("faults", []), [_time_ns(each, "duration") for each in spec["workloads"]]
    if all(ends_ns):
        end_ns = max(ends_ns, default=0)
        kept = [fault for fault in kept if _time_ns(fault, "at") < end_ns]
        for fault in kept:
            left_ns = end_ns - _time_ns(fault, "at")
            if _time_ns(fault, "for") > left_ns:
                fault["for"] = format_duration_ns(left_ns)
    ids = {fault.get("id") for fault in kept}
    for clear in (each for each in kept if "faults" in each):
        clear["faults"] = [name for name in clear["faults"] if name in ids]
    if "faults" in spec:
        spec["faults"] = [each for each in kept if each.get("faults") != []]


def _time_ns(entry: Mapping[str, Any], key: str) -> int:
    """The time under a key; 0 without one."""
    return parse_duration_ns(entry[key]) if key in entry else 0


def _build_less(spec: Values, key: str, fewer: int) -> None:
    """Fewer planes, switches, hosts or links; a name that has no place any more becomes its neighbour's."""
    before = _fabric_of(spec)
    after = before | {key: fewer}
    topology = spec.setdefault("topology", {})
    topology[key] = fewer
    for place in (topology.get("nic", {}), spec.get("transport", {})):
        if key == "planes" and "evs" in place:
            place["evs"] = place["evs"] // before[key] * fewer or fewer
    for part in _LEAST_NS.keys() & spec.keys():
        spec[part] = _renamed(spec[part], before, after)


def _renamed(value: Any, before: Mapping[str, int], after: Mapping[str, int]) -> Any:
    """Names of hosts, switches and ports as they are in the smaller fabric, and none twice in a list."""
    last = {key: number - 1 for key, number in after.items()}

    def rename(found: re.Match[str]) -> str:
        if found["host"]:
            row, place = divmod(int(found["host"]), before["hosts_per_t0"])
            host = min(row, last["t0"]) * after["hosts_per_t0"] + min(place, last["hosts_per_t0"])
            return f"h{host}:{min(int(found['port']), last['planes'])}" if found["port"] else f"h{host}"
        if found["plane"]:
            return f"p{min(int(found['plane']), last['planes'])}"
        return f"{found['tier']}-{min(int(found['switch']), last[found['tier']])}"

    if isinstance(value, dict):
        hosts = after["t0"] * after["hosts_per_t0"]
        most = {"plane": last["planes"], "planes": last["planes"], "shift": max(1, hosts - 1)}
        return {
            key: _up_to(each, most[key])
            if key in most
            else each
            if key in _KEPT
            else _renamed(each, before, after)
            for key, each in value.items()
        }
    if isinstance(value, list):
        changed = [_renamed(each, before, after) for each in value]
        is_names = all(isinstance(each, str) for each in changed)
        return list(dict.fromkeys(changed)) if is_names and changed != value else changed
    return _NAMES.sub(rename, value) if isinstance(value, str) else value


def _up_to(number: Any, last: int) -> Any:
    """A number or several, none above the last."""
    if isinstance(number, list):
        return list(dict.fromkeys(min(each, last) for each in number))
    return min(number, last) if isinstance(number, int) else number


def _places(value: Any, path: Steps = ()) -> Iterator[tuple[Steps, Any]]:
    """All that is in a value, each with its place, the outer ones first."""
    if path:
        yield path, value
    if isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _places(each, (*path, key))


def _at(value: Any, path: Steps) -> Any:
    for step in path:
        value = value[step]
    return value
