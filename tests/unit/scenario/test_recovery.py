import pytest
from hand_made import MS, ZERO_NS, S, applied, back, cleared, left, reading, recording
from scenario_text import scenario

from mrc_testbed.scenario.measure.event import FaultChange, NicEvent, PortTransition
from mrc_testbed.scenario.measure.expectation import evaluate_expectations
from mrc_testbed.scenario.measure.recording import Recording
from mrc_testbed.scenario.measure.recovery import Recovery, RecoveryPhase, measure_recovery
from mrc_testbed.scenario.measure.trust import judge_fidelity
from mrc_testbed.topology.clos import Clos
from mrc_testbed.topology.spec import TopologySpec

CLOS = Clos(TopologySpec())
ON_PATH = CLOS.ev(0, 0)
ON_PATH_TOO = CLOS.ev(0, 0, 1)
OTHER_UPLINK = CLOS.ev(0, 1)
OTHER_PLANE = CLOS.ev(1, 0)
LINK = "p0-t0-0:4~p0-t1-0:0"
DOWN = scenario(
    f'  faults: [{{id: f, at: 100ms, for: 200ms, kind: link-down, select: {{links: "{LINK}"}}}}]\n'
)


def made(changes: list[FaultChange], events: list[NicEvent], *, until_ns: int = S) -> Recording:
    run = recording(DOWN, [reading(0), reading(until_ns)], end_ns=until_ns)
    run.fault_changes = changes
    run.nic_events = events
    return run


def recovery(run: Recording) -> Recovery:
    return measure_recovery(run, run.plan.faults[0])


def test_phases_of_one_occurrence() -> None:
    run = made(
        [applied("f", 100 * MS), cleared("f", 300 * MS, lost=7, last_lost_ns=104 * MS)],
        [
            left(102 * MS, ON_PATH),
            left(103 * MS, ON_PATH_TOO),
            back(310 * MS, ON_PATH_TOO),
            back(330 * MS, ON_PATH),
        ],
    )
    assert recovery(run) == Recovery(
        "f", 1, 7, 2, RecoveryPhase(2 * MS), RecoveryPhase(4 * MS), RecoveryPhase(30 * MS)
    )


def test_evs_of_other_paths_do_not_count() -> None:
    run = made(
        [applied("f", 100 * MS), cleared("f", 300 * MS, lost=1, last_lost_ns=105 * MS)],
        [
            left(101 * MS, OTHER_UPLINK),
            left(101 * MS, OTHER_PLANE),
            left(105 * MS, ON_PATH),
            back(301 * MS, ON_PATH),
        ],
    )
    found = recovery(run)
    assert (found.left_evs, found.detect, found.restore) == (1, RecoveryPhase(5 * MS), RecoveryPhase(1 * MS))


def test_the_reverse_direction_crosses_the_same_link() -> None:
    run = made(
        [applied("f", 100 * MS), cleared("f", 300 * MS, lost=1, last_lost_ns=105 * MS)],
        [left(101 * MS, ON_PATH, host="h4", peer="h0"), back(301 * MS, ON_PATH, host="h4", peer="h0")],
    )
    assert recovery(run).detect == RecoveryPhase(1 * MS)


def test_hosts_that_do_not_use_the_link_do_not_count() -> None:
    run = made(
        [applied("f", 100 * MS), cleared("f", 300 * MS)],
        [left(101 * MS, ON_PATH, host="h4", peer="h5")],  # within the other T0
    )
    assert recovery(run).left_evs == 0


def test_a_fault_that_took_nothing_had_nothing_to_be_noticed() -> None:
    found = recovery(made([applied("f", 100 * MS), cleared("f", 300 * MS)], []))
    nothing = RecoveryPhase(None, "it took no packet, so there was nothing to notice or avoid")
    assert (found.detect, found.avoid, found.restore) == (nothing, nothing, RecoveryPhase(0))


def test_an_occurrence_that_took_nothing_leaves_the_others_what_they_measured() -> None:
    run = made(
        [
            *(applied("f", 100 * MS), cleared("f", 300 * MS, lost=1, last_lost_ns=120 * MS)),
            *(applied("f", 400 * MS, 1), cleared("f", 500 * MS, 1)),
        ],
        [],
    )
    assert recovery(run).avoid == RecoveryPhase(20 * MS)
    (found,) = evaluate_expectations(["avoid(f) < 1s"], made([applied("f", 1 * S), cleared("f", 2 * S)], []))
    assert (found.answer, found.reason[:14]) == ("failed", "not measured: ")


