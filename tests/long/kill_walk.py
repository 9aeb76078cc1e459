"""A kill walk: SIGKILL at moments over the whole length of a command, and the next command cleans up.

Before and after, the machine is compared: network namespaces, links, mounts, processes, pins, lab folders.
As root: python tests/long/kill_walk.py [--moments N] [CASE...]
"""

import argparse
import atexit
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.context import ForkProcess
from pathlib import Path
from pkgutil import walk_packages

from waiting import DEADLINE_NS

import mrc_testbed
from mrc_agents.clock import monotonic_ns
from mrc_testbed.cli.app import run
from mrc_testbed.cli.exit_codes import ExitCode

LAB = "walked"
FORK = multiprocessing.get_context("fork")
LABS = (LAB, f"campaign-{LAB}", "demo")
NAMELESS = ("campaign", "demo", "observe")
DONE = (ExitCode.PASS, ExitCode.UNTRUSTED)
"""UNTRUSTED says that the machine was too busy for the figures, and nothing about what a kill has left."""
COMMAND_S = 900  # a command that has not ended by then hangs
LOOK_S = 0.05
LINK = "p0-t0-0:1~p0-t1-0:0"
TOPOLOGY = "{planes: 1, t0: 2, t1: 1, hosts_per_t0: 1}"
HEADER = "apiVersion: mrc-testbed/v1\nkind: {kind}\nmetadata: {{name: walked}}\nspec:"
SCENARIO = f"""{HEADER.format(kind="Scenario")}
  topology: {TOPOLOGY}
  workloads: [{{name: main, kind: write-bw, from: h0, to: h1, size: 16KiB, duration: 300ms}}]
  faults: [{{id: f, at: 100ms, for: 100ms, kind: loss, ratio: 5%, select: {{links: {{plane: 0}}}}}}]
  expect: [wrong_bytes == 0]
"""
FILES = {
    "topology.yaml": f"{HEADER.format(kind='Topology')} {TOPOLOGY}\n",
    "scenario.yaml": SCENARIO,
    "campaign.yaml": f"{HEADER.format(kind='Campaign')} {{scenarios: [scenario.yaml], seeds: [1, 2]}}\n",
}
UP = ("up", "--runtime", "netns", "-t", "topology.yaml")
BENCH = ("bench", "write-bw", "h0", "h1", "--size", "16KiB", "--duration", "300ms")


OBSERVE = ("observe", "up", "--exporter-port=19847", "--prometheus-port=19848", "--grafana-port=19849")
CAMPAIGN = ("campaign", "run", "campaign.yaml", "--runtime", "netns")
JOURNAL = "campaigns/walked/latest/journal.jsonl"
TURNED_DOWN = ("fault", "add", "link-down", "--link", LINK, "--for", "10m")
TOP = ("top", "--once", "-i", "100ms")
CLEARED = ("fault", "clear", "--all")
DENIED = ("ev", "deny", "h0", "all", "0:0")
ALLOWED = ("ev", "allow", "h0", "all", "0:0")


@dataclass(frozen=True, slots=True)
class Case:
    """A command that is killed."""

    command: tuple[str, ...]  # its words
    after: tuple[tuple[str, ...], ...]  # the commands that follow; whatever is left then is lost
    is_on_lab: bool = False  # whether a lab is up before, and when all is done
    before: tuple[tuple[str, ...], ...] = ()  # what a moment begins with
    # a file that is emptied before each moment; a campaign runs first, whose journal it is
    emptied: str | None = None
    is_server: bool = False  # it ends by signals alone, and says on stdout when it is ready

    @property
    def leaves_lab(self) -> bool:
        """Return True if a lab is up once the commands that follow have ended."""
        return self.after[-1] == UP or (self.is_on_lab and self.after[-1][0] != "down")


CASES = {
    "up, then down": Case(UP, (("down",),)),
    "up, then up": Case(UP, (UP,)),
    "down, then down": Case(("down",), (("down",),), is_on_lab=True),
    "run, then down": Case(("run", "scenario.yaml", "--runtime", "netns"), (("down",),)),
    "run, then run": Case(
        ("run", "scenario.yaml", "--runtime", "netns"), (("run", "scenario.yaml", "--runtime", "netns"),)
    ),
    "demo, then down": Case(("demo", "--runtime", "netns"), (("down", "--all"),)),
    "campaign run, then resume": Case(CAMPAIGN, (("campaign", "resume", "walked"),)),
    "campaign resume, then resume": Case(
        ("campaign", "resume", "walked"), (("campaign", "resume", "walked"),), emptied=JOURNAL
    ),
    "fault add, then clear": Case(TURNED_DOWN, (CLEARED,), is_on_lab=True),
    "fault clear, then clear": Case(CLEARED, (CLEARED,), is_on_lab=True, before=(TURNED_DOWN,)),
    "ev deny, then deny and allow": Case(DENIED, (DENIED, ALLOWED), is_on_lab=True),
    "restart, then restart": Case(("restart", "h0"), (("restart",),), is_on_lab=True),
    "bench, then bench": Case(BENCH, (BENCH,), is_on_lab=True),
    "probe, then probe": Case(("probe", "links"), (("probe", "links"),), is_on_lab=True),
    "capture, then capture": Case(
        ("capture", "h0", "-w", "x.pcapng", "--duration", "300ms"),
        (("capture", "h0", "-w", "x.pcapng", "--duration", "100ms"),),
        is_on_lab=True,
    ),
    "top, then top": Case(TOP, (TOP,), is_on_lab=True),
    "serve, then status": Case(("serve",), (("status",),), is_on_lab=True, is_server=True),
    "observe metrics, then status": Case(
        ("observe", "metrics", "--port", "19847"), (("status",),), is_on_lab=True, is_server=True
    ),
    "observe up, then down": Case(OBSERVE, (("observe", "down"),)),
    "observe up, then up and down": Case(OBSERVE, (OBSERVE, ("observe", "down"))),
    "observe down, then down": Case(("observe", "down"), (("observe", "down"),), before=(OBSERVE,)),
}


