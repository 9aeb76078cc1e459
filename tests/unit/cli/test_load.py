"""Load of fabrics, scenarios and benches beside what is assumed, and the one line that says it."""

import json
from pathlib import Path

import pytest

from mrc_testbed.scenario.spec.demand import Demand, fabric_demand, plan_demand
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

HEAD = "apiVersion: mrc-testbed/v1\nkind: Scenario\nmetadata: {name: ring}\nspec:\n"
RING = "kind: sendrecv, shift: 4, size: 64KiB"
BEYOND = (
    "up to 14.61 M frame hops/s; this machine is assumed to carry 600 k in time: a port_rate of 82Mbit fits, "
    "and with --virtual any"
)


def scenario(topology: str, workload: str = RING) -> str:
    return f"{HEAD}  topology: {{{topology}}}\n  workloads: [{{name: main, {workload}, duration: 1h}}]\n"


@pytest.mark.parametrize(
    ("topology", "workload", "frame_hops_per_s"),
    [
        ("", RING, 0),  # no port has a rate
        ("port_rate: 100Mbit", RING, 730_600),
        ("port_rate: 100Mbit", "kind: sendrecv, shift: 1, size: 64KiB", 913_242),
        ("port_rate: 1Gbit", "kind: write-lat, from: h0, to: h5, size: 2B", 838_900),  # one message at a time
    ],
)
def test_the_load_of_a_scenario(topology: str, workload: str, frame_hops_per_s: int) -> None:
    found = plan_demand(resolve(load_scenario(scenario(topology, workload)))).frame_hops_per_s
    assert found == pytest.approx(frame_hops_per_s, rel=0.01)


def test_the_load_of_a_fabric_is_that_of_all_hosts() -> None:
    topology = load_scenario(scenario("port_rate: 100Mbit")).topology
    assert fabric_demand(topology) == plan_demand(resolve(load_scenario(scenario("port_rate: 100Mbit"))))


def test_a_rate_that_fits_is_one_that_is_not_beyond() -> None:
    assert str(Demand(14.61e6, 2 * 10**9)) == BEYOND
    assert not Demand(14.61e6 * 82 / 2000, 82_000_000).is_beyond
    assert Demand(14.61e6 * 83 / 2000, 83_000_000).is_beyond
    assert str(Demand(6e5, 10**8)).endswith("; this machine is assumed to carry 600 k in time")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "ring.yaml", "--dry-run"), f"load: {BEYOND}\n"),
        (("up", "-t", "lab.yaml", "--dry-run"), f"load: {BEYOND}\n"),
        (("-q", "run", "ring.yaml", "--dry-run"), ""),
        (("run", "slow.yaml", "--dry-run"), "load: up to 183 k frame hops/s; this machine is assumed to "),
        (("run", "ring.yaml", "--virtual", "--dry-run"), "virtual time: up to "),
        (("campaign", "run", "rates.yaml", "--dry-run"), f"load: {BEYOND}\n"),
        (("validate", "ring.yaml", "--overload"), "--overload is not needed: no load is refused any more;"),
    ],
)
def test_a_command_says_its_load_in_one_line_and_goes_on(
    mrc_testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    fast = "port_rate: 2Gbit"
    Path("ring.yaml").write_text(scenario(fast))
    Path("slow.yaml").write_text(scenario("port_rate: 25Mbit").replace("ring", "slow"))
    Path("lab.yaml").write_text(
        f"apiVersion: mrc-testbed/v1\nkind: Topology\nmetadata: {{name: lab}}\nspec: {{{fast}}}\n"
    )
    Path("rates.yaml").write_text(
        "apiVersion: mrc-testbed/v1\nkind: Campaign\nmetadata: {name: rates}\nspec:\n"
        "  scenarios: [slow.yaml, ring.yaml]\n  seeds: [1]\n"
    )
    finished = mrc_testbed(*arguments)
    assert finished.status == 0
    assert finished.stderr.startswith(said)
    assert finished.stderr.count("\n") == (said != "")


def test_validate_warns_of_a_load_that_is_beyond_what_is_assumed(
    mrc_testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, rate in (("fast", "2Gbit"), ("slow", "25Mbit")):
        Path(f"{name}.yaml").write_text(scenario(f"port_rate: {rate}"))
    finished = mrc_testbed("validate", "fast.yaml", "slow.yaml", "-o", "json")
    assert [each["warning"] for each in json.loads(finished.stdout)["files"]] == [BEYOND, None]


def test_what_was_for_the_forecast_is_refused_with_what_judges_instead(mrc_testbed) -> None:
    finished = mrc_testbed("doctor", "--calibrate")
    assert finished.status == 2
    assert "each run is judged instead" in finished.stderr
