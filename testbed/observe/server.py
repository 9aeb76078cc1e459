"""The three parts of the stack, each as the settings want it."""

import shutil
import sys
from pathlib import Path
from typing import Final

from mrc_testbed.errors import FabricError, PreflightError
from mrc_testbed.observe import grafana_server, prometheus
from mrc_testbed.observe.account import Account, service_account
from mrc_testbed.observe.launch import Progress, Server, launch
from mrc_testbed.observe.local_service import answer_of, require_free_port
from mrc_testbed.observe.state import ServiceName, ServiceRecord, StackPaths, StackSettings

_ROOT: Final = Account(0, 0)
_READY: Final = {ServiceName.PROMETHEUS: "/-/ready", ServiceName.GRAFANA: "/api/health"}


def start_exporter(paths: StackPaths, settings: StackSettings, progress: Progress) -> ServiceRecord:
    """The exporter of all labs, started. It stays root: it reads BPF maps.

    Raises:
        PreflightError: its port is in use.
        FabricError: it did not start.
    """
    port = settings.exporter_port
    require_free_port(settings, port, "the exporter", "--exporter-port")
    program = [
        sys.executable,
        "-m",
        "mrc_testbed.cli",
        "observe",
        "metrics",
        "--address",
        settings.address,
        "--port",
        str(port),
        *(f"--known-as={name}" for name in settings.known_as),
    ]
    server = Server(ServiceName.EXPORTER, f"http://{settings.exporter_target}/metrics", "", _ROOT, program)
    return launch(paths, server, progress)


def start_prometheus(paths: StackPaths, settings: StackSettings, progress: Progress) -> ServiceRecord:
    """Prometheus, started, or the user's own.

    Raises:
        PreflightError: there is none on this machine and none can be pulled, or its port is in use.
        FabricError: it did not start, or the user's own does not answer.
    """
    name = ServiceName.PROMETHEUS
    if settings.prometheus_url is not None:
        return _own(name, settings.prometheus_url, progress)
    require_free_port(settings, settings.prometheus_port, "Prometheus", "--prometheus-port")
    config = prometheus.write_prometheus_config(paths, settings)
    data, account = _prepare(paths, name, config.parent, ["prometheus"])
    arguments = prometheus.prometheus_arguments(config, data, settings)
    program = shutil.which(prometheus.PROGRAM)
    server = Server(
        name,
        f"http://{settings.local_host}:{settings.prometheus_port}",
        _READY[name],
        account,
        [program, *arguments] if program else (),
        prometheus.IMAGE,
        arguments,
        config=config.parent,
        data=data,
    )
    try:
        return launch(paths, server, progress)
    except PreflightError as error:
        raise PreflightError(
            f"there is no program {prometheus.PROGRAM!r} on this machine, nor a container: {error.message}",
            hint="install it: mrc-testbed setup host --with-observability;"
            " or give one of your own with --prometheus-url",
        ) from error


def start_grafana(
    paths: StackPaths, settings: StackSettings, prometheus_url: str, progress: Progress
) -> ServiceRecord:
    """Grafana, started with data source and dashboards; the user's own is only asked whether it answers.

    Raises:
        PreflightError: there is none on this machine and none can be pulled.
        FabricError: its port is in use, it did not start, or the user's own does not answer.
    """
    name = ServiceName.GRAFANA
    if settings.grafana_url is not None:
        return _own(name, settings.grafana_url, progress)
    _require_grafana_port(settings)
    config = grafana_server.write_grafana_config(paths, settings, prometheus_url)
    data, account = _prepare(paths, name, config.parent, ["grafana"])
    account.own(paths.password_file)
    server = Server(
        name,
        settings.grafana_address,
        _READY[name],
        account,
        grafana_server.local_command(config),
        grafana_server.IMAGE,
        image_environment=grafana_server.container_environment(paths, config),
        config=config.parent,
        data=data,
    )
    try:
        return launch(paths, server, progress)
    except PreflightError as error:
        raise PreflightError(
            f"there is no program 'grafana-server' on this machine, nor a container: {error.message}"
        ) from error


def _require_grafana_port(settings: StackSettings) -> None:
    """A missing Grafana is no failure, a port that is taken is one: the user can fix it."""
    try:
        require_free_port(settings, settings.grafana_port, "Grafana", "--grafana-port")
    except PreflightError as error:
        raise FabricError(error.message, hint=error.hint) from error


def _prepare(paths: StackPaths, name: ServiceName, config: Path, names: list[str]) -> tuple[Path, Account]:
    """Folder for what the part stores, and the account that it runs as and that owns the folder."""
    data = paths.data / name
    data.mkdir(parents=True, exist_ok=True)
    account = service_account(names, [data, config])
    account.own(data)
    return data, account


def _own(name: ServiceName, given: str, progress: Progress) -> ServiceRecord:
    url = given.rstrip("/")
    progress(f"asking {name.capitalize()} at {url}")
    if answer_of(url + _READY[name]) is None:
        raise FabricError(
            f"no {name.capitalize()} answers at {url}{_READY[name]}",
            hint="give the address that its web page has, with any path prefix",
        )
    return ServiceRecord(name=name, kind="own", url=url)
