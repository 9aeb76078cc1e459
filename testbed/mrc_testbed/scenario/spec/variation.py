"""A scenario with some of its fields changed, as if they had been written so. Pure but for Topology files."""

import copy
from collections.abc import Mapping
from dataclasses import replace

from mrc_testbed.document import envelope as document
from mrc_testbed.document.envelope import Document, Kind
from mrc_testbed.document.problem import Tree
from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.scenario.spec.variant import NAMED


def vary(scenario: Document, values: Mapping[str, Tree]) -> Document:
    """*scenario* with other values for some dotted keys; its lines stay those of the file."""
    tree = copy.deepcopy(dict(scenario.tree))
    spec = tree.get("spec")
    if not isinstance(spec, dict):
        return scenario  # its own checks say what is wrong with it
    for key, value in values.items():
        root, *rest = key.split(".")
        if root in NAMED and len(rest) == 1:
            _leave_out(scenario, spec, root, rest[0], value)
            continue
        target = _place(scenario, spec, root, rest)
        target[rest[-1]] = copy.deepcopy(value)
    return replace(scenario, tree=tree)


def _leave_out(scenario: Document, spec: dict[str, Tree], root: str, name: str, value: Tree) -> None:
    """Removes the workload or fault of that name."""
    entry = _named(scenario, spec, root, name)
    if value is not None:
        raise UsageError(f"{root}.{name}: only null may stand there, which leaves the {root[:-1]} out")
    entries = spec[root]
    if isinstance(entries, list):
        spec[root] = [other for other in entries if other is not entry]


def _place(scenario: Document, spec: dict[str, Tree], root: str, rest: list[str]) -> dict[str, Tree]:
    """The mapping that the last step of a key is an entry of."""
    if root in NAMED:
        place = _named(scenario, spec, root, rest[0])
        inner = rest[1:-1]
    else:
        place = _section(scenario, spec, root)
        inner = rest[:-1]
    for step in inner:
        entry = place.setdefault(step, {})
        if not isinstance(entry, dict):
            raise UsageError(f"{scenario.source}: {step} of {root} has no fields")
        place = entry
    return place


def _section(scenario: Document, spec: dict[str, Tree], root: str) -> dict[str, Tree]:
    """`topology` or `transport`; a topology that a file is named for is written in its place."""
    section = spec.setdefault(root, {})
    if isinstance(section, str) and scenario.path is not None:
        path = scenario.path.parent / section
        named = document.load(path, Kind.TOPOLOGY).tree.get("spec")
        section = spec[root] = copy.deepcopy(named) if named is not None else {}
    if not isinstance(section, dict):
        raise UsageError(f"{scenario.source}: {root} has no fields")
    return section


def _named(scenario: Document, spec: dict[str, Tree], root: str, name: str) -> dict[str, Tree]:
    entries = spec.get(root)
    found = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    names = [str(entry.get(NAMED[root])) for entry in found]
    if name not in names:
        what = root.removesuffix("s")
        raise UsageError(
            f"{scenario.source} has no {what} {name!r}{did_you_mean(name, names)} "
            f"(known: {', '.join(names) or 'none'})"
        )
    return found[names.index(name)]
