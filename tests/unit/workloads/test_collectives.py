"""Collectives and training on NICs in virtual time."""

import pytest
from virtual_nics import MS, fabric, in_ms, virtual_nics

from mrc_testbed.errors import UsageError
from mrc_testbed.faults.rule import FrameRule
from mrc_testbed.faults.schedule import Schedule
from mrc_testbed.virtual.world import VirtualTarget
from mrc_testbed.workloads.collective import COLLECTIVE_KINDS
from mrc_testbed.workloads.load import build_loads
from mrc_testbed.workloads.spec import CollectiveSpec, Training, WriteBw

CLOS = fabric(hosts_per_t0=2)


@pytest.fixture
def nics():
    with virtual_nics(CLOS) as made:
        yield made


@pytest.fixture
def engine(nics):
    with nics.engine() as made:
        yield made


class Follower:
    """Keeps what a listener receives: operations by name, and ends."""

    def __init__(self):
        self.completed_names = []
        self.ended_names = []

    def completed(self, name, *_):
        self.completed_names.append(name)

    def ended(self, name):
        self.ended_names.append(name)


@pytest.fixture
def follower():
    return Follower()


@pytest.fixture
def followed_engine(nics, follower):
    with nics.engine(listener=follower) as made:
        yield made


def later():
    return in_ms(100_000)


def loads(model=CollectiveSpec, **fields):
    values = {"name": "main", "kind": "all-reduce", "size": 120_000, **fields}
    return list(build_loads(model.model_validate(values), CLOS))


@pytest.mark.parametrize("kind", COLLECTIVE_KINDS)
@pytest.mark.parametrize("qps", [1, 3])
def test_every_operation_ends_with_the_right_bytes_everywhere(engine, nics, kind, qps):
    engine.prepare(loads(kind=kind, qps=qps, iterations=5), 1)
    engine.start("main")
    assert engine.wait(later())
    outcomes = engine.collect(in_ms(0))
    assert [(outcome.wrong_bytes, outcome.error) for outcome in outcomes] == [(0, None)] * len(outcomes)
    assert all(outcome.compared_bytes > 0 for outcome in outcomes)
    operations = engine.operations("main")
    assert len(operations) == 5
    assert all(each.begin_ns <= each.end_ns for each in operations)
    nics.lab.run_until(in_ms(10))  # the last acknowledgements arrive
    acknowledged = engine.acknowledged_bytes()
    assert [acknowledged[outcome.flow] for outcome in outcomes] == [each.payload_bytes for each in outcomes]


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float64"])
@pytest.mark.parametrize("reduction", ["sum", "min", "max"])
def test_every_type_and_reduction(engine, dtype, reduction):
    engine.prepare(loads(dtype=dtype, reduce=reduction, iterations=2), 1)
    engine.start("main")
    outcomes = engine.collect(later())
    assert sum(outcome.wrong_bytes for outcome in outcomes) == 0
    assert sum(outcome.compared_bytes for outcome in outcomes) == 2 * 4 * 120_000


def test_a_byte_that_changes_on_its_way_is_found(engine, nics):
    engine.prepare(loads(kind="all-to-all", iterations=1), 1)
    target = VirtualTarget(nics.lab)
    flips = FrameRule(action="corrupt", ratio=0.2, traffic="data", flipped_bits=1)
    for port in CLOS.ports_of(CLOS.node("h2")):
        target.set_rule(port.id, 0, flips, 1, Schedule(0, 0, None))
    engine.start("main")
    outcomes = engine.collect(later())
    assert {each.flow.source for each in outcomes if each.wrong_bytes} == {"h2"}


def carried(kind, posts, disturb):
    """Outcomes of three operations through loss, their times, and the frames that crossed links."""
    with virtual_nics(CLOS) as nics, nics.engine(is_killed=lambda _: True, posts=posts) as engine:
        engine.prepare(loads(kind=kind, iterations=3, qps=2), 1)
        lossy = FrameRule(action="lose", ratio=0.02)
        for port in CLOS.ports_of(CLOS.node("h2")):
            VirtualTarget(nics.lab).set_rule(port.id, 0, lossy, 1, Schedule(0, 0, None))
        engine.start("main")
        engine.wait(in_ms(3))
        disturb(nics.lab.agent("h1"))
        engine.wait(in_ms(4))
        nics.lab.agent("h1").thaw()
        return engine.collect(later()), engine.operations("main"), nics.lab.runtime.totals().arrivals


@pytest.mark.parametrize("kind", COLLECTIVE_KINDS)
@pytest.mark.parametrize("happens", ["nothing", "freeze", "kill"])
def test_the_library_carries_messages_as_python_does(kind, happens):
    def disturb(agent):
        if happens != "nothing":
            getattr(agent, happens)()

    outcomes, operations, frames = carried(kind, False, disturb)
    assert (outcomes, operations, frames) == carried(kind, True, disturb)
    assert len(operations) == (0 if happens == "kill" else 3)
    assert all(each.error is None for each in outcomes) or happens == "kill"


