"""Fabrics whose links lose a known share of what crosses them, and what their probes then say."""

from collections.abc import Mapping
from random import Random

from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.probe_path import PathOutcome, ProbePath, probe_paths
from mrc_testbed.topology.spec import TopologySpec


def fabric(**changes: object) -> Clos:
    """A small fabric, with *changes*."""
    of_two_tiers = {} if "tiers" in changes else {"t0": 2, "t1": 2, "hosts_per_t0": 2}
    return Clos(TopologySpec.model_validate({"planes": 2, **of_two_tiers, **changes}))


def all_paths(clos: Clos) -> list[ProbePath]:
    return [path for host in clos.hosts() for path in probe_paths(clos, host.index)]


def outcomes(
    clos: Clos, losses: Mapping[int, float], probes: int = 200, seed: int | None = None
) -> list[PathOutcome]:
    """The outcome of *probes* on every path when links lose these shares, by link id, of what crosses them.

    Without a seed the counts are the expected ones, rounded; with one they are drawn.
    """
    random = Random(seed)
    found = []
    for path in all_paths(clos):
        passing = 1.0
        for link in path.links:
            passing *= (1 - losses.get(link, 0.0)) ** 2  # there and back
        if seed is None:
            passed = round(probes * passing)
        else:
            passed = sum(random.random() < passing for _ in range(probes))
        found.append(PathOutcome(path, passed, probes - passed))
    return found
