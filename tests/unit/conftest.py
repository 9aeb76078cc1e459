"""The library of virtual time, and fonts.

Matplotlib is imported before the first test: its first import compiles it, and lists the machine's fonts.
"""

from importlib import import_module

import pytest
from drawings import few_drawings  # noqa: F401 - a fixture
from virtual_library import library  # noqa: F401 - a fixture


@pytest.fixture(scope="session", autouse=True)
def fonts() -> None:
    import_module("matplotlib.font_manager")
