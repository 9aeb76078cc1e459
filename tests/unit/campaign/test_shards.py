"""Shards of a campaign, and their merge: who runs what, what a shard speaks for, what is refused."""

import errno
import json
import shutil
from collections import Counter
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from document_text import document
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.bundle.bundle import write_bundle
from mrc_testbed.campaign.execution import execute_campaign, exit_code
from mrc_testbed.campaign.folder import CampaignFolder
from mrc_testbed.campaign.plan import Shard, plan_campaign
from mrc_testbed.campaign.summary import summarize_campaign
from mrc_testbed.cli.app import run as mrc_testbed

SPLIT = document("""\
Campaign {name: split}
  scenarios: [sizes.yaml, short.yaml]
  matrix: {transport.window: [16, 64]}
  seeds: [1]
  baseline: {transport.window: 16}
  expect: [goodput(main) >= 50% of goodput(main) in baseline, wrong_bytes == 0 for all seeds]
""")
SHORT = document("""\
Scenario {name: short}
  topology: {planes: 2, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 5Mbit}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 300ms}
""")
SIZES = document("""\
Scenario {name: sizes}
  topology: {planes: 4, t0: 2, t1: 2, hosts_per_t0: 1, port_rate: 5Mbit}
  workloads:
    - {name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 300ms}
  variants:
    size:
      4KiB: {workloads.main.size: 4KiB}
      64KiB: {}
  expect: [messages in 4KiB > messages in 64KiB]
""")


@pytest.fixture
def path(tmp_path):
    return write_files(tmp_path)


def write_files(folder):
    (folder / "short.yaml").write_text(SHORT)
    (folder / "sizes.yaml").write_text(SIZES)
    (folder / "split.yaml").write_text(SPLIT)
    return folder / "split.yaml"


def begin(path, shard=None):
    """The folder of a campaign, or of a shard of it."""
    plan = replace(plan_campaign(path), shard=None if shard is None else Shard.parse(shard))
    return CampaignFolder.create(path.parent / "campaigns", plan)


def carry_out(path, stage, shard=None):
    folder = begin(path, shard)
    execute_campaign(folder, stage, progress=lambda _: None)
    return folder


@pytest.fixture(scope="module")
def finished(tmp_path_factory, shared_stage):
    """Three shards, carried out; for whoever only reads them."""
    path = write_files(tmp_path_factory.mktemp("shards"))
    return [carry_out(path, shared_stage, f"{part}/3") for part in (1, 2, 3)]


@pytest.fixture
def shards(finished, tmp_path):
    """Copies of the shards."""
    folders = [shutil.copytree(each.path, tmp_path / each.path.name) for each in finished]
    return [CampaignFolder.open(folder) for folder in folders]


def merge(into, *parts):
    return mrc_testbed(["campaign", "merge", *map(str, parts), "--campaigns", str(into), "-o", "json"])


def edit(folder, run, **changes):
    """Changes the provenance of a run's manifest."""
    path = folder.file(run, "manifest.json")
    found = json.loads(path.read_text())
    path.write_text(json.dumps(found | {"provenance": found["provenance"] | changes}))


def summary(folder):
    """summary.json without the names of folders, which are random."""
    found = json.loads((folder / "summary.json").read_text())
    for run in found["runs"]:
        for each in (run, *run["variants"]):
            each["folder"] = each["folder"] and "a folder"
    return found


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@given(st.integers(1, 40), st.data())
def test_parts_are_disjoint_whole_and_of_nearly_equal_size(of, data):
    runs = range(data.draw(st.integers(0, 100)))
    parts = [Shard(part, of).select(runs) for part in range(1, of + 1)]
    assert Counter(run for part in parts for run in part) == Counter(runs)
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize(
    "text", ["0/3", "4/3", "3", "/3", "1/", "-1/3", "1/3/5", "a/b", "01/3", "1/99999", ""]
)
def test_another_text_is_no_shard(path, text, capsys):
    assert mrc_testbed(["campaign", "run", str(path), "--dry-run", "--shard", text]) == 2
    assert f"'{text}' is not a shard: write it like 3/10" in capsys.readouterr().err


def test_a_dry_run_shows_the_runs_of_the_shard(path, capsys):
    planned = plan_campaign(path)
    assert mrc_testbed(["campaign", "run", str(path), "--dry-run", "--shard", "2/3", "-o", "json"]) == 0
    shown = json.loads(capsys.readouterr().out)["runs"]
    assert [run["key"] for run in shown] == [run.key for run in planned.runs[1::3]]
    assert mrc_testbed(["campaign", "run", str(path), "--dry-run", "--shard", "2/3"]) == 0
    assert "2 runs on " in capsys.readouterr().out


