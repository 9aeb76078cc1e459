"""Many faults at once, of every kind that a flow survives, on a lab that carries checked messages."""

import os
from pathlib import Path
from random import Random

import pytest
import yaml
from live_scenario import run_live
from own_lab import lab_up

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.paths import lab_paths
from mrc_testbed.faults.ledger import Ledger
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec

pytestmark = [pytest.mark.root, pytest.mark.timeout(1800)]

DURATION_MS = 60_000
LONGEST_MS = 2_500
PORT_RATE_BPS = 20_000_000
SPEC = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=2, port_rate=PORT_RATE_BPS)
FLOWS = (("h0", "h2"), ("h2", "h0"), ("h1", "h3"), ("h3", "h1"))
OF_LINKS: dict[str, dict[str, object]] = {
    "link-down": {},
    "link-flap": {"every": "300ms", "down": "100ms", "jitter": "20%"},
    "drain": {},
    "loss": {"ratio": "5%"},
    "burst-loss": {"ratio": "2%", "burst": 4},
    "corrupt": {"ratio": "2%"},
    "delay": {"by": "1ms", "jitter": "20%"},
    "reorder": {"ratio": "5%", "by": "2ms"},
    "duplicate": {"ratio": "10%"},
    "slow-link": {"to": "20%"},
}
OF_PLACES = ("nic-port-down", "blackhole", "switch-down", "switch-reboot", "plane-down", "host-pause")


def faults(chance: Random) -> list[dict[str, object]]:
    """Faults of each kind one after the other at random times, so that those of several kinds overlap."""
    clos = resolve_topology(SPEC)
    links = [
        link.lower.name for plane in range(2) for t0 in range(2) for link in (clos.fabric_link(plane, t0, 0),)
    ]
    found: list[dict[str, object]] = []
    for kind in (*OF_LINKS, *OF_PLACES):
        at_ms = chance.randrange(5_000)
        while at_ms < DURATION_MS - 2 * LONGEST_MS:
            lasts_ms = chance.randrange(300, LONGEST_MS)
            places: dict[str, dict[str, object]] = {
                "nic-port-down": {"links": f"h{chance.randrange(4)}:{chance.randrange(2)}"},
                "plane-down": {"planes": chance.randrange(2)},
                "host-pause": {"nodes": f"h{chance.randrange(4)}"},
            }
            select = places.get(kind, {"links": chance.choice(links)})
            if kind in {"blackhole", "switch-down", "switch-reboot"}:
                select = {"nodes": f"p{chance.randrange(2)}-t1-{chance.randrange(2)}"}
            fault = {"id": f"f{len(found)}", "at": f"{at_ms}ms", "for": f"{lasts_ms}ms", "kind": kind}
            found.append(fault | OF_LINKS.get(kind, {}) | {"select": select})
            at_ms += lasts_ms + 4_000 + chance.randrange(8_000)
    return found


def scenario(injected: list[dict[str, object]]) -> str:
    workloads = [
        {
            "name": f"w{i}",
            "kind": "write-bw",
            "from": a,
            "to": b,
            "size": "16KiB",
            "duration": f"{DURATION_MS}ms",
        }
        for i, (a, b) in enumerate(FLOWS)
    ]
    spec = {
        "topology": SPEC.model_dump(mode="json", exclude_defaults=True),
        "workloads": workloads,
        "faults": injected,
        "expect": ["wrong_bytes == 0", "qp_errors == 0"],
    }
    head = {"apiVersion": "mrc-testbed/v1", "kind": "Scenario", "metadata": {"name": "chaos"}}
    return yaml.safe_dump(head | {"spec": spec})


@pytest.mark.parametrize("seed", [1, 42])
def test_all_messages_arrive_whole_under_faults_of_all_kinds(seed: int, tmp_path: Path) -> None:
    injected = faults(Random(seed))
    text = scenario(injected)
    with lab_up(SPEC, f"c{os.getpid()}") as name:
        result = run_live(name, text, tmp_path).result
        assert [outcome.reason for outcome in result.verdict.outcomes if not outcome.has_passed] == []
        for action in ("applied", "cleared"):
            changed = {
                change.fault_id for change in result.recording.fault_changes if change.action == action
            }
            assert changed == {fault["id"] for fault in injected}
        assert [outcome.error for outcome in result.recording.outcomes] == [None] * len(FLOWS)
        assert all(outcome.compared_bytes > 0 for outcome in result.recording.outcomes)
        assert not Ledger(lab_paths(name).faults).entries()
        assert lab.status(name).problems == ()
