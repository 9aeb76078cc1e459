"""A scenario whose only workload is a program, in the fabric and under the faults of another file."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import yaml

from mrc_testbed import document
from mrc_testbed.document import Kind
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.load import Scenario, build_scenario, load_scenario
from mrc_testbed.topology.resolve import load_topology

WORKLOAD: Final = "job"

DEFAULT_TOPOLOGY: Final = {
    "planes": 4,
    "t0": 2,
    "t1": 4,
    "hosts_per_t0": 4,
    "port_rate": "100Gbit",
    "link_delay": "500ns",
}
"""Virtual time needs ports with a rate: eight hosts with four ports of the published one."""


def program_scenario(path: Path | None, program: Mapping[str, Any]) -> Scenario:
    """The scenario.

    Args:
        path: a Topology file; or a Scenario file, whose fabric, transport and faults it gets; None: eight
            hosts with four ports of 100 Gbit/s.
        program: fields of its workload, as a file has them.
    """
    spec = {
        "topology": DEFAULT_TOPOLOGY,
        "workloads": [{"name": WORKLOAD, "kind": "program"} | dict(program)],
    }
    envelope = {"apiVersion": document.API_VERSION, "kind": str(Kind.SCENARIO)}
    metadata = {"name": "launch", "description": "A program with ranks."}
    own = load_scenario(yaml.safe_dump(envelope | {"metadata": metadata, "spec": spec}))
    if path is None:
        return own
    given = document.load(path)
    match given.kind:
        case Kind.TOPOLOGY:
            return replace(own, topology=load_topology(path))
        case Kind.SCENARIO:
            found = build_scenario(given)
            kept = ("transport", "faults", "fidelity", "seed")
            spec_of_both = own.spec.model_copy(update={name: getattr(found.spec, name) for name in kept})
            return replace(own, document=found.document, spec=spec_of_both, topology=found.topology)
    raise UsageError(f"{path} is a {given.kind} file: a Topology or a Scenario file is expected")
