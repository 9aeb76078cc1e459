"""The results of link probes in a run, from readings made by hand."""

from dataclasses import replace

import pytest
from hand_made import MS, S, applied, cleared, reading, recording
from scenario_text import scenario

from mrc_testbed.metrics.series import Reading
from mrc_testbed.scenario.measure.event import FaultChange
from mrc_testbed.scenario.measure.link_finding import LinkFinding, measure_link_finding, time_to_find_ns
from mrc_testbed.scenario.measure.measurement import Measurement
from mrc_testbed.scenario.measure.recording import NotMeasured, Recording
from mrc_testbed.scenario.measure.recovery import RecoveryPhase
from mrc_testbed.scenario.report.result_text import format_link_finding
from mrc_testbed.scenario.spec.expression import parse_expectation
from mrc_testbed.scenario.spec.expression_tree import Quantity
from mrc_testbed.scenario.spec.plan import READING_INTERVAL_NS
from mrc_testbed.topology.probing_spec import ProbingSpec

LINK, OTHER = "p0-t0-0:4~p0-t1-0:0", "p1-t0-0:4~p1-t1-0:0"
FAULT = f'  faults: [{{id: f, at: 100ms, for: 200ms, kind: link-down, select: {{links: "{LINK}"}}}}]\n'


def seen(at_ns: int, *links: str) -> Reading:
    return replace(reading(at_ns), suspects=frozenset(links))


def made(readings: list[Reading], changes: list[FaultChange], faults: str = FAULT) -> Recording:
    run = recording(scenario(faults), readings, end_ns=10 * S)
    topology = run.plan.topology.model_copy(update={"probing": ProbingSpec()})
    run.plan = replace(run.plan, topology=topology)
    run.fault_changes = changes
    return run


CHANGES = [applied("f", 1 * S), cleared("f", 4 * S)]


def test_link_that_is_found_at_once_and_never_wrongly() -> None:
    readings = [seen(0), seen(1300 * MS, LINK), seen(2 * S, LINK), seen(3 * S, LINK), seen(6 * S)]
    finding = measure_link_finding(made(readings, CHANGES))
    assert finding == LinkFinding(1.0, 1.0, {"f": RecoveryPhase(300 * MS)})
    assert format_link_finding(finding) == (
        "Link probes: precision 100 %, recall 100 %, time to localize f 300 ms"
    )


def test_suspicion_may_outlast_the_fault_by_its_window_but_not_for_ever() -> None:
    inside = made([seen(1500 * MS, LINK), seen(4900 * MS, LINK)], CHANGES)
    beyond = made([seen(1500 * MS, LINK), seen(6 * S, LINK)], CHANGES)
    assert [found.precision for run in (inside, beyond) if (found := measure_link_finding(run))] == [1.0, 0.5]


def test_wrong_and_missing_suspicions_count() -> None:
    readings = [seen(2 * S, OTHER), seen(2500 * MS, LINK, OTHER), seen(3 * S)]
    finding = measure_link_finding(made(readings, CHANGES))
    assert finding is not None
    assert finding.precision == pytest.approx(1 / 3)
    assert finding.recall == pytest.approx(1 / 3)
    assert finding.localise == {"f": RecoveryPhase(1500 * MS)}


def test_nothing_is_missed_while_probes_cannot_know_yet() -> None:
    at_ns = 1 * S + time_to_find_ns(ProbingSpec(), READING_INTERVAL_NS) - MS
    finding = measure_link_finding(made([seen(at_ns)], CHANGES))
    assert finding == LinkFinding(
        None, None, {"f": RecoveryPhase(None, "not all of its links were suspected while it acted")}
    )


def test_the_slowest_occurrence_counts() -> None:
    changes = [applied("f", 1 * S), cleared("f", 2 * S), applied("f", 5 * S, 1), cleared("f", 7 * S, 1)]
    readings = [seen(1200 * MS, LINK), seen(5700 * MS, LINK)]
    finding = measure_link_finding(made(readings, changes))
    assert finding is not None
    assert finding.localise == {"f": RecoveryPhase(700 * MS)}


def test_run_without_probes_or_broken_links_has_no_time() -> None:
    run = recording(scenario(FAULT), [reading(0), reading(10 * S)], end_ns=10 * S)
    run.fault_changes = CHANGES
    assert measure_link_finding(run) is None
    (quantity,) = parse_expectation("localise(f) < 1s").quantities()
    assert isinstance(quantity, Quantity)
    with pytest.raises(NotMeasured, match="no link probes"):
        Measurement(run).measure(quantity)
    assert Measurement(made([seen(1300 * MS, LINK)], CHANGES)).measure(quantity) == 300 * MS
    with pytest.raises(NotMeasured, match="not all of its links"):
        Measurement(made([seen(2 * S)], CHANGES)).measure(quantity)
