"""Congestion control in a shaped lab: QPs share what there is, queues stay near their target, nothing drifts.

Bounds are of structure, wide enough for a machine that is busy with other things: delays are in model time.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from nic_lab import BATCH, WritePair
from own_lab import lab_up

from mrc_testbed.fabric import lab
from mrc_testbed.fabric.live import Lab
from mrc_testbed.topology.port_queue import port_queues
from mrc_testbed.topology.spec import TopologySpec

pytestmark = pytest.mark.root

SPEC = TopologySpec.model_validate(
    {"planes": 2, "t0": 2, "t1": 1, "hosts_per_t0": 3, "port_rate": "100Mbit"}, strict=False
)
CROSSING = (("h0", "h3"), ("h1", "h4"), ("h2", "h5"))
INCAST = (("h3", "h0"), ("h4", "h0"), ("h5", "h0"))


@pytest.fixture(scope="module")
def shaped() -> Iterator[Lab]:
    """A lab with two ports of 100 Mbit/s per NIC and one uplink per plane for three hosts."""
    with lab_up(SPEC, f"c{os.getpid()}") as name, lab.attach(name) as attached:
        yield attached


class Competition:
    """Pairs of hosts that write at the same time, each so many messages.

    Attributes:
        done: bytes of each pair that were acknowledged after all had begun and before the first was through.
        queues: what each QP's congestion control said then.
        counters: of all sources, what changed from the start to the end.
    """

    def __init__(
        self, live: Lab, hosts: tuple[tuple[str, str], ...], batches: int, **attributes: Any
    ) -> None:
        with ExitStack() as opened:
            pairs = [
                opened.enter_context(WritePair(live, pair, seed=7 + i, **attributes))
                for i, pair in enumerate(hosts)
            ]
            before = [pair.source.counters() for pair in pairs]
            works = [pair.post(batches * BATCH) for pair in pairs]
            begun = [pair.source.counters() for pair in pairs]
            pairs[0].complete(works[0])
            self.queues = [pair.source.list_qps()[0] for pair in pairs]
            now = [pair.source.counters() for pair in pairs]
            self.done = [
                end["acked_bytes"] - start["acked_bytes"] for start, end in zip(begun, now, strict=True)
            ]
            for pair, work in zip(pairs[1:], works[1:], strict=True):
                assert pair.complete(work)["status"] == "success"
            assert [pair.wrong_bytes() for pair in pairs] == [0] * len(pairs)
            after = [pair.source.counters() for pair in pairs]
            self.counters = {
                name: sum(end[name] - start[name] for start, end in zip(before, after, strict=True))
                for name in after[0]
            }


@pytest.mark.alone
def test_qps_that_cross_one_uplink_share_it_and_keep_its_queue_near_the_target(shaped: Lab) -> None:
    seen = Competition(shaped, CROSSING, batches=8)
    assert {queue["cc"] for queue in seen.queues} == {"nscc"}
    assert seen.counters["cwnd_multiplicative_decrease"] > 0
    assert min(seen.done) > max(seen.done) / 4
    for queue in seen.queues:
        assert queue["target_delay_ns"] / 8 < queue["avg_delay_ns"] < 3 * queue["target_delay_ns"]
        assert 0 < queue["cwnd_bytes"] <= queue["max_wnd_bytes"]
    assert seen.counters["cc_drift"] == 0


def test_incast_is_trimmed_and_goes_on(shaped: Lab) -> None:
    """Each begins with a window that overflows the port they share, whenever another one is under way."""
    first_window_bytes = 4 * max(queue.trim_bytes for queue in port_queues(shaped.clos))
    seen = Competition(shaped, INCAST, batches=12, cc="nscc", cc_profile={"max_cwnd": first_window_bytes})
    assert seen.counters["rx_nack"] > 0
    assert seen.counters["tx_retransmit_nack"] > 0
    assert seen.counters["cwnd_trim"] + seen.counters["cwnd_quick_adapt"] > 0
    assert min(seen.done) > max(seen.done) / 8
    assert seen.counters["cc_drift"] == 0


@pytest.mark.alone
def test_one_flow_alone_has_its_whole_window(shaped: Lab) -> None:
    seen = Competition(shaped, CROSSING[:1], batches=2)
    assert seen.counters["cwnd_multiplicative_decrease"] == 0
    (queue,) = seen.queues
    assert queue["avg_delay_ns"] < 3 * queue["target_delay_ns"]
    assert seen.counters["cc_drift"] == 0


def test_small_messages_do_not_wait_for_one_another(shaped: Lab) -> None:
    """Each is answered by an ACK alone, which has no count of bytes: the window must open all the same."""
    with WritePair(shaped, CROSSING[0], length=512) as pair:
        before = pair.source.counters()
        pair.write(20 * BATCH)
        after = pair.source.counters()
    assert after["rx_ack"] - before["rx_ack"] >= 10 * BATCH
    assert after["cc_drift"] == before["cc_drift"]
