"""QPs whose agent has died: they end by themselves, and their peers get a NACK."""

import time

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench
from reference.frame import encode_frame
from reference.packet import Nack
from reference.reliability_header import NackReason
from write_source import WriteSource
from write_target import WriteTarget

from mrc_agents.abi import CompletionStatus, EventKind, NicCounter, QpState

LIMIT_NS = 1_000_000_000
LOOKED_AT_PSN = 256
RTO_NS = 40_000_000


def let_agent_live(nic: NicBench) -> None:
    """The agent will be taken for alive for as long as any test lasts."""
    nic.control.heartbeat_limit_ns = 3600 * LIMIT_NS
    nic.control.heartbeat_ns = time.monotonic_ns()


def test_requester_stops_once_its_timer_has_found_the_agent_silent_several_times(
    nic: NicBench, timed: FarEnd
) -> None:
    source = WriteSource(nic, timed, timed.attributes(rto_ns=RTO_NS, retry_limit=1000))
    source.post(2048, iterations=1000)
    assert len(source.send(1)) == 1
    nic.let_agent_die(looks=0)
    (change,) = (event for event in nic.await_error() if event.kind == EventKind.QP_STATE)
    assert (change.a, change.b, change.c) == (QpState.RTS, QpState.ERROR, CompletionStatus.FLUSHED)
    assert nic.qp(source.index).state == QpState.ERROR
    assert source.send() == []


def test_responder_refuses_and_reports_it_to_its_peer(nic: NicBench, distant: FarEnd) -> None:
    target = WriteTarget(nic, distant, LOOKED_AT_PSN - 1)
    nic.let_agent_die(looks=3)
    target.deliver(target.packet(LOOKED_AT_PSN - 1, b"not looked at yet"), LOOKED_AT_PSN - 1)
    frame = encode_frame(distant.arriving(target.packet(LOOKED_AT_PSN, b"nobody is there"), 0))
    outcome = nic.receive(frame, 0)
    nack = packet_of(outcome.frame, Nack)
    assert (nack.neth.reason, nack.neth.nack_psn) == (NackReason.UNEXPECTED_EVENT, LOOKED_AT_PSN)
    assert outcome.counters == {NicCounter.TX_NACK: 1, NicCounter.QP_ERRORS: 1}
    assert nic.qp().state == QpState.ERROR
    target.check_memory()


@pytest.mark.parametrize("is_watched", [True, False])
def test_qp_of_a_living_agent_and_one_without_a_limit_go_on(
    nic: NicBench, distant: FarEnd, is_watched: bool
) -> None:
    target = WriteTarget(nic, distant, LOOKED_AT_PSN)
    if is_watched:
        let_agent_live(nic)
    else:
        nic.let_agent_die(looks=3)
        nic.control.heartbeat_limit_ns = 0
    target.deliver(target.packet(LOOKED_AT_PSN, b"somebody is there"), LOOKED_AT_PSN)


def test_agent_that_is_found_silent_for_the_first_time_may_have_stood_still(
    nic: NicBench, distant: FarEnd
) -> None:
    """As after a pause of the whole machine, where no packet may wait for the agent's turn."""
    target = WriteTarget(nic, distant, LOOKED_AT_PSN)
    nic.let_agent_die(looks=0)
    nic.control.silences = 100  # of another time
    target.deliver(target.packet(LOOKED_AT_PSN, b"it will wake up"), LOOKED_AT_PSN)
    assert nic.control.silences == 1


def test_agent_that_has_not_begun_yet_is_not_dead(nic: NicBench, distant: FarEnd) -> None:
    target = WriteTarget(nic, distant, LOOKED_AT_PSN)
    nic.control.heartbeat_limit_ns = 1
    target.deliver(target.packet(LOOKED_AT_PSN, b"it will come"), LOOKED_AT_PSN)
