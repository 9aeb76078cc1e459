"""NSCC's base RTT is that of a full packet, whatever lengths were timed and in whatever order."""

from collections import deque
from dataclasses import replace
from typing import Final

import pytest
from exploring import examples
from far_end import FarEnd
from hypothesis import given, settings
from hypothesis import strategies as st
from nic_bench import NicBench
from reference.responder import MessagesDone
from write_source import Sent, WriteSource

from mrc_agents.abi import Limit
from mrc_agents.protocol.cc_profile import CcLink, CcParameters, derive_profile
from mrc_testbed.topology import timing
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

PMTU_BYTES: Final = 2048
ACK_FRAME_BYTES: Final = timing.SACK_FRAME_BYTES - 32
RATE_BPS: Final = 10_000_000
SHAPED = Clos(TopologySpec(planes=4, t0=3, t1=2, hosts_per_t0=2, uplinks_per_pair=2, port_rate=RATE_BPS))
LONGER_THAN_BASE = 1.25
"""Factor from the idle RTT in theory to the base RTT of the profile, which is above all measured ones."""


def idle_rtt_ns(packet: Sent, far: FarEnd, *, is_acked: bool) -> int:
    """The RTT by theory of this packet and its response in the empty fabric."""
    data_frame_bytes = timing.DATA_OVERHEAD_BYTES + len(packet.write.payload)
    idle = timing.IdleFabric(SHAPED, data_frame_bytes, ACK_FRAME_BYTES if is_acked else None)
    return idle.rtt_ns(far.host, far.peer)


def deliver_in_an_empty_fabric(source: WriteSource, packet: Sent) -> Sent | None:
    """The packet arrives, and its SACK or ACK returns when theory says, in model time; what that became."""
    said = source.reply_to(packet)
    is_acked = isinstance(said, MessagesDone)
    answer = source.far.sack(*said) if isinstance(said, tuple) else source.far.ack(said.psn, said.count)
    sent_ns = source.nic.qp().req.tx[packet.psn % Limit.PSN_RING].sent_ns
    arrival_ns = sent_ns + idle_rtt_ns(packet, source.far, is_acked=is_acked)
    return source.receive(answer, packet.plane, packet.entropy, arrival_ns)[1]


@settings(max_examples=examples(40))
@given(sizes=st.lists(st.integers(1, 3 * PMTU_BYTES), min_size=1, max_size=12))
def test_base_rtt_is_that_of_a_full_packet_after_any_order_of_sizes(
    bench: NicBench, distant: FarEnd, sizes: list[int]
) -> None:
    bench.reset()
    theory_ns = timing.IdleFabric(SHAPED).rtt_ns(distant.host, distant.peer)
    link = CcLink(4 * RATE_BPS, round(LONGER_THAN_BASE * theory_ns), PMTU_BYTES)
    attributes = replace(
        distant.attributes(byte_time_ps=timing.byte_time_ps(SHAPED, 1)),
        cc=CcParameters.from_profile(derive_profile(link)),
    )
    source = WriteSource(bench, distant, attributes)
    for number, size in enumerate(sizes):
        source.post(size, work_id=number)
        under_way = deque(source.send())
        while under_way:
            following = deliver_in_an_empty_fabric(source, under_way.popleft())
            under_way.extend([following] if following else [])
    assert bench.qp().cc.base_rtt_ns == pytest.approx(theory_ns, rel=0.05)
