"""Tries the running kernel: verifier, tests/bpf, and a lab from `up` to `down`. Needs root.

Nothing here depends on how fast the machine is: a guest without KVM is tens of times slower.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from tests.kernels.budget import today, verifier_costs

PARTS: Final = ("load", "smoke", "tests")
TESTS: Final = ("tests/bpf",)
LAB: Final = "kernel-trial"
TOPOLOGY: Final = """\
apiVersion: mrc-testbed/v1
kind: Topology
metadata: {{name: {name}}}
spec: {{planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, nic: {{retry_limit: 200}}{shape}}}
"""
SHAPES: Final = {"unshaped": "", "shaped": ", port_rate: 1Mbit"}
_COMMAND_S: Final = 1200
_TEST_S: Final = 3600
_CLI: Final = str(Path(sys.executable).with_name("mrc-testbed"))


def try_kernel(parts: list[str], tests: list[str]) -> dict[str, Any]:
    """Run a kernel; returns `release`, `date`, and for each part one entry.

    verified: program -> kind of lab -> instructions that the verifier went through.
    tests: pytest's last line.
    smoke: kind of lab -> the steps done.

    Raises:
        ObjectRefusedError: the kernel does not accept a program.
        AssertionError: a step did other than it should.
    """
    found: dict[str, Any] = {"release": os.uname().release, "date": today()}
    if "load" in parts:
        found["verified"] = verifier_costs()
    if "smoke" in parts:
        found["smoke"] = {kind: _smoke(shape) for kind, shape in SHAPES.items()}
    if "tests" in parts:
        found["tests"] = {"of": " ".join(tests), "result": _run_tests(tests)}
    return found


def _run_tests(tests: list[str]) -> str:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--timeout={_TEST_S}", *tests]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    last = done.stdout.splitlines()[-1]
    if done.returncode:
        raise AssertionError(f"pytest: {last}")
    return re.sub(r" in .*", "", last)


def _smoke(shape: str) -> str:
    with TemporaryDirectory() as folder:
        topology = Path(folder, "topology.yaml")
        topology.write_text(TOPOLOGY.format(name=LAB, shape=shape))
        steps: dict[str, Callable[[], object]] = {
            "up": lambda: _run("up", "-t", str(topology), "--runtime", "netns"),
            "write": _write,
            "flap": _flap,
            "capture": lambda: _capture(Path(folder, "captured.pcapng")),
        }
        try:
            for name, step in steps.items():
                print(f"smoke: {name}", flush=True)
                step()
        finally:
            _run("down")
    left = sorted(file.name for file in Path("/run/netns").glob(f"*{LAB}*"))
    if left:
        raise AssertionError(f"down left {left}")
    return ", ".join([*steps, "down"])


def _write() -> None:
    document = json.loads(_run("bench", "write-bw", "h0", "h1", "--size", "16KiB", "-i", "8", "-o", "json"))
    if document["wrong_bytes"]:
        raise AssertionError(f"wrong bytes: {document}")


def _flap() -> None:
    _run(
        "fault",
        "add",
        "link-flap",
        "--link",
        "p0-t1-0:0",
        "--every",
        "400ms",
        "--down",
        "200ms",
        "--until",
        "cleared",
    )
    _write()
    _run("fault", "clear", "--all")


def _capture(file: Path) -> None:
    arguments = [_CLI, "capture", "h1", "--count", "4", "-w", str(file), "-n", LAB]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as capture:
        while capture.poll() is None and not file.exists():
            _write()
        while capture.poll() is None:
            _write()
    if capture.returncode or not file.stat().st_size:
        raise AssertionError(f"capture ended with {capture.returncode}")


def _run(*arguments: str) -> str:
    done = subprocess.run(
        [_CLI, *arguments, "-n", LAB], stdout=subprocess.PIPE, text=True, timeout=_COMMAND_S, check=False
    )
    if done.returncode:
        raise AssertionError(f"mrc-testbed {' '.join(arguments)}: status {done.returncode}")
    return done.stdout
