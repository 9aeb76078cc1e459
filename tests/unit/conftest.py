"""Import matplotlib before the first test: its first import compiles it, and lists the machine's fonts."""

from importlib import import_module

import pytest


@pytest.fixture(scope="session", autouse=True)
def fonts() -> None:
    import_module("matplotlib.font_manager")
