"""Files as people write them: safe YAML, one envelope, and errors with file, line, key and the nearest name.

Pure but for reading the file. What a spec means is the business of the packages whose models are passed in.
"""

from mrc_testbed.document.envelope import (
    API_VERSION,
    Document,
    Kind,
    Metadata,
    json_schema,
    load,
    validate,
    validate_values,
)
from mrc_testbed.document.problem import Location, Position, Problem, Tree, format_location

__all__ = [
    "API_VERSION",
    "Document",
    "Kind",
    "Location",
    "Metadata",
    "Position",
    "Problem",
    "Tree",
    "format_location",
    "json_schema",
    "load",
    "validate",
    "validate_values",
]
