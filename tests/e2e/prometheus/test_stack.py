"""The stack by itself: what it is made of, what stops it, and that nothing stays."""

import http.server
import json
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from grafana_double import TOKEN, GrafanaDouble, serving
from live_prometheus import Prometheus, free_port, free_ports, require_program
from observed_lab import Command, clean_environment
from waiting import DEADLINE_S

from mrc_testbed.fabric.process import find_marked, is_alive, stop_processes
from mrc_testbed.observe import grafana_server, prometheus, service, stack
from mrc_testbed.observe.container import stack_containers
from mrc_testbed.observe.run_reports import record_run, report_page
from mrc_testbed.observe.stack import status
from mrc_testbed.observe.stack_state import ServiceName, StackPaths, StackSettings, StackState, read_stack

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow("Prometheus comes and goes in every test; test_scrape.py is the short one"),
]

PROGRAM_PATH = shutil.which("prometheus") or ""
GRAFANA = """#!{python}
import configparser, http.server, json, os, sys
options = dict(word.lstrip("-").split("=", 1) for word in sys.argv[1:])
config = configparser.RawConfigParser()
config.read(options["config"])
password = config["security"]["admin_password"].removeprefix("$__file{{").removesuffix("}}")
found = {{"uid": os.getuid(), "password": len(open(password).read()), "version": "11.6.14", "database": "ok"}}
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
address = config["server"]["http_addr"], int(config["server"]["http_port"])
http.server.HTTPServer(address, Handler).serve_forever()
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder that others than root can enter; what is left of a stack in it fails the test."""
    made = Path(tempfile.mkdtemp(prefix="mrc-"))
    made.chmod(0o755)
    paths = StackPaths(made / "state")
    try:
        yield made
        assert find_marked(paths.mark) == ()
        assert not paths.folder.exists()
    finally:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MRC_TESTBED_STATE_DIR", str(paths.root))
            stack.down(progress=lambda _: None)
        shutil.rmtree(made)


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> StackPaths:
    """The stack's paths, in this process."""
    monkeypatch.setenv("MRC_TESTBED_STATE_DIR", str(folder / "state"))
    return StackPaths(folder / "state")


@pytest.fixture
def command(folder: Path) -> Command:
    """The command line."""
    return Command(folder, clean_environment(folder), "none")


def settings() -> StackSettings:
    """Ports of the test's own."""
    exporter, prometheus, grafana = free_ports(3)
    return StackSettings(exporter_port=exporter, prometheus_port=prometheus, grafana_port=grafana)


def ports(chosen: StackSettings) -> list[str]:
    """The options for them."""
    return [
        *("--exporter-port", str(chosen.exporter_port)),
        *("--prometheus-port", str(chosen.prometheus_port)),
        *("--grafana-port", str(chosen.grafana_port)),
    ]


@contextmanager
def stack_up(chosen: StackSettings) -> Iterator[StackState]:
    """A stack in this process's state folder."""
    try:
        yield stack.up(chosen, progress=lambda _: None)
    finally:
        assert stack.down(progress=lambda _: None)


