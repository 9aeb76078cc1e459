"""Workloads on NICs that exist in this process only."""

import time

import pytest
from fake_nic import FakeNic, fake_transport
from waiting import DEADLINE_NS, poll_until

from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec
from mrc_testbed.transport.congestion import CongestionControl
from mrc_testbed.workloads.connectors import MrcConnector
from mrc_testbed.workloads.engine import WorkloadEngine
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.load import Load

CLOS = Clos(TopologySpec(planes=2, t0=2, t1=1, hosts_per_t0=1))


def later():
    return time.monotonic_ns() + DEADLINE_NS


@pytest.fixture
def nics():
    made: list[FakeNic] = []
    made += [FakeNic("h0", made), FakeNic("h1", made)]
    yield made
    for nic in made:
        nic.close()


@pytest.fixture
def engine(nics):
    engine = WorkloadEngine(fake_transport(nics, MrcConnector(CLOS)))
    yield engine
    engine.close()


def load(name="main", iterations=None, flows=None):
    flows = flows or (Flow(name, "h0", "h1", 0), Flow(name, "h1", "h0", 0))
    return Load(name, size_bytes=1000, depth=2, iterations=iterations, flows=flows)


def test_a_workload_by_iterations_ends_by_itself(engine, nics):
    engine.prepare([load(iterations=1234)], 1)
    engine.start("main")
    assert engine.wait(later())
    assert engine.is_finished("main")
    outcomes = engine.collect(time.monotonic_ns())
    assert [outcome.messages for outcome in outcomes] == [1234, 1234]
    assert [(outcome.wrong_bytes, outcome.error) for outcome in outcomes] == [(0, None)] * 2
    engine.close()
    assert all(nic.qps == {} and nic.regions == {} and nic.is_closed for nic in nics)


def test_an_endless_workload_ends_when_it_is_stopped(engine):
    engine.prepare([load()], 1)
    engine.start("main")
    assert not engine.wait(time.monotonic_ns() + 20_000_000)
    assert not engine.is_finished("main")
    engine.stop("main")
    outcomes = engine.collect(later())
    assert all(outcome.messages > 0 and outcome.wrong_bytes == 0 for outcome in outcomes)
    assert engine.is_finished("main")


def test_two_workloads_share_the_memory_of_a_nic(engine):
    engine.prepare([load("a", 10), load("b", 20)], 1)
    engine.start("a")
    engine.start("b")
    outcomes = engine.collect(later())
    assert sorted(outcome.messages for outcome in outcomes) == [10, 10, 20, 20]


def test_messages_that_do_not_complete_in_time_are_an_error_of_their_flow(engine, nics):
    nics[0].is_instant = False
    engine.prepare([load(iterations=5)], 1)
    engine.start("main")
    poll_until(lambda: sum(engine.acknowledged_bytes().values()) == 5 * 1000)  # all of h1
    outcomes = {outcome.flow.source: outcome for outcome in engine.collect(time.monotonic_ns())}
    assert outcomes["h0"].error == "messages were still under way when the run ended"
    assert outcomes["h1"].error is None
    assert engine.is_finished("main")


def test_an_agent_that_dies_ends_the_run_with_its_name(engine, nics):
    nics[0].is_instant = nics[1].is_instant = False
    engine.prepare([load()], 1)
    engine.start("main")
    nics[1].die()
    assert engine.wait(later())
    with pytest.raises(AgentError, match=r"the NIC agent of h1 is lost: .*died"):
        engine.collect(time.monotonic_ns())


def test_every_qp_gets_the_shape_of_the_run(nics):
    engine = WorkloadEngine(fake_transport(nics, MrcConnector(CLOS, 32, CongestionControl("fixed", 16))))
    engine.prepare([load()], 1)
    qp = next(iter(nics[0].qps.values()))
    assert len(qp.evs) == 32
    assert [ev >> 28 for ev in qp.evs] == [0] * 16 + [1] * 16
    assert qp.attributes["window_packets"] == 16
    assert qp.attributes["pmtu_bytes"] == 2048
    assert qp.attributes["backup_per_plane"] == 4
    engine.close()


def test_a_seed_repeats_every_choice():
    def choices(seed):
        made: list[FakeNic] = []
        made += [FakeNic("h0", made), FakeNic("h1", made)]
        engine = WorkloadEngine(fake_transport(made, MrcConnector(CLOS)))
        engine.prepare([load()], seed)
        found = [(qp.evs, qp.attributes) for nic in made for qp in nic.qps.values()]
        engine.close()
        return found

    assert choices(3) == choices(3)
    assert choices(3) != choices(4)


def test_a_workload_that_does_not_fit_is_refused_and_leaves_nothing(engine, nics):
    big = Load("main", size_bytes=1 << 20, depth=1, iterations=1, flows=(Flow("main", "h0", "h1", 0),))
    with pytest.raises(UsageError, match="messages of 1MiB need"):
        engine.prepare([big], 1)
    engine.close()
    assert all(nic.qps == {} and nic.regions == {} for nic in nics)


def test_closing_twice_is_as_good_as_once(engine):
    engine.prepare([load()], 1)
    engine.close()
    engine.close()


def test_an_agent_that_a_fault_kills_takes_its_flows_and_no_other(nics):
    nics.append(FakeNic("h2", nics))
    clos = Clos(TopologySpec(planes=2, t0=3, t1=1, hosts_per_t0=1))
    engine = WorkloadEngine(fake_transport(nics, MrcConnector(clos)), is_killed=lambda host: host == "h2")
    flows = (Flow("main", "h0", "h1", 0), Flow("main", "h0", "h2", 0))
    engine.prepare([load(flows=flows)], 1)
    engine.start("main")
    nics[2].die()
    assert not engine.wait(time.monotonic_ns() + 20_000_000)
    engine.stop("main")
    outcomes = {outcome.flow.target: outcome for outcome in engine.collect(later())}
    assert outcomes["h2"].error is not None
    assert outcomes["h2"].error.startswith("the NIC agent of h2 is lost: ")
    assert (outcomes["h1"].error, outcomes["h1"].wrong_bytes) == (None, 0)
    engine.close()
