"""QP numbers: none returns soon, whoever asks, and after an agent's restart as well."""

from collections.abc import Iterator

import pytest
from virtual_nic import VirtualNic, virtual_nic

from mrc_agents.abi import Limit
from mrc_agents.nic.nic_state import QpNumbers
from mrc_agents.nic.work_queue import qp_index
from mrc_testbed.errors import UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

QP_COUNT = 4
LONG_NS = 1 << 60


@pytest.fixture
def device() -> Iterator[VirtualNic]:
    with virtual_nic(Clos(TopologySpec(planes=1, t0=2, t1=1, hosts_per_t0=1)), 0, qp_count=QP_COUNT) as nic:
        yield nic


def numbers_of(device: VirtualNic, lifetime_ns: int = LONG_NS) -> QpNumbers:
    return QpNumbers(device, lifetime_ns)


def test_indices_take_turns_and_no_number_returns(device: VirtualNic) -> None:
    numbers = numbers_of(device)
    taken = []
    for _ in range(100):
        taken.append(numbers.take())
        numbers.release(taken[-1])
    assert len(set(taken)) == 100
    assert [qp_index(qpn) for qpn in taken] == [0, 1, 2, 3] * 25
    assert all(1 << Limit.QP_INDEX_BITS <= qpn < 1 << 24 for qpn in taken)


def test_the_next_agent_goes_on_where_the_last_one_stopped(device: VirtualNic) -> None:
    first = {numbers_of(device).take() for _ in range(20)}
    assert len(first) == 20


def test_a_qp_that_begins_again_gets_another_number_at_its_index(device: VirtualNic) -> None:
    numbers = numbers_of(device)
    first, other = numbers.take(), numbers.take()
    again = numbers.renew(first)
    assert again not in {first, other}
    assert qp_index(again) == qp_index(first)


def test_an_index_is_used_again_only_when_no_cpu_works_at_its_last_qp(device: VirtualNic) -> None:
    numbers = numbers_of(device)
    order: list[str] = []
    device.await_runs = lambda: order.append("runs")  # type: ignore[method-assign] # noted instead
    numbers.take_events = lambda: order.append("events")
    held = [numbers.take() for _ in range(QP_COUNT)]
    assert order == []
    for qpn in held:
        numbers.release(qpn)
    for _ in range(QP_COUNT):
        numbers.take()
    assert order == ["runs", "events"]
    numbers.renew(held[0])
    assert order == ["runs", "events"] * 2


def test_all_in_use(device: VirtualNic) -> None:
    numbers = numbers_of(device)
    for _ in range(QP_COUNT):
        numbers.take()
    with pytest.raises(UsageError, match=r"^all 4 QPs of the NIC are in use$"):
        numbers.take()


@pytest.mark.parametrize("is_restarted", [False, True])
def test_a_number_is_refused_while_packets_for_its_last_qp_may_arrive(
    device: VirtualNic, is_restarted: bool
) -> None:
    """The turns of an index are used by halves: the first is entered again when the second has lasted."""
    device.work[0].turn = Limit.QP_TURNS - 2 if is_restarted else 0
    numbers = numbers_of(device)
    taken = [numbers.take()]
    left = 0 if is_restarted else Limit.QP_TURNS // 2 - 2
    taken += [numbers.renew(taken[0]) for _ in range(left)]
    assert len(set(taken)) == left + 1
    with pytest.raises(UsageError, match="packets may be on their way for every number of the QP at index 0"):
        numbers.renew(taken[-1])


def test_turns_begin_again_once_packets_have_died_out(device: VirtualNic) -> None:
    numbers = numbers_of(device, lifetime_ns=0)
    qpn, seen = numbers.take(), []
    for _ in range(Limit.QP_TURNS):
        seen.append(qpn)
        qpn = numbers.renew(qpn)
    assert len(set(seen)) == Limit.QP_TURNS - 1
    assert seen[-1] == seen[0]
