"""Small random universes, and the corpus; `campaign soak` makes more."""

import copy
import dataclasses
from pathlib import Path

import pytest
from stopped_clock import StoppedClock

from mrc_agents.abi import Event, EventKind, LosslessLink, Qp, QpHead, QueuePool
from mrc_agents.bpf.maps import ArrayMap, MappedArray
from mrc_agents.nic.context import MemoryRegion
from mrc_agents.nic.verbs import Verbs
from mrc_testbed.errors import FabricError
from mrc_testbed.faults.map_target import MapTarget
from mrc_testbed.soak.avoided import AVOIDED, Avoided
from mrc_testbed.soak.document import Values, plan_of
from mrc_testbed.soak.draw import draw_universe
from mrc_testbed.soak.invariants import Failure, Witness, control_plane, judge_fabric
from mrc_testbed.soak.shrink import shrink
from mrc_testbed.soak.universe import Universe, judge
from mrc_testbed.soak.violation import keep_scenario
from mrc_testbed.virtual.connection import VirtualConnection
from mrc_testbed.virtual.world import planned_lab
from mrc_testbed.workloads.flow import FlowOutcome
from mrc_testbed.workloads.sender import FlowSender
from tests.universes.plans import CORPUS, KNOWN, read_plan

PLANS = sorted(CORPUS.glob("*.yaml"))


@pytest.mark.parametrize("seed", range(1, 41))
def test_a_universe_is_good(seed: int) -> None:
    assert judge(draw_universe(seed)).failures == ()


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_a_plan_of_the_corpus_is_good(path: Path) -> None:
    assert judge(read_plan(path), is_repeated=True).failures == ()


def test_there_is_a_corpus() -> None:
    assert PLANS


@pytest.mark.parametrize("avoided", [each for each in AVOIDED if each.known], ids=lambda each: each.known)
def test_what_universes_do_without_still_fails(avoided: Avoided) -> None:
    """When it does not: the plan goes to the corpus, and the entry from the list."""
    document = read_plan(KNOWN / f"{avoided.known}.yaml")
    left_out = copy.deepcopy(document)
    avoided.leave_out(left_out["spec"])
    assert judge(document).failures
    assert left_out != document


def test_counted_work_has_the_time_that_its_windows_take() -> None:
    document = draw_universe(701697)
    assert [workload.get("iterations") for workload in document["spec"]["workloads"]] == [None, 20, 1]
    assert judge(document).failures == ()


def test_a_port_has_time_to_drain() -> None:
    assert judge(draw_universe(602985)).failures == ()


def test_the_busiest_nic_has_room_for_its_qps() -> None:
    """Two collectives over eight hosts and an incast, two QPs each."""
    plan_of(draw_universe(2005679))


def test_one_universe_in_five_has_three_tiers_with_faults_in_each() -> None:
    drawn = [draw_universe(seed)["spec"] for seed in range(500)]
    tall = [spec for spec in drawn if "tiers" in spec["topology"]]
    assert 80 <= len(tall) <= 120
    select = str([fault["select"] for spec in tall for fault in spec["faults"]])
    assert all(name in select for name in ("-t0-3~", "-t1-1'", "-t1-3~", "-t2-2'"))
    assert all(f"'nodes': 'p0-t{level}-0'" in select for level in range(3))


def test_a_universe_repeats() -> None:
    assert judge(draw_universe(3)) == judge(draw_universe(3))
    assert judge(draw_universe(3)) != judge(draw_universe(4))


# ---- each invariant can fail


def small(*faults: Values, **topology: object) -> Values:
    """One flow over two planes."""
    return {
        "apiVersion": "mrc-testbed/v1",
        "kind": "Scenario",
        "metadata": {"name": "small"},
        "spec": {
            "seed": 1,
            "topology": {"planes": 2, "t0": 1, "t1": 1, "hosts_per_t0": 2, "port_rate": "100Mbit"} | topology,
            "transport": {"kind": "mrc"},
            "workloads": [
                {
                    "name": "w0",
                    "kind": "write-bw",
                    "from": "h0",
                    "to": "h1",
                    "size": "5000B",
                    "duration": "20ms",
                },
                {"name": "w1", "kind": "write-bw", "from": "h1", "to": "h0", "size": "100B", "iterations": 5},
            ],
            "faults": list(faults),
        },
    }


