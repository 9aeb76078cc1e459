"""One flow: batches posted, compared, stopped, failed."""

from dataclasses import replace

import pytest
from fake_nic import FakeNic, fake_transport

from mrc_testbed.errors import AgentError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.workloads.connectors import MrcConnector
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.layout import Layout
from mrc_testbed.workloads.sender import FlowSender

SIZE = 100
CLOS = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1))
TWO_HALVES = Layout(SIZE, slots=4, halves=2)


@pytest.fixture
def nics():
    made: list[FakeNic] = []
    made += [FakeNic("h0", made, is_instant=False), FakeNic("h1", made, is_instant=False)]
    yield made
    for nic in made:
        nic.close()


@pytest.fixture
def transport(nics):
    opened = fake_transport(nics, MrcConnector(CLOS))
    opened.open(["h0", "h1"])
    return opened


@pytest.fixture
def make_sender(transport):
    def make(layout=TWO_HALVES):
        sender = FlowSender(
            Flow("main", "h0", "h1", 0),
            transport,
            layout,
            depth=3,
            seed=5,
        )
        sender.prepare()
        return sender

    return make


@pytest.fixture
def feed(transport):
    def take(sender):
        for event in transport.events():
            sender.take(event)

    return take


def posted(nic, sender):
    return [work.arguments for work in nic.qps[sender.qp.qpn].posted]


def test_both_ends_get_a_qp_with_their_own_evs_towards_each_other(make_sender, nics):
    sender = make_sender()
    [near] = nics[0].qps.values()
    [far] = nics[1].qps.values()
    assert near.attributes["seed"] != far.attributes["seed"]
    assert near.peer is nics[1]
    assert nics[1].qps[near.peer_qpn].peer_qpn == sender.qp.qpn


def test_two_batches_are_posted_each_on_its_own_half(make_sender, nics):
    sender = make_sender()
    sender.start(None)
    first, second = posted(nics[0], sender)
    assert first["remote_offset"] == 0
    assert second["remote_offset"] == 4 * SIZE
    assert first["iterations"] == 4
    assert first["depth"] == 3
    assert (first["local_slots"], first["remote_slots"]) == (5, 4)


def test_a_finished_batch_is_compared_before_its_half_is_written_again(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    nics[0].carry_out(sender.qp.qpn)
    feed(sender)
    outcome = sender.outcome()
    assert (outcome.messages, outcome.compared_bytes, outcome.wrong_bytes) == (4, 4 * SIZE, 0)
    assert [work["remote_offset"] for work in posted(nics[0], sender)] == [4 * SIZE, 0]


def test_many_batches_leave_no_wrong_byte(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    for _ in range(50):
        nics[0].carry_out(sender.qp.qpn)
        feed(sender)
    assert sender.outcome().wrong_bytes == 0
    assert sender.outcome().compared_bytes == 50 * 4 * SIZE


def test_a_wrong_byte_is_counted(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    nics[0].corrupt_byte = 7
    nics[0].carry_out(sender.qp.qpn)
    feed(sender)
    assert sender.outcome().wrong_bytes == 1


def test_messages_that_were_acknowledged_but_never_written_are_noticed(make_sender, nics, transport):
    sender = make_sender()
    sender.start(None)
    qp = nics[0].qps[sender.qp.qpn]
    work = qp.posted[0]
    work.arguments = {**work.arguments, "iterations": 3}  # the fourth message is only claimed
    nics[0].carry_out(sender.qp.qpn)
    [event] = transport.events()
    sender.take(replace(event, iterations=4))
    assert sender.outcome().wrong_bytes >= SIZE * 0.9


@pytest.mark.parametrize("messages", [1, 3, 4, 5, 8, 9, 17])
def test_a_number_of_messages_is_sent_exactly(make_sender, nics, messages, feed):
    sender = make_sender()
    sender.start(messages)
    while not sender.is_idle:
        nics[0].carry_out(sender.qp.qpn)
        feed(sender)
    outcome = sender.outcome()
    assert outcome.messages == messages
    assert outcome.payload_bytes == messages * SIZE
    assert outcome.wrong_bytes == 0
    assert sum(batch.messages for batch in sender.batches) == messages


def test_stopping_books_what_had_been_sent(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    nics[0].carry_out(sender.qp.qpn, messages=3)
    feed(sender)
    sender.stop()
    while not sender.is_idle:
        feed(sender)
    outcome = sender.outcome()
    assert outcome.messages == 3
    assert outcome.compared_bytes == 3 * SIZE
    assert outcome.error is None


def test_with_a_single_half_the_next_batch_waits_for_the_comparison(make_sender, nics, feed):
    sender = make_sender(Layout(SIZE, slots=4, halves=1))
    sender.start(None)
    assert len(posted(nics[0], sender)) == 1
    for _ in range(5):
        nics[0].carry_out(sender.qp.qpn)
        feed(sender)
        assert len(posted(nics[0], sender)) == 1
    assert sender.outcome().wrong_bytes == 0


def test_a_failed_qp_fails_the_flow_with_the_reason(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    nics[0].publish(
        event="qp_state", qpn=sender.qp.qpn, **{"from": "RTS", "to": "ERROR"}, status="retry_exceeded"
    )
    feed(sender)
    assert sender.is_idle
    assert sender.outcome().error == f"QP {sender.qp.qpn} of h0 failed: retry_exceeded"


def test_a_completion_in_error_fails_the_flow(make_sender, nics, feed):
    sender = make_sender()
    sender.start(None)
    nics[0].carry_out(sender.qp.qpn, messages=1, status="remote_access")
    feed(sender)
    assert sender.outcome().error == f"QP {sender.qp.qpn} of h0 failed: remote_access"
    assert sender.is_idle


def test_closing_gives_everything_back(make_sender, nics):
    sender = make_sender()
    sender.close()
    sender.close()
    assert all(nic.qps == {} and nic.regions == {} for nic in nics)


def test_closing_gives_the_one_end_back_when_the_other_is_dead(make_sender, nics):
    sender = make_sender()
    nics[0].die()
    with pytest.raises(AgentError):
        sender.close()
    assert nics[1].qps == {}
    assert nics[1].regions == {}


def test_a_refused_preparation_leaves_nothing(nics, transport, monkeypatch):
    monkeypatch.setattr(nics[0], "create_qp", lambda *_, **__: nics[0].refuse())
    sender = FlowSender(
        Flow("main", "h0", "h1", 0),
        transport,
        Layout(SIZE, 4, 2),
        depth=1,
        seed=1,
    )
    with pytest.raises(Exception, match="refused"):
        sender.prepare()
    sender.close()
    assert all(nic.qps == {} and nic.regions == {} for nic in nics)
