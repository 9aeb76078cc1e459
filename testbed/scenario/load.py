"""From a Scenario file to its checked models; the Topology file it may name is read too."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed import document
from testbed.document import Document, Kind, Metadata, Problem
from testbed.errors import UsageError
from testbed.scenario.spec import ScenarioSpec
from testbed.topology.spec import TopologySpec


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as written, valid in itself.

    Attributes:
        document: the file, for messages with a line.
        metadata: its name and description.
        spec: what it says.
        topology: the fabric it is for, from the file itself or from the Topology file it names.
    """

    document: Document
    metadata: Metadata
    spec: ScenarioSpec
    topology: TopologySpec


def load_scenario(source: Path | str) -> Scenario:
    """The scenario in the file *source* (or, given as str, in that text).

    Raises:
        UsageError: lists everything that is wrong with the file, each with its line and key.
    """
    loaded = document.load(source, Kind.SCENARIO)
    spec = document.validate(loaded, ScenarioSpec)
    return Scenario(loaded, loaded.metadata, spec, _topology(loaded, spec))


def scenario_schema() -> dict[str, Any]:
    """JSON Schema of a Scenario file, for editors and for `mrc-testbed schema Scenario`."""
    return document.json_schema(Kind.SCENARIO, ScenarioSpec)


def _topology(loaded: Document, spec: ScenarioSpec) -> TopologySpec:
    if isinstance(spec.topology, TopologySpec):
        return spec.topology
    if loaded.path is None:
        raise loaded.usage_error(
            [
                Problem(
                    ("spec", "topology"), "a path needs a file to be relative to; write the topology itself"
                )
            ]
        )
    path = loaded.path.parent / spec.topology
    if not path.is_file():
        raise loaded.usage_error([Problem(("spec", "topology"), f"there is no Topology file at {path}")])
    try:
        return document.validate(document.load(path, Kind.TOPOLOGY), TopologySpec)
    except UsageError as error:
        raise UsageError(f"{error.message}\n{loaded.source}: this topology was named here") from error
