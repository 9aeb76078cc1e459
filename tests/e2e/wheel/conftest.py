"""A wheel of these sources, installed into an environment of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from wheel_program import Installed, pip_of

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def place() -> Iterator[Path]:
    """A folder that every user can enter."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-wheel-", dir="/var/tmp"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def wheel(place: Path) -> Path:
    """The wheel that $WHEEL names, or the one of `make dist`, which fails unless both builds are the same."""
    if given := os.environ.get("WHEEL"):
        return Path(given)
    _done(["make", "--no-print-directory", "dist", f"DIST={place / 'dist'}"])
    return next(place.glob("dist/*.whl"))


@pytest.fixture(scope="session")
def environment(place: Path, wheel: Path) -> Path:
    """A virtual environment with the wheel and what it depends on, without extras."""
    folder = place / "venv"
    _done([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    _done([*pip_of(folder), "install", "--quiet", "--only-binary", ":all:", str(wheel)])
    return folder


@pytest.fixture
def installed(environment: Path, place: Path) -> Iterator[Installed]:
    home = Path(tempfile.mkdtemp(dir=place))
    home.chmod(0o777)
    yield Installed(environment, home)
    shutil.rmtree(home)


def _done(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
