"""From a number to a Scenario document: a fabric, a transport, work on it, and faults; all of it is drawn.

Rates are low and times short, so that a universe takes a fraction of a second. What is never drawn although
a scenario may say it stands in avoided.py, with a reason.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mrc_testbed.soak.avoided import AVOIDED
from mrc_testbed.soak.document import Values, refused_faults, scenario_document, tier_values
from mrc_testbed.topology.numbering import Numbering, TierSize
from mrc_testbed.workloads.collective import COLLECTIVE_KINDS

HOSTS_MAX: Final = 8
QPS_MAX: Final = 3 * 2 * 2 * (HOSTS_MAX - 1)
"""QPs of a NIC: of each of three workloads two to every other host, and two from it."""
WORK_BYTES_MAX: Final = 2_000_000
"""Bytes that the NICs together can send while workloads last, about."""
RUN_MS: Final = (20, 50, 100, 200, 400, 800, 2500)
MESSAGE_BYTES: Final = (1, 16, 100, 1000, 2048, 5000, 16384, 65536)
COLLECTIVE_BYTES: Final = (512, 4096, 65536)
RETRY_LIMIT: Final = 1000
"""Far more than any fault of a universe takes: no QP has a reason to give up."""


@dataclass(frozen=True, slots=True)
class SoakFabric:
    """The fabric, from which names of nodes and links follow."""

    numbering: Numbering
    has_flow_control: bool

    @property
    def hosts(self) -> list[str]:
        return [f"h{index}" for index in range(self.numbering.host_count)]

    def host_link(self, draw: random.Random) -> str:
        return f"{draw.choice(self.hosts)}:{draw.randrange(self.numbering.planes)}"

    def fabric_link(self, draw: random.Random) -> str:
        """The name of two switches that links join, in neighbouring tiers."""
        number, plane = self.numbering, draw.randrange(self.numbering.planes)
        level = draw.choice((1, 2)) if number.tiers[2:] else 1
        lower, tier = draw.randrange(number.switches[level - 1]), number.tiers[level]
        upper, _ = number.above(level - 1, lower, draw.randrange(tier.switches) * tier.lanes)
        return f"p{plane}-t{level - 1}-{lower}~p{plane}-t{level}-{upper}"

    def link(self, draw: random.Random) -> str:
        return self.host_link(draw) if draw.random() < 0.4 else self.fabric_link(draw)

    def switch(self, draw: random.Random) -> str:
        level = draw.choice(range(len(self.numbering.tiers)))
        index = draw.randrange(self.numbering.switches[level])
        return f"p{draw.randrange(self.numbering.planes)}-t{level}-{index}"


def draw_universe(seed: int) -> Values:
    """The Scenario document of that number."""
    draw = random.Random(seed)
    fabric, topology = _fabric(draw, _three_tiers(random.Random(f"pods of {seed}")))
    transport = _transport(draw, topology)
    rate_bps = int(topology["port_rate"].removesuffix("Mbit")) * 10**6
    sent_per_ms = rate_bps // 8000 * fabric.numbering.planes * len(fabric.hosts)
    run_ms = draw.choice([ms for ms in RUN_MS if ms * sent_per_ms <= WORK_BYTES_MAX] or [RUN_MS[0]])
    spec: Values = {
        "seed": seed,
        "topology": topology,
        "transport": transport,
        "workloads": _workloads(draw, fabric, run_ms),
        "faults": draw_faults(draw, fabric, run_ms, draw.choice([0, 1, 2, 3, 4, 6, 8])),
    }
    document = scenario_document(f"universe-{seed}", spec)
    leave_out(document)
    return document


def leave_out(document: Values) -> None:
    """Removes what is avoided, and faults that the scenario language refuses."""
    spec = document["spec"]
    for avoided in AVOIDED:
        avoided.leave_out(spec)
    refused = refused_faults(document)  # two that do the same at one time, for one
    spec["faults"] = [fault for index, fault in enumerate(spec["faults"]) if index not in refused]


# ---- the fabric


def _three_tiers(draw: random.Random) -> tuple[TierSize, ...] | None:
    """The tiers of one universe in five; their numbers are apart, so that the others stay what they were."""
    if draw.random() >= 0.2:
        return None
    per_t0, t0, pods = draw.choice([(1, 1, 2), (1, 2, 2), (2, 1, 2), (2, 2, 2), (1, 2, 3), (1, 1, 4)])
    t1 = TierSize(t0, draw.choice([1, 2, 3]), draw.choice([1, 1, 1, 2]))
    return TierSize(per_t0), t1, TierSize(pods, draw.choice([1, 2, 3]), draw.choice([1, 1, 1, 2]))


def _fabric(draw: random.Random, upper: tuple[TierSize, ...] | None) -> tuple[SoakFabric, Values]:
    """A fabric with the tiers *upper*, or with two that are drawn."""
    flow_control = draw.choice(["none", "none", "none", "pfc", "credits"])
    t0, per_t0 = draw.choice([(1, 2), (1, 4), (2, 1), (2, 2), (2, 4), (3, 2)])
    planes, t1 = draw.choice([1, 2, 2, 4]), draw.choice([1, 2, 3])
    tiers = upper or (TierSize(per_t0), TierSize(t0, t1))
    fabric = SoakFabric(Numbering(planes, tiers), flow_control != "none")
    nic: Values = {
        "retry_limit": RETRY_LIMIT,
        "qps_max": QPS_MAX,
        "evs": planes * draw.choice([1, 2, 4, 16, 32]),
        "path_mtu": draw.choice(["256B", "1KiB", "2KiB", "2KiB"]),
        "window_packets": draw.choice([1, 4, 16, 64, 256]),
    }
    topology: Values = {
        "planes": planes,
        **({"tiers": tier_values(upper)} if upper else {"t0": t0, "t1": t1, "hosts_per_t0": per_t0}),
        "port_rate": draw.choice(["10Mbit", "25Mbit", "100Mbit", "1000Mbit"]),
        "link_delay": draw.choice(["0us", "1us", "50us", "500us"]),
        "nic": nic,
    }
    if draw.random() < 0.2:
        nic["path_state"] = "qp"
    if draw.random() < 0.5:
        nic["icrc"] = "on"
    if draw.random() < 0.2:
        nic["backup_share"] = draw.choice(["0%", "50%"])
    if draw.random() < 0.2 and not upper:
        topology["uplinks_per_pair"] = 2
    if flow_control != "none":
        topology["flow_control"] = flow_control
    elif draw.random() < 0.3:
        topology["queue"] = {
            "data_buffer": draw.choice(["8KiB", "64KiB"]),
            "trim": {"enabled": draw.random() < 0.5, "threshold": "4KiB"},
        }
    forwarding = draw.choice(["srv6", "srv6", "srv6", "stev", "ecmp"])
    if upper and forwarding == "stev":
        forwarding = "srv6"
    if forwarding != "srv6":
        topology["forwarding"] = forwarding
    elif draw.random() < 0.15:
        topology["probing"] = {"t1_share": "100%"}
    if forwarding == "ecmp" and draw.random() < 0.5:
        topology["hash_seed"] = draw.getrandbits(32)
    return fabric, topology


def _transport(draw: random.Random, topology: Values) -> Values:
    kind = draw.choice(["mrc"] * 7 + ["rocev2", "infiniband", "spray-gbn"])
    transport: Values = {"kind": kind, "qps": draw.choice([1, 1, 2])}
    if kind == "infiniband" and topology.get("forwarding") == "ecmp":
        topology["uplink_choice"] = draw.choice(["hash", "adaptive"])
    if kind == "mrc" and draw.random() < 0.5:
        transport |= {"cc": "fixed", "window": draw.choice([1, 4, 16, 64, 256])}
    elif kind != "mrc" and draw.random() < 0.3:
        transport["cc"] = draw.choice(["fixed", "dcqcn"])
    return transport


# ---- the work


def _workloads(draw: random.Random, fabric: SoakFabric, run_ms: int) -> list[Values]:
    """The first ends by time, so that there is work while faults act; others may count."""
    workloads = []
    for number in range(draw.choice([1, 1, 2, 3])):
        workload = _pattern(draw, fabric) | {"name": f"w{number}"}
        if number and draw.random() < 0.5:
            workload |= {"iterations": draw.choice([1, 3, 20]), "timeout": "10s"}
        else:
            workload["duration"] = f"{run_ms}ms"
        workloads.append(workload)
    return workloads


def _pattern(draw: random.Random, fabric: SoakFabric) -> Values:
    hosts = fabric.hosts
    kind = draw.choice(
        ["write-bw", "write-bw", "write-lat", "sendrecv", "permutation", "incast", "collective"]
    )
    size = draw.choice(MESSAGE_BYTES)
    workload: Values = {"kind": kind, "size": f"{size}B"}
    if kind == "collective":
        workload["size"] = f"{draw.choice(COLLECTIVE_BYTES)}B"
        workload["kind"] = draw.choice(COLLECTIVE_KINDS)
        if draw.random() < 0.2:
            collective = workload["kind"]
            workload |= {"kind": "training", "collective": collective, "compute": "1ms"}
        return workload
    if kind in {"write-bw", "write-lat"}:
        source, target = draw.sample(hosts, 2)
        workload |= {"from": source, "to": target}
    elif kind == "incast":
        workload["to"] = draw.choice(hosts)
    elif kind == "sendrecv":
        workload["shift"] = draw.randrange(1, len(hosts))
    if kind != "write-lat":
        workload["depth"] = draw.choice([1, 2, 4, 16])
    return workload


# ---- the faults


def draw_faults(draw: random.Random, fabric: SoakFabric, run_ms: int, count: int) -> list[Values]:
    """That many faults, each of which begins and ends within the first *run_ms*, or lasts until cleared."""
    faults = []
    for number in range(count):
        at_us = draw.randrange(run_ms * 1000 - 10)
        fault: Values = {"id": f"f{number}", "at": f"{at_us}us"}
        make = draw.choice(KINDS)
        longest_us = run_ms * 1000 - at_us
        fault |= {"for": f"{draw.randrange(1, longest_us) if longest_us > 1 else 1}us"}
        fault |= make(draw, fabric, run_ms)
        if draw.random() < 0.2 and fault["kind"] not in {"link-flap", "host-pause"}:
            del fault["for"]
            fault["until"] = "cleared"
        faults.append(fault)
    return sorted(faults, key=lambda fault: int(fault["at"].removesuffix("us")))


def _ratio(draw: random.Random, most: int) -> str:
    return f"{draw.choice([1, 5, 20, 50, most])}%"


def _on_link(draw: random.Random, fabric: SoakFabric) -> Values:
    return {
        "select": {"links": fabric.link(draw)},
        "direction": draw.choice(["both", "a-to-b", "b-to-a"]),
    }


def _of_frames(draw: random.Random, fabric: SoakFabric) -> Values:
    return _on_link(draw, fabric) | {"traffic": draw.choice(["all", "all", "data", "control"])}


def _flap(draw: random.Random, fabric: SoakFabric, run_ms: int) -> Values:
    every_us = draw.choice([2_000, 20_000, run_ms * 200])
    down_us = draw.randrange(1, every_us // 2)
    flap = {"kind": "link-flap", "every": f"{every_us}us", "down": f"{down_us}us"}
    return flap | _on_link(draw, fabric) | {"jitter": draw.choice(["0%", "30%"])}


def _burst(draw: random.Random, fabric: SoakFabric, _: int) -> Values:
    burst = {"kind": "burst-loss", "ratio": draw.choice(["1%", "10%"]), "burst": draw.choice([2, 20])}
    return burst | {"within": draw.choice(["50%", "100%"])} | _of_frames(draw, fabric)


def _ev_loss(draw: random.Random, fabric: SoakFabric, _: int) -> Values:
    number = fabric.numbering
    plane, uplink = draw.randrange(number.planes), draw.randrange(number.way_count(len(number.tiers) - 1))
    of_path = {"ev": f"0x{plane << 28 | uplink << 16:08x}", "copies": draw.choice(["one", "all"])}
    return {"kind": "ev-loss"} | of_path | _on_link(draw, fabric)


def _delay(draw: random.Random, fabric: SoakFabric, _: int) -> Values:
    late = {"by": draw.choice(["10us", "1ms", "10ms"]), "jitter": draw.choice(["0%", "50%"])}
    return {"kind": "delay"} | late | _of_frames(draw, fabric)


def _reorder(draw: random.Random, fabric: SoakFabric, _: int) -> Values:
    late = {"ratio": _ratio(draw, 100), "by": draw.choice(["100us", "2ms", "20ms"])}
    return {"kind": "reorder"} | late | _of_frames(draw, fabric)


def _switch(draw: random.Random, fabric: SoakFabric, _: int) -> Values:
    kind = draw.choice(["blackhole", "switch-down", "switch-reboot"])
    return {"kind": kind, "select": {"nodes": fabric.switch(draw)}}


def _host(draw: random.Random, fabric: SoakFabric, _: int) -> Values:
    kind = draw.choice(["host-pause", "host-pause", "nic-agent-kill"])
    return {"kind": kind, "select": {"nodes": draw.choice(fabric.hosts)}}


def _congestion(draw: random.Random, fabric: SoakFabric, _: int) -> Values:
    return {"kind": "congestion", "rate": draw.choice(["1Mbit", "5Mbit", "20Mbit"])} | _on_link(draw, fabric)


KINDS: Final[tuple[Callable[[random.Random, SoakFabric, int], Values], ...]] = (
    lambda draw, fabric, _: {"kind": "link-down"} | _on_link(draw, fabric),
    _flap,
    lambda draw, fabric, _: {"kind": "nic-port-down", "select": {"links": fabric.host_link(draw)}},
    lambda draw, fabric, _: {"kind": "loss", "ratio": _ratio(draw, 90)} | _of_frames(draw, fabric),
    _burst,
    _ev_loss,
    lambda draw, fabric, _: (
        {"kind": "corrupt", "ratio": _ratio(draw, 90), "bits": draw.choice([1, 3, 32])}
        | _of_frames(draw, fabric)
    ),
    lambda draw, fabric, _: {"kind": "duplicate", "ratio": _ratio(draw, 100)} | _of_frames(draw, fabric),
    _delay,
    _reorder,
    lambda draw, fabric, _: {"kind": "slow-link", "to": draw.choice(["50%", "5%"])} | _on_link(draw, fabric),
    lambda draw, fabric, _: {"kind": "pause-storm"} | _on_link(draw, fabric),
    lambda draw, fabric, _: {"kind": "drain", "select": {"links": fabric.link(draw)}},
    _congestion,
    _switch,
    lambda draw, fabric, _: {
        "kind": "plane-down",
        "select": {"planes": draw.randrange(fabric.numbering.planes)},
    },
    _host,
)
