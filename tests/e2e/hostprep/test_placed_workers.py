"""Workers on two hosts of an inventory, which are folders of this machine: there, changed, and gone again."""

import json
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path

import pytest

PROGRAM = Path(sys.executable).with_name("mrc-testbed")
DASK = """\
import signal, threading

def main():
    is_over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: is_over.set())
    is_over.wait()
"""


@pytest.fixture
def wheel(tmp_path):
    """A wheel of this version, which brings nothing but a program `dask` that waits for its end."""
    name = f"mrc_testbed-{version('mrc-testbed')}"
    head = f"Metadata-Version: 2.1\nName: mrc-testbed\nVersion: {version('mrc-testbed')}\n"
    files = {
        "stand_in.py": DASK,
        f"{name}.dist-info/METADATA": f"{head}Provides-Extra: cluster\nProvides-Extra: lab\n",
        f"{name}.dist-info/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{name}.dist-info/entry_points.txt": "[console_scripts]\ndask = stand_in:main\n",
        f"{name}.dist-info/RECORD": "",
    }
    path = tmp_path / f"{name}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, content in files.items():
            archive.writestr(member, content)
    return path


@pytest.fixture
def inventory(tmp_path):
    write_inventory(tmp_path, "n1")
    yield tmp_path / "hosts.json"
    if any(tmp_path.glob("*.pid")):
        write_inventory(tmp_path, "n1", "n2")
        setup(tmp_path, "--remove")


def write_inventory(folder, *names, **more):
    hosts = {
        name: {"worker_folder": f"{folder}/{name}", "worker_pid_file": f"{folder}/{name}.pid"}
        for name in names
    }
    if "n2" in hosts:
        hosts["n2"]["worker_name"] = "second"
    whole = {"all": {"vars": {"ansible_connection": "local"}, "hosts": hosts | more}}
    (folder / "hosts.json").write_text(json.dumps(whole))


def setup(folder, *arguments):
    """Status, and what is changed: a line each."""
    command = [PROGRAM, "setup", "host", "--inventory", "hosts.json", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines(), done.stderr


def command_of(pid_file):
    return Path(f"/proc/{pid_file.read_text().strip()}/cmdline").read_text().split("\0")[1:-1]


@pytest.mark.slow("installs a wheel into an environment of its own, four times Ansible")
@pytest.mark.ci
def test_workers_are_placed_changed_and_removed(inventory, wheel, tmp_path):
    pids = [tmp_path / "n1.pid", tmp_path / "n2.pid"]
    install = ["--wheel", wheel.name, "--scheduler"]
    status, changes, _ = setup(tmp_path, *install, "tcp://head:8786", "--dry-run")
    assert status == 0
    assert "would change: n1: Start the worker" in changes
    assert not (tmp_path / "n1").exists()

    # a host that fails is named, the others are done
    write_inventory(tmp_path, "n1", n3={"worker_folder": f"{tmp_path}/n3", "worker_python": "/no/python"})
    status, _, said = setup(tmp_path, *install, "tcp://head:8786")
    assert status == 3
    assert "error: playbook workers failed: n3: " in said
    assert "\ndone: n1\n" in said

    # a worker that runs is left alone; another whose wheel is there, as that takes long, is started
    (tmp_path / "n2").mkdir()
    (tmp_path / "n2" / "venv").symlink_to(tmp_path / "n1" / "venv")
    write_inventory(tmp_path, "n1", "n2")
    status, changes, _ = setup(tmp_path, *install, "tcp://head:8786")
    assert (status, changes) == (0, ["changed: n2: Write the command", "changed: n2: Start the worker"])
    for pid, name in zip(pids, ("n1", "second"), strict=True):
        expected = ["worker", "tcp://head:8786", "--nworkers", "1"]
        expected += ["--dashboard-address", "127.0.0.1:0", "--preload", "mrc_testbed.cluster"]
        assert command_of(pid)[1:] == [*expected, "--name", name]

    for name in ("n1", "n4"):  # n4 is as n1 will be
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "mine").touch()
    before = [Path(f"/proc/{pid.read_text().strip()}") for pid in pids]
    write_inventory(tmp_path, "n1", "n2", "n4")
    status, changes, _ = setup(tmp_path, "--remove")
    assert status == 0
    assert "changed: n2: Stop the worker" in changes
    assert not any("n4" in change for change in changes)
    assert not any(process.exists() for process in before)
    assert [path.name for path in (tmp_path / "n1").iterdir()] == ["mine"]
    assert not (tmp_path / "n2").exists()
