"""Cells of a campaign, their comparison with a baseline cell, and the gate against an earlier campaign."""

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.campaign.cells import Cell, CellFigure, compare_cells
from mrc_testbed.campaign.gate import build_baseline, check, dump_baseline, gate_status, load_baseline
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.quantity import Dimension

TOLERANCE = 0.05
STEADY = (100.0, 101.0, 99.0, 100.5, 99.5, 100.2)


def cell(place="32", *, is_exact=False, goodput=STEADY, p99=(10.0,) * 6, **figures):
    return Cell(
        "flap",
        {"transport.window": place},
        {"passed": len(goodput)},
        is_exact,
        {
            "goodput(main)": CellFigure(Dimension.RATE, "more", tuple(goodput)),
            "p99(packet_rtt)": CellFigure(Dimension.TIME, "less", tuple(p99)),
            **figures,
        },
    )


def scaled(factor):
    return tuple(value * factor for value in STEADY)


def outcomes(now, before):
    found = check([now], build_baseline("c", [before]), TOLERANCE)
    return {finding.name: finding.outcome for finding in found}, gate_status(found)


def test_the_same_figures_pass():
    assert outcomes(cell(), cell()) == ({"goodput(main)": "within", "p99(packet_rtt)": "within"}, 0)


def test_less_goodput_is_worse_and_more_is_better():
    assert outcomes(cell(goodput=scaled(0.9)), cell())[0]["goodput(main)"] == "worse"
    assert outcomes(cell(goodput=scaled(0.9)), cell())[1] == 4
    assert outcomes(cell(goodput=scaled(1.1)), cell()) == (
        {"goodput(main)": "better", "p99(packet_rtt)": "within"},
        0,
    )


def test_a_longer_time_is_worse():
    assert outcomes(cell(p99=(12.0,) * 6), cell())[0]["p99(packet_rtt)"] == "worse"


def test_a_small_change_is_within_however_sure():
    assert outcomes(cell(goodput=scaled(0.97)), cell())[1] == 0


def test_too_few_runs_cannot_tell():
    now, before = cell(goodput=(90.0,), p99=(10.0,)), cell(goodput=(100.0,), p99=(10.0,))
    found = check([now], build_baseline("c", [before]), TOLERANCE)
    (goodput,) = [finding for finding in found if finding.name == "goodput(main)"]
    assert goodput.outcome == "cannot tell"
    assert "too few runs to tell" in goodput.certainty
    assert gate_status(found) == 7


def test_one_exact_run_of_each_is_enough():
    now = cell(goodput=(90.0,), p99=(10.0,), is_exact=True)
    before = cell(goodput=(100.0,), p99=(10.0,), is_exact=True)
    assert outcomes(now, before) == ({"goodput(main)": "worse", "p99(packet_rtt)": "within"}, 4)


def test_something_where_nothing_was_is_worse():
    lost = {"lost(f)": CellFigure(Dimension.COUNT, "less", (3.0,) * 6)}
    none = {"lost(f)": CellFigure(Dimension.COUNT, "less", (0.0,) * 6)}
    assert outcomes(cell(**lost), cell(**none))[0]["lost(f)"] == "worse"
    assert outcomes(cell(**none), cell(**lost))[0]["lost(f)"] == "better"


def test_a_cell_or_figure_that_is_gone_is_named():
    found = check([cell("64")], build_baseline("c", [cell("32")]), TOLERANCE)
    assert [(finding.cell, finding.outcome) for finding in found] == [("flap transport.window=32", "gone")]
    assert gate_status(found) == 4
    more = cell(**{"lost(f)": CellFigure(Dimension.COUNT, "less", (0.0,))})
    assert outcomes(cell(), more)[0]["lost(f)"] == "gone"


def test_figures_without_a_better_direction_are_not_held():
    drops = {"fault_drops": CellFigure(Dimension.COUNT, None, (3.0,) * 6)}
    assert "fault_drops" not in outcomes(cell(**drops), cell(**drops))[0]


