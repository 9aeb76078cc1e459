"""The verbs of an agent: arguments checked, work queued, completions booked in order."""

from collections.abc import Iterator
from typing import Any

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.abi import CompletionStatus, Event, EventKind, EvReason, EvState, QpState
from mrc_agents.nic.config import NicSettings
from mrc_agents.nic.verbs import Verbs
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.ev_set import build_ev_set
from mrc_testbed.topology.spec import TopologySpec

FABRIC = Clos(TopologySpec(planes=4, t0=2, t1=2, hosts_per_t0=2))
HOST, PEER = 0, 3
EVS = list(build_ev_set(FABRIC, HOST, PEER, 16))
PEER_QPN = 3000
PEER_PSN = 77


@pytest.fixture
def device() -> Iterator[VirtualNic]:
    with virtual_nic(FABRIC, HOST) as nic:
        yield nic


@pytest.fixture
def verbs(device: VirtualNic, tmp_path: Any) -> Verbs:
    config = NicSettings("h0", rto_ns=7_000_000, retry_limit=9)
    return Verbs(config, device)


@pytest.fixture
def qpn(verbs: Verbs) -> int:
    """A QP in RTS."""
    qpn = verbs.create_qp(PEER, EVS)
    verbs.connect_qp(qpn, PEER_QPN, PEER_PSN)
    return qpn


def write(verbs: Verbs, qpn: int, **changes: int) -> int:
    work = {"length": 100, "local_offset": 0, "remote_offset": 0, "r_key": 77}
    return verbs.post_write(qpn, **(work | changes))


def report(verbs: Verbs, kind: EventKind, qpn: int, *values: int) -> dict[str, Any] | None:
    """Lets the kernel report an event with fields a, b, c, d."""
    a, b, c, d = (*values, 0, 0, 0, 0)[:4]
    return verbs.take_event(Event(time_ns=5, kind=kind, qp_index=qp_index(qpn), a=a, b=b, c=c, d=d))


