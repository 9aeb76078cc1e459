"""A wheel without a clone: verdicts in virtual time for any user, a lab for root."""

import json
import subprocess
from pathlib import Path

import pytest
from document_text import document
from rdma_program import LIBMRC_EXAMPLES, build
from wheel_program import Installed, pip_of

pytestmark = [pytest.mark.root, pytest.mark.slow("installs packages from the index"), pytest.mark.ci]

CAMPAIGN = document("""\
Campaign {name: seeds}
{scenarios: [scenarios/t0-t1-flap.yaml], seeds: [1, 2]}
""")


def test_a_user_gets_a_verdict_in_virtual_time(installed: Installed) -> None:
    report = json.loads(installed.done("demo", "--virtual", "-o", "json"))
    assert report["manifest"]["status"] == "passed"
    assert "report.html" in {path.name for path in Path(report["folder"]).iterdir()}


def test_root_gets_a_verdict_of_a_lab(installed: Installed) -> None:
    ran = installed.run("demo", "--runtime", "netns", "-o", "json", user=0)
    verdict = json.loads(ran.stdout)["manifest"]["status"]
    assert (verdict, ran.returncode) in {("passed", 0), ("untrusted", 7)}  # the machine may be busy


def test_a_ready_scenario_runs_by_name(installed: Installed) -> None:
    assert "paper/t1-gray" in installed.done("scenarios", "list")
    assert "t1-gray  PASSED" in installed.done("run", "paper/t1-gray", "--virtual")


def test_a_campaign_of_a_copy_and_the_report_of_its_bundle(installed: Installed) -> None:
    installed.done("scenarios", "copy", "t0-t1-flap")
    (installed.home / "campaign.yaml").write_text(CAMPAIGN)
    installed.done("campaign", "run", "campaign.yaml", "--virtual", "--jobs", "2")
    installed.done("bundle", "campaigns/seeds/latest")
    bundle = next(installed.home.glob("*.tar.zst"))
    assert "2 passed" in installed.done("report", bundle.name)


def test_doctor_names_the_command_for_root_and_no_clone(installed: Installed) -> None:
    checks = json.loads(installed.run("doctor", "-o", "json").stdout)["checks"]
    by_name = {check["what"]: check for check in checks}
    assert by_name["BPF objects"]["met"]
    assert by_name["virtual time (--virtual, without root)"]["met"]
    assert by_name["root privileges"]["fix"] == f"run it as root: sudo {installed.program} ..."
    assert not any("make" in (check["fix"] or "").split() for check in checks)


def test_a_command_that_lacks_an_extra_names_it(installed: Installed) -> None:
    refused = installed.run("setup", "host", user=0)
    assert refused.returncode == 3
    assert (
        "error: the Python package ansible_runner is missing; it comes with mrc-testbed[lab]\n"
        in refused.stderr
    )


def test_two_packages_are_imported(environment: Path) -> None:
    site = next(environment.glob("lib/python3*/site-packages"))
    top = next(site.glob("mrc_testbed-*.dist-info/RECORD")).read_text().splitlines()
    folders = {line.partition("/")[0] for line in top if not line.startswith("..")}
    assert {folder for folder in folders if not folder.endswith(".dist-info")} == {
        "mrc_agents",
        "mrc_testbed",
    }


def test_the_page_of_alerts_comes_along(environment: Path) -> None:
    [shipped] = environment.glob("lib/python3*/site-packages/mrc_testbed/_shipped")
    assert "## MrcLinkDown" in (shipped / "docs" / "guide" / "alerts.md").read_text()


def test_an_algorithm_of_ones_own_needs_a_clone(installed: Installed) -> None:
    installed.done("scenarios", "copy", "t0-t1-flap")
    scenario = installed.home / "scenarios" / "t0-t1-flap.yaml"
    scenario.write_text(scenario.read_text().replace("cc: fixed", "cc: mine"))
    refused = installed.run("validate", str(scenario))
    assert refused.returncode == 2
    assert "those of your own need a clone" in refused.stdout + refused.stderr


def test_pip_refuses_it_for_another_libc_or_machine(wheel: Path, environment: Path, tmp_path: Path) -> None:
    for platform in ("musllinux_1_2_x86_64", "manylinux2014_x86_64", "manylinux_2_36_aarch64"):
        refused = _ask_pip(environment, wheel, tmp_path, platform)
        assert refused.returncode == 1
        assert f"{wheel.name} is not a supported wheel on this platform" in refused.stderr
    assert _ask_pip(environment, wheel, tmp_path, wheel.stem.rpartition("-")[2]).returncode == 0


def _ask_pip(environment: Path, wheel: Path, into: Path, platform: str) -> subprocess.CompletedProcess[str]:
    options = ["--dry-run", "--no-deps", "--only-binary", ":all:", "--platform", platform]
    command: list[str | Path] = [*pip_of(environment), "install", *options, "--target", into, wheel]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_program_of_libmrc_is_built_against_the_package(environment: Path, tmp_path: Path) -> None:
    package = next(environment.glob("lib/python3*/site-packages/mrc_agents"))
    library = (f"-I{package}/include", str(package / "_objects/lib_mrc.so"), "-libverbs")
    assert build(LIBMRC_EXAMPLES / "drain.c", tmp_path, *library).exists()