def test_training_computes_before_it_communicates(engine):
    engine.prepare(loads(Training, kind="training", compute=20 * MS, iterations=3), 1)
    engine.start("main")
    assert engine.wait(later())
    operations = engine.operations("main")
    assert len(operations) == 3
    assert all(each.begin_ns - each.step_begin_ns >= 20 * MS for each in operations)
    assert [each.step_begin_ns for each in operations[1:]] == [each.end_ns for each in operations[:-1]]


def test_stopping_training_lets_no_step_begin(engine):
    engine.prepare(loads(Training, kind="training", compute=60_000 * MS, duration=1000 * MS), 1)
    engine.start("main")
    assert not engine.is_finished("main")
    engine.stop("main")
    assert engine.wait(later())
    assert engine.operations("main") == []


def test_operations_go_on_until_they_are_stopped(engine):
    engine.prepare(loads(duration=60_000 * MS, size=4000), 1)
    engine.start("main")
    assert not engine.wait(in_ms(20))
    assert len(engine.operations("main")) > 1
    assert not engine.is_finished("main")
    engine.stop("main")
    outcomes = engine.collect(later())
    assert sum(outcome.wrong_bytes for outcome in outcomes) == 0


def test_a_listener_receives_the_end_when_one_job_of_two_has_ended(followed_engine, follower):
    going_on = loads(Training, name="beside", kind="training", compute=60_000 * MS, duration=60_000 * MS)
    followed_engine.prepare([*loads(iterations=3), *going_on], 1)
    followed_engine.start("main")
    followed_engine.start("beside")
    while not followed_engine.is_finished("main"):
        followed_engine.wait(in_ms(10))
    assert follower.completed_names == ["main"] * 3
    assert follower.ended_names == ["main"]
    followed_engine.stop("beside")
    assert followed_engine.wait(later())
    assert follower.ended_names == ["main", "beside"]


def test_a_listener_receives_the_end_of_a_job_that_fails(followed_engine, follower):
    followed_engine.prepare(loads(duration=1000 * MS), 1)
    followed_engine.start("main")
    followed_engine.collect(in_ms(0))
    assert follower.ended_names == ["main"]


def test_a_collective_and_flows_share_their_hosts(engine):
    beside = WriteBw.model_validate(
        {"name": "beside", "kind": "write-bw", "from": "h0", "to": "h2", "size": 1000, "iterations": 100}
    )
    engine.prepare([*loads(iterations=3), *build_loads(beside, CLOS)], 1)
    engine.start("main")
    engine.start("beside")
    outcomes = engine.collect(later())
    assert {outcome.flow.workload for outcome in outcomes} == {"main", "beside"}
    assert all(each.error is None and each.wrong_bytes == 0 and each.compared_bytes for each in outcomes)


def test_a_connection_that_fails_ends_the_collective_with_its_name(engine, nics):
    engine.prepare(loads(duration=1000 * MS), 1)
    engine.start("main")
    qpn = nics.agent("h1").list_qps()[0]["qpn"]
    nics.agent("h1").modify_qp(qpn, "ERROR")
    outcomes = engine.collect(later())
    errors = [outcome.error for outcome in outcomes if outcome.error]
    assert errors == [f"QP {qpn} of h1 failed: flushed"]


def test_a_message_of_another_operation_is_an_error(engine, nics):
    engine.prepare(loads(iterations=1), 1)
    engine.start("main")
    qpn = nics.agent("h1").list_qps()[0]["qpn"]
    arrival = {"event": "receive", "qpn": qpn, "number": 1, "immediate": 3, "length": 30_000, "time_ns": 1}
    engine._transport._nics["h1"].verbs.notify(arrival)
    outcomes = engine.collect(later())
    [error] = [outcome.error for outcome in outcomes if outcome.error]
    assert "message 1 has 30000 bytes and immediate 3" in error


def test_an_operation_that_does_not_end_is_given_up(engine):
    engine.prepare(loads(iterations=1), 1)
    engine.start("main")
    outcomes = engine.collect(in_ms(1))
    assert "messages were still under way when the run ended" in [each.error for each in outcomes]


def test_everything_is_given_back(engine, nics):
    engine.prepare(loads(iterations=1), 1)
    engine.close()
    assert nics.left() == []


def test_memory_that_collectives_leave_is_shared_by_flows(engine, nics):
    beside = WriteBw.model_validate(
        {"name": "beside", "kind": "write-bw", "from": "h0", "to": "h2", "size": 4096, "iterations": 1}
    )
    [bulk] = build_loads(beside, CLOS)
    engine.prepare([bulk, *loads(iterations=1, size=256 << 10)], 1)
    used = [sum(region.length for region in nics.regions(f"h{host}")) for host in range(4)]
    assert used[1] == used[3] == 512 << 10
    assert used[0] > 512 << 10
    assert max(used) <= 1 << 20


def test_what_does_not_fit_is_refused_by_its_name(engine):
    with pytest.raises(
        UsageError, match=r"all-reduce of 600KiB needs 1200KiB of memory at h0, which has 1MiB"
    ):
        engine.prepare(loads(iterations=1, size=600 << 10), 1)
