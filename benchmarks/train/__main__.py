"""Train through faults and draw the page: `python -m benchmarks.train`, or `make train`.

All that is done to the lab is a command of mrc-testbed's, as a user types it.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Final

import yaml

from benchmarks.applications import COMMAND
from benchmarks.train.outcome import Outcome, differing, reason_of
from benchmarks.train.page import build_page, sentence
from benchmarks.train.plan import FAULTS, PORTS, SECOND_NS, TRANSPORTS, Fault, Job, Ports, across, jobs

ROOT: Final = Path(__file__).parents[2]
SCRIPT: Final = ROOT / "mrc-torch" / "mrc_torch" / "examples" / "train.py"
PYTHON: Final = ROOT / "build" / "torch" / "bin" / "python"


class Lab:
    def __init__(self, name: str) -> None:
        self._name = name

    def run(self, *arguments: str) -> None:
        """Run a command to its end; one that fails ends the program with what it said."""
        subprocess.run([str(COMMAND), "-n", self._name, *arguments], check=True, stdout=subprocess.DEVNULL)

    def start(self, complaints: IO[str], *arguments: str) -> "subprocess.Popen[str]":
        """Start a command whose stdout is read, and whose stderr goes into a file."""
        command = [str(COMMAND), "-n", self._name, *arguments]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=complaints, text=True)


@contextmanager
def lab_up(name: str, ports: Ports, folder: Path) -> Iterator[Lab]:
    """A lab of those ports that is up meanwhile."""
    lab = Lab(name)
    topology = folder / f"{ports.name}.yaml"
    document = {"apiVersion": "mrc-testbed/v1", "kind": "Topology", "metadata": {"name": ports.name}}
    topology.write_text(yaml.safe_dump(document | {"spec": ports.topology}, sort_keys=False))
    lab.run("up", "--runtime", "netns", "-t", str(topology))
    try:
        yield lab
    finally:
        lab.run("down")


def run_job(lab: Lab, launch: Sequence[str], job: Job | None, steps: int) -> Outcome:
    """Train; the job's fault begins when rank 0 has done so many steps."""
    outcome = Outcome(job, time.monotonic_ns())
    train = [str(SCRIPT), "--backend", "gloo", "--steps", str(steps)]
    transport = () if job is None else ("--as", "gloo", "--transport", job.transport)
    command = ("launch", *launch[:2], *transport, "--", launch[2], *train)
    with TemporaryFile("w+", encoding="utf-8") as complaints:
        with lab.start(complaints, *command) as process:
            assert process.stdout is not None
            for line in process.stdout:
                found = outcome.take(line)
                is_due = found and job and found[0] == 0 and found[1].number + 1 == job.lead_steps
                if is_due and job and job.fault:
                    outcome.fault_ns = _break(lab, job.fault, job.ports.fault_ns)
        if process.returncode:
            complaints.seek(0)
            outcome.failure = reason_of(complaints.read().splitlines())
    if outcome.fault_ns:
        lab.run("fault", "clear", "--all")
    return outcome


def _break(lab: Lab, fault: Fault, duration_ns: int) -> tuple[int, int]:
    lab.run("fault", "add", *fault.arguments, "--for", f"{duration_ns // SECOND_NS}s")
    began_ns = time.monotonic_ns()
    return began_ns, began_ns + duration_ns


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.train", description=__doc__)
    parser.add_argument("--ranks", type=int, default=8, choices=range(2, 9))
    parser.add_argument(
        "--steps",
        type=int,
        help="of each job, more where a fault takes longer (default: as the ports have it)",
    )
    for name, known in (("ports", PORTS), ("faults", FAULTS), ("transports", TRANSPORTS)):
        parser.add_argument(f"--{name}", nargs="*", default=list(known), choices=list(known))
    parser.add_argument(
        "--python", type=Path, default=PYTHON, help="has torch and mrc-torch (default: make torch)"
    )
    parser.add_argument("--name", default=f"train-{os.getpid()}", help="of the lab")
    parser.add_argument("--output", type=Path, default=ROOT / "runs" / "train", help="a folder is made in it")
    return parser.parse_args()


def main() -> int:
    """Run all jobs, write the page, and say what happened; 1 where MRC did not do what it is for."""
    given = _arguments()
    folder = given.output / datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    folder.mkdir(parents=True)
    try:
        return _train(given, folder)
    except subprocess.CalledProcessError as error:
        return int(error.returncode)  # the command has said why


def _train(given: argparse.Namespace, folder: Path) -> int:
    launch = ("--hosts", ",".join(across(given.ranks)), str(given.python))
    outcomes: list[Outcome] = []
    reference = None
    for name in given.ports:
        with lab_up(given.name, PORTS[name], folder) as lab:
            calm = Outcome(None, 0)
            for each in jobs(PORTS[name], given.transports, given.faults, given.steps):
                job = calm.lengthened(each)
                print(job.title, flush=True)
                outcomes.append(run_job(lab, launch, job, job.steps))
                _keep(folder, outcomes[-1])
                if job.fault is None:
                    calm = outcomes[-1]
                else:
                    print(f"  {outcomes[-1].headline()}", flush=True)
            if name == given.ports[-1]:
                print("gloo, for reference", flush=True)
                steps = max(each.job.steps for each in outcomes if each.job)
                reference = run_job(lab, launch, None, steps)
    assert reference is not None
    page = folder / "page.html"
    page.write_text(build_page(reference, outcomes, given.ranks), encoding="utf-8")
    print(f"\n{sentence(reference, outcomes, given.ranks)}\n\n{page}")
    ours = [each for each in outcomes if each.job and each.job.transport == "mrc"]
    # PyTorch's gloo aborts now and then as its ranks end: its losses count, and one that is missing differs.
    return int(any(each.failure or differing(each, reference) for each in ours))


def _keep(folder: Path, outcome: Outcome) -> None:
    """Write a job down: it stays, whatever becomes of those that follow."""
    with (folder / "jobs.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(asdict(outcome)) + "\n")


if __name__ == "__main__":
    sys.exit(main())