def test_a_shard_speaks_for_its_own_runs(path, stage, capsys):
    folder = carry_out(path, stage, "2/3")
    assert [each for each in stage.events if "=" in each] == [run.key for run in folder.plan.runs[1::3]]
    assert exit_code(folder) == 0
    again = CampaignFolder.open(folder.path)
    assert again.plan == folder.plan
    assert not again.pending()
    assert summarize_campaign(again).headline == "2 runs of shard 2/3: 2 passed"
    assert summarize_campaign(again).expectations == ()
    for name, title in (("summary.md", "# split, shard 2/3\n"), ("report.html", "<h1>split, shard 2/3</h1>")):
        assert title in (folder.path / name).read_text()
    for command in (["check"], ["baseline", "--into", "baseline.json"]):
        assert mrc_testbed(["campaign", *command, str(folder.path)]) == 2
        assert "shard 2/3 alone" in capsys.readouterr().err


def test_a_part_without_runs_passes(path, stage):
    folder = carry_out(path, stage, "7/20")
    assert exit_code(folder) == 0
    assert summarize_campaign(folder).headline == "0 runs of shard 7/20: none falls to it"


def test_an_interrupted_shard_is_resumed_as_that_shard(path, stage):
    def stop(run, lab):
        raise KeyboardInterrupt

    stage.before_run = stop
    folder = carry_out(path, stage, "3/3")
    assert exit_code(folder) == 130
    assert summarize_campaign(folder).counts == {"not run": 2}
    again = CampaignFolder.open(folder.path)
    stage.before_run = lambda *_: None
    assert execute_campaign(again, stage, progress=lambda _: None) == 0
    assert [again.entry(run) is not None for run in again.plan.runs] == [False, False, True] * 2


def test_merged_shards_are_the_campaign_run_whole(path, stage, shards, tmp_path, capsys):
    whole = carry_out(path, stage)
    before = [contents(shard.path) for shard in shards]
    bundle = write_bundle(shards[1].path, tmp_path / "part.tar.zst")
    assert merge(tmp_path / "merged", shards[0].path, bundle, shards[2].path) == exit_code(whole)
    shown = json.loads(capsys.readouterr().out)
    merged = Path(shown["folder"])
    assert summary(merged) == summary(whole.path)
    assert shown["counts"] == {"passed": 4}
    assert [each["outcome"] for each in shown["expectations"]].count("held") == len(shown["expectations"]) > 0
    assert CampaignFolder.open(merged).plan == whole.plan
    assert [contents(shard.path) for shard in shards] == before
    assert (tmp_path / "merged" / "split" / "latest").resolve() == merged
    copied = CampaignFolder.open(merged)
    for run in shards[0].plan.own_runs:
        [old, new] = [each.result_folder(run) for each in (shards[0], copied)]
        assert [file.name for file in contents(old)] == [file.name for file in contents(new)]


def test_a_run_that_was_untrusted_before_keeps_its_mark(shards, tmp_path, capsys):
    shard, run = next((each, run) for each in shards for run in each.plan.own_runs if not run.axes)
    before = replace(shard.last(run), status="untrusted", folder=None)
    journal = shard.path / "journal.jsonl"
    journal.write_text(f"{json.dumps(asdict(before))}\n{journal.read_text()}")
    assert merge(tmp_path / "merged", *(shard.path for shard in shards)) == 0
    rows = {row["key"]: row for row in json.loads(capsys.readouterr().out)["runs"]}
    assert rows[run.key]["fidelity"] == "trusted, after 1 UNTRUSTED"


def test_runs_that_no_part_has_are_named_and_can_be_resumed(shards, stage, tmp_path, capsys):
    assert merge(tmp_path / "merged", shards[0].path, shards[2].path) == 130
    printed = capsys.readouterr()
    assert printed.err.count("missing: ") == 2
    assert f"missing: {shards[1].plan.own_runs[0].key}\n" in printed.err
    merged = CampaignFolder.open(Path(json.loads(printed.out)["folder"]))
    assert f"`mrc-testbed campaign resume {merged.path}` runs what is missing" in printed.err
    assert [run.key for run in merged.pending()] == [run.key for run in shards[1].plan.own_runs]
    assert execute_campaign(merged, stage, progress=lambda _: None) == 0