def test_losses_that_nobody_noticed_have_no_detect() -> None:
    found = recovery(
        made([applied("f", 100 * MS), cleared("f", 300 * MS, lost=3, last_lost_ns=299 * MS)], [])
    )
    assert found.detect == RecoveryPhase(None, "no EV left it")
    assert found.avoid == RecoveryPhase(199 * MS)


@pytest.mark.parametrize("last_lost_ns", [100 * MS - 1, -100 * S, 300 * S])
def test_packets_dated_outside_of_their_fault_are_no_time_and_no_trust(last_lost_ns: int) -> None:
    """As in a time namespace: 0 would pass every expectation."""
    run = made([applied("f", 100 * MS), cleared("f", 300 * MS, lost=13, last_lost_ns=last_lost_ns)], [])
    found = recovery(run)
    assert found.lost_packets == 13
    assert {found.detect, found.avoid, found.restore} == {
        RecoveryPhase(None, "the kernel dates packets that it took outside of its time")
    }
    reasons = [finding.reason for finding in judge_fidelity(run)]
    assert "packets that fault f took are dated outside of its time" in reasons


def test_an_ev_that_never_came_back_leaves_restore_open() -> None:
    run = made(
        [applied("f", 100 * MS), cleared("f", 300 * MS, lost=1, last_lost_ns=101 * MS)],
        [left(102 * MS, ON_PATH), left(102 * MS, ON_PATH_TOO), back(310 * MS, ON_PATH)],
    )
    assert recovery(run).restore == RecoveryPhase(
        None, "EVs were still avoided when the next occurrence began or the run ended"
    )


def test_an_ev_that_left_after_the_repair_counts_until_it_is_back() -> None:
    """Its packet was lost before the repair; the loss is found out later."""
    run = made(
        [applied("f", 100 * MS), cleared("f", 101 * MS, lost=1, last_lost_ns=100 * MS + 500_000)],
        [left(102 * MS, ON_PATH), back(150 * MS, ON_PATH)],
    )
    assert recovery(run).restore == RecoveryPhase(49 * MS)


def test_the_longest_of_all_occurrences_counts() -> None:
    run = made(
        [
            applied("f", 100 * MS, 0),
            cleared("f", 200 * MS, 0, lost=2, last_lost_ns=101 * MS),
            applied("f", 400 * MS, 1),
            cleared("f", 500 * MS, 1, lost=3, last_lost_ns=408 * MS),
        ],
        [left(103 * MS, ON_PATH), back(260 * MS, ON_PATH), left(402 * MS, ON_PATH), back(510 * MS, ON_PATH)],
    )
    assert recovery(run) == Recovery(
        "f", 2, 5, 2, RecoveryPhase(3 * MS), RecoveryPhase(8 * MS), RecoveryPhase(60 * MS)
    )


def test_one_occurrence_not_outlived_leaves_the_whole_open() -> None:
    run = made(
        [
            applied("f", 100 * MS, 0),
            cleared("f", 200 * MS, 0, lost=2, last_lost_ns=101 * MS),
            applied("f", 400 * MS, 1),
            cleared("f", 500 * MS, 1, lost=3, last_lost_ns=408 * MS),
        ],
        [
            left(103 * MS, ON_PATH),
            back(510 * MS, ON_PATH),
            left(402 * MS, ON_PATH_TOO),
            back(520 * MS, ON_PATH_TOO),
        ],
    )
    assert recovery(run).restore == RecoveryPhase(
        None, "1 of 2 occurrences: EVs were still avoided when the next occurrence began or the run ended"
    )


def test_a_fault_cut_off_by_the_end_has_neither_avoid_nor_restore() -> None:
    found = recovery(made([applied("f", 100 * MS)], [left(102 * MS, ON_PATH)]))
    assert found.detect == RecoveryPhase(2 * MS)
    assert found.avoid == RecoveryPhase(None, "its end was not recorded")


def test_a_fault_never_applied_says_so() -> None:
    never = RecoveryPhase(None, "the fault was never applied")
    assert recovery(made([], [])) == Recovery("f", 0, 0, 0, never, never, never)


def test_a_nic_notices_its_own_carrier_before_any_ev_leaves() -> None:
    text = scenario(
        "  faults: [{id: f, at: 100ms, for: 200ms, kind: nic-port-down, select: {links: h0:1}}]\n"
    )
    run = recording(text, [reading(0), reading(S)], end_ns=S)
    run.fault_changes = [applied("f", 100 * MS), cleared("f", 300 * MS, lost=1, last_lost_ns=101 * MS)]
    run.nic_events = [
        PortTransition(ZERO_NS + 100 * MS + 200_000, "h1", 1, is_up=False),  # another host's
        PortTransition(ZERO_NS + 100 * MS + 700_000, "h0", 1, is_up=False),
        left(102 * MS, OTHER_PLANE),
        back(310 * MS, OTHER_PLANE),
    ]
    assert recovery(run).detect == RecoveryPhase(700_000)


