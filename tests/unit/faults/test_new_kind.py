"""A kind of fault is one class: command line, schema, plan, rules of ports and metrics derive from it."""

import json
import subprocess
import sys
from pathlib import Path

from document_text import document

KIND = """
from typing import Literal

from pydantic import Field

from mrc_testbed.document.fields import Ratio
from mrc_testbed.faults import kinds
from mrc_testbed.faults.rule import FrameRule


class Moth(kinds.LinkFault):
    "A moth sits in a connector."

    kind: Literal["moth"]
    size: Ratio = Field(gt=0, description="Share of the connector that it covers.")

    def rule(self):
        return FrameRule(action="lose", ratio=self.size) if self.size < 1 else FrameRule(action="down")


Moth.__module__, kinds.Moth = kinds.__name__, Moth  # as if it stood in kinds.py
"""

SCENARIO = document("""\
Scenario {name: moth}
  workloads: [{name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, warmup: 1s, duration: 2s}]
  faults: [{id: m, kind: moth, at: 0s, for: 1s, select: {links: {plane: 1, node: h0}}, size: 50%}]
""")

COMMAND = "import sys; from mrc_testbed.cli.app import run; sys.exit(run(sys.argv[1:]))"

BY_HAND = """
import json
from mrc_testbed.faults.controller import event_of
from mrc_testbed.faults.interactive import parse_fault, plan_fault
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

for size in ("50%", "100%"):
    asked = parse_fault("moth", "h0:0", {"for": "5s", "size": size}, ())
    fault = plan_fault(asked, Clos(TopologySpec()), 7)
    rules = [(effect.port_id, effect.rule.action) for effect in fault.rules]
    record = event_of(fault, "applied", 1, 2).as_record()
    print(json.dumps([fault.fault_id, rules, record["is_losing"], record["is_outage"]]))
"""


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", KIND + program, *arguments]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_the_command_line_has_it_and_its_field() -> None:
    kinds = json.loads(run(COMMAND, "fault", "kinds", "-o", "json"))["kinds"]
    [moth] = [each for each in kinds if each["fault_kind"] == "moth"]
    assert moth["options"] == ["direction", "size"]
    assert "--size" in run(COMMAND, "fault", "add", "moth", "--help")


def test_the_schema_has_it_and_a_scenario_plans_it(tmp_path: Path) -> None:
    assert "Share of the connector" in run(COMMAND, "validate", "--schema", "scenario")
    file = tmp_path / "moth.yaml"
    file.write_text(SCENARIO)
    [fault] = json.loads(run(COMMAND, "run", "--dry-run", str(file), "-o", "json"))["plan"]["faults"]
    assert [effect["rule"]["action"] for effect in fault["effects"]] == ["lose", "lose"]


def test_its_rules_decide_what_metrics_count() -> None:
    lossy, down = map(json.loads, run(BY_HAND).splitlines())
    assert lossy == ["moth-1", [[0, "lose"], [1, "lose"]], True, False]
    assert down[1:] == [[[0, "down"], [1, "down"]], True, True]
