"""A runner that injects one fault and is killed while it acts; the lab's reaper takes the fault back."""

import json
import subprocess
import sys
from collections.abc import Mapping

from waiting import poll_until

from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.faults.ledger import Ledger

_RUNNER = """
import json, sys
from mrc_testbed.fabric import lab
from mrc_testbed.faults.interactive import parse_fault, plan_fault
from mrc_testbed.faults.interactive import FaultSession

name, kind, where, fields = sys.argv[1:]
with lab.attach(name) as attached:
    fault = parse_fault(kind, where, {"id": "f1", "until": "cleared", **json.loads(fields)}, ())
    action = plan_fault(fault, attached.clos, 1)
session = FaultSession(name)
session.apply(action)
print("applied", flush=True)
sys.stdin.read()
"""


def kill_a_runner_with(lab_name: str, kind: str, where: str, fields: Mapping[str, str | int]) -> None:
    """Returns when the fault of the dead runner is out of the ledger."""
    command = [sys.executable, "-c", _RUNNER, lab_name, kind, where, json.dumps(fields)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        assert runner.stdout.readline() == "applied\n"
        runner.kill()
    ledger = Ledger(lab_paths(lab_name).faults)
    poll_until(lambda: not ledger.entries(), what="the end of every fault")
