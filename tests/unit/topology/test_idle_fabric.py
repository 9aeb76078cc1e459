"""Idle RTTs kept by pairs of T0s are those of the slowest path, link by link."""

import random
from collections.abc import Iterator
from itertools import permutations

import pytest

from mrc_testbed.document.envelope import validate_values
from mrc_testbed.document.problem import Tree
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev import Ev
from mrc_testbed.topology.path import Path, build_path, check_route, explain_ev
from mrc_testbed.topology.port_selection import overriding_delays_ns, port_rates_bps
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.topology.timing import IdleFabric, serialisation_ns

SHAPE: dict[str, Tree] = {"planes": 2, "t0": 3, "t1": 2, "hosts_per_t0": 2, "uplinks_per_pair": 2}
DATA_BYTES, SACK_BYTES = 1000, 200
EVS_TRIED = 32
"""EVs of a plane where switches hash; there are 8 ways between two T0s."""
NIC_DELAY_NS = 30_000


def uneven_fabric(forwarding: str, seed: int) -> Clos:
    """A third of the links, drawn, have a delay of their own, and a third a rate at one end or both."""
    drawn = random.Random(seed)
    links = [link.name for link in Clos(validate_values(SHAPE, TopologySpec, "lab.yaml")).links()]
    slow, far = (drawn.sample(links, len(links) // 3) for _ in range(2))

    def rate_of(name: str, **where: Tree) -> Tree:
        return {"select": {"links": name}, "rate": f"{drawn.randint(5, 80)}Mbit", **where}

    values: dict[str, Tree] = {
        **SHAPE,
        "forwarding": forwarding,
        "port_rate": "100Mbit",
        "nic": {"delay": f"{NIC_DELAY_NS}ns"},
        "queue": {
            "overrides": [
                {"at": "t1", "rate": "90Mbit"},
                *(rate_of(name) for name in slow[::2]),
                *(rate_of(name.split("~")[1], at="t0") for name in slow[1::2]),
            ]
        },
        "link_delays": [{"select": {"links": name}, "delay": f"{drawn.randint(1, 900)}us"} for name in far],
    }
    return Clos(validate_values(values, TopologySpec, "lab.yaml"))


def paths(clos: Clos, source: int, destination: int) -> Iterator[Path]:
    for plane in range(clos.spec.planes):
        if clos.spec.forwarding == "ecmp":
            check_route(clos, source, destination, plane, 0)
            for copy in range(EVS_TRIED):
                yield explain_ev(clos, Ev(plane, 0, copy).value, source, destination)
            continue
        for uplink in range(clos.numbering.way_count(clos.distance(source, destination))):
            yield build_path(clos, source, destination, plane, uplink)


def rtt_ns(clos: Clos, path: Path) -> int:
    """RTT of a data packet on that path, and of its SACK over the same links."""
    rates_bps, delays_ns = port_rates_bps(clos), overriding_delays_ns(clos)
    total_ns = 0
    for hop in path.hops:
        if hop.egress is not None:
            there_bps, back_bps = rates_bps[hop.egress.id], rates_bps[hop.egress.peer_id]
            total_ns += serialisation_ns(DATA_BYTES, there_bps) + serialisation_ns(SACK_BYTES, back_bps)
            total_ns += 2 * delays_ns.get(hop.egress.link_id, clos.spec.link_delay)
            if hop.egress.link_id < clos.numbering.host_link_count:
                total_ns += 2 * NIC_DELAY_NS
    return total_ns


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("forwarding", ["srv6", "stev", "ecmp"])
def test_rtt_is_that_of_the_slowest_path(forwarding: str, seed: int) -> None:
    clos = uneven_fabric(forwarding, seed)
    idle = IdleFabric(clos, DATA_BYTES, SACK_BYTES)
    pairs = list(permutations(range(clos.numbering.host_count), 2))
    expected = {pair: max(rtt_ns(clos, path) for path in paths(clos, *pair)) for pair in pairs}
    assert {pair: idle.rtt_ns(*pair) for pair in pairs} == expected
    assert any(expected[a, b] != expected[b, a] for a, b in pairs)  # ends and directions are notified apart
