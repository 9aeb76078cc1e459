"""PyTorch jobs in virtual time: losses through drawn faults beside gloo's, the cost of faults, dead ranks.

Needs `make torch`. The parts take some minutes each but `losses`, which takes three quarters of an hour.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure
from benchmarks.gloo import by_gloo
from benchmarks.gloo import losses as of_ranks
from mrc_agents.clock import monotonic_ns

ROOT: Final = Path(__file__).parents[1]
PYTHON: Final = ROOT / "build" / "torch" / "bin" / "python"
EXAMPLE: Final = (str(PYTHON), "-m", "mrc_torch.examples.train")
DRAWN: Final = ROOT / "scenarios" / "train" / "drawn.yaml"
RUNS: Final = ROOT / "runs" / "virtual-training"
PLANS: Final = 20
KILLS: Final = 20
HOSTS: Final = tuple(f"h{index}" for index in range(8))
KINDS: Final = {"DDP": (), "FSDP2": ("--sharded",)}
DIES: Final = """
import os, signal, sys, torch, torch.distributed as dist
dist.init_process_group("mrc")
for step in range(100):
    dist.all_reduce(torch.ones(1000))
    if step == int(sys.argv[1]) and dist.get_rank() == 2:
        os.write(2, b"now\\n")
        os.kill(os.getpid(), signal.SIGKILL)
"""


def losses() -> Iterator[Figure]:
    """The losses of eight ranks, 100 steps, through faults at drawn places."""
    for kind, options in KINDS.items():
        job = (*EXAMPLE, "--backend", "gloo", "--steps", "100", *options)
        expected = of_ranks(by_gloo(HOSTS, job, 100))
        assert [len(each) for each in expected.values()] == [100] * len(HOSTS)
        differing, lost, seconds = 0, 0, []
        for seed in range(1, PLANS + 1):
            begun_ns = monotonic_ns()
            done = _launch(
                "-t", str(DRAWN), "--seed", str(seed), "--compute", "1ms", "--as", "gloo", "--", *job
            )
            seconds.append((monotonic_ns() - begun_ns) / 1e9)
            lost += done.returncode != 0
            differing += of_ranks(done.stdout.splitlines()) != expected
        case = f"{kind}, {PLANS} drawn fault plans"
        yield Figure("virtual training", f"{case}: runs whose losses are not gloo's", "", (differing,), "0")
        yield Figure("virtual training", f"{case}: runs that lost a rank", "", (lost,), "0")
        yield Figure("virtual training", f"{case}: a run of 100 steps", "s", tuple(seconds))


def kills() -> Iterator[Figure]:
    """Time from kill -9 of a rank until all others have ended, and the launcher has named it."""
    seconds = []
    for step in range(KILLS):
        command = _command("--ranks", "8", "--compute", "0ms", "--", str(PYTHON), "-c", DIES, str(step))
        with subprocess.Popen(
            command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        ) as launcher:
            assert launcher.stderr is not None
            begun_ns, said = 0, []
            for line in launcher.stderr:
                begun_ns = begun_ns or (monotonic_ns() if "now" in line else 0)
                said.append(line)
        seconds.append((monotonic_ns() - begun_ns) / 1e9)
        assert any("rank 2 (h2) was ended by SIGKILL" in line for line in said), said
    yield Figure(
        "virtual training", "kill -9 of a rank of eight: all have ended", "s", tuple(seconds), "<= 5"
    )


def _launch(*arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(_command(*arguments), capture_output=True, text=True, check=False)


def _command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mrc_testbed.cli", "launch", "--virtual", "--runs", str(RUNS), *arguments]


PARTS: Final = {"losses": losses, "kills": kills}


def run() -> Iterator[Figure]:
    for part in PARTS.values():
        yield from part()
