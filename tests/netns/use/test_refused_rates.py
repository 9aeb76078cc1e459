"""Rates that no machine carries: nothing is made; who insists gets the lab, and a run on it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from typed_command import Command

from mrc_testbed.cli.app import run
from mrc_testbed.fabric.known_labs import names
from mrc_testbed.fabric.namespace import namespace_names

pytestmark = pytest.mark.root

LAB = f"rates{os.getpid()}"
FABRIC = "{planes: 1, t0: 1, t1: 1, hosts_per_t0: 2, port_rate: 20Gbit}"
VERDICTS = (0, 7)
"""Passed, as two hosts alone need not ask for what they may; or UNTRUSTED."""


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """mrc-testbed on a machine of which nothing is known, with no lab yet, in a folder of two files."""
    for name in [name for name in os.environ if name.startswith("MRC_TESTBED_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(tmp_path / "s"))
    monkeypatch.setenv("MRC_TESTBED_CACHE_DIR", str(tmp_path / "cache"))
    head = "apiVersion: mrc-testbed/v1\nkind: "
    (tmp_path / "lab.yaml").write_text(f"{head}Topology\nmetadata: {{name: lab}}\nspec: {FABRIC}\n")
    (tmp_path / "run.yaml").write_text(
        f"{head}Scenario\nmetadata: {{name: fast}}\nspec:\n  topology: {FABRIC}\n  workloads:\n"
        "    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 300ms}\n"
        "  expect: [wrong_bytes == 0]\n"
    )
    monkeypatch.chdir(tmp_path)
    return Command(LAB, capsys)


@pytest.fixture
def no_lab_left(command: Command) -> Iterator[None]:
    yield
    command("down")
    assert not _namespaces()


def _namespaces() -> list[str]:
    return [each for each in namespace_names() if each.startswith(f"mrc-{LAB}-")]


@pytest.mark.parametrize("arguments", [("up", "-t", "lab.yaml"), ("run", "run.yaml")])
@pytest.mark.usefixtures("no_lab_left")
def test_nothing_is_made_of_what_is_refused(
    command: Command, arguments: tuple[str, ...], tmp_path: Path
) -> None:
    before = sorted(tmp_path.rglob("*"))
    command(*arguments, "--runtime", "netns", status=2)
    assert "4.57 M frame hops/s, and this machine carries 2.00 M at most" in command.stderr
    assert "insist with --overload" in command.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert LAB not in names()
    assert not _namespaces()


@pytest.mark.slow("a lab and a run of its own")
@pytest.mark.ci
@pytest.mark.usefixtures("no_lab_left")
def test_who_insists_gets_the_lab_figures_and_a_verdict(command: Command, tmp_path: Path) -> None:
    assert command.json("up", "-t", "lab.yaml", "--runtime", "netns", "--overload")["healthy"]
    assert "warning: lab.yaml: even two hosts with ports of 20Gbit can need 4.57 M" in command.stderr
    assert len(_namespaces()) == 4
    for bench in (("write-bw", "h0", "h1", "-i", "20"), ("all-gather", "-b", "64KiB", "-i", "2")):
        command("bench", *bench, status=2)
        assert f"bench {bench[0]}, with ports of 20Gbit, can need" in command.stderr
        assert "insist with --overload" in command.stderr
        assert command.json("bench", *bench, "--overload")["passed"]
        assert f"warning: lab {LAB}: bench {bench[0]}, with ports of 20Gbit, can need" in command.stderr
    assert run(["-n", LAB, "run", "run.yaml", "--overload"]) in VERDICTS
    assert (tmp_path / "runs" / "fast" / "latest" / "manifest.json").is_file()
