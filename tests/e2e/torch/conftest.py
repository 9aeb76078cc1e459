"""PyTorch, where it can be had."""

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="session")
def torch_python() -> str:
    """The Python of an environment with PyTorch and mrc-torch."""
    made = subprocess.run(
        ["make", "--no-print-directory", "torch"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"PyTorch cannot be installed: {made.stderr.strip()}")
    return str(ROOT / "build" / "torch" / "bin" / "python")
