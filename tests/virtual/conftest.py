"""The library of virtual time is built where it is not; nothing here needs root."""

import subprocess
import sys

import pytest
from runs import ROOT

sys.path.insert(0, str(ROOT))


@pytest.fixture(scope="session", autouse=True)
def library() -> None:
    subprocess.run(["make", "-s", "-C", str(ROOT), "agents/_objects/libmrc_virtual.so"], check=True)
