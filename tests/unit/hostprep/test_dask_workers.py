"""Workers on machines of an inventory: options and inventories that are refused, before Ansible begins."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from mrc_testbed.cli.app import run as mrc_testbed
from mrc_testbed.installation import shipped

HOSTS = "all: {hosts: {n1: , n2: {ansible_host: 10.0.0.2}}}\n"
WHEEL = f"mrc_testbed-{version('mrc-testbed')}-py3-none-any.whl"
SCHEDULER = ["--scheduler", "tcp://head:8786"]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "hosts.yaml").write_text(HOSTS)
    (tmp_path / WHEEL).touch()
    (tmp_path / "mrc_testbed-0.0.1-py3-none-any.whl").touch()


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert mrc_testbed(["setup", "host", *arguments]) == 2
    return capsys.readouterr().err.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--inventory", "hosts.yaml"], "--inventory needs --scheduler and --wheel, or --remove"),
        (["--inventory", "hosts.yaml", *SCHEDULER], "--inventory needs --scheduler and --wheel, or --remove"),
        (SCHEDULER, "--scheduler, --wheel and --remove go with --inventory"),
        (["--remove"], "--scheduler, --wheel and --remove go with --inventory"),
        (["--inventory", "hosts.yaml", "--remove", *SCHEDULER], "--remove goes with --inventory alone"),
        (
            ["--inventory", "hosts.yaml", "--with-test-tools"],
            "--with-test-tools and --with-observability are",
        ),
        (
            ["--inventory", "hosts.yaml", "--scheduler", "head", "--wheel", WHEEL],
            "'head' is not the address of a scheduler; write it like tcp://head:8786",
        ),
        (
            ["--inventory", "hosts.yaml", *SCHEDULER, "--wheel", "mrc_testbed-0.0.1-py3-none-any.whl"],
            "not the name of a wheel of this version",
        ),
        (
            ["--inventory", "hosts.yaml", *SCHEDULER, "--wheel", f"dist/{WHEEL}"],
            f"--wheel dist/{WHEEL}: No such file or directory",
        ),
    ],
)
def test_options_that_do_not_go_together_are_refused(capsys, arguments, said):
    assert said in refused(capsys, *arguments)


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("none.yaml", None, "No such file or directory"),
        ("bad.yaml", "all: {hosts: [n1\n", "YAML parsing failed: "),
        ("empty.yaml", "all: {}\n", "names no host"),
        ("empty.ini", "", "names no host"),
        ("list.yaml", "[n1, n2]\n", "YAML inventory has invalid structure"),
    ],
)
def test_an_inventory_without_hosts_is_refused_with_the_reason(capsys, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_text(content)
    assert refused(capsys, "--inventory", name, "--remove").startswith(f"error: --inventory {name}: {said}")


def test_the_syntax_of_the_playbook_is_right():
    program = Path(sys.executable).with_name("ansible-playbook")
    playbook = shipped("playbooks/workers.yaml")
    subprocess.run([program, "--syntax-check", "--inventory", "hosts.yaml", playbook], check=True)
