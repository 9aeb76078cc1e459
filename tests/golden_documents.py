"""The shapes of JSON documents that programs read: a file in tests/golden for each, with its schema version.

A key that changes its meaning or goes needs another schema version, and then another golden file. What is new
is written by `GOLDEN=write pytest ...`: look at the difference before you commit it.

In a shape, null, an empty list or an empty mapping leaves open what there may be; `key?` is a key that not
every document has; `*` stands for all keys of a mapping that names figures, cells or seeds.
A golden file is `like` another one but for the keys that it has itself.
"""

import json
import os
from functools import reduce
from pathlib import Path
from typing import Any, Final

GOLDEN: Final = Path(__file__).parent / "golden"
_TYPES: Final = {str: "text", bool: "boolean", int: "number", float: "number", type(None): "null"}

_OPEN: Final[tuple[Any, ...]] = ("null", [], {})
_PARTS: Final = {"Plan": ("plan", "run-plan"), "RunReport": ("manifest", "run-manifest")}
"""A key under which a document has another one that has a golden file of its own."""


def shape(value: Any) -> Any:
    """Keys and types of a JSON value; of a list, each shape that its entries have; a version as it is."""
    if isinstance(value, dict):
        if any("(" in key or "=" in key or key.isdigit() for key in value):
            return {"*": reduce(merge, (shape(entry) for entry in value.values()))}
        return {key: entry if key == "schema_version" else shape(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return _merge_entries([], [shape(entry) for entry in value])
    return _TYPES[type(value)]


def fits(golden: Any, found: Any) -> bool:
    """Return True if a shape is that of a golden file."""
    if any(each in _OPEN for each in (golden, found)):
        return True
    if isinstance(golden, dict) and isinstance(found, dict):
        known = {key.removesuffix("?"): entry for key, entry in golden.items()}
        wanted = {key for key in golden if not key.endswith("?")}
        return wanted <= found.keys() <= known.keys() and all(fits(known[key], found[key]) for key in found)
    if isinstance(golden, list) and isinstance(found, list):
        return all(any(fits(known, entry) for known in golden) for entry in found)
    return bool(golden == found)


def merge(golden: Any, found: Any) -> Any:
    """The shape that both fit.

    Raises:
        ValueError: they have other types.
    """
    if golden in _OPEN:
        return found
    if found in _OPEN:
        return golden
    if isinstance(golden, dict) and isinstance(found, dict):
        known = {key.removesuffix("?"): key for key in golden}
        return {
            key if known.get(key) == key and key in found else f"{key}?": merge(
                golden[known[key]] if key in known else "null", found.get(key, "null")
            )
            for key in dict.fromkeys((*known, *found))
        }
    if isinstance(golden, list) and isinstance(found, list):
        return _merge_entries(golden, found)
    if golden != found:
        raise ValueError(f"{golden} and {found}")
    return golden


def _merge_entries(golden: list[Any], found: list[Any]) -> list[Any]:
    """The shapes of entries, those that fit each other as one."""
    merged = list(golden)
    for entry in found:
        place = next((place for place, known in enumerate(merged) if fits(known, entry)), None)
        if place is None:
            merged.append(entry)
        else:
            merged[place] = merge(merged[place], entry)
    return merged


def _load(name: str) -> Any:
    golden = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    return {**_load(golden.pop("like")), **golden} if "like" in golden else golden


def check_document(name: str, value: Any) -> None:
    """Holds a document against its golden file.

    Raises:
        AssertionError: it has other keys, types or another schema version.
    """
    if name in _PARTS:
        key, part = _PARTS[name]
        check_document(part, value[key])
        value = {**value, key: part}
    path = GOLDEN / f"{name}.json"
    found = shape(value)
    if os.environ.get("GOLDEN") == "write":
        golden = _load(name) if path.is_file() else {}
        if (merged := merge(golden, found)) != golden:
            path.write_text(json.dumps(merged, indent=1) + "\n", encoding="utf-8")
    assert path.is_file(), f"{name}: no golden file yet; GOLDEN=write pytest writes it"
    golden = _load(name)
    assert fits(golden, found), f"{name} has another shape than {path.name}: {json.dumps(found)}"
