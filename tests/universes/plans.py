"""The plans that once failed, and those that still do: small scenario files."""

from pathlib import Path
from typing import Final

from mrc_testbed.document.envelope import Kind, load
from mrc_testbed.soak.document import Values

CORPUS: Final = Path(__file__).parent / "corpus"
KNOWN: Final = Path(__file__).parent / "known"
"""Plans that fail by open bugs; mrc_testbed.soak.avoided keeps universes off them."""


def read_plan(path: Path) -> Values:
    """The document in a scenario file.

    Raises:
        UsageError: it is none.
    """
    return dict(load(path, Kind.SCENARIO).tree)
