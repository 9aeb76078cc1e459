"""Ready scenarios with a PyTorch job: each has in virtual time the verdict that it promises."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.download("PyTorch"), pytest.mark.slow("trains on eight ranks, again and again")]

ROOT = Path(__file__).parents[3]
FILES = sorted(path.stem for path in (ROOT / "scenarios" / "train").glob("*.yaml"))


@pytest.mark.parametrize("name", FILES)
def test_a_ready_job_passes(torch_python: str, tmp_path: Path, name: str) -> None:
    path = f"{Path(torch_python).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        [sys.executable, "-m", "mrc_testbed.cli", "run", f"train/{name}", "--virtual"],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no rank lost" in done.stdout
