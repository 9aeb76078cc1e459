"""Grafana: its configuration, what it is provisioned with, and the command that runs it.

The same files serve a container and a local server: paths are the same in both.
"""

import os
import secrets
import shutil
from collections.abc import Sequence
from configparser import RawConfigParser
from pathlib import Path
from typing import Any, Final

import yaml

from mrc_testbed.installation import shipped
from mrc_testbed.observe.service import Service, account_for
from mrc_testbed.observe.stack_state import ServiceName, StackPaths, StackSettings

GRAFANA_VERSION: Final = "11.6.14"
"""The Grafana whose schema the dashboards have; a test holds what they are built and drawn by to it."""

IMAGE: Final = f"grafana/grafana:{GRAFANA_VERSION}"

HOME_PATHS: Final = ("/usr/share/grafana", "/usr/local/share/grafana")
SOURCE_UID: Final = "mrc-testbed-prometheus"
FOLDER_UID: Final = "mrc-testbed"
FOLDER_TITLE: Final = "MRC testbed"
DASHBOARDS: Final = "dashboards/json"
HOME_DASHBOARD: Final = "overview.json"
REFRESH: Final = "1s"


def service(paths: StackPaths, settings: StackSettings) -> Service:
    """Describe Grafana with data source and dashboards, and write its configuration; or the user's own."""
    name, url, ready = ServiceName.GRAFANA, settings.grafana_address, "/api/health"
    if settings.is_own(name):
        return Service(name=name, url=url, ready=ready, is_own=True)
    config = write_grafana_config(paths, settings)
    data = paths.data / name
    account = account_for(["grafana"], config.parent, data)
    os.chown(paths.password_file, account.uid, account.gid)
    return Service(
        name=name,
        url=url,
        ready=ready,
        wants="grafana-server",
        command=local_command(config),
        image=IMAGE,
        # of the image, which go before what grafana.ini says
        environment={
            "GF_PATHS_CONFIG": str(config),
            **{f"GF_PATHS_{key.upper()}": str(path) for key, path in _folders(data, config.parent).items()},
        },
        config=config.parent,
        data=data,
        account=account,
    )


def write_grafana_config(paths: StackPaths, settings: StackSettings) -> Path:
    """Write grafana.ini, provisioning files and a random admin password, once; return grafana.ini."""
    folder = paths.config(ServiceName.GRAFANA)
    provisioning = folder / "provisioning"
    for kind in ("datasources", "dashboards", "plugins", "alerting"):
        (provisioning / kind).mkdir(parents=True, exist_ok=True)
    _write_password(paths.password_file)
    dashboards = folder / "dashboards"  # a copy: Grafana's user may not be able to enter the clone
    shutil.copytree(shipped(DASHBOARDS), dashboards, dirs_exist_ok=True)
    for name, content in provisioning_files(settings.prometheus_address, str(dashboards)).items():
        (provisioning / name).write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    path = folder / "grafana.ini"
    config = RawConfigParser()
    config.read_dict(_settings(paths, settings))
    with path.open("w", encoding="utf-8") as stream:
        config.write(stream)
    return path


def data_source(prometheus_url: str) -> dict[str, object]:
    """The data source of the dashboards, as provisioning and the HTTP API want it."""
    return {
        "name": "mrc-testbed",
        "uid": SOURCE_UID,
        "type": "prometheus",
        "access": "proxy",
        "url": prometheus_url,
        "isDefault": False,
        # the interval sets how short a window of rate() may be
        "jsonData": {"timeInterval": REFRESH, "httpMethod": "POST", "manageAlerts": False},
    }


def provisioning_files(prometheus_url: str, folder: str) -> dict[str, dict[str, object]]:
    """Path below provisioning/ -> content: the data source, and the dashboards, which are in *folder*."""
    provider = {
        "name": "mrc-testbed",
        "type": "file",
        "folder": FOLDER_TITLE,
        "folderUid": FOLDER_UID,
        "disableDeletion": True,
        "allowUiUpdates": False,
        "options": {"path": folder},
    }
    sources = [{**data_source(prometheus_url), "editable": False}]
    return {
        "datasources/mrc-testbed.yaml": {"apiVersion": 1, "datasources": sources},
        "dashboards/mrc-testbed.yaml": {"apiVersion": 1, "providers": [provider]},
    }


def local_command(config: Path) -> Sequence[str]:
    """The installed Grafana with its arguments; empty where none is installed."""
    homes = (Path(path) for path in HOME_PATHS)
    home = next((path for path in homes if (path / "conf/defaults.ini").is_file()), None)
    if home is None:
        return ()
    arguments = [f"--config={config}", f"--homepath={home}"]
    for words in (["grafana-server"], ["grafana", "server"]):  # its former and its present name
        program = shutil.which(words[0])
        if program is not None:
            return [program, *words[1:], *arguments]
    return ()


def _folders(data: Path, config: Path) -> dict[str, Path]:
    """Folders of Grafana, the same in a container."""
    return {
        "data": data,
        "logs": data / "log",
        "plugins": data / "plugins",
        "provisioning": config / "provisioning",
    }


def _settings(paths: StackPaths, settings: StackSettings) -> dict[str, dict[str, Any]]:
    folder = paths.config(ServiceName.GRAFANA)
    return {
        "paths": _folders(paths.data / ServiceName.GRAFANA, folder),
        "server": {"http_addr": settings.address, "http_port": settings.grafana_port},
        "security": {
            "admin_user": "admin",
            "admin_password": f"$__file{{{paths.password_file}}}",
            "disable_gravatar": "true",
        },
        "auth.anonymous": {"enabled": "true", "org_role": "Viewer"},
        "users": {"allow_sign_up": "false"},
        "dashboards": {
            "min_refresh_interval": REFRESH,
            "default_home_dashboard_path": folder / "dashboards" / HOME_DASHBOARD,
        },
        # nothing that leaves this machine
        "analytics": {
            "reporting_enabled": "false",
            "check_for_updates": "false",
            "check_for_plugin_updates": "false",
            "feedback_links_enabled": "false",
        },
        "news": {"news_feed_enabled": "false"},
        "plugins": {"preinstall_disabled": "true", "plugin_admin_enabled": "false"},
        "unified_alerting": {"enabled": "false"},
        "log": {"mode": "console", "level": "warn"},
    }


def _write_password(path: Path) -> None:
    """Makes a password, readable by its owner only, unless there is one."""
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return
    with os.fdopen(descriptor, "w", encoding="ascii") as stream:
        stream.write(secrets.token_urlsafe(24))


def dashboard_texts() -> dict[str, str]:
    """File name -> content of the dashboards, as Grafana imports them by hand."""
    folder = shipped(DASHBOARDS)
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.json"))}