def test_a_finished_run_counts_before_a_broken_one(path, stage, shards, tmp_path, capsys):
    def stop(run, lab):
        lab.clock.interrupt_at_ns = 10**8

    stage.before_run = stop
    broken = carry_out(path, stage, "1/3")
    assert broken.last(broken.plan.runs[0]).status == "interrupted"
    assert merge(tmp_path / "merged", broken.path, *(shard.path for shard in shards)) == 0
    assert capsys.readouterr().err == ""


def test_the_same_run_in_two_parts_is_kept_once(shards, tmp_path, capsys):
    copied = tmp_path / "copy"
    shutil.copytree(shards[0].path, copied)
    assert merge(tmp_path / "merged", *(shard.path for shard in shards), copied) == 0
    key = shards[0].plan.own_runs[0].key
    assert f"{key} is in {shards[0].path} and in {copied}, the same: kept once" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("runtime", "why"), [("netns", "runs on a lab are never the same"), ("virtual", None)]
)
def test_a_run_that_two_parts_finished_is_kept_if_it_is_exact(shards, tmp_path, capsys, runtime, why):
    copied = shutil.copytree(shards[0].path, tmp_path / "again")
    journal = copied / "journal.jsonl"
    journal.write_text(journal.read_text().replace('"ended_utc": "2', '"ended_utc": "3'))
    parts = [shards[0], CampaignFolder.open(copied)]
    for part in parts:
        for run in part.plan.own_runs:
            edit(part, run, runtime=runtime)
    assert merge(tmp_path / "merged", *(part.path for part in parts)) == (130 if why is None else 2)
    said = capsys.readouterr().err
    run = parts[0].plan.own_runs[0]
    if why is None:
        assert f"{run.key} is in {parts[0].path} and in {parts[1].path}, the same: kept once" in said
        series = parts[1].file(run, "series.csv")
        series.write_text(series.read_text().replace(",", ",9", 1))
        assert merge(tmp_path / "merged", *(part.path for part in parts)) == 2
        said, why = capsys.readouterr().err, "they differ"
    expected = f"{run.key} is finished twice: passed in {parts[0].path}, passed in {parts[1].path}; {why}"
    assert expected in said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("name: split", "name: other", 'campaign: "split" in '),
        ("[1]", "[3]", " has the run s"),
        ("[16, 64]", "[64, 16]", ".index: "),
        ("50%", "60%", ": expect.0.text: "),
        ("kind: Campaign", "kind: Campaign # mine", ": source: "),
    ],
)
def test_another_plan_is_refused_with_the_first_difference(path, tmp_path, capsys, old, new, said):
    parts = [begin(path, "1/6")]
    path.write_text(SPLIT.replace(old, new))
    parts.append(begin(path, "2/6"))
    assert merge(tmp_path / "merged", *(part.path for part in parts)) == 2
    printed = capsys.readouterr().err
    assert "error: the plans differ: " in printed
    assert said in printed
    assert not (tmp_path / "merged").exists()


def test_a_scenario_that_was_changed_is_another_plan(path, tmp_path, capsys):
    parts = [begin(path, "1/6")]
    scenario = path.parent / "short.yaml"
    scenario.write_text(scenario.read_text().replace("300ms", "200ms"))
    parts.append(begin(path, "2/6"))
    assert merge(tmp_path / "merged", *(part.path for part in parts)) == 2
    assert "the plans differ: short transport.window=16 seed=" in capsys.readouterr().err


def test_runs_of_another_version_are_refused(shards, tmp_path, capsys):
    run = shards[1].plan.own_runs[0]
    edit(shards[1], run, mrc_testbed="9.9.9")
    assert merge(tmp_path / "merged", *(shard.path for shard in shards)) == 2
    said = capsys.readouterr().err
    assert "the runs are of different versions of mrc-testbed: 0." in said
    assert f"9.9.9 ran {run.key} in {shards[1].path}" in said


def test_a_part_that_lacks_results_or_is_no_campaign_is_refused(shards, tmp_path, capsys):
    run = shards[1].plan.own_runs[0]
    shutil.rmtree(shards[1].result_folder(run))
    assert merge(tmp_path / "merged", *(shard.path for shard in shards)) == 2
    assert f"{shards[1].path} lacks the results of {run.key}: runs/" in capsys.readouterr().err
    assert merge(tmp_path / "merged", shards[0].path, shards[0].runs) == 2
    assert "there is no campaign at " in capsys.readouterr().err


def test_nothing_is_left_of_a_merge_on_a_full_disk(shards, tmp_path, capsys, monkeypatch):
    def copy(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", copy)
    before = sorted(tmp_path.iterdir())
    assert merge(tmp_path / "merged", *(shard.path for shard in shards)) == 1
    assert "merged cannot be written: No space left on device" in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before
