"""A failing universe made small: as long as it fails by the same invariant, it loses what it can."""

import copy
import re
from collections.abc import Callable, Iterator
from typing import Final

from mrc_testbed.soak.document import Values

RUNS_MAX: Final = 300
_PLAIN: Final = {
    "topology": ("probing", "queue", "uplinks_per_pair", "hash_seed", "uplink_choice", "forwarding"),
    "nic": ("path_state", "backup_share", "icrc", "evs", "window_packets", "path_mtu"),
    "transport": ("qps", "cc", "window", "evs"),
    "workload": ("depth", "shift"),
    "fault": ("jitter", "direction", "traffic", "within"),
}
"""Keys that may go: then the default holds."""
_SMALLER: Final = {"planes": 1, "t0": 1, "t1": 1, "hosts_per_t0": 1}
_TIME: Final = re.compile(r"(\d+)us")
_HOST: Final = re.compile(r"h(\d+)")


def shrink(
    document: Values,
    fails: Callable[[Values], bool],
    runs_max: int = RUNS_MAX,
    is_over: Callable[[], bool] = lambda: False,
) -> Values:
    """The smallest document found that still fails.

    Args:
        document: one that fails.
        fails: whether another does, by the same invariant.
        runs_max: how often that is asked at most.
        is_over: asked before each; once it is so, the smallest so far is the result.
    """
    runs, is_smaller = 0, True
    while is_smaller:
        is_smaller = False
        for candidate in _candidates(document):
            if runs == runs_max or is_over():
                return document
            runs += 1
            if fails(candidate):
                document, is_smaller = candidate, True
                break
    return document


def _candidates(document: Values) -> Iterator[Values]:
    """Smaller ones, the largest steps first."""
    spec = document["spec"]
    if len(spec["faults"]) > 1:
        half = len(spec["faults"]) // 2
        yield _with(document, faults=spec["faults"][:half])
        yield _with(document, faults=spec["faults"][half:])
    for key in ("faults", "workloads"):
        for index in range(len(spec[key])):
            if key == "faults" or len(spec[key]) > 1:
                yield _with(document, **{key: spec[key][:index] + spec[key][index + 1 :]})
    yield from _shorter(document)
    yield from _fewer(document)
    yield from _plainer(document)
    yield from _sooner(document)


def _with(document: Values, **changes: object) -> Values:
    changed = copy.deepcopy(document)
    changed["spec"] |= copy.deepcopy(changes)
    return changed


def _shorter(document: Values) -> Iterator[Values]:
    """Half the time; faults that begin later go, those that end later end with it."""
    spec = document["spec"]
    timed = [workload for workload in spec["workloads"] if "duration" in workload]
    run_us = max((int(work["duration"].removesuffix("ms")) * 1000 for work in timed), default=0)
    if run_us < 2000:
        return
    left_us = run_us // 2000 * 1000
    changed = copy.deepcopy(document)
    for workload in changed["spec"]["workloads"]:
        if "duration" in workload:
            workload["duration"] = f"{left_us // 1000}ms"
    changed["spec"]["faults"] = [
        _ending_by(fault, left_us) for fault in changed["spec"]["faults"] if _us(fault["at"]) < left_us
    ]
    yield changed


def _ending_by(fault: Values, end_us: int) -> Values:
    if "for" in fault:
        fault["for"] = f"{min(_us(fault['for']), end_us - _us(fault['at']))}us"
    return fault


def _fewer(document: Values) -> Iterator[Values]:
    """Fewer planes, switches or hosts; a host keeps its place under its T0 where there is one."""
    topology = document["spec"]["topology"]
    for key, least in _SMALLER.items():
        if topology[key] > least:
            smaller = topology[key] - 1
            changed = copy.deepcopy(document)
            changed["spec"]["topology"][key] = smaller
            evs = changed["spec"]["topology"].get("nic", {}).get("evs")
            if key == "planes" and evs is not None:
                changed["spec"]["topology"]["nic"]["evs"] = evs // topology[key] * smaller
            if key == "hosts_per_t0":
                per_t0 = topology[key]
                for part in ("workloads", "faults"):
                    changed["spec"][part] = _renamed(changed["spec"][part], per_t0, smaller)
            yield changed


def _renamed(values: object, before: int, after: int) -> object:
    """Names of hosts where a T0 has fewer of them."""
    if isinstance(values, dict):
        return {key: _renamed(value, before, after) for key, value in values.items()}
    if isinstance(values, list):
        return [_renamed(value, before, after) for value in values]
    if not isinstance(values, str):
        return values

    def rename(match: re.Match[str]) -> str:
        row, place = divmod(int(match[1]), before)
        return f"h{row * after + min(place, after - 1)}"

    return re.sub(r"\bh(\d+)\b", rename, values)


def _plainer(document: Values) -> Iterator[Values]:
    spec = document["spec"]
    for part, of in (
        ("topology", spec["topology"]),
        ("nic", spec["topology"].get("nic", {})),
        ("transport", spec["transport"]),
    ):
        for key in _PLAIN[part]:
            if key in of:
                changed = copy.deepcopy(document)
                place = changed["spec"]["topology"] if part != "transport" else changed["spec"]["transport"]
                del (place["nic"] if part == "nic" else place)[key]
                yield changed
    for part in ("workloads", "faults"):
        for index, each in enumerate(spec[part]):
            for key in _PLAIN[part.removesuffix("s")]:
                if key in each:
                    changed = copy.deepcopy(document)
                    del changed["spec"][part][index][key]
                    yield changed


def _sooner(document: Values) -> Iterator[Values]:
    """Faults that begin, or last, half as long, as far as milliseconds matter."""
    for index, fault in enumerate(document["spec"]["faults"]):
        for key in ("at", "for"):
            if key in fault and _us(fault[key]) >= 1000:
                changed = copy.deepcopy(document)
                changed["spec"]["faults"][index][key] = f"{_us(fault[key]) // 2000 * 1000 or 500}us"
                yield changed


def _us(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(text)
    return int(match[1])