def with_fault(fault: str, changes: list[FaultChange], events: list[NicEvent]) -> Recovery:
    """Recovery from *fault* (its keys but id, at and for) in a run of one second."""
    text = scenario(f"  faults: [{{id: f, at: 100ms, for: 200ms, {fault}}}]\n")
    run = recording(text, [reading(0), reading(S)], end_ns=S)
    run.fault_changes, run.nic_events = changes, events
    return recovery(run)


def test_a_fault_of_one_ev_is_left_by_that_ev_alone() -> None:
    found = with_fault(
        f'kind: ev-loss, ev: "0x{ON_PATH:08x}", select: {{links: "{LINK}"}}',
        [applied("f", 100 * MS), cleared("f", 300 * MS, lost=3, last_lost_ns=101 * MS)],
        [left(101 * MS, ON_PATH_TOO), left(105 * MS, ON_PATH), back(320 * MS, ON_PATH)],
    )
    assert (found.detect, found.left_evs, found.restore) == (RecoveryPhase(5 * MS), 1, RecoveryPhase(20 * MS))


@pytest.mark.parametrize(
    ("fault", "plane"),
    [("kind: switch-down, select: {nodes: p1-t0-0}", 1), ("kind: plane-down, select: {planes: 1}", 1)],
)
def test_nodes_and_planes_are_left_by_every_ev_through_them(fault: str, plane: int) -> None:
    found = with_fault(
        fault,
        [applied("f", 100 * MS), cleared("f", 300 * MS, lost=3, last_lost_ns=101 * MS)],
        [left(101 * MS, ON_PATH), left(104 * MS, OTHER_PLANE), back(350 * MS, OTHER_PLANE)],
    )
    assert (found.detect, found.left_evs, found.restore) == (RecoveryPhase(4 * MS), 1, RecoveryPhase(50 * MS))


def test_full_width_is_back_with_the_carrier_of_the_last_port() -> None:
    found = with_fault(
        'kind: nic-port-down, select: {links: "h0:1"}',
        [applied("f", 100 * MS), cleared("f", 300 * MS, lost=3, last_lost_ns=101 * MS)],
        [
            PortTransition(ZERO_NS + 102 * MS, "h0", 1, False),
            PortTransition(ZERO_NS + 307 * MS, "h0", 1, True),
        ],
    )
    assert (found.detect, found.restore) == (RecoveryPhase(2 * MS), RecoveryPhase(7 * MS))


def test_what_loses_nothing_is_not_avoided() -> None:
    found = with_fault(
        "kind: host-pause, select: {nodes: h0}", [applied("f", 100 * MS), cleared("f", 300 * MS)], []
    )
    assert found.avoid == RecoveryPhase(None, "it loses no packet")
    assert found.detect == RecoveryPhase(None, "it took no packet, so there was nothing to notice or avoid")
    assert found.restore == RecoveryPhase(0)


def test_what_another_fault_breaks_later_is_not_charged_to_the_first() -> None:
    text = scenario(
        "  faults:\n"
        f'    - {{id: f, at: 100ms, for: 100ms, kind: link-down, select: {{links: "{LINK}"}}}}\n'
        f'    - {{id: g, at: 400ms, for: 100ms, kind: link-down, select: {{links: "{LINK}"}}}}\n'
    )
    run = recording(text, [reading(0), reading(S)], end_ns=S)
    run.fault_changes = [
        applied("f", 100 * MS),
        cleared("f", 200 * MS, lost=2, last_lost_ns=101 * MS),
        applied("g", 400 * MS),
        cleared("g", 500 * MS, lost=2, last_lost_ns=401 * MS),
    ]
    run.nic_events = [
        left(102 * MS, ON_PATH),
        left(210 * MS, ON_PATH_TOO),  # missed after the repair
        back(230 * MS, ON_PATH_TOO),
        back(240 * MS, ON_PATH),
        left(403 * MS, ON_PATH),
        back(550 * MS, ON_PATH),
    ]
    first, second = (measure_recovery(run, fault) for fault in run.plan.faults)
    assert (first.detect, first.left_evs, first.restore) == (RecoveryPhase(2 * MS), 2, RecoveryPhase(40 * MS))
    assert (second.detect, second.left_evs, second.restore) == (
        RecoveryPhase(3 * MS),
        1,
        RecoveryPhase(50 * MS),
    )