@contextmanager
def nobody_runs_containers() -> Iterator[None]:
    """Without a Docker Engine."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", "unix:///nonexistent/engine.sock")
        yield


def test_up_twice_and_down_twice(command: Command) -> None:
    require_program("prometheus")
    options = ports(settings())
    command.succeeds("observe", "up", *options)
    state = read_stack(StackPaths(command.folder / "state"))
    command.succeeds("observe", "up", *options)
    assert read_stack(StackPaths(command.folder / "state")) == state
    other = command("observe", "up", *options, "--retention", "2h")
    assert other.returncode == 2
    assert "--retention 6h, not 2h" in other.stderr
    assert "Prometheus and Grafana still run" in command("down", "--all", "--dry-run").stderr
    assert "is removed" in command.succeeds("observe", "down")
    assert "still run" not in command("down", "--all", "--dry-run").stderr
    assert "there was no stack" in command.succeeds("observe", "down")
    assert "there is no stack" in command.succeeds("observe", "status")


def test_down_forgets_reports_of_runs(here: StackPaths, command: Command) -> None:
    run = "20261127T134102Z-5c230e"
    results = command.folder / run
    results.mkdir()
    (results / "report.html").write_text("fine")
    here.root.mkdir(0o700, exist_ok=True)
    record_run(here.root, results)
    assert report_page(here.root, run).body == b"fine"
    assert "there was no stack" in command.succeeds("observe", "down")
    assert report_page(here.root, run).status == 404
    assert results.exists()


def test_up_ends_what_a_killed_up_has_started_and_not_recorded(here: StackPaths, command: Command) -> None:
    require_program("prometheus")
    chosen = settings()
    here.folder.mkdir(parents=True)
    stray = stack.start(here, service.exporter(here, chosen), lambda _: None)
    command.succeeds("observe", "up", *ports(chosen))
    assert not is_alive(stray.identity)
    state = read_stack(here)
    assert state is not None
    [exporter, prometheus_of_first] = state.services[:2]
    stop_processes([exporter.identity], 0)
    stray = stack.start(here, service.exporter(here, chosen), lambda _: None)
    command.succeeds("observe", "up", *ports(chosen))
    assert not is_alive(stray.identity)
    assert is_alive(prometheus_of_first.identity)
    command.succeeds("observe", "down")


def test_prometheus_is_not_root_listens_here_only_and_is_bounded(here: StackPaths) -> None:
    require_program("prometheus")
    with nobody_runs_containers(), stack_up(settings()) as state:
        record = state.service(ServiceName.PROMETHEUS)
        assert record is not None
        account = next(
            line for line in Path(f"/proc/{record.pid}/status").read_text().splitlines() if "Uid" in line
        )
        assert account.split()[1] == str(pwd.getpwnam("prometheus").pw_uid)
        flags = json.loads(_get(f"{record.url}/api/v1/status/flags"))["data"]
        assert flags["web.listen-address"] == f"127.0.0.1:{state.settings.prometheus_port}"
        assert flags["storage.tsdb.retention.size"] == "1GiB"
        assert flags["storage.tsdb.retention.time"] == "6h"
        rules = json.loads(_get(f"{record.url}/api/v1/rules"))["data"]["groups"]
        assert {group["name"] for group in rules} == {"mrc-objective", "mrc-recording", "mrc-alerts"}


def _get(url: str) -> bytes:
    from urllib.request import urlopen  # noqa: PLC0415

    with urlopen(url, timeout=DEADLINE_S) as answer:  # noqa: S310
        content: bytes = answer.read()
        return content


def test_the_objective_is_in_the_rules(here: StackPaths) -> None:
    path = prometheus.write_prometheus_config(here, StackSettings(p99_objective_ns=20_000_000))
    rules = yaml.safe_load((path.parent / "rules.yaml").read_text())
    assert {"record": prometheus.OBJECTIVE_RECORD, "expr": "vector(0.02)"} in rules["groups"][0]["rules"]
    require_program("promtool")
    subprocess.run(["promtool", "check", "config", str(path)], check=True, capture_output=True)
    shutil.rmtree(here.folder)


@pytest.mark.parametrize(
    ("option", "what"),
    [("exporter_port", "the exporter"), ("prometheus_port", "Prometheus"), ("grafana_port", "Grafana")],
)
def test_a_port_in_use_is_reported_and_nothing_stays(command: Command, option: str, what: str) -> None:
    require_program("prometheus")
    chosen = settings()
    with http.server.HTTPServer(("127.0.0.1", getattr(chosen, option)), http.server.BaseHTTPRequestHandler):
        finished = command("observe", "up", *ports(chosen))
    flag = "--" + option.replace("_", "-")
    assert finished.returncode in (1, 3)
    assert (
        f"{what} cannot listen at 127.0.0.1:{getattr(chosen, option)}: Address already in use"
        in finished.stderr
    )
    assert f"give another port with {flag}" in finished.stderr


def test_without_prometheus_it_says_where_to_get_it(command: Command) -> None:
    environment = command.environment | {"PATH": str(command.folder)}
    finished = Command(command.folder, environment, "none")("observe", "up", *ports(settings()))
    assert finished.returncode == 3
    assert "there is no program 'prometheus' on this machine, nor a container" in finished.stderr
    assert "setup host --with-observability" in finished.stderr
    assert "--prometheus-url" in finished.stderr


def test_a_disk_without_room_is_refused_at_once(command: Command) -> None:
    finished = command("observe", "up", *ports(settings()), "--disk", "900000GiB")
    assert finished.returncode == 3
    assert "free, Prometheus may store 900000GiB" in finished.stderr


def test_a_prometheus_of_the_users_own_that_does_not_answer_is_reported(command: Command) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    finished = command("observe", "up", *ports(settings()), "--prometheus-url", url)
    assert finished.returncode == 1
    assert f"no Prometheus answers at {url}/-/ready" in finished.stderr


def test_a_prometheus_that_fills_the_disk_is_named(here: StackPaths, monkeypatch: pytest.MonkeyPatch) -> None:
    require_program("prometheus")
    with nobody_runs_containers(), stack_up(settings()):
        usage = shutil.disk_usage(here.data)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=1 << 20))
        (problem,) = status().problems
        assert "has only 1MiB free: Prometheus stops storing" in problem
        assert "runs and their results do not need it" in problem


def test_a_grafana_of_the_users_own_gets_the_dashboards(command: Command) -> None:
    require_program("prometheus")
    options = ports(settings())
    with serving(GrafanaDouble()) as double:
        own = ["--grafana-url", double.url]
        missing = command("observe", "up", *options, *own)
        assert (missing.returncode, "needs a token" in missing.stderr) == (2, True)
        token = command.folder / "token"
        token.write_text(f"{TOKEN}\n")
        said = command.succeeds("observe", "up", *options, *own, "--token-file", str(token))
        assert f"{double.url}/d/mrc-overview" in said
        assert "dashboards are there" in said
        assert len(double.dashboards) == 7
        state = read_stack(StackPaths(command.folder / "state"))
        assert state is not None
        (source,) = double.sources.values()
        assert source["url"] == f"http://127.0.0.1:{state.settings.prometheus_port}"
        token.write_text("glsa_wrong")
        wrong = command("observe", "dashboards", "push", "--token-file", str(token))
        assert wrong.returncode == 2
        assert "does not accept the token" in wrong.stderr
        assert (
            "glsa_wrong" not in wrong.stderr + (StackPaths(command.folder / "state").state_file).read_text()
        )
        token.write_text(TOKEN)
        assert "/d/mrc-faults" in command.succeeds(
            "observe", "dashboards", "push", "--token-file", str(token)
        )
        finished = command("observe", "down")
        assert "the dashboards stay in Grafana" in finished.stderr
        gone = ["--grafana-url", double.url, "--token-file", str(token)]
        assert "are removed" in command.succeeds("observe", "dashboards", "remove", *gone)
        assert not double.dashboards


def test_an_installed_grafana_is_started_provisioned(
    here: StackPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a program that reads grafana.ini as Grafana does and answers its health check."""
    require_program("prometheus")
    home = here.root.parent / "grafana-home"
    (home / "conf").mkdir(parents=True)
    (home / "conf/defaults.ini").touch()
    program = home / "grafana-server"
    program.write_text(GRAFANA.format(python=sys.executable))
    program.chmod(0o755)
    monkeypatch.setattr(grafana_server, "HOME_PATHS", (str(home),))
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    with stack_up(settings()) as state:
        record = state.service(ServiceName.GRAFANA)
        assert record is not None
        reported = json.loads(_get(f"{record.url}/api/health"))
        assert reported["uid"] == pwd.getpwnam("nobody").pw_uid
        assert reported["password"] >= 32
        assert stat.S_IMODE(here.password_file.stat().st_mode) == 0o600
        folder = here.config(ServiceName.GRAFANA)
        config = RawConfigParser()
        config.read(folder / "grafana.ini")
        assert config["server"]["http_addr"] == "127.0.0.1"
        assert dict(config["auth.anonymous"]) == {"enabled": "true", "org_role": "Viewer"}
        assert config["dashboards"]["min_refresh_interval"] == "1s"
        (source,) = yaml.safe_load((folder / "provisioning/datasources/mrc-testbed.yaml").read_text())[
            "datasources"
        ]
        assert source["url"] == f"http://127.0.0.1:{state.settings.prometheus_port}"
        (provider,) = yaml.safe_load((folder / "provisioning/dashboards/mrc-testbed.yaml").read_text())[
            "providers"
        ]
        assert len(list(Path(provider["options"]["path"]).glob("*.json"))) == 7
        assert {service.version for service in status().services} >= {"11.6.14"}
        os.kill(record.pid, 9)
        ended = next(problem for problem in status().problems if problem.startswith("Grafana has ended"))
        assert "its log" in ended
    assert not here.password_file.exists()