def test_receiver_asks_for_less(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    verbs.adjust_qp(qpn, mpr_dest=2, receiver_penalty=64)
    qp = device.qps.read(qp_index(qpn))
    assert (qp.resp.tracked_psns, qp.resp.penalty) == (256, 64)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"mpr_dest": 0}, "mpr_dest: 0; 1 to 8 is accepted"),
        ({"mpr_dest": 9}, "mpr_dest: 9; 1 to 8 is accepted"),
        ({"receiver_penalty": 128}, "receiver_penalty: 128; 0 to 127 is accepted"),
        ({"receiver_penalty": -1}, "receiver_penalty: -1; 0 to 127 is accepted"),
    ],
)
def test_what_a_receiver_cannot_ask(verbs: Verbs, qpn: int, asked: dict[str, int], complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        verbs.adjust_qp(qpn, **asked)


def test_only_a_connected_qp_asks_its_peer(verbs: Verbs) -> None:
    unconnected = verbs.create_qp(PEER, EVS)
    with pytest.raises(UsageError, match="is in state INIT; adjust_qp needs RTR or RTS"):
        verbs.adjust_qp(unconnected, receiver_penalty=1)


# -- queue pairs ---------------------------------------------------------------------------------------------


def test_new_qp_gets_the_defaults_of_the_nic(verbs: Verbs, device: VirtualNic) -> None:
    qpn = verbs.create_qp(PEER, EVS)
    qp = device.qps.read(qp_index(qpn))
    assert (qp.state, qp.head.qpn, qp.head.peer_host) == (QpState.INIT, qpn, PEER)
    assert (qp.cc_parameters.max_cwnd_bytes, qp.comp.loss_threshold_acks, qp.head.pmtu_bytes) == (
        64 * 2136 - 255,
        128,
        2048,
    )
    assert (qp.head.rto_ns, qp.head.retry_limit) == (7_000_000, 9)
    assert [qp.evs.planes[plane].backup_count for plane in range(4)] == [1, 1, 1, 1]


def test_attributes_replace_defaults(verbs: Verbs, device: VirtualNic) -> None:
    qpn = verbs.create_qp(PEER, EVS, window_packets=10, backup_per_plane=0)
    qp = device.qps.read(qp_index(qpn))
    assert (qp.cc_parameters.max_cwnd_bytes, qp.comp.loss_threshold_acks) == (10 * 2136 - 255, 20)
    assert qp.evs.planes[0].backup_count == 0


def test_unknown_attribute_is_named_with_those_that_exist(verbs: Verbs) -> None:
    with pytest.raises(UsageError, match=r"create_qp: no attribute window; known: backup_per_plane, .*seed"):
        verbs.create_qp(PEER, EVS, window=3)


def test_every_qp_of_the_nic_can_be_used_and_no_more(verbs: Verbs) -> None:
    numbers = [verbs.create_qp(PEER, EVS) for _ in range(3)]
    assert numbers == [1024, 1025, 1026]
    with pytest.raises(UsageError, match="all 3 QPs of the NIC are in use"):
        verbs.create_qp(PEER, EVS)
    verbs.destroy_qp(1025)
    assert verbs.create_qp(PEER, EVS) == 2 * 1024 + 1


def test_connect_needs_a_qp_in_init_and_a_number_of_the_peer(verbs: Verbs, device: VirtualNic) -> None:
    qpn = verbs.create_qp(PEER, EVS)
    for peer_qpn in (-1, 2, 1023, 1 << 24):
        with pytest.raises(UsageError, match=f"^peer_qpn: {peer_qpn}; 1024 to 16777215 is accepted$"):
            verbs.connect_qp(qpn, peer_qpn, PEER_PSN)
    verbs.connect_qp(qpn, PEER_QPN, PEER_PSN)
    qp = device.qps.read(0)
    assert (qp.state, qp.head.peer_qpn, qp.resp.cack_next) == (QpState.RTS, PEER_QPN, PEER_PSN)
    with pytest.raises(UsageError, match="QP 1024 is in state RTS; connect_qp needs INIT"):
        verbs.connect_qp(qpn, PEER_QPN, PEER_PSN)


@pytest.mark.parametrize("verb", ["destroy_qp", "poll", "ev_list"])
def test_unknown_qp_is_named(verbs: Verbs, qpn: int, verb: str) -> None:
    for unknown in (0, qpn + 1, -5):
        with pytest.raises(UsageError, match=f"^qpn: no QP {unknown}$"):
            verbs.table[verb](unknown)


def test_destroyed_qp_receives_no_more(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    verbs.destroy_qp(qpn)
    assert device.qps.read(0).state == QpState.RESET
    assert verbs.list_qps() == []


def test_evs_are_listed_with_what_happened_to_them(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    value = device.qps.read(0)
    ev = value.evs.ev[5]
    ev.state, ev.reason, ev.lost_packets = EvState.ASSUMED_BAD, EvReason.LOSS, 3
    device.qps.write(0, value)
    rows = verbs.ev_list(qpn)
    assert [row["entropy"] for row in rows] == EVS
    assert [row["is_active"] for row in rows].count(True) in {11, 12}
    bad = rows[5]
    assert (bad["state"], bad["reason"], bad["lost_packets"], bad["is_active"]) == (
        "ASSUMED_BAD",
        "loss",
        3,
        False,
    )


def test_only_evs_of_the_qp_are_probed(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    verbs.probe(qpn, [0, 15])
    assert device.probes == [(0, 0), (0, 15)]
    for index in (-1, 16):
        with pytest.raises(UsageError, match=f"^evs: {index}; 0 to 15 is accepted$"):
            verbs.probe(qpn, [0, index])
    assert len(device.probes) == 2


def test_ports_are_listed_by_plane(verbs: Verbs, device: VirtualNic) -> None:
    device.control.port_up_mask = 0b0101
    assert verbs.port_status() == [True, False, True, False]


# -- work ----------------------------------------------------------------------------------------------------


def test_posted_work_is_in_the_ring_and_sending_requested(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    verbs.register_memory(100_000)
    work_id = write(
        verbs, qpn, length=5000, iterations=9, depth=4, local_slots=2, remote_slots=3, remote_offset=8
    )
    entry = device.work[0].entries[0]
    assert (entry.id, entry.length, entry.iterations, entry.depth) == (work_id, 5000, 9, 4)
    assert (entry.local_slots, entry.remote_slots, entry.remote_offset, entry.r_key) == (2, 3, 8, 77)
    assert device.requested == [(0, 12)]


def test_no_more_frames_are_requested_than_the_window(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    verbs.register_memory(1_000_000)
    write(verbs, qpn, length=1_000_000)
    assert device.requested == [(0, 64)]


def test_message_without_bytes_needs_no_memory(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    write(verbs, qpn, length=0)
    assert device.requested == [(0, 1)]


U32_MAX = 2**32 - 1


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [
        ("length", 0, U32_MAX),
        ("local_offset", 0, U32_MAX),
        ("remote_offset", 0, U32_MAX),
        ("r_key", 0, U32_MAX),
        ("iterations", 1, U32_MAX),
        ("depth", 1, 63),
        ("local_slots", 1, U32_MAX),
        ("remote_slots", 1, U32_MAX),
    ],
)
def test_work_out_of_range_is_named_with_its_range(
    verbs: Verbs, device: VirtualNic, qpn: int, name: str, low: int, high: int
) -> None:
    verbs.register_memory(1000)
    for value in (low - 1, high + 1):
        with pytest.raises(UsageError) as caught:
            write(verbs, qpn, **{name: value})
        assert caught.value.message == f"{name}: {value}; {low} to {high} is accepted"
    assert device.posted(0) == []
    assert device.requested == []


def test_target_beyond_32_bits_is_refused(verbs: Verbs, qpn: int) -> None:
    verbs.register_memory(1000)
    write(verbs, qpn, remote_offset=2**32 - 200, remote_slots=2)
    with pytest.raises(UsageError, match=r"^remote_offset: .*; with 2 slots of 100 bytes it passes 2\^32$"):
        write(verbs, qpn, remote_offset=2**32 - 199, remote_slots=2)


@pytest.mark.parametrize("changes", [{"length": 1001}, {"local_offset": 901}, {"local_slots": 11}])
def test_source_must_be_registered(verbs: Verbs, qpn: int, changes: dict[str, int]) -> None:
    verbs.register_memory(1000)
    with pytest.raises(UsageError, match="lie in no registered region"):
        write(verbs, qpn, **changes)


def test_qp_that_cannot_send_refuses_work(verbs: Verbs) -> None:
    qpn = verbs.create_qp(PEER, EVS)
    with pytest.raises(UsageError, match=r"QP 1024 is in state INIT \(success\); post_write needs RTS"):
        write(verbs, qpn)


def test_work_ring_is_never_overrun(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    ids = [write(verbs, qpn, length=0) for _ in range(63)]
    with pytest.raises(UsageError, match="QP 1024 holds 63 work requests already"):
        write(verbs, qpn, length=0)
    device.work[0].entries[0].is_completed = 1  # as the data plane has it before it reports
    report(verbs, EventKind.COMPLETION, qpn, ids[0], 1)
    write(verbs, qpn, length=0)
    assert len(device.posted(0)) == 64


def test_stop_marks_the_work_and_nothing_else(verbs: Verbs, device: VirtualNic, qpn: int) -> None:
    first, second = (write(verbs, qpn, length=0) for _ in range(2))
    device.requested.clear()
    verbs.stop_work(qpn, second)
    assert [device.work[0].entries[place].stop for place in range(2)] == [0, 1]
    assert device.requested == [(0, 1)]
    report(verbs, EventKind.COMPLETION, qpn, first, 1)
    verbs.stop_work(qpn, first)
    assert device.work[0].entries[0].stop == 0


# -- what the kernel reports ---------------------------------------------------------------------------------


def test_completion_is_reported_and_waits_to_be_polled_once(verbs: Verbs, qpn: int) -> None:
    work_id = write(verbs, qpn, length=0)
    reported = report(verbs, EventKind.COMPLETION, qpn, work_id, 3, CompletionStatus.SUCCESS, 4096)
    assert reported == {
        "event": "completion",
        "time_ns": 5,
        "host": "h0",
        "qpn": qpn,
        "work_id": work_id,
        "iterations": 3,
        "status": "success",
        "length": 4096,
    }
    completion = {"work_id": work_id, "iterations": 3, "status": "success", "time_ns": 5}
    assert verbs.poll(qpn) == [completion]
    assert verbs.poll(qpn) == []


def test_failed_qp_completes_its_work_with_the_reason_and_flushes_the_rest(verbs: Verbs, qpn: int) -> None:
    done, *pending = (write(verbs, qpn, length=0) for _ in range(4))
    report(verbs, EventKind.COMPLETION, qpn, done, 1)
    reported = report(
        verbs, EventKind.QP_STATE, qpn, QpState.RTS, QpState.ERROR, CompletionStatus.REMOTE_ACCESS
    )
    assert reported is not None
    assert (reported["event"], reported["from"], reported["to"], reported["status"]) == (
        "qp_state",
        "RTS",
        "ERROR",
        "remote_access",
    )
    statuses = [(completion["work_id"], completion["status"]) for completion in verbs.poll(qpn)]
    expected = zip(pending, ["remote_access", "flushed", "flushed"], strict=True)
    assert statuses == [(done, "success"), *expected]
    with pytest.raises(
        UsageError, match=r"QP 1024 is in state ERROR \(remote_access\); post_write needs RTS"
    ):
        write(verbs, qpn)


def test_change_of_an_ev_is_reported_with_its_path(verbs: Verbs, qpn: int) -> None:
    reported = report(verbs, EventKind.EV_STATE, qpn, 6, EvState.GOOD, EvState.ASSUMED_BAD, EvReason.TIMEOUT)
    assert reported is not None
    about = (reported["ev"], reported["entropy"], reported["plane"], reported["peer_host"])
    assert about == (6, EVS[6], 1, PEER)
    assert (reported["from"], reported["to"], reported["reason"]) == ("GOOD", "ASSUMED_BAD", "timeout")


def test_wish_for_frames_is_no_event(verbs: Verbs, qpn: int) -> None:
    assert report(verbs, EventKind.KICK, qpn, 10) is None


def test_event_of_a_qp_that_is_gone_is_no_event(verbs: Verbs, qpn: int) -> None:
    verbs.destroy_qp(qpn)
    assert report(verbs, EventKind.COMPLETION, qpn, 1, 1) is None
