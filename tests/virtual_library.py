"""The library of virtual time is built where it is not, which needs cc alone."""

import subprocess
from pathlib import Path
from typing import Final

import pytest

_ROOT: Final = Path(__file__).parents[1]


@pytest.fixture(scope="session", autouse=True)
def library() -> None:
    subprocess.run(
        ["make", "-s", "-C", str(_ROOT), "agents/mrc_agents/_objects/libmrc_virtual.so"], check=True
    )
