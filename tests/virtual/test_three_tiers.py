"""Three tiers carry every transport through faults above the T1s; `check` names what is broken there."""

import json
from pathlib import Path
from typing import Any

import pytest
from document_text import document
from runs import run

from mrc_testbed.cli import app
from mrc_testbed.scenario.measure.verdict import Status
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve

SCENARIO = document("""\
Scenario {name: three-tiers}
  topology:
    planes: 2
    tiers: [{joins: 2}, {joins: 2, switches: 2, links: 2}, {joins: 2, switches: 2}]
    port_rate: 10Gbit
    link_delay: 1us
    FABRIC
  transport: {kind: TRANSPORT}
  workloads:
    - {name: main, kind: permutation, size: 64KiB, duration: 4ms}
    - {name: ring, kind: all-reduce, hosts: [h0, h4, h1, h5, h2, h6, h3, h7], size: 64KiB, duration: 4ms}
  faults:
    - {id: t2, at: 500us, for: 500us, kind: switch-down, select: {nodes: {tier: t2}}}
    - {id: pod, at: 1500us, for: 1ms, kind: loss, ratio: 5%, select: {links: {between: [t1, t2], pod: 1}}}
    - {id: up, at: 3ms, for: 500us, kind: link-flap, every: 200us, down: 60us,
       select: {links: {pod: 0, between: [t0, t1]}}}
  expect:
    - fault_drops during t2 > 0
    - fault_drops during pod > 0
    - fault_drops during up > 0
    - wrong_bytes == 0
    - qp_errors == 0
""")


@pytest.mark.parametrize(
    ("transport", "fabric"),
    [
        ("mrc", ""),
        ("mrc", "forwarding: ecmp"),
        ("rocev2", "forwarding: ecmp"),
        ("rocev2", "{forwarding: ecmp, flow_control: pfc}"),
        ("infiniband", "{forwarding: ecmp, flow_control: credits, uplink_choice: adaptive}"),
        ("spray-gbn", ""),
    ],
)
def test_every_transport_bears_faults_at_each_tier(transport: str, fabric: str, tmp_path: Path) -> None:
    file, keys = tmp_path / "three-tiers.yaml", fabric.strip("{}").replace(", ", "\n    ")
    file.write_text(SCENARIO.replace("FABRIC", keys).replace("TRANSPORT", transport))
    result = run(resolve(load_scenario(file)), tmp_path).result
    assert result.verdict.status is Status.PASSED, result.verdict.reason


def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], *faults: dict[str, Any]) -> tuple[int, Any]:
    tiers = [{"joins": 2}, {"joins": 2, "switches": 2}, {"joins": 2}]
    rates = {"port_rate": "100Gbit", "link_delay": "500ns"}
    flow = {"name": "main", "kind": "write-bw", "from": "h0", "to": "h7", "size": "64KiB", "duration": "1ms"}
    spec = {"topology": {"planes": 1, "tiers": tiers, **rates}, "workloads": [flow], "faults": faults}
    file = tmp_path / "lab.yaml"
    head = {"apiVersion": "mrc-testbed/v1", "kind": "Scenario", "metadata": {"name": "lab"}}
    file.write_text(json.dumps({**head, "spec": spec}))
    options = ["--size", "16KiB", "--repetitions", "8", "-t", str(file), "-o", "json"]
    status = app.run(["check", "--virtual", *options])
    return status, json.loads(capsys.readouterr().out)


def test_pairs_at_every_distance_are_healthy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status, found = check(tmp_path, capsys)
    assert (status, found["findings"]) == (0, [])
    assert len(found["paths"]) == found["path_count"] == 8 * 1 + 16 * 2 + 32 * 2
    assert {path["over"] for path in found["paths"]} >= {"p0-t0-3", "p0-t1-2", "p0-t2-1"}


@pytest.mark.parametrize("select", [{"links": "p0-t1-0:2"}, {"nodes": "p0-t2-1"}])
def test_what_is_broken_above_the_t1s_is_named(
    select: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = "link-down" if "links" in select else "blackhole"
    fault = {"id": "f", "at": "0ms", "kind": kind, "until": "cleared", "select": select}
    status, found = check(tmp_path, capsys, fault)
    (suspected,) = (each for each in found["findings"] if each["kind"] == "suspect")
    assert status == 4
    assert select["links" if "links" in select else "nodes"] in str(suspected["names"])
