"""Drawn gray faults for link probes to find: how many are named, named with an "or", missed, named wrongly.

Each has a fabric of 1 to 4 planes with 2 to 4 T0s and T1s, and loses 0.5 to 20 % of its packets: at one link,
at one direction of one, at all links of a T1 or of a T0, or at a NIC port. As many quiet labs have no fault.
The diagnosis is that of `probe links` and `check`, which see nothing but the probes.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from random import Random

from benchmarks.figure import Figure
from benchmarks.transfer import live_lab
from mrc_agents.abi import VirtualPayload
from mrc_testbed.check.measuring import Site
from mrc_testbed.cli.check import LiveSite
from mrc_testbed.faults.controller import FaultController
from mrc_testbed.faults.interactive import LabFaults, parse_fault, plan_fault
from mrc_testbed.probing.localisation import Part, localise
from mrc_testbed.scenario.spec.plan import PlannedTransport
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.congestion import choose_congestion_control
from mrc_testbed.virtual.check_site import VirtualSite
from mrc_testbed.virtual.lab import virtual_lab
from mrc_testbed.virtual.world import VirtualFaults

FAULTS = 100
LIVE_FAULTS = 10
KINDS = ("link", "direction", "T1", "T0", "NIC port")
VERDICTS = ("named", "named with an or", "missed", "named wrongly")


@dataclass(frozen=True, slots=True)
class Drawn:
    """A lab and the fault that it has."""

    spec: TopologySpec
    kind: str  # one of KINDS
    part: str  # name of the link or switch that loses packets
    select: str  # the same, as `fault add` takes it
    direction: str
    ratio: float  # of the packets that are lost

    def add(self, controller: FaultController, clos: Clos, seed: int) -> None:
        """Put the fault in force."""
        fields = {"until": "cleared", "ratio": f"{self.ratio:.2%}", "direction": self.direction}
        controller.apply(plan_fault(parse_fault("loss", self.select, fields, ()), clos, seed))

    def verdict(self, parts: tuple[Part, ...]) -> str:
        """The verdict on what was named: one of VERDICTS."""
        if not parts:
            return "missed"
        if len(parts) > 1 or self.part not in parts[0].names:
            return "named wrongly"
        return "named" if parts[0].names == (self.part,) else "named with an or"


def draw(seed: int) -> Drawn:
    """The lab and the fault of a seed."""
    random = Random(seed)
    spec = TopologySpec(
        planes=random.choice((1, 2, 4)),
        t0=random.choice((2, 3, 4)),
        t1=random.choice((2, 4)),
        hosts_per_t0=random.choice((2, 4)),
        port_rate=100_000_000,
    )
    clos, kind = resolve_topology(spec), KINDS[seed % len(KINDS)]
    ratio, direction = 0.005 * 40 ** random.random(), random.choice(("a-to-b", "b-to-a"))
    if kind in {"T0", "T1"}:
        node = random.choice([each for each in clos.switches() if each.tier.value == kind.lower()])
        return Drawn(spec, kind, node.name, f"{node.name}:*", "both", ratio)
    link = random.choice([each for each in clos.links() if each.is_host_link == (kind == "NIC port")])
    return Drawn(spec, kind, link.name, link.name, direction if kind == "direction" else "both", ratio)


def diagnosed(site: Site) -> tuple[Part, ...]:
    """The parts that probes of all hosts name."""
    return localise(site.clos, site.probe_links(range(site.clos.numbering.host_count))).parts


def virtual_parts(drawn: Drawn, seed: int, *, is_quiet: bool) -> tuple[Part, ...]:
    """The parts that are named in virtual time."""
    clos = resolve_topology(drawn.spec)
    transport = PlannedTransport("mrc", drawn.spec.evs, choose_congestion_control(clos))
    with (
        virtual_lab(clos, seed=seed, payload=VirtualPayload.REFERENCE) as lab,
        closing(VirtualFaults(lab)) as controller,
    ):
        if not is_quiet:
            drawn.add(controller, clos, seed)
        return diagnosed(VirtualSite(lab, transport))


def live_parts(drawn: Drawn, seed: int, *, is_quiet: bool) -> tuple[Part, ...]:
    """The parts that are named in a live lab."""
    with live_lab(drawn.spec) as lab, closing(LabFaults(lab.name)) as controller:
        if not is_quiet:
            drawn.add(controller, lab.clos, seed)
        return diagnosed(LiveSite(lab))


def _table(where: str, count: int, parts_of: Callable[..., tuple[Part, ...]]) -> Iterator[Figure]:
    verdicts: Counter[tuple[str, str]] = Counter()
    false = 0
    for seed in range(count):
        drawn = draw(seed)
        verdicts[drawn.kind, drawn.verdict(parts_of(drawn, seed, is_quiet=False))] += 1
        false += bool(parts_of(drawn, seed, is_quiet=True))
    for kind in KINDS:
        for verdict in VERDICTS:
            yield Figure("gray faults", f"{where}, {kind}: {verdict}", "", (verdicts[kind, verdict],))
    yield Figure("gray faults", f"{where}, {count} quiet labs: something named", "", (false,), "0")


def virtual() -> Iterator[Figure]:
    yield from _table("virtual", FAULTS, virtual_parts)


def live() -> Iterator[Figure]:
    yield from _table("live", LIVE_FAULTS, live_parts)


PARTS = {"virtual": virtual, "live": live}


def run() -> Iterator[Figure]:
    yield from virtual()
    yield from live()
