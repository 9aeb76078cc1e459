"""Files for a Prometheus, Alertmanager and Grafana of somebody else."""

import shutil
import subprocess
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from socket import gethostname

import pytest
import yaml
from dashboard_files import load_dashboards

from mrc_testbed.cli.app import run
from mrc_testbed.cli.observe_export import RULES_FILE, Export, prometheus_config, stack_files
from mrc_testbed.document.text_file import write_files
from mrc_testbed.observe.prometheus import OBJECTIVE_RECORD
from mrc_testbed.observe.stack_state import StackSettings

TARGET = "lab7:9847"


def export(**more: str) -> Export:
    return Export(StackSettings(p99_objective_ns=20_000_000), TARGET, **more)


def test_the_configuration_scrapes_the_target_loads_the_rules_and_sends_alerts() -> None:
    config = prometheus_config(export(alertmanager="am:9093"))
    assert config["scrape_configs"][0]["static_configs"] == [{"targets": [TARGET]}]
    assert config["rule_files"] == [RULES_FILE]
    assert config["alerting"] == {"alertmanagers": [{"static_configs": [{"targets": ["am:9093"]}]}]}
    (beside,) = prometheus_config(export())["alerting"]["alertmanagers"]
    assert beside == {"static_configs": [{"targets": ["127.0.0.1:9093"]}]}


def test_a_prometheus_reads_the_folder(tmp_path: Path) -> None:
    if shutil.which("promtool") is None:
        pytest.skip("promtool is not installed: mrc-testbed setup host --with-test-tools")
    files = {name: text.encode() for name, text in stack_files(export()).items()}
    write_files(tmp_path, files, replace=False)
    command = ["promtool", "check", "config", str(tmp_path / "prometheus.yml")]
    checked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "1 rule files found" in checked.stdout


def test_the_rules_have_the_objective_and_the_address_of_the_runbook() -> None:
    text = stack_files(export(runbook_url="https://docs/alerts/"))[RULES_FILE]
    rules = [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]
    assert {"record": OBJECTIVE_RECORD, "expr": "vector(0.02)"} in rules
    runbooks = {rule["alert"]: rule["annotations"]["runbook_url"] for rule in rules if "alert" in rule}
    assert runbooks == {alert: f"https://docs/alerts/#{alert.lower()}" for alert in runbooks}


def test_links_of_alerts_lead_to_the_exporter_and_to_the_grafana_that_is_named() -> None:
    rules = yaml.safe_load(stack_files(export())[RULES_FILE])["groups"][-1]["rules"]
    links = {rule["alert"]: rule["annotations"] for rule in rules}["MrcLinkDown"]
    assert links["runbook_url"] == f"http://{TARGET}/alerts/MrcLinkDown"
    assert links["dashboard_url"] == "http://lab7:9849/d/mrc-fabric?var-lab={{ $labels.lab }}"
    own = Export(StackSettings(grafana_url="https://stack/"), TARGET)
    named = replace(own, grafana_url="https://grafana/")
    assert "dashboard_url: https://stack/d/mrc-fabric" in stack_files(own)[RULES_FILE]
    assert "dashboard_url: https://grafana/d/mrc-fabric" in stack_files(named)[RULES_FILE]


def test_a_target_that_is_refused_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for target, said in ((TARGET, True), ("10.0.0.5:9847", False), (f"{gethostname()}:9847", False)):
        assert run(["observe", "export", str(tmp_path), "--target", target, "--force"]) == 0
        assert ("--known-as lab7" in " ".join(capsys.readouterr().err.split())) is said


def test_compose_mounts_files_that_are_there_where_the_programs_look() -> None:
    files = stack_files(export())
    services = yaml.safe_load(files["compose.yaml"])["services"]
    assert set(services) == {"prometheus", "alertmanager", "grafana"}
    inside = {}
    for service in services.values():
        assert service["network_mode"] == "host"
        for mount in service["volumes"]:
            outside, where, *_ = mount.split(":")
            if outside.startswith("./"):
                path = outside.removeprefix("./")
                assert any(name == path or name.startswith(f"{path}/") for name in files), mount
                inside[where] = path
    for name, program in (("prometheus", "prometheus.yml"), ("alertmanager", "alertmanager.yml")):
        (config,) = [word for word in services[name]["command"] if word.startswith("--config.file=")]
        assert inside[config.removeprefix("--config.file=")] == program
    assert inside[services["grafana"]["environment"]["GF_PATHS_PROVISIONING"]] == "grafana/provisioning"
    providers = yaml.safe_load(files["grafana/provisioning/dashboards/mrc-testbed.yaml"])["providers"]
    assert inside[providers[0]["options"]["path"]] == "grafana/dashboards"
    assert {Path(name).stem for name in files if "grafana/dashboards" in name} == set(load_dashboards())


def test_alertmanager_routes_to_a_receiver_that_it_has() -> None:
    config = yaml.safe_load(stack_files(export())["alertmanager.yml"])
    assert config["route"]["receiver"] in [receiver["name"] for receiver in config["receivers"]]


def test_a_dashboard_to_be_imported_asks_for_its_data_source() -> None:
    for dashboard in load_dashboards().values():
        (variable,) = [one for one in dashboard["templating"]["list"] if one["type"] == "datasource"]
        assert (variable["name"], variable["query"]) == ("datasource", "prometheus")
        assert not dashboard.get("id")


@pytest.mark.parametrize(
    ("address", "local", "is_local_only"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("10.1.2.3", "10.1.2.3", False),
        (str(IPv4Address(0)), "127.0.0.1", False),
        ("::", "[::1]", False),
        ("fd00::7", "[fd00::7]", False),
    ],
)
def test_an_address_is_known_by_what_this_machine_and_others_reach(
    address: str, local: str, is_local_only: bool
) -> None:
    settings = StackSettings(address=address)
    assert (settings.local_host, settings.is_local_only) == (local, is_local_only)
    assert settings.remote_host not in {str(IPv4Address(0)), "[::]"}
