"""A lab with a rate of its own for a tier and for a link: its ports have it in the kernel."""

from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.port_selection import port_rates_bps
from mrc_testbed.topology.queue_spec import QueueOverride, QueueSpec
from mrc_testbed.topology.selector_spec import LinkSelector
from mrc_testbed.topology.spec import NicSpec, TopologySpec

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
