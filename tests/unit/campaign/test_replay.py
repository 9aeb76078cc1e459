"""A run and its repetition: what is said to differ, and what is not."""

import json
import shutil
from dataclasses import replace

import pytest

from mrc_testbed.bundle.difference import compare_repetition
from mrc_testbed.campaign.tables import finished_runs
from mrc_testbed.cli.bundle import replay_status


@pytest.fixture
def before(campaign):
    """A run that says that it took place in virtual time."""
    return in_place(finished_runs(campaign)[0], "runtime", "virtual")


def in_place(run, key, value):
    provenance = run.manifest["provenance"] | {key: value}
    return replace(run, manifest=run.manifest | {"provenance": provenance})


def with_loss(run, factor):
    first, *others = run.manifest["faults"]
    changed = first | {"lost_packets": first["lost_packets"] * factor}
    return replace(run, manifest=run.manifest | {"faults": [changed, *others]})


def test_a_run_and_itself_are_the_same_whatever_its_name_and_machine(before):
    after = in_place(before, "kernel", "7.0")
    after = replace(after, manifest=after.manifest | {"run": "another", "started_utc": "later"})
    found = compare_repetition("flap", before, after, None)
    assert found.is_same
    assert found.files == ()
    assert [(each.name, each.after) for each in found.conditions] == [("kernel", "7.0")]
    assert found.figures > 5


def test_in_virtual_time_one_byte_is_a_difference_and_its_line_is_named(before, tmp_path):
    shutil.copytree(before.path, tmp_path / "again")
    series = tmp_path / "again" / "series.csv"
    lines = series.read_text().splitlines(keepends=True)
    series.write_text("".join([*lines[:4], lines[4].replace(",", ",9", 1), *lines[5:]]))
    (tmp_path / "again" / "flows.csv").unlink()
    found = compare_repetition("flap", before, replace(before, path=tmp_path / "again"), None)
    assert not found.is_same
    assert found.files is not None
    assert [(each.name, each.line) for each in found.files] == [("series.csv", 5), ("flows.csv", 1)]
    one, other = found.files[0].before, found.files[0].after
    assert one != other
    assert max(map(len, (one, other))) <= 66
    assert found.files[1].after == ""


def test_in_virtual_time_a_figure_that_is_another_is_a_difference(before):
    found = compare_repetition("flap", before, with_loss(before, 1.001), None)
    assert [figure.name for figure in found.beyond] == ["lost(flap1)"]
    assert found.files is not None
    assert [each.name for each in found.files] == ["manifest.json"]


@pytest.mark.parametrize(("factor", "tolerance", "is_same"), [(1.04, None, True), (1.06, None, False)])
def test_live_a_figure_may_differ_by_a_share(before, factor, tolerance, is_same):
    first, other = (in_place(run, "runtime", "netns") for run in (before, with_loss(before, factor)))
    found = compare_repetition("flap", first, other, tolerance)
    assert found.is_same is is_same
    assert found.files is None


def test_a_tolerance_that_is_given_holds_in_virtual_time_too(before):
    after = with_loss(before, 1.001)
    assert compare_repetition("flap", before, after, 0.01).is_same
    assert not compare_repetition("flap", before, after, 0.0001).is_same


def test_a_figure_that_only_one_run_has_is_beyond_any_tolerance(before):
    gone = replace(before, manifest=json.loads(json.dumps(before.manifest)) | {"faults": []})
    found = compare_repetition("flap", before, gone, 100.0)
    assert {figure.after for figure in found.beyond} == {None}
    assert "lost(flap1)" in {figure.name for figure in found.beyond}


def test_another_verdict_is_a_difference(before):
    after = replace(before, manifest=before.manifest | {"status": "failed"})
    assert not compare_repetition("flap", before, after, 1.0).is_same


@pytest.mark.parametrize(
    ("is_late", "status", "exit_code"), [(True, "passed", 7), (False, "passed", 4), (True, "failed", 4)]
)
def test_figures_of_a_late_run_differ_for_no_reason_of_the_fabric(before, is_late, status, exit_code):
    first, other = (in_place(run, "runtime", "netns") for run in (before, with_loss(before, 2)))
    late = replace(other, manifest=other.manifest | {"late": is_late, "status": status})
    assert replay_status([compare_repetition("flap", first, late, None)]) == exit_code