HERE: Values = {"select": {"links": "h0:0"}}
SLOW: Values = {"id": "slow", "at": "5000us", "for": "5000us", "kind": "slow-link", "to": "50%"} | HERE


def broken(document: Values) -> set[str]:
    """Invariants that do not hold."""
    return {failure.invariant for failure in judge(document).failures}


def test_a_small_universe_is_good() -> None:
    assert broken(small(SLOW)) == set()


def test_wrong_bytes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryRegion, "count_wrong", lambda *_: 1)
    assert broken(small()) == {"bytes"}


def test_a_completion_that_comes_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    notify = VirtualConnection.notify
    monkeypatch.setattr(VirtualConnection, "notify", lambda *given: (notify(*given), notify(*given)))
    assert "completion" in broken(small())


def test_a_lost_completion_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    take = Verbs.take_event

    def take_no_completion(self: Verbs, event: Event) -> dict[str, object] | None:
        return None if event.kind == EventKind.COMPLETION else take(self, event)

    monkeypatch.setattr(Verbs, "take_event", take_no_completion)
    assert "ending" in broken(small())


def test_a_qp_that_gives_up_is_found() -> None:
    down = {"id": "down", "at": "5000us", "for": "10000us", "kind": "plane-down", "select": {"planes": "all"}}
    assert "qp" in broken(small(down, nic={"retry_limit": 0}))


def test_a_qp_that_is_stuck_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_testbed.scenario.run.runner.COLLECT_TIMEOUT_NS", 0)
    document = small()
    del document["spec"]["workloads"][1]  # with it the run goes on until both are done
    assert "stuck" in broken(document)


def test_a_flow_that_stands_still_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_testbed.soak.invariants.STALL_NS", 1)
    assert broken(small(SLOW)) == {"stall"}


def test_a_message_too_many_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = FlowSender.outcome

    def one_more(self: FlowSender) -> FlowOutcome:
        found = outcome(self)
        return dataclasses.replace(found, messages=found.messages + 1)

    monkeypatch.setattr(FlowSender, "outcome", one_more)
    assert broken(small()) == {"count"}


def test_an_arrival_that_comes_twice_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Witness.look

    def look_twice(self: Witness) -> None:
        look(self)
        self.arrived["h0", 1] = [1, 2, 2]

    monkeypatch.setattr(Witness, "look", look_twice)
    assert broken(small()) == {"arrival"}


def test_a_packet_that_stays_in_flight_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    look = Witness.look

    def look_early(self: Witness) -> None:
        look(self)
        self.qps[0]["inflight"] = 1

    monkeypatch.setattr(Witness, "look", look_early)
    assert broken(small()) == {"window"}


def test_a_fault_that_stays_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    set_rate = MapTarget.set_rate

    def only_lower(self: MapTarget, port_id: int, ratio: float) -> None:
        if ratio < 1:
            set_rate(self, port_id, ratio)

    monkeypatch.setattr(MapTarget, "set_rate", only_lower)
    assert broken(small(SLOW)) == {"fault"}


def test_what_is_left_in_the_fabric_is_found() -> None:
    plan = plan_of(small(flow_control="credits"))
    with planned_lab(plan, StoppedClock()) as lab:
        before = control_plane(lab)
        assert judge_fabric(lab, before) == []
        pool = ArrayMap(lab.fabric_pins.map_fd("queue_pool"), QueuePool)
        pool.write(0, QueuePool(used=1))
        link = MappedArray(lab.fabric_pins.map_fd("lossless_links"), LosslessLink)[0]
        link.used_bytes, link.buffered_bytes, link.is_pause_sent = 1, 1, 1
        lab.carriers[0] = False
        lab.agent("h0").kill()
        found = {failure.invariant for failure in judge_fabric(lab, before | {"fib": b""})}
        assert found == {"frames", "credits", "buffer", "pause", "fault"}


