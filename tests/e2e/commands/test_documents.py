"""The commands of the guide, as they are written there, on a lab of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from waiting import DEADLINE_S

from mrc_testbed.installation import ROOT

PRELUDE = """
mrc-testbed() {
    command mrc-testbed "$@" && return
    local status=$?
    # A verdict about speed: this machine may be busy, and speed is not what is tested.
    [ "$1" = run ] && { [ $status = 4 ] || [ $status = 7 ]; } && return
    return $status
}
"""
LONG = [pytest.mark.slow("labs, transfers and a run, one after the other"), pytest.mark.ci]
NOT_RUN = ("sudo ", "source ", "git ", "make ")


def blocks(document: str, heading: str) -> list[str]:
    """The indented blocks under *heading* of *document* that hold commands of ours, in order."""
    text = (ROOT / document).read_text()
    section = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    found: list[str] = []
    block: list[str] = []
    for line in [*section.splitlines(), "end"]:
        if line.startswith("    ") and not line.strip().startswith(NOT_RUN):
            block.append(line.removeprefix("    "))
        elif line and not line.startswith("    "):
            script = "\n".join(block)
            if "mrc-testbed " in script:
                found.append(script)
            block = []
    return found


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A folder and a lab of this test's own, without containers."""
    scenario = (ROOT / "scenarios/t0-t1-flap.yaml").read_text()
    shorter = scenario.replace("at: 3s", "at: 1s").replace("for: 4500ms", "for: 1500ms").replace("10s", "4s")
    (tmp_path / "scenarios").mkdir()
    (tmp_path / "scenarios/t0-t1-flap.yaml").write_text(shorter)
    return {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MRC_TESTBED_STATE_DIR": str(tmp_path / "state"),
        "MRC_TESTBED_NAME": f"docs{os.getpid()}",
        "MRC_TESTBED_RUNTIME": "netns",
        "DOCKER_HOST": f"unix://{tmp_path}/no-engine.sock",
    }


@pytest.mark.root
@pytest.mark.parametrize(
    ("document", "headings"),
    [
        pytest.param(
            "docs/guide/getting-started.md",
            ["The first lab", "Break something", "A scenario", "Watch it"],
            marks=LONG,
        ),
        ("docs/guide/getting-started.md", ["A lab of your own"]),
        pytest.param("docs/guide/observability.md", ["Start"], marks=LONG),
    ],
)
def test_commands_of_the_documents_work(
    document: str, headings: list[str], environment: dict[str, str], tmp_path: Path
) -> None:
    scripts = [script for heading in headings for script in blocks(document, heading)]
    assert scripts
    try:
        for script in scripts:
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", PRELUDE + script],
                cwd=tmp_path,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=4 * DEADLINE_S,  # for many commands
                check=False,
            )
            assert ran.returncode == 0, f"{script}\n{ran.stdout[-1000:]}\n{ran.stderr}"
            if "mrc-testbed run " in script:
                assert (tmp_path / "runs/t0-t1-flap/latest/report.html").is_file()
    finally:
        for command in (["down"], ["observe", "down"]):
            subprocess.run(["mrc-testbed", *command], env=environment, check=True, capture_output=True)
