"""The time-outs of a QP, to the millisecond: no receive for a WRITE with immediate, and no response.

The same for QPs of MRC and for reliable connections.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from mrc_agents.abi import NicControl, Qp, QpState, RcQp
from mrc_agents.bpf.maps import MappedArray
from mrc_agents.nic.work_queue import QpLimits, qp_index
from mrc_agents.protocol.retry_times import NO_END_US, give_up_us, rnr_timer_us
from mrc_testbed.topology.resolve import resolve_topology
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.reliable_connection import choose_rc_congestion
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.lab import VirtualLab, virtual_lab

MS = 1_000_000
BYTES = 5000
TIMER_5_MS = 18  # 5.12 ms
LOOK_MS = 13  # from one look of a QP's timer to the next: a quarter of the RTO


@pytest.fixture
def lab() -> Iterator[VirtualLab]:
    spec = TopologySpec(planes=2, t0=2, t1=2, hosts_per_t0=1, port_rate=40_000_000)
    with virtual_lab(resolve_topology(spec), seed=1) as lab:
        yield lab


class Pair:
    """A QP of h0 and its peer of h1, the first of which is limited."""

    def __init__(self, lab: VirtualLab, transport: str, limits: QpLimits) -> None:
        self._lab, self._is_rc = lab, transport == "rocev2"
        self.near, self.far = VirtualConnection(lab, "h0"), VirtualConnection(lab, "h1")
        ends = (self.near, self.far)
        verb = "create_qp"
        attributes: dict[str, Any] = {"evs": [plane << 28 for plane in range(2)]}
        if self._is_rc:
            usual = choose_rc_congestion(lab.clos, "rocev2").qp_attributes
            verb, attributes = "create_rc_qp", {"evs": [0], **usual, "rto_ns": 4 * LOOK_MS * MS}
        self.qpn, self.peer_qpn = (
            end.call(verb, peer_host=1 - host, first_psn=0, peer_first_psn=0, **attributes)
            for host, end in enumerate(ends)
        )
        reactions = lab.agent("h0").reactions
        assert reactions is not None
        reactions.verbs.limit_qp(self.qpn, limits)
        self.near.call("connect_qp", qpn=self.qpn, peer_qpn=self.peer_qpn)
        self.far.call("connect_qp", qpn=self.peer_qpn, peer_qpn=self.qpn)
        self.near.subscribe("completion", "qp_state")

    def write(self) -> None:
        """Posts a WRITE of 5000 bytes with an immediate."""
        here = self.near.call("register_memory", length=BYTES)
        there = self.far.call("register_memory", length=BYTES)
        where = {"local_offset": here["offset"], "remote_offset": 0, "r_key": there["r_key"]}
        self.near.call("post_write", qpn=self.qpn, length=BYTES, immediate=7, **where)

    def set_link(self, *, is_up: bool) -> None:
        """Lets the frames of the near end through, or be lost."""
        for port in self._lab.clos.ports_of(self._lab.clos.node("h0")):
            self._lab.runtime.set_carrier(port.id, is_up=is_up)

    def pause(self, duration_ms: int) -> None:
        """Lets the clock jump, of both machines: what the near QP and the agents have noted gets older."""
        head = self.state().head
        for name in ("progress_ns", "stalled_ns", "timer_due_ns"):
            setattr(head, name, getattr(head, name) - duration_ms * MS)
        for host in ("h0", "h1"):
            (control,) = MappedArray(self._lab.node_pins(host).map_fd("nic_control"), NicControl)
            control.heartbeat_ns -= duration_ms * MS

    def kill_agent(self) -> None:
        self._lab.agent("h0").kill()

    def state(self) -> Qp | RcQp:
        """The near QP as its NIC has it, alive."""
        maps, index = self._lab.node_pins("h0"), qp_index(self.qpn)
        if self._is_rc:
            return MappedArray(maps.map_fd("rc_qps"), RcQp)[index]
        return MappedArray(maps.map_fd("qps"), Qp)[index]

    def wait_ms(self, duration_ms: float) -> None:
        self._lab.run_until(self._lab.runtime.now_ns() + round(duration_ms * MS))

    def run_ms(self, duration_ms: float) -> list[str]:
        """Statuses of what has ended after so long."""
        self.wait_ms(duration_ms)
        return [event["status"] for event in self.near.drain_events()]


@pytest.fixture(params=["mrc", "rocev2"])
def make_pair(lab: VirtualLab, request: pytest.FixtureRequest) -> Callable[[QpLimits], Pair]:
    return lambda limits: Pair(lab, request.param, limits)


def test_a_write_waits_for_its_receive(make_pair: Callable[[QpLimits], Pair]) -> None:
    pair = make_pair(QpLimits(rnr_timer_us=rnr_timer_us(TIMER_5_MS)))
    pair.write()
    assert pair.run_ms(1000) == []
    pair.far.call("post_receive", qpn=pair.peer_qpn)
    assert pair.run_ms(LOOK_MS + 10) == ["success"]
    (row,) = pair.far.call("poll_receive", qpn=pair.peer_qpn)
    assert (row["immediate"], row["length"]) == (7, BYTES)
    assert pair.near.call("list_qps")[0]["inflight"] == 0


def test_rnr_retry_ends_the_wait(make_pair: Callable[[QpLimits], Pair]) -> None:
    pair = make_pair(QpLimits(rnr_timer_us=rnr_timer_us(TIMER_5_MS), rnr_limit=3))
    pair.write()
    assert pair.run_ms(3 * 5.12) == []
    assert pair.run_ms(1000) == ["rnr_retry_exceeded"]


@pytest.mark.parametrize("limit_ms", [100, 300])
def test_silence_ends_the_qp(make_pair: Callable[[QpLimits], Pair], limit_ms: int) -> None:
    pair = make_pair(QpLimits(give_up_us=limit_ms * 1000))
    pair.far.call("destroy_qp", qpn=pair.peer_qpn)
    pair.write()
    assert pair.run_ms(limit_ms) == []
    assert pair.run_ms(LOOK_MS) == ["retry_exceeded"]


def test_a_peer_that_answers_is_not_silent(make_pair: Callable[[QpLimits], Pair]) -> None:
    """It has no receive for far longer than the limit."""
    pair = make_pair(QpLimits(give_up_us=100_000, rnr_timer_us=rnr_timer_us(TIMER_5_MS)))
    pair.write()
    assert pair.run_ms(1000) == []


def test_a_peer_that_goes_while_a_write_waits_for_it_is_missed(make_pair: Callable[[QpLimits], Pair]) -> None:
    pair = make_pair(QpLimits(give_up_us=100_000, rnr_timer_us=rnr_timer_us(TIMER_5_MS)))
    pair.write()
    assert pair.run_ms(200) == []
    pair.far.call("destroy_qp", qpn=pair.peer_qpn)
    assert pair.run_ms(100 + 3 * LOOK_MS) == ["retry_exceeded"]


def test_no_end_is_none(make_pair: Callable[[QpLimits], Pair]) -> None:
    pair = make_pair(QpLimits(give_up_us=NO_END_US))
    pair.far.call("destroy_qp", qpn=pair.peer_qpn)
    pair.write()
    assert pair.run_ms(100_000) == []


@pytest.mark.parametrize("pause_ms", [60_000, 300, 25])
def test_a_pause_of_the_machine_is_no_silence(make_pair: Callable[[QpLimits], Pair], pause_ms: int) -> None:
    """The timer of a QP with a packet in flight may be the first to run behind it."""
    pair = make_pair(QpLimits(give_up_us=200_000))
    pair.set_link(is_up=False)
    pair.write()
    pair.far.call("post_receive", qpn=pair.peer_qpn)
    for _ in range(10):
        assert pair.run_ms(LOOK_MS) == []
        pair.pause(pause_ms)
    assert pair.run_ms(LOOK_MS) == []
    pair.set_link(is_up=True)
    assert pair.run_ms(100) == ["success"]


@pytest.mark.parametrize("pause_ms", [60_000, 300])
def test_silence_before_and_after_a_pause_adds_up(
    make_pair: Callable[[QpLimits], Pair], pause_ms: int
) -> None:
    pair = make_pair(QpLimits(give_up_us=300_000))
    pair.far.call("destroy_qp", qpn=pair.peer_qpn)
    pair.write()
    assert pair.run_ms(150) == []
    pair.pause(pause_ms)
    assert pair.run_ms(150 - LOOK_MS) == []
    assert pair.run_ms(3 * LOOK_MS) == ["retry_exceeded"]


def test_an_agent_that_has_died_ends_the_qp_all_the_same(make_pair: Callable[[QpLimits], Pair]) -> None:
    pair = make_pair(QpLimits(give_up_us=NO_END_US))
    pair.far.call("destroy_qp", qpn=pair.peer_qpn)
    pair.write()
    pair.run_ms(100)
    pair.kill_agent()
    pair.wait_ms(10_000)
    assert pair.state().state == QpState.RTS
    pair.wait_ms(3_000)
    assert pair.state().state == QpState.ERROR


@pytest.mark.parametrize(
    ("timeout", "retry_count", "expected_us"),
    [(14, 7, 536_870), (1, 0, 8), (0, 7, NO_END_US), (31, 7, NO_END_US - 1)],
)
def test_time_outs_are_those_of_ibta(timeout: int, retry_count: int, expected_us: int) -> None:
    assert give_up_us(timeout, retry_count) == expected_us


@pytest.mark.parametrize(("code", "expected_us"), [(0, 655_360), (1, 10), (14, 1280), (31, 491_520)])
def test_rnr_timers_are_those_of_ibta(code: int, expected_us: int) -> None:
    assert rnr_timer_us(code) == expected_us
