"""`run` as users type it: which lab it takes, what it prints, what it leaves when it is stopped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from made_traces import every_kind, write
from shared_lab import SPEC, unhealthy_ports
from waiting import DEADLINE_S, poll_until

from mrc_testbed.cli.app import run
from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import namespace_names
from mrc_testbed.fabric.paths import lab_folders, lab_paths
from mrc_testbed.faults.ledger import Ledger

VERDICTS = (0, 7)
"""Passed, or UNTRUSTED because the machine was busy with something else."""

TOPOLOGY = {"planes": SPEC.planes, "t0": SPEC.t0, "t1": SPEC.t1, "hosts_per_t0": SPEC.hosts_per_t0}


@pytest.fixture
def scenario(tmp_path: Path) -> "Scenario":
    return Scenario(tmp_path)


class Scenario:
    """Writes a scenario file."""

    def __init__(self, folder: Path) -> None:
        self.runs = folder / "runs"
        self._path = folder / "short.yaml"
        self.others: list[dict[str, object]] = []  # workloads

    def write(
        self, *, expect: str = "qp_errors == 0", topology: object = None, duration: str = "600ms"
    ) -> str:
        spec = {
            "topology": topology or TOPOLOGY,
            "workloads": [
                {
                    "name": "main",
                    "kind": "write-bw",
                    "from": "h0",
                    "to": "h1",
                    "size": "64KiB",
                    "duration": duration,
                },
                *self.others,
            ],
            "faults": [
                {"id": "cut", "kind": "link-down", "at": "100ms", "for": "200ms", "select": {"links": "h0:1"}}
            ],
            "expect": [expect, "wrong_bytes == 0"],
        }
        document = {
            "apiVersion": "mrc-testbed/v1",
            "kind": "Scenario",
            "metadata": {"name": "short"},
            "spec": spec,
        }
        self._path.write_text(json.dumps(document))
        return str(self._path)


def test_a_run_takes_the_lab_that_is_up_and_leaves_it_up(
    live: Lab, scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    labs = lab_folders()
    files = write(scenario.runs.parent, [every_kind(number, 4, steps=2) for number in range(4)])
    scenario.others = [{"name": "job", "kind": "trace", "files": files, "compute": "x10"}]
    path = scenario.write()
    status = run(["-n", live.name, "run", path, "--runs", str(scenario.runs), "-o", "json"])
    found = json.loads(capsys.readouterr().out)
    assert status in VERDICTS
    assert status == found["manifest"]["exit_code"]
    assert found["kind"] == "RunReport"
    assert Path(found["folder"], "report.html").is_file()
    assert all(each["passed"] for each in found["manifest"]["expectations"])
    assert [fault["id"] for fault in found["manifest"]["faults"]] == ["cut"]
    job = found["manifest"]["workloads"][1]
    assert (job["kind"], len(job["idle"]), job["wrong_bytes"], job["errors"]) == ("trace", 4, 0, [])
    assert job["compared_bytes"] > 4 << 18
    assert lab_folders() == labs
    assert lab.status(live.name).is_healthy


def test_a_run_of_another_topology_gets_a_lab_of_its_own_and_removes_it(
    live: Lab, scenario: Scenario, capsys: pytest.CaptureFixture[str]
) -> None:
    path = scenario.write(topology={"planes": 2, "t0": 1, "t1": 1, "hosts_per_t0": 2})
    status = run(["-n", live.name, "run", path, "--runs", str(scenario.runs), "--runtime", "netns"])
    out, err = capsys.readouterr()
    assert status in VERDICTS
    assert "has another topology" not in out
    assert "is up with another topology" in err
    assert not [name for name in namespace_names() if name.startswith(f"mrc-run-{os.getpid()}-")]
    assert lab.status(live.name).is_healthy


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGINT, 130), (signal.SIGHUP, 129), (signal.SIGKILL, -9)]
)
def test_a_stopped_run_leaves_no_fault_and_no_qp(
    live: Lab, scenario: Scenario, number: signal.Signals, status: int
) -> None:
    path = scenario.write(duration="1h")
    events = lab_paths(live.name).faults / "events.jsonl"
    before = events.read_text().count("fault-cleared") if events.exists() else 0
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "mrc_testbed.cli",
            "-v",
            "-n",
            live.name,
            "run",
            path,
            "--runs",
            str(scenario.runs),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        assert any("cut applied" in line for line in process.stderr)
        process.send_signal(number)
        process.stderr.read()
        assert process.wait(DEADLINE_S) == status
    ledger = Ledger(lab_paths(live.name).faults)
    assert run(["-n", live.name, "fault", "list"]) == 0  # what nobody has reverted yet, this command does
    assert ledger.entries() == {}
    # Whoever reverts takes the entry away first, and then writes the event.
    poll_until(lambda: events.read_text().count("fault-cleared") > before, what="the event of the end")
    assert unhealthy_ports(live) == []
    manifest = json.loads((next(scenario.runs.glob("short/2*")) / "manifest.json").read_text())
    assert manifest["status"] == ("running" if number == signal.SIGKILL else "interrupted")
