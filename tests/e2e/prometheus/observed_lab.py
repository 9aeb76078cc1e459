"""The commands as a user types them, a lab under a scenario with faults, and the stack that watches it."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live_prometheus import Prometheus, free_ports, require_program
from waiting import DEADLINE_S

from mrc_testbed.fabric.process import find_marked
from mrc_testbed.observe.stack_state import StackPaths

VERDICTS = (0, 7)
"""Passed, or UNTRUSTED because the machine was busy with something else."""

TOPOLOGY = {
    "planes": 2,
    "t0": 2,
    "t1": 2,
    "hosts_per_t0": 2,
    "port_rate": "20Mbit",
    "probing": {},
    # small and eager, so that two senders to one receiver fill, mark and trim
    "queue": {
        "data_buffer": "64KiB",
        "ecn": {"enabled": True, "last_hop": True, "min": "4KiB", "max": "16KiB"},
        "trim": {"enabled": True, "threshold": "24KiB"},
    },
}
LINK = "p0-t0-0:2"


@dataclass(frozen=True)
class Run:
    """A finished run."""

    folder: Path  # its results
    # start_s, end_s: UTC, around all of it
    start_s: float
    end_s: float

    @property
    def manifest(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads((self.folder / "manifest.json").read_text())
        return content

    def events(self, kind: str) -> Iterator[dict[str, Any]]:
        for line in (self.folder / "events.jsonl").read_text().splitlines():
            event = json.loads(line)
            if event["event"] == kind:
                yield event


@dataclass(frozen=True)
class Command:
    """mrc-testbed in an environment of its own."""

    folder: Path  # for its files
    environment: dict[str, str]  # of the command
    lab: str  # name of the lab

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Its output, and its status."""
        return subprocess.run(
            self.line(*arguments),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def line(self, *arguments: str) -> list[str]:
        """The command line."""
        return [sys.executable, "-m", "mrc_testbed.cli", *arguments]

    def succeeds(self, *arguments: str) -> str:
        """Its output, its status being 0."""
        finished = self(*arguments)
        assert finished.returncode == 0, finished.stdout + finished.stderr
        return finished.stdout

    def write_scenario(
        self,
        name: str,
        workloads: list[Any],
        faults: list[Any],
        congestion: str = "nscc",
        topology: Mapping[str, Any] = TOPOLOGY,
    ) -> Path:
        document = {
            "apiVersion": "mrc-testbed/v1",
            "kind": "Scenario",
            "metadata": {"name": name},
            "spec": {
                "seed": 3,
                "topology": topology,
                "transport": {"kind": "mrc", "cc": congestion},
                "workloads": workloads,
                "faults": faults,
                "expect": ["wrong_bytes == 0"],
            },
        }
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps(document))
        return path

    def run_line(self, scenario: Path, lab: str | None = None) -> list[str]:
        """The command line that runs a scenario on the lab, or on another."""
        return self.line("run", str(scenario), "-n", lab or self.lab, "--runs", str(self.folder / "runs"))

    @contextmanager
    def running(self, scenario: Path) -> Iterator["RunningScenario"]:
        """A run of a scenario on the lab that has begun; it is ended when it outlives the context."""
        start_s = time.time()
        with subprocess.Popen(
            self.run_line(scenario),
            env=self.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                yield RunningScenario(process, self.folder / "runs" / scenario.stem / "latest", start_s)
            finally:
                process.terminate()

    def run(self, scenario: Path, lab: str | None = None) -> Run:
        """The finished run of a scenario on the lab, or on another."""
        start_s = time.time()
        finished = subprocess.run(
            self.run_line(scenario, lab),
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        assert finished.returncode in VERDICTS, finished.stdout + finished.stderr
        return Run(self.folder / "runs" / scenario.stem / "latest", start_s, time.time())


@dataclass(frozen=True)
class RunningScenario:
    """A run that has begun."""

    process: subprocess.Popen[bytes]  # the command
    folder: Path  # where its results will be
    start_s: float  # UTC, before it

    def finished(self) -> Run:
        """The run; it is over."""
        return Run(self.folder, self.start_s, time.time())


@dataclass(frozen=True)
class ObservedLab:
    """A lab and its stack."""

    command: Command  # what changes them
    prometheus: Prometheus  # to be asked
    said: str  # what `up --observe` printed


@contextmanager
def observing(
    lab: str,
    *options: str,
    variables: Mapping[str, str] | None = None,
    topology: Mapping[str, Any] = TOPOLOGY,
) -> Iterator[ObservedLab]:
    """A lab and its stack, which *options* of `observe up` change; nothing of either is left afterwards."""
    require_program("prometheus")
    folder = Path(tempfile.mkdtemp(prefix="mrc-"))
    folder.chmod(0o755)  # Prometheus is not root
    command = Command(folder, {**clean_environment(folder), **(variables or {})}, lab)
    topology_file = folder / "lab.yaml"
    document = {"apiVersion": "mrc-testbed/v1", "kind": "Topology", "metadata": {"name": "small"}}
    topology_file.write_text(json.dumps({**document, "spec": topology}))
    port, exporter_port, grafana_port = free_ports(3)
    try:
        command.succeeds(
            *("observe", "up", "--prometheus-port", str(port)),
            *("--exporter-port", str(exporter_port), "--grafana-port", str(grafana_port), *options),
        )
        said = command.succeeds("up", "--observe", "-n", lab, "-t", str(topology_file), "--runtime", "netns")
        prometheus = Prometheus(f"http://127.0.0.1:{port}")
        prometheus.wait_for(f'mrc_testbed_lab_up{{lab="{lab}"}}', lambda value: value == 1)
        yield ObservedLab(command, prometheus, said)
    finally:
        command("down", "-n", lab)
        left = command("observe", "down")
        paths = StackPaths(folder / "state")
        assert left.returncode == 0, left.stderr
        assert not paths.folder.exists()
        assert find_marked(paths.mark) == ()
        shutil.rmtree(folder)


def clean_environment(folder: Path) -> dict[str, str]:
    """The environment without our variables, without Docker, and with a state folder below *folder*."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MRC_TESTBED_")}
    return kept | {
        "MRC_TESTBED_STATE_DIR": str(folder / "state"),
        "DOCKER_HOST": f"unix://{folder}/no-engine.sock",
    }


def write(source: str, target: str, duration: str) -> dict[str, Any]:
    """A workload."""
    name = f"{source}-{target}"
    shape = {"size": "64KiB", "depth": 8, "duration": duration}
    return {"name": name, "kind": "write-bw", "from": source, "to": target, **shape}
