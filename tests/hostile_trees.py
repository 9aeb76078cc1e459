"""Ready scenarios with one value replaced by another."""

from collections.abc import Iterator
from typing import Any

import yaml

from mrc_testbed.installation import shipped


def places(tree: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a tree."""
    yield place
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in entries:
        yield from places(value, (*place, key))


def with_change(tree: Any, place: tuple[Any, ...], value: Any) -> Any:
    """The tree with another value at a place."""
    if not place:
        return value
    changed = dict(tree) if isinstance(tree, dict) else list(tree)
    changed[place[0]] = with_change(tree[place[0]], place[1:], value)
    return changed


READY = [
    yaml.safe_load(shipped(f"scenarios/{name}.yaml").read_text())
    for name in ("t0-t1-flap", "two-jobs", "incast-storm", "all-reduce-flap")
]
