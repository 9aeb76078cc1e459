"""perftest's WRITE and SEND tests between two hosts of an unshaped lab, unmodified, by `exec --rdma`.

What `ib_write_bw` carries is held against a transfer of the NIC agent's own, by turns.
"""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.figure import Figure
from benchmarks.transfer import Transfer, live_lab, pause
from mrc_testbed.fabric.live import Lab
from mrc_testbed.fabric.namespace import entered
from mrc_testbed.fabric.runtime import node_namespace
from mrc_testbed.topology.spec import TopologySpec

COMMAND: Final = Path(sys.executable).with_name("mrc-testbed")
REPETITIONS: Final = 5
SOURCE, TARGET = 0, 5
SERVER_PORT: Final = 18515
_LISTENING: Final = re.compile(rf":{SERVER_PORT:04X} [0-9A-F]+:0000 0A ")
_ROW: Final = re.compile(r"^ *\d+ +\d+ +(\S.*)$", re.MULTILINE)
_PERFTEST_MB: Final = 1 << 20
_SETTLE_S: Final = 0.3
_LOOK_S: Final = 0.02
_LOOKS: Final = 500
_SECONDS: Final = 1.0

_TYPICAL, _AVERAGE, _RATE = 2, 1, 2
"""Columns behind bytes and iterations: t_typical of ib_write_lat; BW average and MsgRate of ib_write_bw."""


def run() -> Iterator[Figure]:
    with live_lab(TopologySpec()) as lab:
        yield _latency(lab, "ib_write_lat -s 2", "<= 6")
        yield _latency(lab, "ib_send_lat -s 2", "<= 12")
        yield from _bandwidth(lab)
        yield _messages(lab, "ib_write_bw -s 64", (), ">= 200,000")
        yield _messages(lab, "ib_write_bw -s 64 -l 32", ("-l", "32"), ">= 600,000")


def _latency(lab: Lab, test: str, target: str) -> Figure:
    command = (*test.split(), "-n", "5000")
    samples = tuple(_measured(lab, command)[_TYPICAL] for _ in range(REPETITIONS))
    return Figure("applications", f"{test}, typical, one way", "us", samples, target)


def _bandwidth(lab: Lab) -> Iterator[Figure]:
    program, own = [], []
    for _ in range(REPETITIONS):
        megabytes = _measured(lab, ("ib_write_bw", "-s", "65536", "-n", "20000"))[_AVERAGE]
        program.append(megabytes * _PERFTEST_MB * 8 / 1e9)
        with Transfer(lab, SOURCE, TARGET) as transfer:
            transfer.start()
            pause(_SETTLE_S)
            _, bytes_per_s = transfer.acked_rate(_SECONDS)
            transfer.finish()
        own.append(bytes_per_s * 8 / 1e9)
    ratios = tuple(100 * a / b for a, b in zip(program, own, strict=True))
    yield Figure("applications", "ib_write_bw -s 65536", "Gbit/s", tuple(program))
    yield Figure(
        "applications", "ib_write_bw -s 65536, of the NIC agent's own transfer", "%", ratios, ">= 95"
    )


def _messages(lab: Lab, name: str, options: tuple[str, ...], target: str) -> Figure:
    command = ("ib_write_bw", "-s", "64", "-n", "100000", *options)
    samples = tuple(_measured(lab, command)[_RATE] * 1e6 for _ in range(REPETITIONS))
    return Figure("applications", name, "message/s", samples, target)


def _measured(lab: Lab, command: tuple[str, ...]) -> list[float]:
    server, client = f"h{TARGET}", f"h{SOURCE}"
    with _started(lab, server, *command) as waiting:
        _await_server(lab, server)
        with _started(lab, client, *command, server) as asking:
            said, _ = asking.communicate()
        waiting.communicate()
    rows = _ROW.findall(said)
    if asking.returncode or len(rows) != 1:
        raise RuntimeError(f"{' '.join(command)} ended with {asking.returncode}:\n{said}")
    return [float(word) for word in rows[0].split()]


def _started(lab: Lab, host: str, *command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [COMMAND, "-n", lab.name, "exec", host, "--rdma", "--", command[0], "-d", "mrc0", *command[1:]],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _await_server(lab: Lab, host: str) -> None:
    """Returns once the host has a socket that listens on perftest's port.

    Raises:
        RuntimeError: it has none.
    """
    for _ in range(_LOOKS):
        with entered(node_namespace(lab.name, host)):
            table = "".join(Path(f"/proc/thread-self/net/{name}").read_text() for name in ("tcp", "tcp6"))
        if _LISTENING.search(table):
            return
        pause(_LOOK_S)
    raise RuntimeError(f"no server of perftest on {host}")
