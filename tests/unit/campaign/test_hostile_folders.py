"""Result folders from anybody: only regular files are read or copied."""

import ast
import os
import shutil
import socket
from pathlib import Path

import pytest

from mrc_testbed.bundle.bundle import unpack_bundle
from mrc_testbed.cli.app import run
from mrc_testbed.document.text_file import read_result
from mrc_testbed.errors import UsageError

KEPT = Path(__file__).parent / "kept"
PRODUCT = Path(__file__).parents[3] / "testbed/mrc_testbed"
READERS = {
    "run/manifest.json": ["report RUN", "compare RUN RUN", "bundle RUN"],
    "run/summary.md": ["report RUN"],
    "run/plan.json": ["bundle RUN", "replay RUN --virtual"],
    "run/series.csv": ["campaign export RUN --into tables"],
    "run/events.jsonl": ["replay RUN --virtual"],
    "campaign/plan.json": ["campaign show CAMPAIGN"],
    "campaign/campaign.yaml": ["campaign show CAMPAIGN"],
    "campaign/journal.jsonl": ["campaign show CAMPAIGN", "bundle CAMPAIGN", "report CAMPAIGN"],
    "campaign/plans/0001.json": ["campaign show CAMPAIGN"],
    "campaign/plans/0001.yaml": ["campaign resume CAMPAIGN --virtual"],
    "campaign/runs/*/2*/manifest.json": ["campaign show CAMPAIGN", "campaign merge CAMPAIGN"],
    "campaign/runs/*/2*/histograms.json": ["campaign stats CAMPAIGN", "campaign merge CAMPAIGN"],
    "campaign/runs/*/2*/series.csv": ["campaign merge CAMPAIGN"],
    "campaign/runs/*/2*/report.html": ["campaign merge CAMPAIGN"],
}


def fifo(path):
    os.mkfifo(path)
    return "a named pipe"


def link(path):
    path.symlink_to("/etc/shadow")
    return "a symbolic link"


def unix_socket(path):
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(path))
    return "a socket"


def folder(path):
    path.mkdir()
    return "a folder"


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    into = tmp_path_factory.mktemp("kept")
    return {
        "RUN": unpack_bundle(KEPT / "run-0.3.0.tar.zst", into).folder,
        "CAMPAIGN": unpack_bundle(KEPT / "campaign-0.3.0.tar.zst", into).folder,
    }


@pytest.mark.parametrize("make", [fifo, link])
@pytest.mark.parametrize("place", READERS)
def test_a_command_that_meets_another_thing_names_it(place, make, kept, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    holds, _, name = place.partition("/")
    found = {key: shutil.copytree(each, tmp_path / each.name) for key, each in kept.items()}
    path = next(found[holds.upper()].glob(name))
    path.unlink()
    what = make(path)
    for command in READERS[place]:
        status = run([str(found.get(word, word)) for word in command.split()])
        said = capsys.readouterr().err
        assert (status, f"{path}: is {what}, not a regular file" in said) == (2, True), (command, said)
    assert not list(tmp_path.glob("campaigns/*/2*"))
    assert not list(tmp_path.glob("*.tar.zst"))


def test_the_folder_of_a_run_is_no_link_to_another(kept, tmp_path, capsys):
    found = shutil.copytree(kept["CAMPAIGN"], tmp_path / kept["CAMPAIGN"].name)
    path = next(found.glob("runs/*/2*"))
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert run(["campaign", "show", str(found)]) == 2
    assert f"{path}: is a symbolic link" in capsys.readouterr().err


@pytest.mark.parametrize("make", [fifo, link, unix_socket, folder])
def test_nothing_but_a_regular_file_is_read(make, tmp_path):
    path = tmp_path / "manifest.json"
    what = make(path)
    with pytest.raises(UsageError, match=f"manifest.json: is {what}, not a regular file"):
        read_result(path)


READING = {"read_text", "read_bytes", "copytree", "copyfile", "copy", "copy2", "open"}
ELSEWHERE = {
    "bundle/archive.py: tarfile.open",
    "campaign/folder.py: (self.path / 'journal.jsonl').open",  # appends to what was read before
    "campaign/markdown.py: path.read_text",
    "cli/dashboards.py: stack_paths().password_file.read_text",
    "cli/observe_options.py: file.read_text",
    "cli/observe_stack.py: webbrowser.open",
    "cli/output.py: os.open",
    "cli/scenario.py: path.read_text",
    "cli/scenarios.py: path.read_bytes",
    "cluster/worker.py: (folder / _PID).read_text",
    "scenario/measure/provenance.py: _CPU_INFO.read_text",
    "soak/violation.py: path.read_text",
}
"""Calls that read something else than files of results."""


def calls_of(path):
    """Calls in a module that read files in another way than `text_file` does."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            name = ast.unparse(node.func)
            is_writing = any(
                isinstance(each, ast.Constant) and each.value in {"w", "wb", "x", "xb"} for each in node.args
            )
            is_other = name == "CampaignFolder.open" or name.startswith("resources.files(")
            if name.rpartition(".")[2] in READING - {name} and not is_writing and not is_other:
                yield name


def test_packages_that_read_results_open_them_in_one_way():
    packages = ["bundle", "campaign", "cluster", "scenario", "soak", "cli"]
    modules = [path for package in packages for path in (PRODUCT / package).rglob("*.py")]
    assert {
        f"{path.relative_to(PRODUCT)}: {name}" for path in modules for name in calls_of(path)
    } == ELSEWHERE
