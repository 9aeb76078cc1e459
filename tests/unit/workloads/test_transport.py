"""NICs as a transport: QPs that connect, completions and arrivals, hosts that are lost."""

import gc
import socket
import weakref

import pytest
from virtual_nics import MEMORY_BYTES, fabric, in_ms, virtual_nics

from mrc_agents.nic.context import Arrival, Completion, Context, QpError
from mrc_agents.nic.nic_maps import NicMaps
from mrc_testbed.errors import AgentError
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.workloads.transport import HostLost

LONG_MS = 1000


@pytest.fixture
def nics():
    with virtual_nics(fabric()) as made:
        yield made


@pytest.fixture
def transport(nics):
    opened = nics.transport()
    opened.open(["h0", "h1"])
    return opened


@pytest.fixture
def events(nics, transport):
    """Lets time pass until nothing happens any more; the events."""

    def take():
        nics.lab.run_until(in_ms(10))
        return transport.events()

    return take


@pytest.fixture
def pair(transport):
    near, far = transport.connect("h0", "h1", 7)
    return near, far, transport.register("h0", 4096), transport.register("h1", 4096)


def send(near, source, target, length, local_at=0, remote_at=0, immediate=0):
    near.send_write(
        source, target.remote, length=length, local_at=local_at, remote_at=remote_at, immediate=immediate
    )


def test_a_write_moves_bytes_between_regions_and_its_immediate_reports_it(events, pair):
    near, far, source, target = pair
    far.post_receive(1)
    source.view[100:104] = b"mrc!"
    send(near, source, target, 4, 100, 8, immediate=77)
    arrived = [(e.qp, e.number, e.immediate, e.length) for e in events() if isinstance(e, Arrival)]
    assert bytes(target.view[8:12]) == b"mrc!"
    assert arrived == [(far, 1, 77, 4)]
    assert near.acknowledged_bytes() == 4
    assert far.acknowledged_bytes() == 0


def test_events_are_announced_every_time(nics, transport, pair):
    near, _, source, target = pair
    for _ in range(3):
        transport.events()
        assert not transport.has_events
        work_id = near.post_write(source, target.remote, length=4)
        nics.lab.run_until(in_ms(LONG_MS), lambda: transport.has_events)
        assert [event.work_id for event in transport.events() if isinstance(event, Completion)] == [work_id]


def test_work_that_is_not_waited_for_has_no_completion(events, pair):
    near, far, source, target = pair
    near.post_write(source, target.remote, length=4)
    events()
    far.post_receive(1)
    send(near, source, target, 4)
    assert [type(event) for event in events()] == [Arrival]


def test_work_that_a_failed_qp_flushes_is_completed_once(events, pair):
    near, _, source, target = pair
    target.close()
    first, second = (near.post_write(source, target.remote, length=4) for _ in range(2))
    failed, done, rest = (each for each in events() if each.qp is near)
    assert (done.work_id, done.error) == (first, f"QP {near.qpn} of h0 failed: remote_access")
    assert failed == QpError(near, f"QP {near.qpn} of h0 failed: remote_access")
    assert (rest.work_id, rest.status) == (second, "flushed")


def test_a_write_that_is_refused_fails_its_qp(events, pair):
    near, _, source, target = pair
    send(near, source, target, 4, MEMORY_BYTES)
    [event] = events()
    assert isinstance(event, QpError)
    assert event.qp is near
    assert event.reason.startswith("the NIC of h0 refused a post_write: bytes 1048576 to 1048580")


def test_an_agent_that_dies_is_reported_once(transport, nics):
    nics.lab.agent("h1").kill()
    assert transport.events() == [HostLost("h1", "the NIC agent of h1 is lost: the NIC agent of h1 died")]
    assert transport.events() == []
    assert not transport.has_events


def test_agents_are_polled_so_that_they_can_forget(events, pair):
    near, far, source, target = pair
    far.post_receive(300)
    for _ in range(300):
        send(near, source, target, 1)
        events()
    kept = far.context.verbs.poll_receive(far.qpn)
    assert len(kept) == 300 - 256


def test_a_region_of_memory_is_checked_before_it_is_touched(pair):
    _, _, source, _ = pair
    with pytest.raises(ValueError, match="5 bytes at 4092 of a region of 4096"):
        source.fill(4092, 5, 1)


def test_a_write_that_does_not_fit_its_regions_is_refused(transport, pair):
    near, _, source, target = pair
    with pytest.raises(ValueError, match="local_at: 4000; 100 bytes do not fit a region of 4096"):
        near.post_write(source, target.remote, local_at=4000, length=100)


@pytest.fixture
def descriptor(monkeypatch):
    """Lets a queue be waited for, where what it waits for has happened."""
    with socket.socket() as idle:
        monkeypatch.setattr(VirtualConnection, "fileno", lambda _: idle.fileno())
        yield


@pytest.mark.usefixtures("descriptor")
def test_the_queue_waits_for_entries_and_gives_up(nics, pair):
    near, _, source, target = pair
    queue = near.context.completions
    near.post_write(source, target.remote, length=4)
    near.post_write(source, target.remote, length=4)
    nics.lab.run_until(in_ms(10))
    assert [entry.status for entry in queue.wait(1)] == ["success"]
    assert [entry.status for entry in queue.wait(1)] == ["success"]
    with pytest.raises(AgentError, match="reported 0 of 1 entries in time"):
        queue.wait(1, timeout_ns=0)


@pytest.mark.usefixtures("descriptor")
def test_a_context_that_is_closed_goes_with_its_last_user(nics):
    """It maps the memory of its NIC: in a long campaign nobody may have to wait for the garbage collector."""
    agent = nics.agent("h0")
    opened = Context(agent, NicMaps(nics.lab.node_pins("h0")))
    region = opened.register_memory(4096)
    qp = opened.create_qp(1)
    for _ in range(2):
        agent.notify({"event": "qp_state", "qpn": qp.qpn, "to": "ERROR", "status": "flushed"})
    assert len(opened.completions.wait(1)) == 1  # the other entry waits, and knows the QP
    opened.close()
    left = weakref.ref(opened)
    gc.disable()
    try:
        del opened, region, qp
        assert left() is None
    finally:
        gc.enable()
