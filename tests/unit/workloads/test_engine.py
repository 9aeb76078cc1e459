"""Workloads on NICs in virtual time."""

import pytest
from virtual_nics import fabric, in_ms, virtual_nics

from mrc_testbed.errors import AgentError, UsageError
from mrc_testbed.transport.congestion import CongestionControl
from mrc_testbed.workloads.connectors import MrcConnector
from mrc_testbed.workloads.flow import Flow
from mrc_testbed.workloads.load import Load

CLOS = fabric()
LONG_MS = 10_000


@pytest.fixture
def nics():
    with virtual_nics(CLOS) as made:
        yield made


@pytest.fixture
def engine(nics):
    with nics.engine() as made:
        yield made


def load(name="main", iterations=None, flows=None):
    flows = flows or (Flow(name, "h0", "h1", 0), Flow(name, "h1", "h0", 0))
    return Load(name, size_bytes=1000, depth=2, iterations=iterations, flows=flows)


def test_a_workload_by_iterations_ends_by_itself(engine, nics):
    engine.prepare([load(iterations=1234)], 1)
    engine.start("main")
    assert engine.wait(in_ms(LONG_MS))
    assert engine.is_finished("main")
    outcomes = engine.collect(in_ms(0))
    assert [outcome.messages for outcome in outcomes] == [1234, 1234]
    assert [(outcome.wrong_bytes, outcome.error) for outcome in outcomes] == [(0, None)] * 2
    engine.close()
    assert nics.left() == []


def test_an_endless_workload_ends_when_it_is_stopped(engine):
    engine.prepare([load()], 1)
    engine.start("main")
    assert not engine.wait(in_ms(20))
    assert not engine.is_finished("main")
    engine.stop("main")
    outcomes = engine.collect(in_ms(LONG_MS))
    assert all(outcome.messages > 0 and outcome.wrong_bytes == 0 for outcome in outcomes)
    assert engine.is_finished("main")


def test_two_workloads_share_the_memory_of_a_nic(engine):
    engine.prepare([load("a", 10), load("b", 20)], 1)
    engine.start("a")
    engine.start("b")
    outcomes = engine.collect(in_ms(LONG_MS))
    assert sorted(outcome.messages for outcome in outcomes) == [10, 10, 20, 20]


def test_messages_that_do_not_complete_in_time_are_an_error_of_their_flow(engine, nics):
    engine.prepare([load(iterations=5)], 1)
    engine.start("main")
    nics.lab.agent("h0").freeze()
    assert not engine.wait(in_ms(20))
    outcomes = {outcome.flow.source: outcome for outcome in engine.collect(in_ms(0))}
    assert outcomes["h0"].error == "messages were still under way when the run ended"
    assert outcomes["h1"].error is None
    assert engine.is_finished("main")


def test_an_agent_that_dies_ends_the_run_with_its_name(engine, nics):
    engine.prepare([load()], 1)
    engine.start("main")
    nics.lab.agent("h1").kill()
    assert engine.wait(in_ms(LONG_MS))
    with pytest.raises(AgentError, match=r"the NIC agent of h1 is lost: .*died"):
        engine.collect(in_ms(0))


def test_every_qp_gets_the_shape_of_the_run(nics):
    with nics.engine(MrcConnector(CLOS, 32, CongestionControl("fixed", 16))) as engine:
        engine.prepare([load()], 1)
        agent = nics.agent("h0")
        qp = agent.query_qp(agent.list_qps()[0]["qpn"])
    assert [ev >> 28 for ev in qp["evs"]] == [0] * 16 + [1] * 16
    assert (qp["window_packets"], qp["pmtu_bytes"], qp["backup_per_plane"]) == (16, 2048, 4)


def test_a_seed_repeats_every_choice(nics):
    def choices(seed):
        with nics.engine() as engine:
            engine.prepare([load()], seed)
            agents = [nics.agent(host) for host in ("h0", "h1")]
            found = [agent.query_qp(row["qpn"]) for agent in agents for row in agent.list_qps()]
            return [{**qp, "qpn": None} for qp in found]

    assert choices(3) == choices(3)
    assert choices(3) != choices(4)


def test_a_workload_that_does_not_fit_is_refused_and_leaves_nothing(engine, nics):
    big = Load("main", size_bytes=1 << 20, depth=1, iterations=1, flows=(Flow("main", "h0", "h1", 0),))
    with pytest.raises(UsageError, match="messages of 1MiB need"):
        engine.prepare([big], 1)
    engine.close()
    assert nics.left() == []


def test_closing_twice_is_as_good_as_once(engine):
    engine.prepare([load()], 1)
    engine.close()
    engine.close()


def test_an_agent_that_a_fault_kills_takes_its_flows_and_no_other():
    flows = (Flow("main", "h0", "h1", 0), Flow("main", "h0", "h2", 0))
    with virtual_nics(fabric(t0=3)) as nics, nics.engine(is_killed=lambda host: host == "h2") as engine:
        engine.prepare([load(flows=flows)], 1)
        engine.start("main")
        nics.lab.agent("h2").kill()
        assert not engine.wait(in_ms(20))
        engine.stop("main")
        outcomes = {outcome.flow.target: outcome for outcome in engine.collect(in_ms(LONG_MS))}
    assert outcomes["h2"].error is not None
    assert outcomes["h2"].error.startswith("the NIC agent of h2 is lost: ")
    assert (outcomes["h1"].error, outcomes["h1"].wrong_bytes) == (None, 0)
