"""Scenes that the dashboards are looked at in: faults and load on two labs, and the moments to look at."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from observed_lab import ObservedLab, Run

PAUSED_FABRIC: Final[Mapping[str, Any]] = {
    "planes": 1,
    "t0": 2,
    "t1": 2,
    "hosts_per_t0": 4,
    "port_rate": "25Mbit",
    "flow_control": "pfc",
    "nic": {"window_packets": 128},
}
PAUSED_LAB: Final = "paused"

JOB: Final = {
    "name": "job", "kind": "training", "hosts": ["h0", "h4", "h1", "h5"],
    "compute": "100ms", "size": "256KiB", "warmup": "1s", "duration": "26s",
}  # fmt: skip
_BEFORE_S: Final = 4.0
_FAULT_S: Final = 12.0


@dataclass(frozen=True)
class Scene:
    """A moment, and the time before it that the dashboards show."""

    name: str  # of its pictures
    lab: str  # that the dashboards show
    # start_s, end_s: UTC; the end is "now"
    start_s: float
    end_s: float


def play(observed: "ObservedLab", fabric: Mapping[str, Any]) -> Iterator[Scene]:
    """Run a scenario for each scene on its lab; a scene ends while its fault acts, one after all.

    Args:
        observed: the lab, of two planes with two T0s, two T1s and eight hosts.
        fabric: its topology.
    """
    first = None
    for name, workloads, faults in _lossy_scenarios():
        run = observed.command.run(observed.command.write_scenario(name, workloads, faults, topology=fabric))
        first = first or run
        yield _during(name, observed.command.lab, run)
    assert first is not None
    yield Scene("afterwards", observed.command.lab, first.start_s - _BEFORE_S, run.end_s + _BEFORE_S)
    yield _during("pause", PAUSED_LAB, _run_paused(observed))


def _lossy_scenarios() -> Iterator[tuple[str, list[Any], list[Any]]]:
    window = {"at": f"{_BEFORE_S:g}s", "for": f"{_FAULT_S:g}s"}
    flap = {"id": "flap", **window, "kind": "link-flap", "every": "6s", "down": "4s"}
    yield "flap", [JOB], [flap | {"select": {"links": "p0-t0-0:4"}}]
    gray = {"id": "gray-t1", **window, "kind": "blackhole", "select": {"nodes": "p0-t1-1"}}
    yield "gray-t1", [JOB], [gray]
    storm = {"name": "storm", "kind": "incast", "to": "h7", "size": "64KiB", "depth": 4, "duration": "26s"}
    yield "incast", [JOB, storm], []
    slow = {"id": "slow-plane", **window, "kind": "slow-link", "to": "20%"}
    yield "slow-plane", [JOB], [slow | {"select": {"links": {"between": ["t0", "t1"], "plane": 1}}}]
    corrupt = {"id": "bad-optic", **window, "kind": "corrupt", "ratio": "2%"}
    yield "corruption", [JOB], [corrupt | {"select": {"links": "p0-t0-1:5"}}]


def _during(name: str, lab: str, run: "Run") -> Scene:
    """The scene that ends when the fault is about to, or the load has lasted as long as a fault would."""
    zero_s = datetime.fromisoformat(run.manifest["time_zero_utc"]).timestamp()
    return Scene(name, lab, zero_s - 2 * _BEFORE_S, zero_s + _BEFORE_S + _FAULT_S - 1)


def _run_paused(observed: "ObservedLab") -> "Run":
    """The run of a NIC that pauses its switch again and again, on a lab of its own beside the other."""
    command = observed.command
    document = {"apiVersion": "mrc-testbed/v1", "kind": "Topology", "metadata": {"name": PAUSED_LAB}}
    topology = command.folder / "paused.yaml"
    topology.write_text(json.dumps({**document, "spec": PAUSED_FABRIC}))
    command.succeeds("up", "-n", PAUSED_LAB, "-t", str(topology), "--runtime", "netns")
    shape = {"kind": "write-bw", "size": "64KiB", "depth": 4, "duration": "20s"}
    flows = [
        {"name": f"{a}-{b}", "from": a, "to": b, **shape}
        for a, b in (("h0", "h4"), ("h1", "h5"), ("h2", "h3"))
    ]
    storm = {"id": "storm", "kind": "pause-storm", "direction": "b-to-a", "select": {"links": "h4:0"}}
    storms = [{**storm, "at": f"{_BEFORE_S:g}s", "for": f"{_FAULT_S:g}s"}]
    scenario = command.write_scenario("pause", flows, storms, "fixed", PAUSED_FABRIC)
    try:
        return command.run(scenario, PAUSED_LAB)
    finally:
        command.succeeds("down", "-n", PAUSED_LAB)
