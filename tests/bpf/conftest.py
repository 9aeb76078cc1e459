"""Rules of all tests of programs: those of the folders here load them, and need root."""

from pathlib import Path

import pytest

pytest.register_assert_rewrite("program_bench")

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parent.parents:
            item.add_marker(pytest.mark.root)
