"""A scenario of one workload that was typed; its fabric is a lab's or a file's, its faults are the file's."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

import yaml

from mrc_testbed.document import envelope as document
from mrc_testbed.document.envelope import Document, Kind
from mrc_testbed.document.problem import Location, Problem, Tree
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.load import Scenario, build_scenario
from mrc_testbed.topology.resolve import load_topology
from mrc_testbed.topology.spec import TopologySpec

DEFAULT_TOPOLOGY: Final[Mapping[str, Tree]] = {
    "planes": 4,
    "t0": 2,
    "t1": 4,
    "hosts_per_t0": 4,
    "port_rate": "100Gbit",
    "link_delay": "500ns",
}
"""Virtual time needs ports with a rate: eight hosts with four ports of the published one."""

_KEPT: Final = ("seed", "transport", "faults", "fidelity")
_TYPED: Final[tuple[Location, ...]] = (("spec", "workloads", 0), ("spec", "transport"), ("spec",))


@dataclass(frozen=True, slots=True)
class CommandLine(Document):
    """A document whose workload was typed: messages name its options, not places in a file."""

    def usage_error(self, problems: Iterable[Problem]) -> UsageError:
        """One error listing *problems*."""
        return Document.usage_error(self, map(_as_typed, problems))


def one_workload_scenario(
    name: str,
    workload: Mapping[str, Tree],
    *,
    transport: Mapping[str, Tree] | None = None,
    topology: TopologySpec | Path | None = None,
    seed: int | None = None,
    sizes: Mapping[str, Tree] | None = None,
) -> Scenario:
    """The scenario; the text of its document is the file that it would be.

    Args:
        workload: fields, as a file has them.
        transport: likewise; None: the default, or that of a Scenario file.
        topology: of a lab that is up; or the path of a Topology file; or of a Scenario file, whose fabric and
            faults it gets; None: eight hosts with four ports of 100 Gbit/s.
        seed: None: the default, or that of a Scenario file.
        sizes: name of a variant -> its size in place of the workload's; None: there are no variants.
    """
    spec: dict[str, Tree] = {"topology": dict(DEFAULT_TOPOLOGY)}
    base = None
    if isinstance(topology, TopologySpec):
        spec = {"topology": _written(topology)}
    elif topology is not None:
        given = document.load(topology)
        match given.kind:
            case Kind.TOPOLOGY:
                spec = {"topology": _written(load_topology(topology))}
            case Kind.SCENARIO:
                base = build_scenario(given)
                written = cast("dict[str, Tree]", given.tree["spec"])
                spec = {key: written[key] for key in _KEPT if key in written}
                spec["topology"] = _written(base.topology)
            case kind:
                raise UsageError(f"{topology} is a {kind} file: a Topology or a Scenario file is expected")
    if transport is not None:
        spec["transport"] = dict(transport)
    if seed is not None:
        spec["seed"] = seed
    spec["workloads"] = [dict(workload)]
    if sizes is not None:
        key = f"workloads.{workload['name']}.size"
        spec["variants"] = {"size": {variant: {key: size} for variant, size in sizes.items()}}
    tree: dict[str, Tree] = {
        "apiVersion": document.API_VERSION,
        "kind": str(Kind.SCENARIO),
        "metadata": {"name": name},
        "spec": spec,
    }
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True)
    made = build_scenario(CommandLine("command line", None, text, Kind.SCENARIO, tree, {}))
    return made if base is None else replace(made, document=replace(base.document, text=text, tree=tree))


def _written(topology: TopologySpec) -> dict[str, Tree]:
    fields: dict[str, Tree] = topology.model_dump(mode="json", exclude_defaults=True)
    return fields


def _as_typed(problem: Problem) -> Problem:
    """*problem* at an option: of the workload, the transport or the fabric."""
    place = next((each for each in _TYPED if problem.location[: len(each)] == each), ())
    return replace(problem, location=problem.location[len(place) :])
