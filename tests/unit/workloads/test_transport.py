"""NICs as a transport: QPs that connect, completions and arrivals, hosts that are lost."""

import gc
import weakref

import pytest
from fake_nic import FakeNic, fake_transport

from mrc_testbed.agents.nic.context import Arrival, Completion, Context, QpError
from mrc_testbed.errors import AgentError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.workloads.connectors import MrcConnector
from mrc_testbed.workloads.transport import HostLost

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
    opened = fake_transport(nics, MrcConnector(CLOS))
    opened.open(["h0", "h1"])
    return opened


@pytest.fixture
def pair(transport):
    near, far = transport.connect("h0", "h1", 7)
    return near, far, transport.register("h0", 4096), transport.register("h1", 4096)


def send(near, source, target, length, local_at=0, remote_at=0, immediate=0):
    near.send_write(
        source, target.remote, length=length, local_at=local_at, remote_at=remote_at, immediate=immediate
    )


def test_a_write_moves_bytes_between_regions_and_its_immediate_reports_it(transport, pair):
    near, far, source, target = pair
    far.post_receive(1)
    source.view[100:104] = b"mrc!"
    send(near, source, target, 4, 100, 8, immediate=77)
    assert bytes(target.view[8:12]) == b"mrc!"
    events = transport.events()
    assert [(e.qp, e.number, e.immediate, e.length) for e in events if isinstance(e, Arrival)] == [
        (far, 1, 77, 4)
    ]
    assert near.acknowledged_bytes() == 4
    assert far.acknowledged_bytes() == 0


def test_entries_read_along_with_an_answer_are_announced_every_time(transport, pair):
    near, _, source, target = pair
    for _ in range(3):
        transport.events()
        assert not transport.has_events
        work_id = near.post_write(source, target.remote, length=4)
        assert transport.has_events
        assert [event.work_id for event in transport.events() if isinstance(event, Completion)] == [work_id]


def test_work_that_is_not_waited_for_has_no_completion(transport, pair):
    near, far, source, target = pair
    near.post_write(source, target.remote, length=4)
    transport.events()
    far.post_receive(1)
    send(near, source, target, 4)
    assert [type(event) for event in transport.events()] == [Arrival]


def test_work_that_a_failed_qp_flushes_is_completed_once(transport, pair, nics, monkeypatch):
    near, _, source, target = pair
    nics[0].is_instant = False
    first, second = (near.post_write(source, target.remote, length=4) for _ in range(2))
    nics[0].carry_out(near.qpn, messages=0, status="remote_access")
    flushed = [
        {"work_id": work_id, "iterations": 0, "status": status, "time_ns": 9}
        for work_id, status in ((first, "remote_access"), (second, "flushed"))
    ]
    monkeypatch.setattr(nics[0], "poll", lambda qpn: flushed if qpn == near.qpn else [])
    nics[0].publish(event="qp_state", qpn=near.qpn, to="ERROR", status="remote_access")
    done, failed, rest = transport.events()
    assert (done.work_id, done.error) == (first, f"QP {near.qpn} of h0 failed: remote_access")
    assert failed == QpError(near, f"QP {near.qpn} of h0 failed: remote_access")
    assert (rest.work_id, rest.status) == (second, "flushed")


def test_a_write_that_is_refused_fails_its_qp(transport, pair, nics, monkeypatch):
    near, _, source, target = pair
    monkeypatch.setattr(nics[0], "post_write", lambda *_, **__: nics[0].refuse())
    send(near, source, target, 4)
    [event] = transport.events()
    assert event == QpError(near, "the NIC of h0 refused a post_write: refused")


def test_an_agent_that_dies_is_reported_once(transport, nics):
    nics[1].die()
    assert transport.events() == [
        HostLost("h1", "the NIC agent of h1 is lost: the NIC agent of h1 died"),
    ]
    assert transport.events() == []
    assert not transport.has_events


def test_agents_are_polled_so_that_they_can_forget(transport, pair, nics):
    near, far, source, target = pair
    far.post_receive(300)
    for _ in range(300):
        send(near, source, target, 1)
        transport.events()
    assert nics[0].qps[near.qpn].polls == 2
    assert nics[1].qps[far.qpn].polls == 2


def test_a_region_of_memory_is_checked_before_it_is_touched(pair):
    _, _, source, _ = pair
    with pytest.raises(ValueError, match="5 bytes at 4092 of a region of 4096"):
        source.fill(4092, 5, 1)


def test_a_write_that_does_not_fit_its_regions_is_refused(transport, pair):
    near, _, source, target = pair
    with pytest.raises(ValueError, match="local_at: 4000; 100 bytes do not fit a region of 4096"):
        near.post_write(source, target.remote, local_at=4000, length=100)


def test_the_queue_waits_for_entries_and_gives_up(transport, pair, nics):
    near, _, source, target = pair
    queue = near.context.completions
    near.post_write(source, target.remote, length=4)
    near.post_write(source, target.remote, length=4)
    assert [entry.status for entry in queue.wait(1)] == ["success"]
    assert [entry.status for entry in queue.wait(1)] == ["success"]
    with pytest.raises(AgentError, match="reported 0 of 1 entries in time"):
        queue.wait(1, timeout_ns=1)


def test_a_context_that_is_closed_goes_with_its_last_user(nics):
    """It maps the memory of its NIC: in a long campaign nobody may have to wait for the garbage collector."""
    opened = Context(nics[0], nics[0])
    region = opened.register_memory(4096)
    qp = opened.create_qp(1, [1])
    for _ in range(2):
        nics[0].publish(event="qp_state", qpn=qp.qpn, to="ERROR", status="flushed")
    assert len(opened.completions.wait(1)) == 1  # the other entry waits, and knows the QP
    opened.close()
    left = weakref.ref(opened)
    gc.disable()
    try:
        del opened, region, qp
        assert left() is None
    finally:
        gc.enable()
