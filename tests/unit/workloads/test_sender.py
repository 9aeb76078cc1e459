"""One flow: batches posted, compared, stopped, failed."""

from dataclasses import replace

import pytest
from virtual_nics import fabric, in_ms, virtual_nics

from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.layout import Layout
from mrc_testbed.workloads.sender import FlowSender

SIZE = 100
TWO_HALVES = Layout(SIZE, slots=4, halves=2)


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
def make_sender(transport):
    def make(layout=TWO_HALVES):
        sender = FlowSender(Flow("main", "h0", "h1", 0), transport, layout, depth=3, seed=5)
        sender.prepare()
        return sender

    return make


@pytest.fixture
def next_events(nics, transport):
    """The next events, once time has passed."""

    def take():
        nics.lab.run_until(in_ms(1000), lambda: transport.has_events)
        return transport.events()

    return take


@pytest.fixture
def feed(next_events):
    def take(sender):
        for event in next_events():
            sender.take(event)

    return take


def posted(nics, sender):
    """Work of the sender, oldest first."""
    ring = nics.ring("h0", sender.qp.qpn)
    return list(ring.entries[: ring.tail])


def region_of(sender):
    """The memory that is written to."""
    return sender._require().remote.view


def test_both_ends_get_a_qp_with_their_own_evs_towards_each_other(make_sender, nics):
    sender = make_sender()
    [near], [far] = (nics.agent(host).list_qps() for host in ("h0", "h1"))
    first, second = (nics.order_of_evs(host, qp["qpn"]) for host, qp in (("h0", near), ("h1", far)))
    assert first != second
    assert sorted(first) == sorted(second)
    assert (near["qpn"], near["peer_host"], near["peer_qpn"]) == (sender.qp.qpn, 1, far["qpn"])
    assert (far["peer_host"], far["peer_qpn"]) == (0, near["qpn"])


def test_two_batches_are_posted_each_on_its_own_half(make_sender, nics):
    sender = make_sender()
    sender.start(None)
    first, second = posted(nics, sender)
    assert (first.remote_offset, second.remote_offset) == (0, 4 * SIZE)
    assert (first.iterations, first.depth, first.local_slots, first.remote_slots) == (4, 3, 5, 4)


def test_a_finished_batch_is_compared_before_its_half_is_written_again(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    feed(sender)
    outcome = sender.outcome()
    assert (outcome.messages, outcome.compared_bytes, outcome.wrong_bytes) == (4, 4 * SIZE, 0)
    assert [work.remote_offset for work in posted(nics, sender)] == [0, 4 * SIZE, 0]


def test_many_batches_leave_no_wrong_byte(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    for _ in range(50):
        feed(sender)
    assert sender.outcome().wrong_bytes == 0
    assert sender.outcome().compared_bytes == 50 * 4 * SIZE


def test_a_wrong_byte_is_counted(make_sender, next_events):
    sender = make_sender()
    sender.start(None)
    [event] = next_events()
    region_of(sender)[7] ^= 0xFF
    sender.take(event)
    assert sender.outcome().wrong_bytes == 1


def test_messages_that_were_acknowledged_but_never_written_are_noticed(make_sender, next_events):
    sender = make_sender()
    sender.start(3)
    [event] = next_events()
    sender.take(replace(event, iterations=4))  # the fourth message is only claimed
    assert sender.outcome().wrong_bytes >= SIZE * 0.9


@pytest.mark.parametrize("messages", [1, 3, 4, 5, 8, 9, 17])
def test_a_number_of_messages_is_sent_exactly(make_sender, nics, messages, feed):
    sender = make_sender()
    sender.start(messages)
    while not sender.is_idle:
        feed(sender)
    outcome = sender.outcome()
    assert outcome.messages == messages
    assert outcome.payload_bytes == messages * SIZE
    assert outcome.wrong_bytes == 0
    assert sum(batch.messages for batch in sender.batches) == messages


def test_stopping_books_what_had_been_sent(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    feed(sender)
    sender.stop()
    while not sender.is_idle:
        feed(sender)
    outcome = sender.outcome()
    assert 4 < outcome.messages < 12
    assert outcome.compared_bytes == outcome.messages * SIZE
    assert outcome.error is None


def test_with_a_single_half_the_next_batch_waits_for_the_comparison(make_sender, nics, feed):
    sender = make_sender(Layout(SIZE, slots=4, halves=1))
    sender.start(None)
    for batch in range(1, 6):
        assert len(posted(nics, sender)) == batch
        feed(sender)
    assert sender.outcome().wrong_bytes == 0


def test_a_failed_qp_fails_the_flow_with_the_reason(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    nics.agent("h0").modify_qp(sender.qp.qpn, "ERROR")
    feed(sender)
    assert sender.is_idle
    assert sender.outcome().error == f"QP {sender.qp.qpn} of h0 failed: flushed"


def test_a_completion_in_error_fails_the_flow(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    sender._require().remote.close()
    feed(sender)
    assert sender.outcome().error == f"QP {sender.qp.qpn} of h0 failed: remote_access"
    assert sender.is_idle


def test_closing_gives_everything_back(make_sender, nics):
    sender = make_sender()
    sender.close()
    sender.close()
    assert nics.left() == []


def test_closing_gives_the_one_end_back_when_the_other_is_dead(make_sender, nics):
    sender = make_sender()
    nics.lab.agent("h0").kill()
    with pytest.raises(AgentError):
        sender.close()
    assert nics.left() == []


def test_a_refused_preparation_leaves_nothing(nics, transport, monkeypatch):
    def refuse(*_, **__):
        raise UsageError("refused")

    monkeypatch.setattr(VirtualConnection, "create_qp", refuse)
    sender = FlowSender(Flow("main", "h0", "h1", 0), transport, Layout(SIZE, 4, 2), depth=1, seed=1)
    with pytest.raises(Exception, match="refused"):
        sender.prepare()
    sender.close()
    assert nics.left() == []
