"""The guide to an algorithm of one's own, as written: built, run, compared; and what mistakes look like."""

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from runs import ROOT

GUIDE = ROOT / "docs/guide/your-own-congestion-control.md"
LIBRARY = "agents/mrc_agents/_objects/libmrc_virtual.so"

Command = Callable[..., "subprocess.CompletedProcess[str]"]


def blocks(language: str) -> list[str]:
    """The guide's blocks of code in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", GUIDE.read_text(), re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone with the guide's algorithm in a folder beside it, and its scenarios."""
    folder = tmp_path_factory.mktemp("clone")
    built = shutil.ignore_patterns("_objects", "__pycache__")
    for source in ("agents", "testbed"):
        shutil.copytree(ROOT / source, folder / source, ignore=built)
    shutil.copy(ROOT / "Makefile", folder)
    (folder / "mine/cc").mkdir(parents=True)
    (folder / "mine/cc/my_aimd.h").write_text(blocks("c")[0])
    dctcp = blocks("c")[1]
    (folder / "mine/cc/my_dctcp.h").write_text(dctcp)
    deaf = dctcp.replace("= received->is_marked", "= 0").replace("MY_DCTCP", "DEAF")
    (folder / "mine/cc/deaf.h").write_text(deaf.replace("my_dctcp", "deaf"))
    (folder / "mine/ev").mkdir()
    (folder / "mine/ev/two_choices.h").write_text(blocks("c")[2])
    for number, text in enumerate(blocks("yaml")):
        (folder / f"{number}.yaml").write_text(text)
    return folder


def build(clone: Path, own: str) -> "subprocess.CompletedProcess[str]":
    command = ["make", f"ALGORITHMS={clone / own}", "VIRTUAL_CFLAGS=-O1", LIBRARY]
    return subprocess.run(command, cwd=clone, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(clone: Path) -> Path:
    done = build(clone, "mine")
    assert done.returncode == 0, done.stderr
    return clone


@pytest.fixture
def run(built: Path) -> Command:
    """A command of the tool, its agents those of the clone."""

    def run_command(*arguments: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [Path(sys.executable).with_name("mrc-testbed"), *arguments],
            cwd=built,
            env=os.environ | {"PYTHONPATH": f"{built}/testbed:{built}/agents"},
            capture_output=True,
            text=True,
            check=False,
        )

    return run_command


@pytest.mark.slow("compiles and runs variants of an all-reduce")
@pytest.mark.ci
def test_the_guides_algorithm_runs_and_is_compared(run: Command, built: Path) -> None:
    for number in range(len(blocks("yaml"))):
        done = run("run", "--virtual", "-o", "json", f"{number}.yaml")
        assert done.returncode == 0, done.stdout + done.stderr
    names = json.loads((built / "agents/mrc_agents/_objects/algorithms.json").read_text())
    assert names["cc"] == ["nscc", "aimd", "deaf", "my_aimd", "my_dctcp"]
    assert names["ev"] == ["shuffle", "reps", "round_robin", "two_choices"]


def test_the_word_of_an_algorithm_comes_from_the_receiver(run: Command, built: Path) -> None:
    variants = "variants: {cc: {mine: {transport.cc: my_dctcp}, deaf: {transport.cc: deaf}}}"
    text = blocks("yaml")[2].replace("transport: {cc: my_dctcp}", variants)
    text = text.replace("p99(packet_rtt) <=", "p99(packet_rtt) in mine <= 60% of p99(packet_rtt) in deaf #")
    (built / "deaf.yaml").write_text(text)
    done = run("run", "--virtual", "-o", "json", "deaf.yaml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_not_known_is_answered_with_all_names(run: Command, built: Path) -> None:
    (built / "typo.yaml").write_text(blocks("yaml")[0].replace("cc: my_aimd", "cc: my_amid"))
    done = run("validate", "typo.yaml")
    assert done.returncode == 2
    names = "nscc, aimd, deaf, my_aimd, my_dctcp, fixed, dcqcn"
    assert f"spec.transport.cc: 'my_amid'; {names}" in done.stderr + done.stdout
    assert "did you mean 'my_aimd'?" in done.stderr + done.stdout


@pytest.mark.parametrize(
    ("whole", "broken", "message"),
    [
        ("my_aimd_on_loss(", "my_aimd_on_lost(", "lacks my_aimd_on_loss()"),
        ("own->hold_bytes)", "own->held_bytes)", "no member named"),
        ("__u64 hold_bytes;", "__u64 hold_bytes[13];", "larger than the state that an algorithm may have"),
    ],
)
def test_a_mistake_is_said_of_the_users_file(clone: Path, whole: str, broken: str, message: str) -> None:
    text = (clone / "mine/cc/my_aimd.h").read_text()
    assert whole in text
    (clone / "wrong/cc").mkdir(parents=True, exist_ok=True)
    (clone / "wrong/cc/my_aimd.h").write_text(text.replace(whole, broken))
    done = build(clone, "wrong")
    assert done.returncode
    assert message in done.stderr
    assert "wrong/cc/my_aimd.h:" in done.stderr
