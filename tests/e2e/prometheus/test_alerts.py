"""Alerts of a live Prometheus: none under training, and the right ones when four things break in turn."""

import os
from collections.abc import Iterator

import pytest
from observed_lab import ObservedLab, observing

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow("alerts fire after seconds; test_scrape.py is the short one"),
    pytest.mark.ci,
]

LAB = f"alm{os.getpid()}"
TOPOLOGY = {"planes": 2, "t0": 2, "t1": 2, "hosts_per_t0": 4}
SWITCH = "p0-t1-1"
FLAPPING = "p1-t0-1:4~p1-t1-0:1"
DOWN = "h6:1~p1-t0-1:2"
RANK = "h5"
JOB = "pretraining"
NEW = "MrcLinkDown|MrcLinkFlapping|MrcSwitchSuspected"


@pytest.fixture(scope="module")
def training() -> Iterator[ObservedLab]:
    """Eight hosts train in a ring, two flows of which cross T1s."""
    with observing(LAB, topology=TOPOLOGY) as observed:
        job = {"name": JOB, "kind": "training", "size": "64KiB", "compute": "100ms", "duration": "600s"}
        scenario = observed.command.write_scenario("training", [job], [], "fixed", TOPOLOGY)
        with observed.command.running(scenario):
            chosen = f'lab="{LAB}",workload="{JOB}"'
            best = f"lab_workload:mrc_training_step_seconds:best10m{{{chosen}}}"
            observed.prometheus.wait_for(best, lambda step_s: step_s > 0)
            yield observed


@pytest.fixture(scope="module")
def broken(training: ObservedLab) -> ObservedLab:
    """A T1 swallows what it gets, a link flaps, another is down one way, a rank stands still."""
    for fault in (
        ("blackhole", "--node", SWITCH, "--until", "cleared"),
        ("link-flap", "--every", "500ms", "--down", "100ms", "--link", FLAPPING, "--until", "cleared"),
        ("link-down", "--direction", "a-to-b", "--link", DOWN, "--until", "cleared"),
        ("host-pause", "--node", RANK, "--for", "8s"),
    ):
        training.command.succeeds("fault", "add", *fault, "-n", LAB)
    return training


def test_no_alert_of_the_fabric_on_a_lab_without_faults(training: ObservedLab) -> None:
    alerts = f'ALERTS{{lab="{LAB}",alertname=~"{NEW}",alertstate="firing"}}'
    training.prometheus.wait_for(f"absent(max_over_time({alerts}[5m]))", lambda value: value == 1)


@pytest.mark.parametrize(
    ("alert", "labels"),
    [
        ("MrcSwitchSuspected", {"switch": SWITCH, "plane": "0"}),
        ("MrcLinkFlapping", {"link": FLAPPING, "plane": "1"}),
        ("MrcLinkDown", {"link": DOWN, "plane": "1"}),
        ("MrcStepTimeRegressed", {"workload": JOB, "scenario": "training"}),
    ],
)
def test_an_alert_fires_and_names_what_is_broken(
    broken: ObservedLab, alert: str, labels: dict[str, str]
) -> None:
    wanted = {"lab": LAB, "alertname": alert, "alertstate": "firing", **labels}
    chosen = ",".join(f'{name}="{value}"' for name, value in wanted.items())
    broken.prometheus.wait_for(f"max_over_time(ALERTS{{{chosen}}}[5m])", lambda value: value == 1)


def test_the_command_shows_what_fires_with_its_labels(broken: ObservedLab) -> None:
    said = broken.command.succeeds("observe", "alerts", "--wait", "MrcLinkDown")
    words = [set(line.split()) for line in said.splitlines() if line.startswith("MrcLinkDown")]
    # A scrape may meet the flapping link while it is down: then that one stands there too, pending.
    assert any({"firing", f"lab={LAB}", f"link={DOWN}", "plane=1"} <= line for line in words)
