"""Files and command lines from anybody: one clear message, no trace, and nothing that steers a terminal."""

import os
import re
import threading
from pathlib import Path

import pytest
import yaml
from exploring import examples
from hostile_trees import READY, places, with_change
from hypothesis import given, settings
from hypothesis import strategies as st

from mrc_testbed.cli.app import run
from mrc_testbed.document.text_file import TEXT_BYTES_MAX
from mrc_testbed.installation import shipped
from mrc_testbed.printable import printable, printable_lines

CORPUS = Path(__file__).parent / "hostile"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
NO_LAB = (
    "../x",
    "..",
    "a/b",
    "a b",
    "$(id)",
    "x" * 33,
    "-x",
    "\x1b[31mred",
    "two\nlines",
    "\u202eflip",
    "é",
    "A",
)
FEW = settings(max_examples=examples(12))


def checked(mrc_testbed, *arguments, statuses=(2,)):
    """The output of the command, which ended with one of the statuses and without steering the terminal."""
    finished = mrc_testbed(*arguments)
    assert finished.status in statuses, finished
    assert "bug of mrc-testbed" not in finished.stderr
    assert "Traceback" not in finished.stderr
    # what a terminal is sent: colours are off, so that nothing of ours steers it either
    assert not STEERING.search(finished.stdout + finished.stderr)
    return finished


@pytest.mark.parametrize("name", NO_LAB)
@pytest.mark.parametrize("command", ["up", "inspect", "graph"])
def test_what_no_lab_can_be_called_is_refused_before_a_plan_is_shown(mrc_testbed, command, name):
    dry_run = ["--dry-run"] if command == "up" else []
    assert checked(mrc_testbed, command, *dry_run, f"--name={name}").stdout == ""


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_corpus_is_refused(mrc_testbed, path):
    said = checked(mrc_testbed, "validate", str(path)).stdout
    assert re.search(rf"{re.escape(path.name)}:\d+: ", said) or path.stat().st_size == 0


def test_a_device_or_fifo_is_refused_at_once(mrc_testbed, tmp_path):
    fifo, link, campaign = tmp_path / "fifo", tmp_path / "link", tmp_path / "campaign.yaml"
    os.mkfifo(fifo)
    link.symlink_to("/dev/zero")
    header = "apiVersion: mrc-testbed/v1\nkind: Campaign\nmetadata: {name: x}\nspec:\n"
    for source in ("/dev/zero", link, fifo, tmp_path):
        campaign.write_text(f"{header}  scenarios: ['{source}']\n")
        for path in (source, campaign):
            assert re.search(
                "not a regular file|Is a directory", checked(mrc_testbed, "validate", str(path)).stdout
            )


def test_no_more_of_a_file_is_read_than_is_accepted(mrc_testbed, tmp_path):
    endless = tmp_path / "endless.yaml"
    with endless.open("wb") as stream:
        stream.truncate(1 << 40)
    assert "larger than 256 KiB" in checked(mrc_testbed, "validate", str(endless)).stdout
    cut = tmp_path / "cut.yaml"
    cut.write_bytes(b"#" * (TEXT_BYTES_MAX) + "é".encode())
    assert "larger than 256 KiB" in checked(mrc_testbed, "validate", str(cut)).stdout


def test_a_name_of_a_file_forges_no_line_and_steers_no_terminal(mrc_testbed, tmp_path):
    for name in ("x\nok   y.yaml", "\x1b]0;title\x07.yaml", "\u202eflip.yaml", os.fsdecode(b"\xff.yaml")):
        path = tmp_path / name
        path.write_text("no: file of ours")
        lines = checked(mrc_testbed, "validate", str(path)).stdout.splitlines()
        assert [line[:3] for line in lines] == ["bad", str(tmp_path)[:3], str(tmp_path)[:3]]


