"""The guide to lossless fabrics names what there is: fabrics, scenarios, metrics, quantities."""

import re

from mrc_agents.abi import PortKind
from mrc_testbed.document.envelope import Kind, load, validate
from mrc_testbed.installation import ROOT
from mrc_testbed.metrics.catalogue import METRICS
from mrc_testbed.scenario.spec.expression import parse_quantity
from mrc_testbed.scenario.spec.load import load_scenario
from mrc_testbed.scenario.spec.resolve import resolve
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.port_queue import port_queues
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.reliable_connection import choose_rc_congestion

GUIDE = (ROOT / "docs/guide/lossless.md").read_text()
WATCH = GUIDE.partition("## What to watch")[2].partition("## ")[0]


def test_the_topology_is_one_that_is_accepted() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    spec = validate(load(text, Kind.TOPOLOGY), TopologySpec)
    assert (spec.flow_control, spec.uplink_choice) == ("credits", "adaptive")


def test_the_changes_that_make_it_a_fabric_of_rocev2_are_accepted() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", GUIDE, re.DOTALL)
    (marks,) = re.findall(r"`(queue: {ecn: {enabled: true, last_hop: true}})`", GUIDE)
    text = text.replace("uplink_choice: adaptive", "uplink_choice: hash")
    text = text.replace("flow_control: credits", f"flow_control: pfc\n  {marks}")
    fabric = Clos(validate(load(text, Kind.TOPOLOGY), TopologySpec))
    last_hop = next(port for port in fabric.ports() if port.kind is PortKind.T0_DOWN)
    assert port_queues(fabric)[last_hop.id].ecn_max_bytes > 0
    assert choose_rc_congestion(fabric, "rocev2").algorithm == "dcqcn"


def test_every_ready_scenario_of_such_a_fabric_is_listed() -> None:
    listed = set(re.findall(r"\(\.\./\.\./(scenarios/[\w-]+\.yaml)\)", GUIDE))
    topologies = {
        str(path.relative_to(ROOT)): resolve(load_scenario(path)).topology
        for path in (ROOT / "scenarios").glob("*.yaml")
    }
    assert listed == {
        name
        for name, spec in topologies.items()
        if spec.flow_control != "none" or spec.uplink_choice == "adaptive"
    }


def test_every_metric_and_quantity_to_watch_exists() -> None:
    rows = [row.split("|") for row in WATCH.splitlines() if row.startswith("| ")][1:]
    metrics, quantities = ("".join(row[column] for row in rows) for column in (3, 4))
    named = re.findall(r"`(mrc_\w+)", metrics)
    assert set(named) <= {metric.name for metric in METRICS}
    assert len(named) == 8
    for quantity in re.findall(r"`(\w+)`", quantities):
        parse_quantity(f"{quantity}(main)" if quantity in ("goodput", "fairness") else quantity)


def test_every_value_of_the_keys_is_in_the_table() -> None:
    for key in ("flow_control", "forwarding", "uplink_choice"):
        values = TopologySpec.model_json_schema()["properties"][key]["enum"]
        start = GUIDE.index(f"| `{key}` |")
        rows = GUIDE[start:].splitlines()
        assert [re.findall(r"`(\w+)`", row.split("|")[2])[0] for row in rows[: len(values)]] == values
