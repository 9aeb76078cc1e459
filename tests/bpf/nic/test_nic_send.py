"""Parts of SENDs: WRITEs with immediate by reserved keys, into the mailbox of their QP."""

import pytest
from far_end import FarEnd, packet_of
from nic_bench import NicBench
from program_bench import Verdict
from reference.opcode import Opcode
from reference.packet import Acknowledge, Nack
from reference.reliability_header import NackReason
from reference.transport_header import AckKind, ImmDt, NakCode
from write_target import WriteTarget, random_bytes

from mrc_agents.abi import Limit, NicCounter, ReservedKey

PAGE = 40
BYTES = 1500


@pytest.fixture
def target(nic: NicBench, distant: FarEnd) -> WriteTarget:
    """A QP with a mailbox, whose peer may not write elsewhere."""
    target = WriteTarget(nic, distant)
    nic.work[0].mailbox = 1 + PAGE
    nic.edit_qp(is_writable=0)
    return target


def part(target: WriteTarget, psn: int, key: int, va: int, payload: bytes) -> bytes:
    """The frame of a WRITE with immediate 7 in one packet, the first of its QP."""
    options = {"rqmsn": psn + 1, "msn": psn, "r_key": key, "immediate": ImmDt(7)}
    return target.frame(psn, payload, va, opcode=Opcode.WRITE_ONLY_IMMEDIATE, **options)


def arrivals(nic: NicBench) -> list[tuple[int, int, int]]:
    """(key, immediate, bytes) of what the ring reports."""
    return [(each.r_key, each.immediate, each.length) for each in nic.work[0].arrivals if each.number]


@pytest.mark.parametrize(
    "key", [ReservedKey.SEND_PART, ReservedKey.SEND_LAST, ReservedKey.SEND_LAST_IMMEDIATE]
)
def test_part_lies_in_the_mailbox_and_its_key_is_reported(target: WriteTarget, key: int) -> None:
    target.nic.post_receives(1)
    payload = random_bytes(BYTES)
    assert target.nic.receive(part(target, 0, key, 2048, payload), 0).verdict is Verdict.REDIRECT
    start = PAGE * 4096 + 2048
    assert bytes(target.nic.memory[start : start + BYTES]) == payload
    assert arrivals(target.nic) == [(key, 7, BYTES)]


def test_part_without_a_receive_waits_and_writes_nothing(target: WriteTarget) -> None:
    outcome = target.nic.receive(part(target, 0, ReservedKey.SEND_LAST, 0, random_bytes(BYTES)), 0)
    nack = packet_of(outcome.frame, Nack)
    assert nack.neth.reason == NackReason.NO_RESOURCE
    assert arrivals(target.nic) == []
    target.check_memory()


@pytest.mark.parametrize(
    ("va", "has_mailbox", "counter"),
    [
        (0, False, NicCounter.DROP_R_KEY),
        (Limit.MAILBOX_BYTES - BYTES + 1, True, NicCounter.DROP_BOUNDS),
        (1 << 32, True, NicCounter.DROP_BOUNDS),
    ],
)
def test_part_goes_nowhere_but_to_a_mailbox(
    target: WriteTarget, va: int, has_mailbox: bool, counter: NicCounter
) -> None:
    target.nic.post_receives(1)
    if not has_mailbox:
        target.nic.work[0].mailbox = 0
    outcome = target.nic.receive(part(target, 0, ReservedKey.SEND_PART, va, random_bytes(BYTES)), 0)
    nak = packet_of(outcome.frame, Acknowledge)
    assert (nak.aeth.kind, nak.aeth.value) == (AckKind.NAK, NakCode.REMOTE_ACCESS_ERROR)
    assert outcome.counters[counter] == 1
    target.check_memory()


def test_end_of_a_write_has_the_length_of_all_of_it(target: WriteTarget) -> None:
    target.nic.post_receives(1)
    target.nic.receive(part(target, 0, ReservedKey.WRITE_END, 70_000, b""), 0)
    assert arrivals(target.nic) == [(ReservedKey.WRITE_END, 7, 70_000)]


def test_end_of_a_write_carries_nothing(target: WriteTarget) -> None:
    target.nic.edit_qp(is_writable=1)
    target.nic.post_receives(1)
    outcome = target.nic.receive(part(target, 0, ReservedKey.WRITE_END, 0, random_bytes(BYTES)), 0)
    assert outcome.counters[NicCounter.DROP_R_KEY] == 1
    target.check_memory()
