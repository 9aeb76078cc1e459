"""Cells of a campaign, their comparison with a baseline cell, and the gate against an earlier campaign."""

import contextlib
import json
import re
from dataclasses import replace

import pytest
from document_text import document
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.campaign.cells import Cell, CellFigure, compare_cells
from mrc_testbed.campaign.gate import (
    build_baseline,
    check,
    dump_baseline,
    gate_status,
    load_baseline,
    named_figures,
)
from mrc_testbed.campaign.plan import plan_campaign
from mrc_testbed.cli import campaign_statistics
from mrc_testbed.cli.app import run
from mrc_testbed.errors import UsageError
from mrc_testbed.scenario.spec.quantity import Dimension

TOLERANCE = 0.05
IDLE_RTT_NS = 2
STEADY = (100.0, 101.0, 99.0, 100.5, 99.5, 100.2, 99.8, 100.1)
RUNS = len(STEADY)


def figure(dimension, better, values):
    return CellFigure(dimension, better, dict(enumerate(values)))


def cell(place="32", *, goodput=STEADY, p99=(10.0,) * RUNS, **figures):
    return Cell(
        "flap",
        {"transport.window": place},
        {"passed": len(goodput)},
        is_exact=True,
        idle_rtt_ns=IDLE_RTT_NS,
        figures={
            "goodput(main)": figure(Dimension.RATE, "more", goodput),
            "p99(packet_rtt)": figure(Dimension.TIME, "less", p99),
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
    assert outcomes(cell(p99=(13.0,) * RUNS), cell())[0]["p99(packet_rtt)"] == "worse"


def test_a_small_change_is_within_however_sure():
    assert outcomes(cell(goodput=scaled(0.97)), cell())[1] == 0


def test_a_change_within_the_spread_of_the_runs_is_not_shown():
    noisy = tuple(100.0 + 20 * (-1) ** place * place for place in range(RUNS))
    found = outcomes(cell(goodput=tuple(0.9 * value for value in noisy)), cell(goodput=noisy))
    assert found == ({"goodput(main)": "not shown", "p99(packet_rtt)": "within"}, 0)


def test_a_change_of_every_seed_is_shown_however_much_seeds_differ():
    by_seed = tuple(10.0 * 2**place for place in range(14))
    now, before = (tuple(factor * value for value in by_seed) for factor in (0.9, 1.0))
    calm = {"p99": (10.0,) * 14}
    assert outcomes(cell(goodput=now, **calm), cell(goodput=before, **calm))[0]["goodput(main)"] == "worse"


def test_a_time_may_be_longer_by_an_idle_rtt():
    assert outcomes(cell(p99=(11.9,) * RUNS), cell())[0]["p99(packet_rtt)"] == "within"
    assert outcomes(cell(p99=(12.1,) * RUNS), cell())[0]["p99(packet_rtt)"] == "worse"
    none = (0.0,) * RUNS
    assert outcomes(cell(p99=(1.9,) * RUNS), cell(p99=none))[0]["p99(packet_rtt)"] == "within"


def test_a_count_may_grow_by_its_square_root():
    def lost(packets):
        return {"lost(f)": figure(Dimension.COUNT, "less", (packets,) * RUNS)}

    assert outcomes(cell(**lost(110.0)), cell(**lost(100.0)))[0]["lost(f)"] == "within"
    assert outcomes(cell(**lost(111.0)), cell(**lost(100.0)))[0]["lost(f)"] == "worse"
    assert outcomes(cell(**lost(3.0)), cell(**lost(0.0)))[0]["lost(f)"] == "worse"
    assert outcomes(cell(**lost(0.0)), cell(**lost(3.0)))[0]["lost(f)"] == "better"


def test_a_rate_of_steps_is_no_count():
    def throughput(steps_per_s):
        return {"job_throughput(train)": figure(Dimension.COUNT, "more", (steps_per_s,) * RUNS)}

    found, status = outcomes(cell(**throughput(3.5)), cell(**throughput(3.9)))
    assert (found["job_throughput(train)"], status) == ("worse", 4)


@pytest.mark.parametrize("runs", [1, 5])
def test_fewer_than_six_seeds_are_refused_with_the_reason(runs):
    with pytest.raises(UsageError, match=f"{runs} runs came to a trusted end; the gate judges by rank"):
        build_baseline("c", [cell(goodput=(1.0,) * runs, p99=(1.0,) * runs)])
    with pytest.raises(UsageError, match=f"{runs} seeds cannot show which of 1 figures got worse"):
        check([cell(goodput=(1.0,) * runs, p99=(1.0,) * runs)], build_baseline("c", [cell()]), TOLERANCE)


def test_medians_that_differ_look_different(campaign, tmp_path, monkeypatch, capsys):
    path, key = tmp_path / "b.json", "flap transport.window=16"
    path.write_text(dump_baseline(build_baseline("both", [cell("16", p99=(1.826e6,) * RUNS), cell("64")])))
    monkeypatch.setattr(campaign_statistics, "cells_of", lambda _: [cell("16", p99=(1.829e6,) * RUNS)])
    arguments = ["--baseline", str(path), "--all-figures", "--tolerance", "0.1%"]
    assert run(["campaign", "check", str(campaign), *arguments]) == 4
    shown = capsys.readouterr().out
    assert re.search(rf"worse +{key} +p99\(packet_rtt\) +1.829 ms +1.826 ms +1.002", shown)
    assert "now (median of runs)" in shown
    assert re.search(r"gone +flap transport.window=64 +- +- +- ", shown)


def test_more_figures_take_more_seeds():
    now = cell(**{f"lost(f{place})": figure(Dimension.COUNT, "less", STEADY[:6]) for place in range(20)})
    few = {"goodput": STEADY[:6], "p99": (10.0,) * 6}
    now = replace(now, statuses={"passed": 6}, figures={**now.figures, **cell(**few).figures})
    with pytest.raises(UsageError, match=r"6 seeds cannot show which of 21 figures .* it takes 8 seeds"):
        check([now], build_baseline("c", [now]), TOLERANCE)
    named = check([now], build_baseline("c", [now]), TOLERANCE, {"goodput(main)"})
    assert [finding.name for finding in named] == ["goodput(main)"]


def test_too_few_runs_that_count_cannot_tell():
    now = cell(goodput=(50.0,) * 5, p99=(10.0,) * 5)
    found = check([replace(now, statuses={"passed": 5, "untrusted": 3})], build_baseline("c", [cell()]), 0.05)
    assert {finding.outcome for finding in found} == {"cannot tell"}
    assert gate_status(found) == 7


def test_names_that_the_baseline_lacks_are_refused():
    with pytest.raises(UsageError, match=r"none of the quantities that the campaign names: fairness\(main\)"):
        check([cell()], build_baseline("c", [cell()]), TOLERANCE, {"fairness(main)"})


def test_a_cell_or_figure_that_is_gone_is_named():
    found = check([cell("64")], build_baseline("c", [cell("32")]), TOLERANCE)
    assert [(finding.cell, finding.outcome) for finding in found] == [("flap transport.window=32", "gone")]
    assert gate_status(found) == 4
    more = cell(**{"lost(f)": figure(Dimension.COUNT, "less", (0.0,) * RUNS)})
    assert outcomes(cell(), more)[0]["lost(f)"] == "gone"


def test_figures_without_a_better_direction_are_not_held():
    drops = {"fault_drops": figure(Dimension.COUNT, None, (3.0,) * RUNS)}
    assert "fault_drops" not in outcomes(cell(**drops), cell(**drops))[0]


def test_a_baseline_reads_back_as_it_was_written(tmp_path):
    written = build_baseline("c", [cell("32"), cell("64")])
    path = tmp_path / "b.json"
    path.write_text(dump_baseline(written))
    assert load_baseline(path) == written
    assert sum("goodput(main)" in line for line in path.read_text().splitlines()) == 2


def test_no_trusted_run_makes_no_baseline():
    untrusted = Cell("flap", {}, {"untrusted": 8}, is_exact=False, idle_rtt_ns=0, figures={})
    with pytest.raises(UsageError, match="flap: 0 runs came to a trusted end"):
        build_baseline("c", [untrusted])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a baseline"),
        ("[]", "schema version None"),
        ('{"schema_version": 1}', "schema version 1; this version reads 2"),
        ('{"schema_version": 2, "kind": "CampaignBaseline", "campaign": "c"}', "cells: Field required"),
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
    assert "campaign baseline CAMPAIGN --into FILE" in (caught.value.hint or "")


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


SCENARIO = document("""\
Scenario {name: small}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1}
  workloads: [{name: main, kind: sendrecv, size: 64KiB, duration: 1s}]
  expect: [goodput(main) > 1Mbit, retransmits == 0]
""")
CAMPAIGN = document("""\
Campaign {{name: c}}
  scenarios: [small.yaml]
  matrix: {{transport.window: [16, 32]}}
  {more}
""")


def planned(tmp_path, more):
    (tmp_path / "small.yaml").write_text(SCENARIO)
    (tmp_path / "c.yaml").write_text(CAMPAIGN.format(more=more))
    return plan_campaign(tmp_path / "c.yaml")


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ("", {"goodput(main)", "retransmits"}),
        ("expect: [p99(message_completion) < 1s]", {"p99(message_completion)"}),
    ],
)
def test_the_campaign_names_the_figures_that_are_judged(tmp_path, more, names):
    assert named_figures(planned(tmp_path, more)) == names


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
