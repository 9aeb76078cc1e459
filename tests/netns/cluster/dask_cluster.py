"""A Dask cluster of machines that are namespaces: a head with the scheduler, workers with own disks."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import psutil
from document_text import document
from waiting import poll_until

BIN: Final = Path(sys.executable).parent
ADDRESS: Final = "tcp://10.9.0.1:8786"
PRELOAD: Final = ["--preload", "mrc_testbed.cluster", "--no-dashboard"]
SCENARIO: Final = document("""\
Scenario {name: one}
  topology: {planes: 2, t0: 1, t1: 1, hosts_per_t0: 2, port_rate: 100Mbit}
  transport: {kind: mrc}
  workloads: [{name: w, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 100ms}]
  expect: [wrong_bytes == 0]
""")
CAMPAIGN: Final = document("""\
Campaign {name: many}
{scenarios: [one.yaml], seeds: {from: 1, count: %d}}
""")


class Machine:
    """A network, mount and UTS namespace with an empty /run; ends with its holder."""

    def __init__(self, name: str, folder: Path, holder: int) -> None:
        self.name = name
        self.folder = folder
        self.holder = holder

    def spawn(self, *command: str | Path, log: str = "log", **environment: str) -> subprocess.Popen[bytes]:
        """Start a command as the leader of a process group, its output added to a file of the folder."""
        within = ["nsenter", f"--target={self.holder}", "--net", "--mount", "--uts", f"--wdns={self.folder}"]
        with (self.folder / log).open("ab") as output:
            return subprocess.Popen(
                [*within, *command],
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**os.environ, "MRC_TESTBED_STATE_DIR": "/run/mrc-testbed", **environment},
            )

    def run(self, *command: str | Path) -> None:
        assert self.spawn(*command).wait() == 0, self.said()

    def said(self, log: str = "log") -> str:
        return _text(self.folder / log)


class Cluster:
    """Machines and what runs on them."""

    def __init__(self, head: Machine, workers: list[Machine]) -> None:
        self.head = head  # machines
        self.workers = workers
        self.processes: dict[str, subprocess.Popen[bytes]] = {}  # name -> leader of what was started

    def start_scheduler(self, *, preload: bool = True, **environment: str) -> None:
        host = ["--host", "10.9.0.1", "--port", "8786"]
        self._start(self.head, "scheduler", "scheduler", *host, *(PRELOAD if preload else ()), **environment)

    def start_worker(self, number: int, disk: str = "disk", **environment: str) -> None:
        """Start the worker of a machine.

        Args:
            number: of the machine.
            disk: its folder for runs.
            environment: variables.
        """
        machine = self.workers[number]
        of_dask = ["--nworkers", "1", "--nthreads", "1", "--name", machine.name, "--local-directory", disk]
        self._start(machine, machine.name, "worker", ADDRESS, *of_dask, *PRELOAD, **environment)

    def _start(self, machine: Machine, name: str, *words: str, **environment: str) -> None:
        (machine.folder / f"{name}.log").unlink(missing_ok=True)
        self.processes[name] = machine.spawn(BIN / "dask", *words, log=f"{name}.log", **environment)

    def start_all(self) -> None:
        for name in list(self.processes):
            self.kill(name)
        self.start_scheduler()
        for number in range(len(self.workers)):
            self.start_worker(number)
        poll_until(lambda: all("Registered to" in each.said(f"{each.name}.log") for each in self.workers))

    def campaign(self, *words: str, virtual: bool = True) -> subprocess.Popen[bytes]:
        """Start `mrc-testbed campaign` on the head, on the cluster."""
        command = ["campaign", *words, "--cluster", ADDRESS, "--virtual" if virtual else "--runtime=netns"]
        self.processes["campaign"] = self.head.spawn(BIN / "mrc-testbed", *command, log="campaign.log")
        return self.processes["campaign"]

    def kill(self, name: str) -> None:
        """Kill a process, its children and theirs, as if its machine had lost power."""
        process = self.processes.pop(name)
        if process.poll() is None:
            leader = psutil.Process(process.pid)
            below = leader.children(recursive=True)
            _kill([leader, *below])  # the leader first: it would start others
        process.wait()

    def kill_worker(self, number: int) -> None:
        """Kill the worker of a machine, which Dask's nanny then starts again."""
        _kill(psutil.Process(self.processes[self.workers[number].name].pid).children())

    def has_begun(self, name: str) -> bool:
        """Return True if a process below a worker has the library of virtual time, and so a run."""
        nanny = psutil.Process(self.processes[name].pid)
        below = {*nanny.children(recursive=True)} - {*nanny.children()}
        return any("libmrc_virtual" in _text(Path(f"/proc/{each.pid}/maps")) for each in below)

    def plan(self, runs: int) -> None:
        """Give the head a campaign of so many runs, and no results of it."""
        shutil.rmtree(self.campaigns.parent, ignore_errors=True)
        (self.head.folder / "one.yaml").write_text(SCENARIO)
        (self.head.folder / "many.yaml").write_text(CAMPAIGN % runs)

    @property
    def campaigns(self) -> Path:
        return self.head.folder / "campaigns" / "many"

    def journal(self) -> list[Mapping[str, Any]]:
        """Return the entries of the latest execution."""
        path = self.campaigns / "latest" / "journal.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []

    def await_runs(self, count: int) -> None:
        """Wait until so many runs have ended."""
        poll_until(lambda: len(self.journal()) >= count, what=f"{count} runs")

    def require_whole(self, count: int) -> None:
        """Check that each of *count* runs has passed, once, and its results are there.

        A head that is killed between results and journal leaves a folder that no entry names.
        """
        entries = self.journal()
        assert Counter(entry["key"] for entry in entries) == {f"one seed={n}": 1 for n in range(1, count + 1)}
        assert {entry["status"] for entry in entries} == {"passed"}
        folders = {self.campaigns / "latest" / entry["folder"] for entry in entries}
        assert len(folders) == count
        assert all((path / "manifest.json").is_file() for path in folders)

    def machines_used(self) -> set[str]:
        found = self.campaigns.glob("latest/runs/one/2*/manifest.json")
        return {json.loads(path.read_text())["provenance"]["machine"] for path in found}