def test_what_is_peeked_at_is_the_element_itself() -> None:
    with planned_lab(plan_of(small()), StoppedClock()) as lab:
        qps = ArrayMap(lab.node_pins("h0").map_fd("qps"), Qp)
        seen, copy_of_it = qps.peek(3), qps.read(3)
        qps.write(3, Qp(head=QpHead(peer_host=7)))
        assert (seen.head.peer_host, copy_of_it.head.peer_host) == (7, 0)
        with pytest.raises(FabricError):
            qps.peek(len(qps))


def test_an_exception_is_a_failure_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(MemoryRegion, "count_wrong")
    assert broken(small()) == {"AttributeError"}


def test_a_universe_without_end_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mrc_testbed.soak.universe.EVENTS_MAX", 1000)
    outcome = judge(small())
    assert [failure.invariant for failure in outcome.failures] == ["events"]
    assert outcome.events < 2000
    document = small()
    document["spec"]["transport"]["kind"] = "rocev2"
    assert judge(document).events < 2000
    assert broken(document) == set()


def test_a_universe_stops_by_request() -> None:
    assert judge(small(), is_stopped=lambda: True).events < judge(small()).events / 10


def test_a_difference_between_two_runs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes = iter([Universe((), "one", 1, 1), Universe((), "other", 1, 1)])
    monkeypatch.setattr("mrc_testbed.soak.universe.run_document", lambda *_: next(outcomes))
    (failure,) = judge(small(), is_repeated=True).failures
    assert failure.invariant == "digest"


# ---- a failure becomes small


def test_what_does_not_matter_is_shrunk_away() -> None:
    document = draw_universe(133)
    assert len(document["spec"]["faults"]) == 8

    def fails(candidate: Values) -> bool:
        return "duplicate" in [fault["kind"] for fault in candidate["spec"]["faults"]]

    small, _ = shrink(copy.deepcopy(document), fails)
    found = small["spec"]
    assert [fault["kind"] for fault in found["faults"]] == ["duplicate"]
    assert len(found["workloads"]) == 1
    assert [found["topology"][key] for key in ("planes", "t0", "t1", "hosts_per_t0")] == [1, 1, 1, 1]


def test_a_smaller_universe_gets_few_events_and_all_of_them_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: list[int] = []

    def judge_candidate(invariant: str, document: Values, is_stopped: object, events_max: int) -> Universe:
        limits.append(events_max)
        return Universe((Failure("events", ""),), "", 0, 250)

    monkeypatch.setattr("mrc_testbed.soak.violation.judge_candidate", judge_candidate)
    monkeypatch.setattr("mrc_testbed.soak.violation.CANDIDATE_EVENTS_MAX", 1000)
    monkeypatch.setattr("mrc_testbed.soak.violation.SHRINK_EVENTS_MAX", 1000)
    keep_scenario(small(), (Failure("events", ""),), tmp_path, events=300)
    assert limits == [600] * 4
    keep_scenario(small(), (Failure("events", ""),), tmp_path, events=1010)
    assert limits[4:] == [1000] * 4


def test_a_failure_is_kept_as_a_small_scenario(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    set_rate = MapTarget.set_rate
    monkeypatch.setattr(MapTarget, "set_rate", lambda self, port_id, _: set_rate(self, port_id, 0.5))
    document = small(
        SLOW, {"id": "loss", "at": "1000us", "for": "2000us", "kind": "loss", "ratio": "1%"} | HERE
    )
    path = keep_scenario(document, judge(document).failures, tmp_path)
    kept = read_plan(path)
    assert [fault["id"] for fault in kept["spec"]["faults"]] == ["slow"]
    assert broken(kept) == {"fault"}
