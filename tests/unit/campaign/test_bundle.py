"""Bundles: what is in one, that it opens everywhere a result folder does, and that its bytes repeat."""

import json
import shutil
import tempfile

import pandas as pd
import pytest
from manifests import BEGUN

from mrc_testbed import results
from mrc_testbed.bundle.bundle import find_results, opened, unpack_bundle, write_bundle
from mrc_testbed.campaign.tables import finished_runs
from mrc_testbed.cli.app import run
from mrc_testbed.errors import UsageError


@pytest.fixture
def result_folder(campaign):
    return finished_runs(campaign)[0].path


@pytest.fixture(autouse=True)
def scratch(tmp_path, monkeypatch):
    """Where bundles are opened; empty again after each test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield
    assert list(folder.iterdir()) == []


def files_of(folder):
    """Name and content of each file that is no link, and is reached through none."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and "latest" not in path.parts
    }


def same_but_for_the_header(bundled, folder):
    found = files_of(bundled)
    assert json.loads(found.pop("bundle.json"))["schema_version"] == 1
    return found == files_of(folder)


@pytest.mark.parametrize("what", ["campaign", "result_folder"])
def test_a_bundle_holds_every_file_of_the_folder(request, tmp_path, what):
    folder = request.getfixturevalue(what)
    path = write_bundle(folder, tmp_path / "x.tar.zst")
    with opened(path) as found:
        assert found.name == folder.name
        assert same_but_for_the_header(found, folder)


def test_what_ranks_of_a_program_wrote_is_in_it(result_folder, tmp_path):
    copy = shutil.copytree(result_folder, tmp_path / result_folder.name)
    (copy / "job.log").write_text("[0] hello\n")
    with opened(write_bundle(copy, tmp_path / "x.tar.zst")) as found:
        assert (found / "job.log").read_text() == "[0] hello\n"


@pytest.mark.parametrize("what", ["campaign", "result_folder"])
def test_the_same_results_give_the_same_bytes_and_so_do_unpacked_ones(request, tmp_path, what):
    folder = request.getfixturevalue(what)
    first = write_bundle(folder, tmp_path / "first").read_bytes()
    found = unpack_bundle(tmp_path / "first", tmp_path / "theirs")
    assert found.folder == tmp_path / "theirs" / found.header.name / folder.name
    assert write_bundle(folder, tmp_path / "second").read_bytes() == first
    assert write_bundle(found.folder, tmp_path / "third").read_bytes() == first
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == [found.header.name]


def test_what_else_lies_in_the_folder_stays_there(result_folder, tmp_path):
    (result_folder / "notes.txt").write_text("private")
    (result_folder / "figure.svg").symlink_to("/etc/passwd")
    with opened(write_bundle(result_folder, tmp_path / "x")) as found:
        assert not {"notes.txt", "figure.svg"} & set(files_of(found))


def test_commands_show_a_bundle_as_they_show_the_folder(campaign, result_folder, tmp_path, capsys):
    def said(*arguments):
        status = run([*arguments, "-o", "json"])
        document = json.loads(capsys.readouterr().out)
        return status, {key: value for key, value in document.items() if key != "folder"}

    of_run, of_campaign = tmp_path / "run.tar.zst", tmp_path / "campaign.tar.zst"
    assert run(["bundle", str(result_folder), "--into", str(of_run)]) == 0
    assert run(["bundle", str(campaign), "--into", str(of_campaign)]) == 0
    capsys.readouterr()
    assert said("report", str(of_run)) == said("report", str(result_folder))
    assert said("compare", str(of_run), str(of_run)) == said("compare", str(result_folder), str(of_run))
    for command in ("show", "report", "stats"):
        assert said("campaign", command, str(of_campaign)) == said("campaign", command, str(campaign))
    assert said("report", str(of_campaign)) == said("report", str(campaign))
    assert run(["campaign", "baseline", str(of_campaign), "--into", str(tmp_path / "baseline.json")]) == 2
    assert "2 runs came to a trusted end; the gate judges by rank" in capsys.readouterr().err
    assert run(["campaign", "export", str(of_campaign), "--into", str(tmp_path / "tables")]) == 0
    assert len(pd.read_csv(tmp_path / "tables" / "runs.csv")) == len(finished_runs(campaign))


def test_the_report_of_a_bundle_says_how_to_get_at_the_page(result_folder, tmp_path, capsys):
    path = write_bundle(result_folder, tmp_path / "x.tar.zst")
    assert run(["report", str(path)]) == 0
    assert capsys.readouterr().out.endswith(f"report   mrc-testbed bundle open {path}\nresults  {path}\n")


def test_data_frames_of_a_bundle_are_those_of_the_folder(campaign, tmp_path):
    ours, theirs = results.load(campaign), results.load(write_bundle(campaign, tmp_path / "x"))
    for table in ("runs", "figures", "samples"):
        pd.testing.assert_frame_equal(getattr(ours, table), getattr(theirs, table))


def test_a_name_means_the_latest_of_a_scenario_or_campaign(campaign, tmp_path):
    campaigns, runs = campaign.parent.parent, tmp_path / "runs"
    assert find_results("both", runs, campaigns).resolve() == campaign
    with pytest.raises(UsageError, match="there is no run or campaign at neither"):
        find_results("neither", runs, campaigns)
    shutil.copytree(campaign, runs / "both" / "latest")
    with pytest.raises(UsageError, match="'both' is a scenario and a campaign"):
        find_results("both", runs, campaigns)


def test_a_run_that_goes_on_is_not_bundled(result_folder, tmp_path):
    (result_folder / "manifest.json").write_text(json.dumps(BEGUN))
    with pytest.raises(UsageError, match="no run in it has ended"):
        write_bundle(result_folder, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_a_folder_of_another_name_is_refused(result_folder, tmp_path):
    moved = result_folder.rename(tmp_path / "mine")
    with pytest.raises(UsageError, match="not the name of a result folder"):
        write_bundle(moved, tmp_path / "x")


def test_a_bundle_that_cannot_be_written_is_named(result_folder, tmp_path, capsys):
    assert run(["bundle", str(result_folder), "--into", str(tmp_path / "none" / "x")]) == 1
    assert f"{tmp_path}/none/x cannot be written: No such file or directory" in capsys.readouterr().err


def test_one_that_is_there_already_is_not_unpacked_again(result_folder, tmp_path, capsys):
    path = write_bundle(result_folder, tmp_path / "x")
    assert run(["bundle", "open", str(path), "--into", str(tmp_path / "theirs")]) == 0
    assert run(["bundle", "open", str(path), "--into", str(tmp_path / "theirs")]) == 2
    assert "is there already" in capsys.readouterr().err


def test_a_campaign_is_asked_for_and_a_run_given(result_folder, tmp_path, capsys):
    path = write_bundle(result_folder, tmp_path / "x")
    assert run(["campaign", "show", str(path)]) == 2
    assert f"{path}: a bundle of a run, not of a campaign" in capsys.readouterr().err
