"""Topology files with given values, read as the commands read them."""

from collections.abc import Mapping

import yaml

from mrc_testbed.document.envelope import API_VERSION
from mrc_testbed.document.problem import Tree
from mrc_testbed.topology.resolve import load_topology
from mrc_testbed.topology.spec import TopologySpec


def load_values(values: Mapping[str, Tree]) -> TopologySpec:
    return load_topology(
        yaml.safe_dump(
            {"apiVersion": API_VERSION, "kind": "Topology", "metadata": {"name": "lab"}, "spec": dict(values)}
        )
    )
