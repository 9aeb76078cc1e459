"""From a Scenario file to its checked models; the Topology file it may name is read too."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mrc_agents.algorithms import CC, names_of
from mrc_testbed.document import envelope as document
from mrc_testbed.document.envelope import Document, Kind, Metadata
from mrc_testbed.document.problem import Problem
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.scenario_spec import ScenarioSpec, TransportSpec
from mrc_testbed.scenario.spec.variant import Variant, variants_of
from mrc_testbed.scenario.spec.variation import vary
from mrc_testbed.topology.resolve import load_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.workloads.spec import TraceSpec, Workload


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario as written, valid in itself."""

    document: Document  # the file, for messages with a line
    metadata: Metadata  # its name and description
    spec: ScenarioSpec  # what it says
    topology: TopologySpec  # the fabric it is for, from the file itself or from the Topology file it names
    variant: Variant | None = None  # which of its variants it is; None for the file as it stands


def load_scenario(source: Path | str) -> Scenario:
    """The scenario in the file *source* (or, given as str, in that text)."""
    return build_scenario(document.load(source, Kind.SCENARIO))


def build_scenario(loaded: Document) -> Scenario:
    """The scenario that a Scenario document is."""
    spec = document.validate(loaded, ScenarioSpec)
    if loaded.path is not None:
        rooted = [_rooted(each, loaded.path.absolute().parent) for each in spec.workloads]
        spec = spec.model_copy(update={"workloads": rooted})
    topology = _with_algorithms(_topology(loaded, spec), spec.transport)
    return Scenario(loaded, loaded.metadata, spec, topology)


def scenario_variants(scenario: Scenario) -> tuple[Scenario, ...]:
    """Each variant of *scenario* as a scenario, in the order of the file; *scenario* alone if it has none."""
    variants = []
    for variant in variants_of(scenario.spec.variants):
        try:
            varied = build_scenario(vary(scenario.document, variant.changes))
        except UsageError as error:
            raise UsageError(f"variant {variant.name}: {error.message}", hint=error.hint) from error
        variants.append(replace(varied, variant=variant))
    return tuple(variants) or (scenario,)


def scenario_schema() -> dict[str, Any]:
    """JSON Schema of a Scenario file, for editors and for `mrc-testbed validate --schema Scenario`."""
    return document.json_schema(Kind.SCENARIO, ScenarioSpec)


def _with_algorithms(topology: TopologySpec, transport: TransportSpec) -> TopologySpec:
    """*topology*, its NICs with what the scenario's transport asks for."""
    if transport.kind != "mrc":
        return topology
    asked = {"cc": transport.cc} if transport.cc in names_of(CC) else {}
    if transport.ev_selector is not None:
        asked["ev_selector"] = transport.ev_selector
    return topology.model_copy(update={"nic": topology.nic.model_copy(update=asked)})


def _rooted(workload: Workload, folder: Path) -> Workload:
    """*workload*, the files of a trace from the folder of its scenario file."""
    if not isinstance(workload, TraceSpec):
        return workload
    return workload.model_copy(update={"files": str(folder / workload.files)})


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
        return load_topology(path)
    except UsageError as error:
        raise UsageError(f"{error.message}\n{loaded.source}: this topology was named here") from error
