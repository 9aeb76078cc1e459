"""MRC behind the seam that all transports share."""

import pytest
from fake_nic import FakeNic, fake_transport

from testbed.topology.clos import Clos
from testbed.topology.spec import TopologySpec
from testbed.workloads.transport import Arrived, Failed, HostLost, Message, Sent

CLOS = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1))


@pytest.fixture
def nics():
    made: list[FakeNic] = []
    made += [FakeNic("h0", made), FakeNic("h1", made)]
    yield made
    for nic in made:
        nic.close()


@pytest.fixture
def transport(nics):
    opened = fake_transport(CLOS, nics)
    opened.open(["h0", "h1"])
    return opened


@pytest.fixture
def pair(transport):
    near, far = transport.connect("h0", "h1", 7)
    return near, far, transport.register("h0", 4096), transport.register("h1", 4096)


def test_a_message_moves_bytes_between_regions_and_its_immediate_reports_it(transport, pair):
    near, far, source, target = pair
    far.accept(1)
    source.view[100:104] = b"mrc!"
    near.send(Message(length=4, source_offset=100, target_offset=8, immediate=77), source, target)
    assert bytes(target.view[8:12]) == b"mrc!"
    events = transport.events()
    assert [(e.end, e.number, e.immediate, e.length) for e in events if isinstance(e, Arrived)] == [
        (far, 1, 77, 4)
    ]
    assert near.acknowledged_bytes() == 4
    assert far.acknowledged_bytes() == 0


def test_events_read_along_with_an_answer_are_announced_every_time(transport, pair):
    near, _, source, target = pair
    for _ in range(3):
        transport.events()
        assert not transport.has_events
        work_id = near.post(Message(length=4, source_offset=0, target_offset=0), source, target)
        assert transport.has_events
        assert [event.work_id for event in transport.events() if isinstance(event, Sent)] == [work_id]


def test_a_send_that_is_refused_fails_its_end(transport, pair, nics, monkeypatch):
    near, _, source, target = pair
    monkeypatch.setattr(nics[0], "post_write", lambda *_, **__: nics[0].refuse())
    near.send(Message(length=4, source_offset=0, target_offset=0), source, target)
    [event] = transport.events()
    assert event == Failed(near, "the NIC of h0 refused a post_write: refused")


def test_an_agent_that_dies_is_notified_of_once(transport, nics):
    nics[1].die()
    assert transport.events() == [
        HostLost("h1", "the NIC agent of h1 is lost: the NIC agent of h1 died"),
    ]
    assert transport.events() == []


def test_agents_are_polled_so_that_they_can_forget(transport, pair, nics):
    near, far, source, target = pair
    far.accept(300)
    for _ in range(300):
        near.send(Message(length=1, source_offset=0, target_offset=0, immediate=0), source, target)
        transport.events()
    assert nics[0].qps[near.number].polls == 2
    assert nics[1].qps[far.number].polls == 2


def test_a_region_of_memory_is_checked_before_it_is_touched(pair):
    _, _, source, _ = pair
    with pytest.raises(ValueError, match="5 bytes at 4092 of a region of 4096"):
        source.fill(4092, 5, 1)
