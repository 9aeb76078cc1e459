"""Paid before the first test: matplotlib's first import compiles it and lists the fonts of the machine."""

from importlib import import_module

import pytest


@pytest.fixture(scope="session", autouse=True)
def fonts() -> None:
    import_module("matplotlib.font_manager")