def test_a_key_from_a_file_steers_no_terminal(mrc_testbed, tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(
        'apiVersion: mrc-testbed/v1\nkind: Topology\nmetadata: {name: x}\nspec: {"\\e[31m": "\\e[2J"}\n'
    )
    assert "\\x1b" in checked(mrc_testbed, "validate", str(path)).stdout


def test_a_matrix_too_large_is_refused_before_it_is_tried(mrc_testbed, tmp_path):
    (tmp_path / "s.yaml").write_text(shipped("scenarios/t0-t1-flap.yaml").read_text())
    path = tmp_path / "huge.yaml"
    spec = {
        "scenarios": ["s.yaml"],
        "matrix": {"transport.window": list(range(1, 900)), "topology.t1": [1, 2]},
        "seeds": list(range(900)),
    }
    path.write_text(
        yaml.safe_dump(
            {"apiVersion": "mrc-testbed/v1", "kind": "Campaign", "metadata": {"name": "x"}, "spec": spec}
        )
    )
    assert (
        "makes more than 1000 runs of the campaign: 1618200"
        in checked(mrc_testbed, "validate", str(path)).stdout
    )
    axes: dict[str, dict[str, object]] = {
        f"axis{number}": {f"v{value}": {} for value in range(100)} for number in range(9)
    }
    scenario = yaml.safe_load((tmp_path / "s.yaml").read_text())
    scenario["spec"]["variants"] = axes
    (tmp_path / "s.yaml").write_text(yaml.safe_dump(scenario))
    assert "64 are allowed" in checked(mrc_testbed, "validate", str(tmp_path / "s.yaml")).stdout


# ---- made up by Hypothesis ------------------------------------------------------------------------

SCALARS = st.sampled_from(
    [
        "0B",
        "0ns",
        "-1s",
        "1e309",
        "",
        "~",
        "9" * 30 + "GiB",
        "0%",
        "101%",
        "h0",
        "all",
        "h99999",
        "\x1b[2J",
        "a\nb",
    ]
) | st.one_of(st.integers(-1, 2**70), st.floats(), st.booleans(), st.none(), st.text(max_size=8))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)


@FEW
@given(st.data())
def test_a_ready_scenario_with_a_hostile_value_anywhere_is_judged(mrc_testbed, tmp_path, data):
    tree = data.draw(st.sampled_from(READY))
    place = data.draw(st.sampled_from([place for place in places(tree) if "spec" in place]))
    path = tmp_path / "hostile.yaml"
    path.write_text(
        yaml.safe_dump(with_change(tree, place, data.draw(VALUES)), allow_unicode=True), errors="replace"
    )
    checked(mrc_testbed, "validate", str(path), statuses=(0, 2))


FLAGS = ("--name", "-o", "json", "--dry-run", "--seed", "--timeout", "0s", "-t", "--", "-v", "-vv", "--help")
ARGUMENTS = (
    "-1",
    "/dev/zero",
    "/dev/null",
    "..",
    "up",
    "down",
    "Topology",
    "h0",
    "$(id)",
    "*",
    "",
    "\x1b[2J",
    "a\nb",
)
WORDS = st.sampled_from(FLAGS + ARGUMENTS)


@FEW
@given(st.sampled_from(["validate", "inspect", "graph", "run", "compare"]), st.lists(WORDS, max_size=5))
def test_any_command_line_is_answered(mrc_testbed, command, words):
    checked(mrc_testbed, command, *words, statuses=(0, 2, 3))


@given(st.text())
def test_printable_text_has_no_control_characters(text):
    assert not STEERING.search(printable_lines(text))
    assert "\n" not in printable(text)
    if not STEERING.search(text) and text.isprintable():
        assert printable(text) == text


def test_a_signal_while_an_error_is_said_does_not_cut_it_short(capsys, monkeypatch):
    """The main thread is where signals arrive, so the message itself sends one."""
    from mrc_testbed.cli import exit_codes  # noqa: PLC0415 - to get at what is between the message and its end
    from mrc_testbed.errors import FabricError  # noqa: PLC0415

    real = exit_codes._stderr

    def interrupted():
        os.kill(os.getpid(), 15)
        return real()

    monkeypatch.setattr(exit_codes, "_stderr", interrupted)
    monkeypatch.setattr("mrc_testbed.cli.app.build_app", lambda: fails)

    def fails(**_options):
        raise FabricError("this is said", hint="to its end")

    assert threading.current_thread() is threading.main_thread()
    assert run(["status"]) == 1
    assert capsys.readouterr().err.splitlines()[:2] == ["error: this is said", "hint:  to its end"]