def test_a_baseline_reads_back_as_it_was_written(tmp_path):
    written = build_baseline("c", [cell("32"), cell("64", is_exact=True)])
    path = tmp_path / "b.json"
    path.write_text(dump_baseline(written))
    assert load_baseline(path) == written
    assert sum("goodput(main)" in line for line in path.read_text().splitlines()) == 2


def test_no_trusted_run_makes_no_baseline():
    untrusted = Cell("flap", {}, {"untrusted": 3}, is_exact=False, figures={})
    with pytest.raises(UsageError, match="no run of the campaign 'c' came to a trusted end"):
        build_baseline("c", [untrusted])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a baseline"),
        ("[]", "schema version None"),
        ('{"schema_version": 2}', "schema version 2; this version reads 1"),
        ('{"schema_version": 1, "kind": "CampaignBaseline", "campaign": "c"}', "cells: Field required"),
    ],
)
def test_a_damaged_baseline_is_refused(tmp_path, text, said):
    path = tmp_path / "b.json"
    path.write_text(text)
    with pytest.raises(UsageError, match=said):
        load_baseline(path)


def test_a_missing_baseline_says_how_to_write_one(tmp_path):
    with pytest.raises(UsageError) as caught:
        load_baseline(tmp_path / "none.json")
    assert "campaign baseline" in (caught.value.hint or "")


@given(st.data())
def test_damage_of_any_byte_is_refused_or_read(tmp_path_factory, data):
    text = bytearray(dump_baseline(build_baseline("c", [cell()])).encode())
    place = data.draw(st.integers(0, len(text) - 1))
    text[place] = data.draw(st.integers(0, 127))
    path = tmp_path_factory.mktemp("damage") / "b.json"
    path.write_bytes(text)
    with contextlib.suppress(UsageError):
        assert json.loads(dump_baseline(load_baseline(path)))["kind"] == "CampaignBaseline"


def test_cells_are_compared_with_the_baseline_cell():
    slow = cell("16", goodput=scaled(0.5))
    (found,) = compare_cells([slow, cell("32")], {"transport.window": "32"})
    assert (found.cell, found.baseline, found.name, found.verdict) == (
        "flap transport.window=16",
        "flap transport.window=32",
        "goodput(main)",
        "worse",
    )
    assert found.ratio == pytest.approx(0.5)
    assert compare_cells([slow, cell("32")], {}) == ()


SCENARIO = """\
apiVersion: mrc-testbed/v1
kind: Scenario
metadata: {name: small}
spec:
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}
  workloads: [{name: main, kind: sendrecv, size: 64KiB, duration: 1s}]
"""
CAMPAIGN = """\
apiVersion: mrc-testbed/v1
kind: Campaign
metadata: {{name: c}}
spec:
  scenarios: [small.yaml]
  matrix: {{transport.window: [16, 32]}}
  {more}
"""


def planned(tmp_path, more):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "c.yaml").write_text(CAMPAIGN.format(more=more))
    return plan_campaign(tmp_path / "c.yaml")


def test_a_range_of_seeds(tmp_path):
    plan = planned(tmp_path, "seeds: {from: 5, count: 3}")
    runs = sorted(plan.runs, key=lambda run: run.index)
    assert [run.plan.seed for run in runs] == [5, 6, 7, 5, 6, 7]


def test_a_baseline_is_planned(tmp_path):
    assert planned(tmp_path, "baseline: {transport.window: 16}").baseline == {"transport.window": "16"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("baseline: {transport.windw: 16}", "is not varied by this campaign"),
        ("baseline: {transport.window: 8}", "'8' is none of its values: 16, 32"),
        ("seeds: {from: 5, count: 0}", "seeds"),
        ("seeds: []", "seeds"),
    ],
)
def test_a_baseline_or_seeds_that_cannot_be_are_refused_with_their_line(tmp_path, more, said):
    with pytest.raises(UsageError) as caught:
        planned(tmp_path, more)
    assert said in caught.value.message
    assert "c.yaml:7" in caught.value.message
