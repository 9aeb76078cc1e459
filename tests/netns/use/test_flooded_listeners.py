"""Listeners outlive their visitors: floods, exhausted descriptors, requests without a valid response."""

import contextlib
import http.client
import json
import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest
from waiting import DEADLINE_S

from mrc_testbed.live.feed import Feed
from mrc_testbed.live.server import LiveServer, live_server
from mrc_testbed.metrics.exporter import exporter_running
from mrc_testbed.topology.spec import TopologySpec

LAB_SPEC = TopologySpec(planes=1, t0=2, t1=1, hosts_per_t0=1)
STRANGER = 65534

FLOOD = """
import socket, sys
host, port, wanted = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
held = []
for _ in range(wanted):
    one = socket.create_connection((host, port))
    one.sendall(b"GET /api/events HTTP/1.1\\r\\nHost: " + sys.argv[4].encode())
    held.append(one)
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def flooded(netloc: str, connections: int, uid: int = STRANGER, rest: str = "") -> Iterator[None]:
    """*connections* of another user, each with the beginning of a request, followed by *rest*."""
    host, _, port = netloc.rpartition(":")
    command = [sys.executable, "-c", FLOOD, host, port, str(connections), rest]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=uid, text=True
    ) as flood:
        assert flood.stdout is not None
        assert flood.stdout.readline() == "open\n"
        yield
        assert flood.stdin is not None
        flood.stdin.close()


@pytest.fixture
def page(lab_name: str) -> Iterator[LiveServer]:
    with Feed(lab_name, 100_000_000) as feed, live_server(feed) as server:
        yield server


def status_of(netloc: str, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection(netloc, timeout=DEADLINE_S)
    connection.request("GET", path, headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def raw_answer(netloc: str, request: bytes) -> bytes:
    host, _, port = netloc.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as connection:
        connection.sendall(request)
        connection.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: connection.recv(65536), b""))


def test_a_flood_by_one_user_leaves_the_page_to_the_others(page: LiveServer) -> None:
    with flooded(page.host, 400):
        for path in ("/", "/assets/page.js", "/api/fabric"):
            assert status_of(page.host, path) == 200
        assert next(updates(page.host))["problem"] is None
        assert len(page.connections) < 100
    assert next(updates(page.host))["problem"] is None


def test_streams_of_one_user_leave_room_for_those_of_others(page: LiveServer) -> None:
    with flooded(page.host, 24, rest=f"{page.host}\r\n\r\n"):
        assert next(updates(page.host))["problem"] is None


def test_a_flood_by_one_user_leaves_the_metrics_to_the_others(lab_name: str) -> None:
    with exporter_running([lab_name], port=0) as url:
        netloc = urlsplit(url).netloc
        with flooded(netloc, 400):
            assert status_of(netloc, "/metrics") == 200
        assert status_of(netloc, "/metrics") == 200


def test_a_flood_by_many_users_is_survived(page: LiveServer) -> None:
    with contextlib.ExitStack() as floods:
        for uid in range(60_001, 60_007):
            floods.enter_context(flooded(page.host, 60, uid))
        assert len(page.connections) <= 128
    assert next(updates(page.host))["problem"] is None


def test_without_a_descriptor_visitors_are_turned_away(lab_name: str) -> None:
    with exporter_running([lab_name], port=0) as url, contextlib.ExitStack() as taken:
        netloc = urlsplit(url).netloc
        host, _, port = netloc.rpartition(":")
        visitors = [taken.enter_context(socket.socket()) for _ in range(3)]
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
        try:
            with contextlib.ExitStack() as all_others:
                with contextlib.suppress(OSError):
                    while True:
                        all_others.enter_context(Path(os.devnull).open("rb"))
                for visitor in visitors:
                    visitor.settimeout(DEADLINE_S)
                    visitor.connect((host, int(port)))
                    assert visitor.recv(1) == b""
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert status_of(netloc, "/metrics") == 200


def test_without_a_descriptor_the_page_says_so_and_goes_on_later(lab_name: str) -> None:
    command = [sys.executable, "-m", "mrc_testbed.cli", "-n", lab_name, "serve", "-i", "100ms"]
    with serving(command) as (process, url):
        host = urlsplit(url).netloc
        seen = updates(host)
        assert next(seen)["problem"] is None
        usual = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (3, usual[1]))
        problem = next(update["problem"] for update in seen if update["problem"])
        assert "Too many open files" in problem
        resource.prlimit(process.pid, resource.RLIMIT_NOFILE, usual)
        assert next(update for update in seen if update["problem"] is None and update["snapshot"])
        assert status_of(host, "/") == 200
        process.terminate()
        assert process.wait(DEADLINE_S) == 130


def test_more_connections_than_descriptors_are_survived(lab_name: str) -> None:
    limited = ["prlimit", "--nofile=200:200", sys.executable, "-m", "mrc_testbed.cli", "-n", lab_name]
    with serving([*limited, "serve", "-i", "100ms"]) as (process, url):
        host = urlsplit(url).netloc
        with contextlib.ExitStack() as floods:
            for uid in range(60_001, 60_007):
                floods.enter_context(flooded(host, 40, uid))
        first = next(updates(host))
        later = next(update for update in updates(host) if update["number"] > first["number"])
        assert later["problem"] is None
        process.terminate()
        assert process.wait(DEADLINE_S) == 130


def test_an_answer_has_the_policy_whatever_was_asked(page: LiveServer, lab_name: str) -> None:
    host = page.host.encode()
    requests = {
        b"GET / HTTP/1.1\r\nHost: %b\r\nHost: evil.example\r\n\r\n" % host: b"400",
        b"GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n": b"403",
        b"GET /\r\n\r\n": b"403",
        b"GET / HTTP/9.9\r\nHost: %b\r\n\r\n" % host: b"505",
        b"GET / HTTP/x\r\nHost: %b\r\n\r\n" % host: b"400",
        b"<script> / x y z\r\n\r\n": b"400",
        b"GET /%b HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"a" * 70_000, host): b"414",
        b"GET / HTTP/1.1\r\n%b\r\n" % (b"A: b\r\n" * 200): b"431",
        b"BREW / HTTP/1.1\r\nHost: %b\r\n\r\n" % host: b"501",
        b"GET /nothing HTTP/1.1\r\nHost: %b\r\nConnection: close\r\n\r\n" % host: b"404",
    }
    with exporter_running([lab_name], port=0) as url:
        exporter = urlsplit(url).netloc
        for request, status in requests.items():
            for listener in (page.host, exporter):
                answer = raw_answer(listener, request.replace(host, listener.encode()))
                head, _, body = answer.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 " + status), request[:40]
                assert b"Content-Security-Policy: default-src 'none'" in head, request[:40]
                assert b"script>" not in body


def test_the_exporter_answers_to_its_own_name_only(lab_name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    full = f"{socket.gethostname()}.lab.example"
    monkeypatch.setattr(socket, "getfqdn", lambda *_: full)
    with exporter_running([lab_name], port=0, known_as=["lab7"]) as url:
        netloc = urlsplit(url).netloc
        port = netloc.rpartition(":")[2]
        for name in (f"localhost:{port}", f"LAB7:{port}", "lab7:80", "lab7"):
            assert status_of(netloc, "/metrics", Host=name) == 200
        for name in (f"evil.example:{port}", "127.0.0.1", f"{socket.gethostname()}.evil.example:{port}"):
            assert status_of(netloc, "/metrics", Host=name) == 403
    with exporter_running([lab_name], "0.0.0.0", 0) as url:  # noqa: S104 - to see what it answers to
        netloc = urlsplit(url).netloc
        port = netloc.rpartition(":")[2]
        for name in ("10.1.2.3", "[fd00::1]", socket.gethostname(), full):
            assert status_of(netloc, "/metrics", Host=f"{name}:{port}") == 200
        monkeypatch.setattr(socket, "getfqdn", lambda *_: "evil.example")
        for name in ("evil.example", full):
            assert status_of(netloc, "/metrics", Host=f"{name}:{port}") == 403
        assert status_of(netloc, "/metrics", Host="10.1.2.3") == 403


@contextmanager
def serving(command: list[str]) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that prints the URL it serves."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, line_of(process.stdout)
        finally:
            process.kill()


def line_of(stream: IO[str]) -> str:
    line = stream.readline().strip()
    assert line.startswith("http://")
    return line


def updates(netloc: str) -> Iterator[dict[str, Any]]:
    connection = http.client.HTTPConnection(netloc, timeout=DEADLINE_S)
    connection.request("GET", "/api/events")
    answer = connection.getresponse()
    assert answer.status == 200
    try:
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line.removeprefix(b"data: "))
    finally:
        answer.close()
        connection.close()
