"""From a number to a round on a live lab: the Scenario document of a training job under faults.

The lab is always the same, small and slow, so that a machine of two cores is in time.
"""

import random
from typing import Final

from mrc_testbed.soak.document import Values, plan_of
from mrc_testbed.soak.draw import COLLECTIVE_BYTES, RETRY_LIMIT, SoakFabric, draw_faults, leave_out
from mrc_testbed.soak.invariants import STALL_NS, Reach
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.units import parse_duration_ns
from mrc_testbed.workloads.collective_schedule import COLLECTIVE_KINDS

FABRIC: Final = SoakFabric(planes=2, t0=2, t1=4, hosts_per_t0=2, has_flow_control=False)
FAULTS_MS: Final = 3000
"""From time 0; all faults are within."""
RECOVERY_MS: Final = 5000
"""From the last fault to the end of the job, at least: a step takes a third of a second."""
_TOPOLOGY: Final[Values] = {
    "planes": FABRIC.planes,
    "t0": FABRIC.t0,
    "t1": FABRIC.t1,
    "hosts_per_t0": FABRIC.hosts_per_t0,
    "port_rate": "25Mbit",
    "nic": {"retry_limit": RETRY_LIMIT, "icrc": "on"},
}
LAB: Final = TopologySpec.model_validate(_TOPOLOGY)


def draw_round(seed: int) -> Values:
    """The Scenario document of that number."""
    draw = random.Random(seed)
    job: Values = {
        "name": "job",
        "kind": "training",
        "hosts": draw.sample(FABRIC.hosts, len(FABRIC.hosts)),
        "collective": draw.choice(COLLECTIVE_KINDS),
        "compute": draw.choice(["10ms", "50ms", "100ms"]),
        "size": f"{draw.choice([*COLLECTIVE_BYTES, 262144])}B",
        "warmup": "500ms",
        "duration": f"{FAULTS_MS + RECOVERY_MS}ms",
    }
    document: Values = {
        "apiVersion": "mrc-testbed/v1",
        "kind": "Scenario",
        "metadata": {"name": f"round-{seed}"},
        "spec": {
            "seed": seed,
            "topology": _TOPOLOGY,
            "transport": {"kind": "mrc"},
            "workloads": [job],
            "faults": [],
        },
    }
    spec = document["spec"]
    while not spec["faults"]:
        spec["faults"] = draw_faults(draw, FABRIC, FAULTS_MS, draw.randint(1, 5))
        for fault in spec["faults"]:
            if fault.pop("until", None):
                fault["for"] = f"{FAULTS_MS * 1000 - _us(fault['at'])}us"
        leave_out(document)
    spec["expect"] = _invariants(document)
    return document


def _invariants(document: Values) -> list[str]:
    """A collective that loses an agent ends by right: then memory and lab alone have to be in order."""
    plan, faults = plan_of(document), document["spec"]["faults"]
    reach = Reach(plan)
    if reach.killed:
        return ["wrong_bytes == 0"]
    last = max(faults, key=lambda fault: _us(fault["at"]) + _us(fault["for"]))
    found = ["wrong_bytes == 0", "qp_errors == 0", f"operations(job) after {last['id']} >= 1"]
    if all(reach.leaves_path(flow) for workload in plan.workloads for flow in workload.flows):
        found.append(f"interruption(job) <= {STALL_NS // 10**6}ms")
    return found


def _us(text: str) -> int:
    return parse_duration_ns(text) // 1000
