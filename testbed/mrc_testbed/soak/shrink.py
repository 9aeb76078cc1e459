"""A failing scenario made small: as long as it fails in the same way, it loses what it can."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from mrc_testbed.errors import UsageError
from mrc_testbed.soak.document import Values
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import DURATION, SIZE, VALUE_MAX, Units, format_duration_ns

_LEAST_NS: Final = {"workloads": 1_000_000, "faults": 100_000}
"""Parts of the spec that lose entries and halve quantities, and the least time there."""
_FABRIC: Final = ("planes", "t0", "t1", "hosts_per_t0", "uplinks_per_pair")
_PARTS: Final = frozenset({"topology", *_LEAST_NS})
_KEPT: Final = _PARTS | {"seed", "timeout", "retry_limit", "expect", "id", "name", "kind", "command"}
"""Keys that are not simply left out: the default of some would change what a failure means."""
_NAMES: Final = re.compile(
    r"\bh(?P<host>\d+)\b(:(?P<port>\d+)\b)?|\bp(?P<plane>\d+)(?=-)|\b(?P<tier>t[01])-(?P<switch>\d+)\b"
)

RUNS_MAX: Final = 300
CANDIDATE_FACTOR: Final = 2
"""Times the events after which the first document failed that a candidate may take."""


def shrink(
    document: Values,
    fails: Callable[[Values], bool],
    runs_max: int = RUNS_MAX,
    is_over: Callable[[], bool] = lambda: False,
    say: Callable[[int], object] = lambda _: None,
) -> tuple[Values, int]:
    """The smallest document found that still fails, and how many runs that took.

    Every step makes it weigh less, so that there is an end even without a limit.

    Args:
        fails: whether another does, in the same way; raises `RefusedDocumentError` for what is no scenario.
        is_over: asked before each; once it is so, the smallest so far is the result.
        say: called with the number of runs after each.
    """
    candidates, runs, place, failed = smaller_documents(document), 0, 0, 0
    while failed < len(candidates) and runs < runs_max and not is_over():
        candidate = candidates[place % len(candidates)]
        try:
            is_smaller = fails(candidate)
            runs += 1
            say(runs)
        except RefusedDocumentError:
            is_smaller = False
        if is_smaller and not is_over():
            # the next step is now where this one was
            document, candidates, failed = candidate, smaller_documents(candidate), 0
        else:
            place, failed = place + 1, failed + 1
    return document, runs


class RefusedDocumentError(Exception):
    """The scenario language refuses a document, or virtual time does."""


def smaller_documents(document: Values) -> list[Values]:
    """Those that weigh less, the largest steps first: shorter, of a smaller fabric, or without a part.

    Some may be no scenario at all: the scenario language says so.
    """
    spec, least = document["spec"], weight(document)
    specs = [_shorter(spec), *_smaller_fabrics(spec)]
    specs += sorted(_lesser(spec), key=lambda each: weight({"spec": each})[:2])
    return [each for spec in specs if weight(each := document | {"spec": _within_run(spec)}) < least]


def weight(document: Values) -> tuple[int, int, int]:
    """Size of a document, most important first: fabric, entries, quantities."""
    quantities = [_quantity_of(value)[0] for value in _all_in(document)]
    return sum(_fabric_of(document["spec"]).values()), len(quantities), sum(quantities)


def _lesser(value: Any, least_ns: int = 0) -> Iterator[Any]:
    """Values that have a part less, or a quantity halved; *least_ns*: see `_half`, 0: all quantities stay."""
    if isinstance(value, dict):
        if isinstance(value.get("from"), list) and isinstance(value.get("to"), list):
            for first, last in _cuts(min(len(value["from"]), len(value["to"]))):
                yield value | {key: value[key][:first] + value[key][last:] for key in ("from", "to")}
        for key, each in value.items():
            if each == [] or not (key in _KEPT or (isinstance(each, dict) and "retry_limit" in each)):
                yield {name: other for name, other in value.items() if name != key}
            if key in _PARTS or key not in _KEPT:
                yield from (value | {key: less} for less in _lesser(each, _LEAST_NS.get(key, least_ns)))
    elif isinstance(value, list) and least_ns:
        yield from (value[:first] + value[last:] for first, last in _cuts(len(value)))
        for index, each in enumerate(value):
            yield from ([*value[:index], less, *value[index + 1 :]] for less in _lesser(each, least_ns))
    elif least_ns:
        yield _half(value, least_ns)


def _cuts(length: int) -> Iterator[tuple[int, int]]:
    """Begin and end of the halves of a list, then of each of its elements."""
    for size in sorted({1, length // 2} - {0}, reverse=True):
        yield from ((first, first + size) for first in range(0, length, size))


def _fabric_of(spec: Mapping[str, Any]) -> dict[str, int]:
    """Numbers of planes, switches, hosts and links, those left out included."""
    topology = spec.get("topology", {})
    return {key: topology.get(key, TopologySpec.model_fields[key].default) for key in _FABRIC}


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


def _shorter(spec: Values) -> Values:
    """With all times halved."""

    def change(least_ns: int, _key: str, value: Any) -> Any:
        return _half(value, least_ns) if _quantity_of(value)[1] is DURATION else value

    parts = _LEAST_NS.keys() & spec.keys()
    return spec | {part: _changed(spec[part], partial(change, _LEAST_NS[part])) for part in parts}


def _within_run(spec: Values) -> Values:
    """The spec without faults that begin after its run, nor what clears them; the others end with the run."""
    ends_ns = [_quantity_of(workload.get("duration"))[0] for workload in spec["workloads"]]
    end_ns, kept = max(ends_ns, default=0) if all(ends_ns) else VALUE_MAX, []
    for fault in spec.get("faults", []):
        left_ns = end_ns - _quantity_of(fault.get("at"))[0]
        is_long = _quantity_of(fault.get("for"))[0] > left_ns
        if left_ns > 0:
            kept.append(fault | {"for": format_duration_ns(left_ns)} if is_long else fault)
    ids = {fault.get("id") for fault in kept}
    for index, clear in enumerate(kept):
        if "faults" in clear:
            kept[index] = clear | {"faults": [name for name in clear["faults"] if name in ids]}
    kept = [each for each in kept if each.get("faults") != []]
    return spec | {"faults": kept} if "faults" in spec else spec


def _smaller_fabrics(spec: Values) -> Iterator[Values]:
    """Fewer planes, switches, hosts or links; a name that has no place any more becomes its neighbour's."""
    before = _fabric_of(spec)
    for key, number in before.items():
        for fewer in sorted({1, number // 2, number - 1} & set(range(1, number))):
            less = copy.deepcopy(spec)
            topology = less.setdefault("topology", {})
            topology[key] = fewer
            for place in (topology.get("nic", {}), less.get("transport", {})):
                if key == "planes" and "evs" in place:
                    place["evs"] = place["evs"] // number * fewer or fewer
            rename = _renaming(before, before | {key: fewer})
            yield less | {part: _changed(less[part], rename) for part in _LEAST_NS.keys() & less.keys()}


def _renaming(before: Mapping[str, int], after: Mapping[str, int]) -> Callable[[str, Any], Any]:
    """Changes names of hosts, switches and ports, and numbers of planes, to those of a smaller fabric."""
    last = {key: number - 1 for key, number in after.items()}
    hosts = after["t0"] * after["hosts_per_t0"]
    most = {"plane": last["planes"], "planes": last["planes"], "shift": max(1, hosts - 1)}

    def rename(found: re.Match[str]) -> str:
        if found["host"]:
            row, place = divmod(int(found["host"]), before["hosts_per_t0"])
            host = min(row, last["t0"]) * after["hosts_per_t0"] + min(place, last["hosts_per_t0"])
            return f"h{host}:{min(int(found['port']), last['planes'])}" if found["port"] else f"h{host}"
        if found["plane"]:
            return f"p{min(int(found['plane']), last['planes'])}"
        return f"{found['tier']}-{min(int(found['switch']), last[found['tier']])}"

    def change(key: str, value: Any) -> Any:
        if isinstance(value, str):
            return _NAMES.sub(rename, value)
        return min(value, most[key]) if key in most and isinstance(value, int) else value

    return change


def _changed(value: Any, change: Callable[[str, Any], Any], key: str = "") -> Any:
    """The value with each leaf changed, given its key; what a list names twice then, it names once."""
    if key in _KEPT:
        return value
    if isinstance(value, dict):
        return {name: _changed(each, change, name) for name, each in value.items()}
    if isinstance(value, list):
        changed = [_changed(each, change, key) for each in value]
        is_same = changed == value or isinstance(value[0], dict | list)
        return changed if is_same else list(dict.fromkeys(changed))
    return change(key, value)


def _all_in(value: Any) -> Iterator[Any]:
    yield value
    if isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _all_in(each)