@dataclass(frozen=True, slots=True)
class Done:
    """A command that has ended: its status, and what it said."""

    status: int
    output: str
    error: str


class Walk:
    """One case on a machine whose state folder nobody else uses.

    Commands are forks of this process, which has imported all of the testbed: no moment is spent on that.

    Args:
        case: what is killed.
        folder: for files and state; MRC_TESTBED_STATE_DIR is "s" in it.
    """

    def __init__(self, case: Case, folder: Path) -> None:
        self._case = case
        self._folder = folder
        for module in walk_packages(mrc_testbed.__path__, "mrc_testbed."):
            if not module.name.endswith(".__main__"):
                import_module(module.name)
        for name, text in FILES.items():
            (folder / name).write_text(text)
        os.chdir(folder)

    def lost(self, moments: int) -> Iterator[tuple[int, list[str]]]:
        """For each kill: the number of its moment, and the leftovers and errors.

        A command that ended before its moment is no kill; it is tried again with the length that it had.
        """
        if self._case.emptied is not None:
            self._must(*CAMPAIGN)
        self._level()
        before = self._machine()
        self._prepare()
        length_s = self._length_s()
        self._bring_between()
        for moment in range(moments):
            lasted_s: float | None = 0.0
            while lasted_s is not None:
                self._prepare()
                lasted_s = self._kill_after(length_s * (moment + 0.5) / moments)
                wrong = self._wrong_afterwards(before)
                if lasted_s is None or wrong:
                    yield moment, wrong
                length_s = length_s if lasted_s is None else lasted_s
                if wrong:
                    self._level()

    def _wrong_afterwards(self, before: set[str]) -> list[str]:
        wrong = [
            f"{' '.join(words)}: status {done.status}: {done.error.strip()[-300:]}"
            for words in self._case.after
            if (done := self._run(*words)).status not in DONE
        ]
        if self._case.leaves_lab:
            wrong += self._unhealthy()
        self._bring_between()
        deadline_ns = monotonic_ns() + DEADLINE_NS
        while (after := self._machine()) != before and monotonic_ns() < deadline_ns:
            threading.Event().wait(LOOK_S)  # a reaper that has nothing left to do ends by itself
        wrong += sorted(f"{thing} is left" for thing in after - before)
        return wrong + sorted(f"{thing} is gone" for thing in before - after)

    def close(self) -> None:
        self._run("down", "--all")
        place = self._folder / "s" / "bpffs"
        if place.is_mount():
            subprocess.run(["umount", str(place)], check=True)

    def _level(self) -> None:
        """The machine as it is between two moments, whatever was there."""
        self._must("down", "--all")
        if self._case.is_on_lab:
            self._must(*UP)

    def _prepare(self) -> None:
        for words in self._case.before:
            self._must(*words)
        if self._case.emptied is not None:
            (self._folder / self._case.emptied).write_bytes(b"")

    def _bring_between(self) -> None:
        """With a lab if the case is about one, else without; a lab that is up stays from moment to moment."""
        if self._case.is_on_lab and not self._case.leaves_lab:
            self._must(*UP)
        elif self._case.leaves_lab and not self._case.is_on_lab:
            self._must("down")

    def _length_s(self) -> float:
        begun_ns = monotonic_ns()
        if self._case.is_server:
            reader, writer = os.pipe()
            server = self._start(self._case.command, writer, writer)
            os.close(writer)
            with os.fdopen(reader) as said:
                said.readline()
                _kill(server)
            return 2 * (monotonic_ns() - begun_ns) / 1e9
        self._run(*self._case.command)
        length_s = (monotonic_ns() - begun_ns) / 1e9
        for words in self._case.after:
            self._run(*words)
        return length_s

    def _kill_after(self, delay_s: float) -> float | None:
        """None when the command was killed; else how long it lasted, in seconds."""
        begun_ns = monotonic_ns()
        with Path(os.devnull).open("w") as nowhere:
            process = self._start(self._case.command, nowhere.fileno(), nowhere.fileno())
        process.join(delay_s)
        if process.exitcode is not None:
            return (monotonic_ns() - begun_ns) / 1e9
        _kill(process)
        return None

    def _start(self, words: Sequence[str], output: int, error: int) -> ForkProcess:
        names_no_lab = words[0] in NAMELESS or words == ("down", "--all")
        line = [*(() if names_no_lab else ("-n", LAB)), *words]
        process = FORK.Process(target=_command, args=(line, output, error))
        process.start()
        return process

    def _unhealthy(self) -> list[str]:
        done = self._run("status", "-o", "json")
        status = json.loads(done.output) if done.output else {"problems": [done.error], "faults": []}
        return [f"problem: {problem}" for problem in status["problems"] + status["faults"]]

    def _machine(self) -> set[str]:
        """Remains of a lab of the walk on the machine, by names that do not depend on the moment.

        Other labs of the machine come and go meanwhile, with mounts and namespaces of their own.
        """
        mounts = (line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines())
        found = {f"mount {place}" for place in mounts if self._is_of_the_walk(place)}
        namespaces = (path.name for path in Path("/run/netns").glob("*"))
        found |= {f"network namespace {name}" for name in namespaces if self._is_of_the_walk(name)}
        found |= {f"link {path.name}" for path in Path("/sys/class/net").iterdir()}
        state = self._folder / "s"
        pins = [path.name for path in (state / "bpffs").glob("*")]
        found |= {f"pins of {name}" for name in pins if not name.endswith(".debug")}  # the kernel's own
        kept = ("bpffs", "bpffs.lock", ".reports")
        found |= {f"folder of {path.name}" for path in state.glob("*") if path.name not in kept}
        marked = f"MRC_TESTBED_STATE_DIR={state}".encode()
        processes: dict[str, int] = {}
        for path in Path("/proc").glob("[0-9]*"):
            try:
                words = (path / "cmdline").read_bytes().split(b"\0")
                if marked in (path / "environ").read_bytes().split(b"\0") and words[0]:
                    name = b" ".join(words[:4]).decode(errors="replace")
                    processes[name] = processes.get(name, 0) + 1
            except OSError:
                continue  # it has ended
        found |= {f"process {name} ({count})" for name, count in processes.items()}
        return found - {f"mount {state}/bpffs"}  # of all labs, with the first of them

    def _is_of_the_walk(self, name: str) -> bool:
        """Return True if a mount or a namespace lies in its folder, or bears the name of one of its labs."""
        return str(self._folder) in name or any(f"mrc-{lab}-" in name for lab in LABS)

    def _must(self, *words: str) -> None:
        done = self._run(*words)
        if done.status not in DONE:
            raise RuntimeError(f"{' '.join(words)}: {done.error}")

    def _run(self, *words: str) -> Done:
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as error:
            process = self._start(words, output.fileno(), error.fileno())
            process.join(COMMAND_S)
            if process.exitcode is None:
                _kill(process)
                raise RuntimeError(f"{' '.join(words)}: has not ended after {COMMAND_S} s")
            output.seek(0)
            error.seek(0)
            return Done(process.exitcode, output.read(), error.read())


