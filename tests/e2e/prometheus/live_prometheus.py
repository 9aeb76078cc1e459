"""A running Prometheus to ask, and a lab to give it something to see."""

import json
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from raw_verbs import connect_pair
from waiting import DEADLINE_NS, DEADLINE_S, poll_until

from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.ev_set import build_ev_set

LAB = f"prom{os.getpid()}"
READY = "Server is ready to receive web requests"


def require_program(name: str) -> str:
    """Path of a program of the Debian package `prometheus`."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed: mrc-testbed setup host")
    return path


@dataclass(frozen=True)
class Prometheus:
    url: str

    def query(self, expression: str, at_s: float | None = None) -> list[tuple[dict[str, str], float]]:
        """Labels and value of each element of the result, now or at a time, in the order of Prometheus."""
        asked = urlencode({"query": expression} | ({} if at_s is None else {"time": at_s}))
        with urlopen(f"{self.url}/api/v1/query?{asked}", timeout=DEADLINE_S) as answer:  # noqa: S310
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return [(element["metric"], float(element["value"][1])) for element in result]

    def query_range(
        self, expression: str, start_s: float, end_s: float
    ) -> list[tuple[dict[str, str], list[tuple[float, float]]]]:
        """Labels, and time and value once a second, of each series of the result."""
        asked = urlencode({"query": expression, "start": start_s, "end": end_s, "step": "1s"})
        with urlopen(f"{self.url}/api/v1/query_range?{asked}", timeout=DEADLINE_S) as answer:  # noqa: S310
            result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
        return [
            (element["metric"], [(float(time_s), float(value)) for time_s, value in element["values"]])
            for element in result
        ]

    def wait_for(self, expression: str, is_met: Callable[[float], bool]) -> float:
        """The value of *expression*, which has one element, once it is as wanted.

        A stored sample raises no event that could be awaited, so the server is asked again and again.
        """

        def wanted() -> list[float]:
            values = [value for _, value in self.query(expression)]
            return values if len(values) == 1 and is_met(values[0]) else []

        return poll_until(wanted, interval_s=0.1, what=expression)[0]


def wait_until_ready(server: subprocess.Popen[str]) -> None:
    """Reads what the server says until it is ready, and goes on reading so that it never blocks."""
    assert server.stderr is not None
    said = []
    for line in server.stderr:
        said.append(line)
        if READY in line:
            threading.Thread(target=server.stderr.read, daemon=True).start()
            return
    pytest.fail("prometheus did not start:\n" + "".join(said))


def free_ports(count: int) -> list[int]:
    """TCP ports without a listener, each another: one by one the kernel may repeat itself."""
    with ExitStack() as stack:
        probes = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [int(probe.getsockname()[1]) for probe in probes]


def free_port() -> int:
    """One of them."""
    return free_ports(1)[0]


def host_write(lab: Lab, length: int, iterations: int) -> None:
    """Has h0 write to h1; returns when all messages are acknowledged."""
    requestor, responder = lab.agent("h0"), lab.agent("h1")
    source, target = requestor.register_memory(length), responder.register_memory(length)
    qpn = requestor.create_qp(1, list(build_ev_set(lab.clos, 0, 1, seed=1)))
    peer_qpn = responder.create_qp(0, list(build_ev_set(lab.clos, 1, 0, seed=2)))
    connect_pair(requestor, qpn, responder, peer_qpn)
    requestor.post_write(
        qpn,
        length=length,
        local_offset=source["offset"],
        remote_offset=0,
        r_key=target["r_key"],
        iterations=iterations,
        depth=4,
    )
    completions = requestor.wait(qpn, DEADLINE_NS)
    assert [completion["status"] for completion in completions] == ["success"]
    requestor.destroy_qp(qpn)
    responder.destroy_qp(peer_qpn)
    requestor.deregister_memory(source["r_key"])
    responder.deregister_memory(target["r_key"])
