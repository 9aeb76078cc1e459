"""Time from the wheel to the first verdict in virtual time, in a new environment without pip's cache."""

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure
from mrc_agents.clock import monotonic_ns

ROOT: Final = Path(__file__).parents[1]
SAMPLES: Final = 3


def run() -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as place:
        _seconds([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place], ROOT)
        wheel = next(Path(place).glob("*.whl"))
        samples = [_sample(Path(place) / str(number), wheel) for number in range(SAMPLES)]
        size_mb = wheel.stat().st_size / 1e6
    installing, verdicts = zip(*samples, strict=True)
    yield Figure("install", "environment, pip install", "s", installing)
    yield Figure("install", "demo --virtual, the first time", "s", verdicts, "<= 5")
    yield Figure("install", "to the first verdict", "s", tuple(map(sum, samples)), "<= 60")
    yield Figure("install", "wheel", "MB", (size_mb,), "<= 8")


def _sample(folder: Path, wheel: Path) -> tuple[float, float]:
    """Seconds to install, and to the verdict."""
    folder.mkdir()
    programs = folder / "venv" / "bin"
    installing_s = _seconds([sys.executable, "-m", "venv", folder / "venv"], folder)
    installing_s += _seconds([programs / "pip", "install", "--quiet", "--no-cache-dir", wheel], folder)
    return installing_s, _seconds([programs / "mrc-testbed", "demo", "--virtual"], folder)


def _seconds(command: list[str | Path], folder: Path) -> float:
    begun_ns = monotonic_ns()
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return (monotonic_ns() - begun_ns) / 1e9
