"""Ready scenarios and campaigns: listed, copied, and run by name."""

import json
from pathlib import Path

import pytest

from mrc_testbed.cli import ready
from mrc_testbed.errors import UsageError
from mrc_testbed.installation import shipped
from mrc_testbed.scenario.spec.load import load_scenario, scenario_variants
from mrc_testbed.topology.resolve import check_live

LINE_MAX = 120


@pytest.fixture(autouse=True)
def empty_folder(monkeypatch, tmp_path):
    """The commands run where there is no file."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def listed(mrc_testbed, *arguments):
    finished = mrc_testbed("scenarios", "list", *arguments, "-o", "json")
    assert finished.status == 0
    return {each["name"]: each for each in json.loads(finished.stdout)["scenarios"]}


def copied(mrc_testbed, *arguments):
    finished = mrc_testbed("scenarios", "copy", *arguments)
    assert finished.status == 0, finished
    return finished.stdout.split()


# ---- list -----------------------------------------------------------------------------------------


def test_all_ready_files_are_listed_with_a_description(mrc_testbed):
    found = listed(mrc_testbed)
    assert set(found) == set(ready.ready_files())
    assert len(found) == len(list(shipped("scenarios").rglob("*.yaml")))
    assert [name for name, each in found.items() if not 0 < len(each["description"]) <= LINE_MAX] == []
    flap, campaign = found["t0-t1-flap"], found["campaigns/loss-ratio"]
    assert (flap["kind"], flap["hosts"], flap["length_ns"]) == ("Scenario", 4, 11 * 10**9)
    assert (campaign["kind"], campaign["hosts"], campaign["length_ns"]) == ("Campaign", None, None)


def test_those_that_no_lab_can_carry_are_marked(mrc_testbed):
    marked = {name for name, each in listed(mrc_testbed).items() if each["virtual_only"]}
    assert marked == {
        name for name in ready.ready_files() if name.startswith(("true/", "paper-true/", "tiers/"))
    }
    large = load_scenario(ready.ready_files()["true/permutation-256"])
    with pytest.raises(UsageError):
        check_live(large.topology)


def test_packets_of_the_others_fit_an_interface(mrc_testbed):
    found = listed(mrc_testbed).values()
    names = [each["name"] for each in found if each["kind"] == "Scenario" and not each["virtual_only"]]
    assert len(names) > 40
    for name in names:
        for variant in scenario_variants(load_scenario(ready.ready_files()[name])):
            check_live(variant.topology)


def test_the_table_has_a_line_per_file_below_its_heading(mrc_testbed):
    lines = mrc_testbed("scenarios", "list").stdout.splitlines()
    assert lines[0].split() == ["name", "kind", "NICs", "length", "description"]
    assert [line.split()[0] for line in lines[1:]] == list(ready.ready_files())
    (flap,) = [line for line in lines if line.startswith("t0-t1-flap")]
    assert flap.endswith("11 s  Four of thirty-two T0-T1 links flap under full load")
    (large,) = [line for line in lines if line.startswith("true/permutation-256")]
    assert large.endswith("(only --virtual)")


def test_a_text_selects_by_name_tag_and_description(mrc_testbed):
    assert "campaigns/incast-profiles" in listed(mrc_testbed, "INCAST")
    assert set(listed(mrc_testbed, "demo")) == {"t0-t1-flap"}
    assert set(listed(mrc_testbed, "two training jobs")) == {"two-jobs"}
    assert mrc_testbed("scenarios", "list", "no such").stdout == "no ready scenario has 'no such'\n"


# ---- copy -----------------------------------------------------------------------------------------


def test_a_copied_campaign_has_its_scenarios_and_is_valid(mrc_testbed, empty_folder):
    paths = copied(mrc_testbed, "campaigns/loss-ratio", "--to", "mine")
    assert paths == ["mine/campaigns/loss-ratio.yaml", "mine/gray-loss.yaml"]
    ready_text = shipped("scenarios/gray-loss.yaml").read_text()
    assert (empty_folder / "mine/gray-loss.yaml").read_text() == ready_text
    assert mrc_testbed("validate", *paths).status == 0
    planned = mrc_testbed("campaign", "run", paths[0], "--virtual", "--dry-run")
    said = "2 seeds in a cell: intervals, comparisons and the gate take at least 6\n"
    assert (planned.status, planned.stderr) == (0, said)


def test_a_copied_scenario_has_the_files_of_its_trace(mrc_testbed, empty_folder):
    paths = copied(mrc_testbed, "traces/ddp")
    assert paths[1:] == [f"scenarios/traces/ddp/rank.{rank}.et" for rank in range(4)]
    assert mrc_testbed("validate", paths[0]).status == 0


def test_a_topology_that_a_scenario_names_is_copied(mrc_testbed, monkeypatch, tmp_path):
    folder = tmp_path / "ready"
    (folder / "below").mkdir(parents=True)
    header = "apiVersion: mrc-testbed/v1\nmetadata: {name: x}\n"
    (folder / "fabric.yaml").write_text(f"{header}kind: Topology\nspec: {{planes: 2}}\n")
    workload = "{name: main, kind: write-bw, from: h0, to: h1, size: 64KiB, duration: 1s}"
    (folder / "below/one.yaml").write_text(
        f"{header}kind: Scenario\nspec:\n  topology: ../fabric.yaml\n  workloads: [{workload}]\n"
    )
    for module in ("ready", "scenarios"):
        monkeypatch.setattr(f"mrc_testbed.cli.{module}.shipped", lambda _: folder)
    assert copied(mrc_testbed, "below/one") == ["scenarios/below/one.yaml", "scenarios/fabric.yaml"]
    assert mrc_testbed("validate", "scenarios/below/one.yaml").status == 0


def test_an_edited_copy_is_replaced_only_by_force(mrc_testbed, empty_folder):
    copied(mrc_testbed, "t0-t1-flap")
    copied(mrc_testbed, "t0-t1-flap")
    edited = empty_folder / "scenarios/t0-t1-flap.yaml"
    edited.write_text("edited")
    refused = mrc_testbed("scenarios", "copy", "two-jobs", "t0-t1-flap")
    assert (refused.status, refused.stdout) == (2, "")
    assert "other files of these names: t0-t1-flap.yaml" in refused.stderr
    assert edited.read_text() == "edited"
    assert not edited.with_name("two-jobs.yaml").exists()
    copied(mrc_testbed, "t0-t1-flap", "--force")
    assert edited.read_text() == shipped("scenarios/t0-t1-flap.yaml").read_text()


@pytest.mark.parametrize("name", ["nothing-like-it", "../pyproject", "/etc/passwd", ""])
def test_only_ready_files_are_copied(mrc_testbed, empty_folder, name):
    refused = mrc_testbed("scenarios", "copy", "t0-t1-flap", name)
    assert refused.status == 2
    assert f"{name}: no ready scenario has this name" in refused.stderr
    assert list(empty_folder.iterdir()) == []


# ---- run by name ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["paper/t1-gray", "paper/t1-gray.yaml", "scenarios/paper/t1-gray.yaml", "./paper/t1-gray"]
)
def test_a_scenario_is_run_by_its_name(mrc_testbed, name):
    planned = mrc_testbed("run", name, "--virtual", "--dry-run", "-o", "json")
    assert planned.status == 0
    assert json.loads(planned.stdout)["plan"]["scenario"] == "t1-gray"


def test_a_campaign_is_run_by_its_name(mrc_testbed):
    planned = mrc_testbed("campaign", "run", "campaigns/loss-ratio", "--virtual", "--dry-run", "-o", "json")
    assert planned.status == 0
    assert json.loads(planned.stdout)["campaign"] == "loss-ratio"


def test_files_and_names_are_validated_side_by_side(mrc_testbed):
    copied(mrc_testbed, "t0-t1-flap")
    found = mrc_testbed("validate", "paper/p2p", "p3p", "scenarios/t0-t1-flap.yaml", "-o", "json")
    assert found.status == 2
    files = {each["file"]: each["problem"] for each in json.loads(found.stdout)["files"]}
    assert files == {
        "paper/p2p": None,
        "p3p": "p3p: neither a file nor a ready scenario has this name",
        "scenarios/t0-t1-flap.yaml": None,
    }


@pytest.mark.parametrize("name", ["t0-t1-flap", "t0-t1-flap.yaml", "scenarios/t0-t1-flap.yaml"])
def test_a_file_of_the_same_name_wins(mrc_testbed, name):
    path = Path(name)
    path.parent.mkdir(exist_ok=True)
    text = shipped("scenarios/t0-t1-flap.yaml").read_text()
    path.write_text(text.replace("name: t0-t1-flap", "name: mine"))
    planned = mrc_testbed("run", name, "--virtual", "--dry-run", "-o", "json")
    assert json.loads(planned.stdout)["plan"]["scenario"] == "mine"


@pytest.mark.parametrize("command", [["run"], ["campaign", "run"]], ids=["run", "campaign"])
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("p2p", "; did you mean 'paper/p2p'?"),
        ("t0t1flap", "; did you mean 't0-t1-flap'?"),
        ("nowhere/t1-gray.yaml", "; did you mean 'paper/t1-gray'?"),
        ("qqqqqq.yaml", ""),
    ],
)
def test_what_is_neither_file_nor_name_is_refused(mrc_testbed, command, name, meant):
    refused = mrc_testbed(*command, name, "--virtual")
    assert (refused.status, refused.stdout) == (2, "")
    assert refused.stderr == (
        f"error: {name}: neither a file nor a ready scenario has this name{meant}\n"
        "hint:  mrc-testbed scenarios list\n"
    )


def test_a_path_that_cannot_be_read_is_said_so(mrc_testbed, empty_folder):
    too_long = "cannot be read: File name too long"
    for path, why in ((str(empty_folder), "is a folder, not a regular file"), ("x" * 300, too_long)):
        refused = mrc_testbed("run", path, "--virtual")
        assert refused.status == 2
        assert f"{path}: {why}" in refused.stderr


def test_a_folder_of_results_does_not_hide_a_ready_campaign(mrc_testbed, empty_folder):
    (empty_folder / "campaigns" / "loss-ratio").mkdir(parents=True)
    assert mrc_testbed("campaign", "run", "campaigns/loss-ratio", "--dry-run").status == 0
    assert "is a folder" in mrc_testbed("campaign", "run", "campaigns", "--dry-run").stderr
