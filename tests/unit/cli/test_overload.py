"""Rates that the machine cannot carry are refused before anything changes; --overload insists."""

import json

import pytest

from mrc_testbed.fabric import lab
from mrc_testbed.metrics.capacity import Capacity, keep_capacity, this_machine

SCENARIO = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: ring}
spec:
  topology:
    port_rate: 2Gbit
  workloads:
    - {name: main, kind: sendrecv, shift: 4, size: 64KiB, duration: 2s}
  expect: [wrong_bytes == 0]
"""
VARIANTS = f"""\
{SCENARIO}\
  variants:
    rate: {{slow: {{topology.port_rate: 25Mbit}}, fast: {{}}}}
"""
TOPOLOGY = """\
apiVersion: mrc-testbed/v1
kind: Topology
metadata: {name: lab}
spec:
  port_rate: 40Gbit
"""
CAMPAIGN = """\
apiVersion: mrc-testbed/v1
kind: Campaign
metadata: {name: rates}
spec:
  scenarios:
    - ring.yaml
  matrix: {topology.port_rate: [25Mbit, 2Gbit, 4Gbit]}
"""
RING_REFUSED = (
    "ring.yaml:6: spec.topology.port_rate: this scenario's workloads, with ports of 2Gbit, can need 14.61 M "
    "frame hops/s, and this machine carries 2.00 M at most (assumed; doctor --calibrate measures it); lower "
    "port_rate to 82Mbit, use fewer hosts, or insist with --overload"
)
LAB_REFUSED = (
    "lab.yaml:5: spec.port_rate: even two hosts with ports of 40Gbit can need 36.53 M frame hops/s, and this "
    "machine carries 2.00 M at most (assumed; doctor --calibrate measures it); lower port_rate to 82Mbit, or "
    "insist with --overload"
)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """The files, in the folder that commands are called in; root, but no lab can be made."""
    for name, text in {
        "ring.yaml": SCENARIO,
        "variants.yaml": VARIANTS,
        "lab.yaml": TOPOLOGY,
        "rates.yaml": CAMPAIGN,
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("os.geteuid", lambda: 0)

    def no_lab(*_arguments, **_options):
        raise AssertionError("a lab is made")

    monkeypatch.setattr(lab, "up", no_lab)
    return tmp_path


def measured(*, most):
    capacity = Capacity(this_machine(), "2026-11-21T19:00:00+00:00", 500_000.0, most, 300_000.0)
    return keep_capacity(capacity)


@pytest.mark.parametrize(
    ("arguments", "refused"),
    [
        (("run", "ring.yaml"), RING_REFUSED),
        (("run", "ring.yaml", "--dry-run"), RING_REFUSED),
        (("run", "variants.yaml"), f"variant fast: {RING_REFUSED.replace('ring', 'variants', 1)}"),
        (("up", "-t", "lab.yaml"), LAB_REFUSED),
        (("up", "-t", "lab.yaml", "--dry-run"), LAB_REFUSED),
    ],
)
def test_it_is_refused_with_what_is_asked_what_is_carried_and_what_to_do(
    mrc_testbed, files, arguments, refused
):
    before = sorted(files.rglob("*"))
    finished = mrc_testbed(*arguments)
    assert finished.status == 2
    assert finished.stderr == f"error: {refused}\n"
    assert finished.stdout == ""
    assert sorted(files.rglob("*")) == before


def test_a_campaign_is_refused_with_every_combination_that_is_too_much(mrc_testbed, files):
    before = sorted(files.rglob("*"))
    finished = mrc_testbed("campaign", "run", "rates.yaml")
    assert finished.status == 2
    first, second = finished.stderr.splitlines()
    place = "rates.yaml:6: spec.scenarios[0]: with topology.port_rate="
    assert first == f"error: {place}2Gbit: {RING_REFUSED}"
    assert second.startswith(f"{place}4Gbit: ring.yaml:6: spec.topology.port_rate: this scenario's workloads")
    assert sorted(files.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("ring.yaml", RING_REFUSED),
        ("lab.yaml", LAB_REFUSED),
        ("rates.yaml", "with topology.port_rate=4Gbit: ring.yaml:6"),
    ],
)
def test_validate_reports_it_as_what_is_wrong(mrc_testbed, files, name, refused):
    finished = mrc_testbed("validate", name, "-o", "json")
    assert finished.status == 2
    [found] = json.loads(finished.stdout)["files"]
    assert not found["valid"]
    assert refused in found["problem"]
    insisted = mrc_testbed("validate", name, "--overload", "-o", "json")
    assert insisted.status == 0
    [found] = json.loads(insisted.stdout)["files"]
    assert found["valid"]
    assert "2.00 M at most" in found["warning"]


@pytest.mark.parametrize(
    ("arguments", "warning"),
    [
        (("run", "ring.yaml"), "warning: ring: this scenario's workloads, with ports of 2Gbit, can"),
        (("run", "variants.yaml"), "warning: ring fast: this scenario's workloads, with ports of 2Gbit, can"),
        (("up", "-t", "lab.yaml"), "warning: lab.yaml: even two hosts with ports of 40Gbit can"),
        (("campaign", "run", "rates.yaml"), "warning: ring: this scenario's workloads, with ports of 2Gbit,"),
    ],
)
def test_who_insists_is_warned(mrc_testbed, files, arguments, warning):
    finished = mrc_testbed(*arguments, "--overload", "--dry-run")
    assert finished.status == 0
    assert finished.stderr.startswith(warning)
    assert "--overload" not in finished.stderr


def test_one_may_insist_by_the_environment_too(mrc_testbed, files, monkeypatch):
    monkeypatch.setenv("MRC_TESTBED_OVERLOAD", "1")
    assert mrc_testbed("run", "ring.yaml", "--dry-run").status == 0


def test_a_warning_of_many_runs_is_given_once(mrc_testbed, files):
    (files / "rates.yaml").write_text(f"{CAMPAIGN}  seeds: [1, 2, 3]\n")
    finished = mrc_testbed("campaign", "run", "rates.yaml", "--overload", "--dry-run")
    assert finished.stderr.count("warning: ring and 2 more runs: ") == len(finished.stderr.splitlines()) == 2


def test_what_was_measured_decides(mrc_testbed, files):
    path = measured(most=15_000_000.0)
    finished = mrc_testbed("run", "ring.yaml", "--dry-run")
    assert finished.status == 0
    assert "this machine carries about 500 k (measured 2026-11-21)" in finished.stderr
    measured(most=14_000_000.0)
    finished = mrc_testbed("run", "ring.yaml")
    assert finished.status == 2
    assert "this machine carries 14.00 M at most (measured 2026-11-21)" in finished.stderr
    path.unlink()
    assert "assumed" in mrc_testbed("run", "ring.yaml").stderr


def test_what_an_older_version_measured_refuses_nothing_and_is_notified_of_once(mrc_testbed, files):
    path = measured(most=1_000.0)
    kept = json.loads(path.read_text())
    del kept["format"]
    path.write_text(json.dumps(kept))
    for name in ("slow", "slower"):
        (files / f"{name}.yaml").write_text(TOPOLOGY.replace("40Gbit", "10Mbit"))
    finished = mrc_testbed("validate", "slow.yaml", "slower.yaml")
    assert finished.status == 0
    reported = " ".join(finished.stderr.split())  # a log line is wrapped
    assert reported.count("is passed over: its format is 1") == 1
    assert reported.count("--calibrate recalibrates") == 1
    (files / "unshaped.yaml").write_text(TOPOLOGY.replace("port_rate: 40Gbit", "planes: 2"))
    assert mrc_testbed("validate", "unshaped.yaml").stderr == ""


def test_a_topology_that_a_scenario_names_is_refused_where_it_is_named(mrc_testbed, files):
    (files / "named.yaml").write_text(
        SCENARIO.replace("topology:\n    port_rate: 2Gbit", "topology: lab.yaml")
    )
    finished = mrc_testbed("run", "named.yaml")
    assert finished.status == 2
    assert finished.stderr.startswith("error: named.yaml:5: spec.topology: this scenario's workloads, with")
