"""The guide to lossless fabrics: its commands run as printed, and show what it says they show."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from own_lab import assert_nothing_left
from waiting import DEADLINE_S

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "lossless.md").read_text()
COMMANDS = re.findall(r"```console\n(.*?)```", GUIDE, re.DOTALL)[0].splitlines()
LAB = f"g{os.getpid()}"


@dataclass(frozen=True)
class Shell:
    """Where the guide's commands are typed; its lab has another name."""

    folder: Path
    environment: dict[str, str]

    def __call__(self, line: str) -> subprocess.CompletedProcess[str]:
        program, *words = line.replace("-n lossless", f"-n {LAB}").split()
        assert program == "mrc-testbed"
        return subprocess.run(
            [sys.executable, "-m", "mrc_testbed.cli", *words],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A folder with lossless.yaml as printed; the lab is gone afterwards, whatever came of it."""
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))  # short enough for the path of a socket
    (topology,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    (folder / "lossless.yaml").write_text(topology)
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MRC_TESTBED_")}
    own = {"MRC_TESTBED_STATE_DIR": str(folder), "DOCKER_HOST": f"unix://{folder}/no-engine.sock"}
    typed = Shell(folder, {**kept, **own, "PYTHONPATH": str(Path(__file__).parents[3])})
    try:
        yield typed
    finally:
        typed("mrc-testbed down -n lossless")
        shutil.rmtree(folder)
    assert_nothing_left(LAB)


@pytest.mark.slow("a guide from start to end")
@pytest.mark.ci
def test_the_commands_run_as_printed(shell: Shell) -> None:
    said = {}
    for line in COMMANDS:
        finished = shell(line)
        assert finished.returncode == 0, f"{line}\n{finished.stdout}{finished.stderr}"
        said[line.split()[1]] = finished.stdout
    assert list(said) == ["up", "bench", "inspect", "status", "down"]
    counters = said["inspect"].partition("counters\n")[2]
    sent = dict(re.findall(r"^(p0-t0-0:[4-7]) +(\d+)", counters, re.MULTILINE))
    assert set(sent) == {f"p0-t0-0:{port}" for port in range(4, 8)}
    assert all(int(frames) > 0 for frames in sent.values())
    assert "healthy" in said["status"]