def _text(path: Path) -> str:
    """Content of a file; empty if it is gone."""
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return path.read_text()
    return ""


def _kill(processes: Iterable[psutil.Process]) -> None:
    for each in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            each.kill()


@contextmanager
def machine(name: str, folder: Path) -> Iterator[Machine]:
    """A machine for as long as the context lasts."""
    folder.mkdir()
    own = f"hostname {name} && mount -t tmpfs none /run && mkdir /run/netns && ip link set lo up"
    with subprocess.Popen(
        ["unshare", "--net", "--mount", "--uts", "sh", "-c", f"{own} && echo ready && read line"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout
        assert holder.stdin
        assert holder.stdout.readline() == "ready\n"
        yield Machine(name, folder, holder.pid)
        holder.stdin.write("\n")


@contextmanager
def cluster_of(workers: int, runs: int, folder: Path) -> Iterator[Cluster]:
    """A head and so many workers, connected by a switch; see `Cluster.plan`."""
    with ExitStack() as stack:
        head = stack.enter_context(machine("head", folder / "head"))
        head.run("ip", "link", "add", "switch", "type", "bridge")
        head.run("ip", "address", "add", "10.9.0.1/24", "dev", "switch")
        head.run("ip", "link", "set", "switch", "up")
        others = [stack.enter_context(machine(f"w{n}", folder / f"w{n}")) for n in range(workers)]
        for number, each in enumerate(others):
            link = ["link", "add", f"to-{each.name}", "type", "veth", "peer", "name", "wire"]
            head.run("ip", *link, "netns", str(each.holder))
            head.run("ip", "link", "set", f"to-{each.name}", "master", "switch", "up")
            each.run("ip", "address", "add", f"10.9.0.{10 + number}/24", "dev", "wire")
            each.run("ip", "link", "set", "wire", "up")
        cluster = Cluster(head, others)
        cluster.plan(runs)
        try:
            yield cluster
        finally:
            for name in list(cluster.processes):
                cluster.kill(name)


def interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