@pytest.fixture
def prometheus_image() -> Iterator[str]:
    """An image of the machine's own Prometheus, in place of the one that a registry has."""
    require_program("prometheus")
    name = f"mrc-observe-{os.getpid()}:local"
    with tempfile.TemporaryDirectory() as made:
        root = Path(made)
        libraries = ("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2")
        for file in (PROGRAM_PATH, *libraries):
            copy = root / file.lstrip("/")
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(file).resolve(), copy)
        change = f'ENTRYPOINT ["{PROGRAM_PATH}"]'
        with subprocess.Popen(["tar", "-C", made, "-c", "."], stdout=subprocess.PIPE) as tar:
            subprocess.run(
                ["docker", "import", "--change", change, "-", name],
                stdin=tar.stdout,
                check=True,
                capture_output=True,
            )
    yield name
    subprocess.run(["docker", "image", "rm", "--force", name], check=True, capture_output=True)


@pytest.mark.docker
def test_a_container_takes_the_place_of_a_program(
    here: StackPaths, prometheus_image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setattr(prometheus, "IMAGE", prometheus_image)
    monkeypatch.setattr(grafana_server, "IMAGE", "localhost:1/none:none")
    with stack_up(settings()) as state:
        record = state.service(ServiceName.PROMETHEUS)
        assert record is not None
        assert record.kind == "container"
        assert Prometheus(record.url).query("vector(1)")
        assert "localhost:1/none:none cannot be pulled" in state.without[ServiceName.GRAFANA]
        inspected = subprocess.run(
            ["docker", "inspect", record.container_id], check=True, capture_output=True, text=True
        )
        (container,) = json.loads(inspected.stdout)
        assert container["HostConfig"]["CapDrop"] == ["ALL"]
        assert container["HostConfig"]["NetworkMode"] == "host"
        assert container["Config"]["User"].split(":")[0] != "0"
        assert stack_containers(here.mark) == (record.container_id,)
        subprocess.run(["docker", "kill", record.container_id], check=True, capture_output=True)
        ended = next(problem for problem in status().problems if "Prometheus has ended" in problem)
        assert "its log ends" in ended
        again = stack.up(state.settings, progress=lambda _: None).service(ServiceName.PROMETHEUS)
        assert again is not None
        assert again.container_id != record.container_id
        assert stack_containers(here.mark) == (again.container_id,)
    assert stack_containers(here.mark) == ()


def test_a_clock_that_is_set_back_costs_no_samples(here: StackPaths) -> None:
    """Samples of the past, as scrapes bring them after the clock was set back, after those of the present."""
    require_program("prometheus")
    chosen = settings()
    past_ms = int(time.time() * 1000) - 600_000
    pages = iter([b"probe 1\n", f"probe 2 {past_ms}\n".encode()])

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = next(pages, b"")
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class names it so
            ...

    here.folder.mkdir(parents=True)
    with http.server.HTTPServer(("127.0.0.1", chosen.exporter_port), Handler) as exporter:
        thread = threading.Thread(target=exporter.serve_forever)
        thread.start()
        try:
            record = stack.start(here, prometheus.service(here, chosen), lambda _: None)
            asked = Prometheus(record.url)
            asked.wait_for(f"probe @ {past_ms / 1000}", lambda value: value == 2)
        finally:
            exporter.shutdown()
            thread.join()
            stack.down(progress=lambda _: None)
