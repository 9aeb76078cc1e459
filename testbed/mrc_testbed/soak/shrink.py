"""A failing scenario made small: as long as it fails in the same way, it loses what it can."""

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Final

from mrc_testbed.errors import UsageError
from mrc_testbed.soak.document import Values, tier_values
from mrc_testbed.topology.numbering import Numbering
from mrc_testbed.topology.spec import TierSpec, TopologySpec
from mrc_testbed.units import DURATION, SIZE, VALUE_MAX, Units, format_duration_ns

_LEAST_NS: Final = {"workloads": 1_000_000, "faults": 100_000}
"""Parts of the spec that lose entries and halve quantities, and the least time there."""
_SHORT: Final = {
    "t0": (1, "joins"),
    "t1": (1, "switches"),
    "hosts_per_t0": (0, "joins"),
    "uplinks_per_pair": (1, "lanes"),
}
"""Level and count of a tier, by the key of two tiers."""
_COUNTS: Final = (*_SHORT.values(), (2, "joins"), (2, "switches"), (2, "lanes"))
_PARTS: Final = frozenset({"topology", *_LEAST_NS})
_KEPT: Final = _PARTS | {"seed", "timeout", "retry_limit", "expect", "id", "name", "kind", "command"}
"""Keys that are not simply left out: the default of some would change what a failure means."""
_NAMES: Final = re.compile(
    r"\bh(?P<host>\d+)\b(:(?P<port>\d+)\b)?|\bp(?P<plane>\d+)(?=-)|\b(?P<tier>t[012])-(?P<switch>\d+)\b"
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
    number = _numbering_of(document["spec"])
    fabric = number.planes + sum(map(sum, number.tiers))
    return fabric, len(quantities), sum(quantities)


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


def _numbering_of(spec: Mapping[str, Any]) -> Numbering:
    """The fabric, what is left out included; it may have a single host, which the topology refuses."""
    topology = dict(spec.get("topology", {}))
    if "tiers" in topology:
        topology["tiers"] = [TierSpec.model_construct(**tier) for tier in topology["tiers"]]
    return TopologySpec.model_construct(**topology).numbering


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
    """Fewer tiers, planes, switches, hosts or links; a name without a place becomes its neighbour's."""
    before = _numbering_of(spec)
    tiers = before.tiers
    if tiers[2:]:  # all T0s in one pod; there is no place for a name of a T2
        after = replace(before, tiers=(tiers[0], tiers[1]._replace(joins=before.groups[0])))
        yield _rebuilt(spec, after, after)
    for fewer in _fewer(before.planes):
        yield _rebuilt(spec, before, replace(before, planes=fewer))
    for level, name in (count for count in _COUNTS if count[0] < len(tiers)):
        for fewer in _fewer(getattr(tiers[level], name)):
            less = tiers[level]._replace(**{name: fewer})
            after = replace(before, tiers=(*tiers[:level], less, *tiers[level + 1 :]))
            yield _rebuilt(spec, before, after)


def _fewer(number: int) -> list[int]:
    return sorted({1, number // 2, number - 1} & set(range(1, number)))


def _rebuilt(spec: Values, before: Numbering, after: Numbering) -> Values:
    less = copy.deepcopy(spec)
    topology = less.setdefault("topology", {})
    if "tiers" in topology:
        topology["tiers"] = tier_values(after.tiers)
    else:
        for key, (level, name) in _SHORT.items():
            if getattr(before.tiers[level], name) != (count := getattr(after.tiers[level], name)):
                topology[key] = count
    if before.planes != after.planes:
        topology["planes"] = after.planes
        for place in (topology.get("nic", {}), less.get("transport", {})):
            if "evs" in place:
                place["evs"] = place["evs"] // before.planes * after.planes or after.planes
    rename = _renaming(before, after)
    return less | {part: _changed(less[part], rename) for part in _LEAST_NS.keys() & less.keys()}


def _renaming(before: Numbering, after: Numbering) -> Callable[[str, Any], Any]:
    """Changes names of hosts, switches and ports, and numbers of planes, to those of a smaller fabric."""
    last = after.planes - 1
    most = {"plane": last, "planes": last, "shift": max(1, after.host_count - 1)}

    def rename(found: re.Match[str]) -> str:
        if found["host"]:
            host = f"h{_moved(-1, int(found['host']), before, after)}"
            return f"{host}:{min(int(found['port']), last)}" if found["port"] else host
        if found["plane"]:
            return f"p{min(int(found['plane']), last)}"
        level = int(found["tier"][1:])
        if level >= len(after.tiers):
            return found[0]
        return f"{found['tier']}-{_moved(level, int(found['switch']), before, after)}"

    def change(key: str, value: Any) -> Any:
        if isinstance(value, str):
            return _NAMES.sub(rename, value)
        return min(value, most[key]) if key in most and isinstance(value, int) else value

    return change


def _moved(level: int, index: int, before: Numbering, after: Numbering) -> int:
    """The switch of a tier, or host for level -1, at the same place, or at the last one of each group."""

    def sizes(number: Numbering) -> list[int]:
        switches = [tier.switches for tier in number.tiers[max(0, level) : 0 : -1]]
        return switches + [tier.joins for tier in number.tiers[level + 1 :]]

    moved, unit = 0, 1
    for old, new in zip(sizes(before), sizes(after), strict=True):
        index, digit = divmod(index, old)
        moved, unit = moved + unit * min(digit, new - 1), unit * new
    return moved


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