def _command(line: list[str], output: int, error: int) -> None:
    """Is what `mrc-testbed` does with a command line, in this process."""
    os.dup2(output, 1)
    os.dup2(error, 2)
    status = run(line)
    atexit._run_exitfuncs()  # a fork of multiprocessing ends without them
    sys.exit(status)


def _kill(process: ForkProcess) -> None:
    process.kill()
    process.join()


def walk(name: str, moments: int, folder: Path) -> int:
    """The number of kills after which something was lost; prints the row, and on stderr what it was."""
    kills = lost = 0
    walked = Walk(CASES[name], folder)
    try:
        for moment, wrong in walked.lost(moments):
            kills += 1
            lost += bool(wrong)
            for line in wrong:
                sys.stderr.write(f"{name}, moment {moment}: {line}\n")
                sys.stderr.flush()
    finally:
        walked.close()
        sys.stdout.write(f"| {name} | {kills} | {lost} |\n")
    return lost


def walk_apart(name: str, moments: int) -> bool:
    """Return True if nothing was lost in a case; it is walked by a process and in a folder of its own."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("MRC_TESTBED_")}
    with tempfile.TemporaryDirectory(prefix="walk-") as folder:
        Path(folder).chmod(0o755)  # Prometheus is not root
        own = {
            "MRC_TESTBED_STATE_DIR": f"{folder}/s",
            "DOCKER_HOST": f"unix://{folder}/no-engine.sock",
            "XDG_STATE_HOME": f"{folder}/bugs",
        }
        words = [sys.executable, __file__, "--moments", str(moments), "--in", folder, name]
        return subprocess.run(words, env=kept | own, check=False).returncode == 0


def main() -> int:
    """The table of docs/explanation/reliability.md; the status is 1 when anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--moments", type=int, default=30)
    parser.add_argument("--in", dest="folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {'; '.join(CASES)}")
    chosen = parser.parse_args()
    if chosen.folder is not None:
        return int(any(walk(name, chosen.moments, chosen.folder) for name in chosen.cases))
    sys.stdout.write("| killed, then | kills | something lost |\n| --- | ---: | ---: |\n")
    sys.stdout.flush()
    failed = [name for name in chosen.cases or CASES if not walk_apart(name, chosen.moments)]
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
