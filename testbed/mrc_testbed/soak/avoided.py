"""The conditions that no universe has although they might be drawn: one entry each, with the reason.

An entry goes when its reason does; docs/explanation/simulation-testing.md says more of the bugs among them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mrc_testbed.soak.document import Values
from mrc_testbed.units import parse_duration_ns, parse_rate_bps, parse_size_bytes

WINDOW_PACKETS_MAX: Final = 16
"""As many full packets as the queue of any port holds, without regard to its delay."""
INCAST_BYTES_MIN: Final = 1000
INCAST_DEPTH_MIN: Final = 4
_COUNTED_NS: Final = 4 * 10**9
"""Longest time of counted work without any other, of the 10 s that it has."""


@dataclass(frozen=True, slots=True)
class Avoided:
    """A combination that a universe does without."""

    name: str  # what is avoided
    reason: str  # why
    leave_out: Callable[[Values], None]  # changes the spec of a document so that it is not there
    # name of the plan in the folder `known` that fails by the bug; None: no scenario can say it
    known: str | None = None


def _without_faults(applies: Callable[[Values, Values], bool]) -> Callable[[Values], None]:
    def leave_out(spec: Values) -> None:
        spec["faults"] = [fault for fault in spec["faults"] if not applies(spec, fault)]

    return leave_out


def _control_congestion(spec: Values) -> None:
    """Fixed windows stay where all of them together are no more than a queue holds."""
    transport, workloads = spec["transport"], spec["workloads"]
    if transport["kind"] != "mrc" or "window" not in transport or _flow_control(spec) != "none":
        return
    qps = transport.get("qps", 1) * len(workloads)
    is_pairs = all(workload["kind"] in {"write-bw", "write-lat"} for workload in workloads)
    if not is_pairs or transport["window"] * qps > WINDOW_PACKETS_MAX:
        for key in ("cc", "window"):
            transport.pop(key, None)


def _count_to_one(spec: Values) -> None:
    """Counted work is done once where its windows take too long for more: a round trip each."""
    counted = [workload for workload in spec["workloads"] if "iterations" in workload]
    if not counted:
        return
    topology, transport = spec["topology"], spec["transport"]
    mtu_bytes = parse_size_bytes(topology["nic"]["path_mtu"])
    link_ns = mtu_bytes * 8 * 10**9 // parse_rate_bps(topology["port_rate"])
    path_links = 2 * len(topology.get("tiers", (0, 1)))
    rtt_ns = path_links * (link_ns + 2 * parse_duration_ns(topology["link_delay"]))
    window = min(transport.get("window", 256), topology["nic"]["window_packets"])
    for workload in counted:
        packets = 2 * parse_size_bytes(workload["size"]) // mtu_bytes  # what is reduced goes twice
        if workload["iterations"] * packets * rtt_ns > window * _COUNTED_NS:
            workload["iterations"] = 1


def _enlarge_incast(spec: Values) -> None:
    """Messages are several times larger than their headers where a queue trims what many hosts send."""
    trims = spec["topology"].get("queue", {}).get("trim", {}).get("enabled", True)
    if spec.get("transport", {}).get("kind", "mrc") != "mrc" or _flow_control(spec) != "none" or not trims:
        return
    for workload in spec["workloads"]:
        is_small = parse_size_bytes(workload["size"]) < INCAST_BYTES_MIN
        if workload["kind"] == "incast" and workload.get("depth", 1) >= INCAST_DEPTH_MIN and is_small:
            workload["size"] = f"{INCAST_BYTES_MIN}B"


def _flow_control(spec: Values) -> str:
    return str(spec["topology"].get("flow_control", "none"))


AVOIDED: Final = (
    Avoided(
        "duplicate with credits",
        "the scenario language refuses it: the credit of a packet that comes twice would come back twice",
        _without_faults(
            lambda spec, fault: fault["kind"] == "duplicate" and _flow_control(spec) == "credits"
        ),
    ),
    Avoided(
        "pause-storm without flow control",
        "the scenario language refuses it: nothing could be paused",
        _without_faults(lambda spec, fault: fault["kind"] == "pause-storm" and _flow_control(spec) == "none"),
    ),
    Avoided(
        "drain with ecmp",
        "the scenario language refuses it: no EV names a path",
        _without_faults(
            lambda spec, fault: fault["kind"] == "drain" and spec["topology"].get("forwarding") == "ecmp"
        ),
    ),
    Avoided(
        "fixed windows that a fabric without flow control has no room for",
        "where it trims, trimmed packets go before data and are sent again at once, for ever; where it "
        "drops, QPs wait for time-outs of seconds",
        _control_congestion,
        known="trim-livelock",
    ),
    Avoided(
        "an incast of small messages where a queue trims",
        "windows of NSCC count bytes, and nothing is left to trim of a small packet: it goes before data "
        "and is sent again at once, for ever",
        _enlarge_incast,
        known="trim-small-messages",
    ),
    Avoided(
        "counted work in windows that take longer than its time-out",
        "as many packets as windows hold take a round trip: by theory, 20 times 64 KiB need a minute",
        _count_to_one,
    ),
    Avoided(
        "corrupt where NICs do not check the iCRC all the time",
        "what left its NIC before the fault, and arrives after it, is damaged and not checked",
        _without_faults(
            lambda spec, fault: fault["kind"] == "corrupt" and spec["topology"]["nic"].get("icrc") != "on"
        ),
        known="corrupt-ends",
    ),
)
