"""A lab with a rate of its own for a tier and for a link: ports have it, show it, and let no more through.

Goodput has an upper bound only: a port never sends faster than its rate, but a busy machine sends later.
"""

import pytest
from typed_command import Command

from agents.abi import PortCounter
from testbed.fabric.live import Lab
from testbed.topology.port_selection import port_rates_bps
from testbed.topology.queue_spec import QueueOverride, QueueSpec
from testbed.topology.selector_spec import LinkSelector
from testbed.topology.spec import NicSpec, TopologySpec

pytestmark = pytest.mark.root

MBIT = 10**6
USUAL, OF_T1S, OF_THE_LINK = 20 * MBIT, 8 * MBIT, 4 * MBIT
LAB_SPEC = TopologySpec(
    planes=1,
    t0=2,
    t1=1,
    hosts_per_t0=2,
    port_rate=USUAL,
    queue=QueueSpec(
        overrides=[
            QueueOverride.model_validate({"at": "t1", "rate": OF_T1S}, strict=False),
            QueueOverride(select=LinkSelector(links="h3:0"), rate=OF_THE_LINK),
        ]
    ),
    nic=NicSpec(qps_max=8),
)
MESSAGES, MESSAGE_BYTES = 4, 64 << 10
RATES = {
    "h0:0": USUAL,
    "p0-t0-0:2": USUAL,
    "p0-t1-0:1": OF_T1S,
    "p0-t0-1:1": OF_THE_LINK,
    "h3:0": OF_THE_LINK,
}


def test_every_port_in_the_kernel_has_the_rate_that_the_topology_says(live: Lab) -> None:
    in_kernel = [live.port_table[port.id].rate_bps for port in live.clos.ports()]
    assert in_kernel == list(port_rates_bps(live.clos))
    assert {name: in_kernel[live.clos.port(name).id] for name in RATES} == RATES


@pytest.mark.parametrize("transport", ["mrc", "rocev2", "tcp"])
@pytest.mark.parametrize(
    ("source", "target", "slowest", "rate_bps"),
    [
        ("h0", "h1", "p0-t0-0:1", USUAL),
        ("h0", "h2", "p0-t1-0:1", OF_T1S),
        ("h0", "h3", "p0-t0-1:1", OF_THE_LINK),
        ("h3", "h2", "h3:0", OF_THE_LINK),
    ],
)
def test_goodput_is_at_most_what_the_slowest_port_lets_through(
    command: Command, live: Lab, transport: str, source: str, target: str, slowest: str, rate_bps: int
) -> None:
    port_id = live.clos.port(slowest).id
    before = live.port_counters.sum(port_id)[PortCounter.TX_BYTES]
    found = command.json(
        *("bench", "write-bw", source, target, "--transport", transport),
        *("-i", str(MESSAGES), "--size", f"{MESSAGE_BYTES}B"),
    )
    assert found["wrong_bytes"] == 0
    assert live.port_counters.sum(port_id)[PortCounter.TX_BYTES] - before > MESSAGES * MESSAGE_BYTES
    assert 0 < found["average_bps"] < rate_bps


def test_inspect_reports_the_rates(command: Command) -> None:
    ports, *_ = command.json("inspect", "p0-t0-1")["tables"]
    assert [port["rate_bps"] for port in ports["rows"]] == [USUAL, OF_THE_LINK, USUAL]
    ends, *_ = command.json("inspect", "h3:0")["tables"]
    assert [end["rate_bps"] for end in ends["rows"]] == [OF_THE_LINK, OF_THE_LINK]
    assert "20 Mbit/s, but 4 Mbit/s to 8 Mbit/s at 4 ports" in command("inspect")
    assert "20 Mbit/s ports, but 4 Mbit/s to 8 Mbit/s at 4 ports" in command("status")
