"""The keys a model accepts at a location, read from its JSON Schema: what "did you mean" chooses from."""

from collections.abc import Iterator
from typing import Any, TypeAlias

from mrc_testbed.document.problem import Location

Schema: TypeAlias = dict[str, Any]
"""A JSON Schema: the one tree in this package whose shape pydantic decides."""


def accepted_keys(root: Schema, location: Location) -> list[str]:
    """Names of the keys accepted in the mapping at *location*, sorted.

    Args:
        root: JSON Schema of a model.
        location: as pydantic reports it, union tags included.
    """
    return sorted({name for schema in _parts(root, location) for name in schema.get("properties", ())})


def discriminator_values(root: Schema, location: Location) -> list[str]:
    """Accepted values of the discriminator of the union at *location*, sorted."""
    return sorted({tag for schema in _parts(root, location) for tag in _tagged(schema)})


def _parts(root: Schema, location: Location) -> list[Schema]:
    """The parts of *root* that describe the entry at *location*."""
    candidates = list(_alternatives(root, root))
    for step in location:
        # A step that leads nowhere is the label of a union member that is already among the candidates.
        candidates = [inner for schema in candidates for inner in _step(root, schema, step)] or candidates
    return candidates


def _tagged(schema: Schema) -> dict[str, str]:
    """Discriminator value to `$ref` of a discriminated union; empty for any other schema."""
    return dict(schema.get("discriminator", {}).get("mapping", {}))


def _alternatives(root: Schema, schema: Schema) -> Iterator[Schema]:
    """The schema and all it may stand for, through `$ref` and unions; tagged members only by their tag."""
    while "$ref" in schema:
        schema = root["$defs"][schema["$ref"].rsplit("/", 1)[-1]]
    yield schema
    if _tagged(schema):
        return
    for keyword in ("anyOf", "oneOf", "allOf"):
        for member in schema.get(keyword, ()):
            yield from _alternatives(root, member)


def _step(root: Schema, schema: Schema, step: str | int) -> Iterator[Schema]:
    """The parts of *schema* that describe its entry *step*: a key, a list index, or a union tag."""
    inner: object = None
    if isinstance(step, int):
        inner = schema.get("items")
    elif step in _tagged(schema):
        inner = {"$ref": _tagged(schema)[step]}
    elif step in schema.get("properties", {}):
        inner = schema["properties"][step]
    elif "properties" not in schema:
        inner = schema.get("additionalProperties")
    if isinstance(inner, dict):
        yield from _alternatives(root, inner)
