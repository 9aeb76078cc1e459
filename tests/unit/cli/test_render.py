"""The four output formats, and tables that lose nothing."""

import io
import json

import pytest
import yaml
from rich.console import Console, Group
from rich.text import Text

from mrc_testbed.cli.options import OutputFormat, Settings
from mrc_testbed.cli.progress import Progress
from mrc_testbed.cli.render import bad, good, plain_table, rows_table, show, titled_table

DOCUMENT = {"lab": "a", "items": [{"n": 1}, {"n": 2}]}


def settings(output, *, width=80, colour=False):
    stdout = Console(
        file=io.StringIO(),
        width=width,
        markup=False,
        highlight=False,
        color_system="standard" if colour else None,
    )
    stderr = Console(file=io.StringIO())
    return Settings(None, "a", False, output, False, None, stdout, stderr, Progress(stderr, is_quiet=True), 0)


def shown(output, table=lambda: "a table", lines=None, **console):
    to = settings(output, **console)
    show(to, "Thing", DOCUMENT, table, lines=lines, version=3)
    return to.stdout.file.getvalue()


def test_json_and_yaml_carry_kind_and_version_of_their_shape():
    expected = {"schema_version": 3, "kind": "Thing", **DOCUMENT}
    assert json.loads(shown(OutputFormat.JSON)) == expected
    assert yaml.safe_load(shown(OutputFormat.YAML)) == expected


def test_jsonl_prints_items_one_by_one_each_complete():
    lines = shown(OutputFormat.JSONL, lines="items").splitlines()
    assert [json.loads(line) for line in lines] == [
        {"schema_version": 3, "kind": "Thing", "n": 1},
        {"schema_version": 3, "kind": "Thing", "n": 2},
    ]


def test_jsonl_of_a_result_without_items_is_one_line():
    [line] = shown(OutputFormat.JSONL).splitlines()
    assert json.loads(line)["items"] == DOCUMENT["items"]


def test_a_table_is_for_people():
    assert shown(OutputFormat.TABLE) == "a table\n"


def test_a_narrow_terminal_cuts_no_cell_short():
    table = Group(plain_table("name", "value", rows=[("x" * 60, "y" * 60)]), Text("z" * 100))
    text = shown(OutputFormat.TABLE, lambda: table, width=40)
    assert "x" * 60 in text
    assert "y" * 60 in text
    assert "z" * 100 in text
    assert "…" not in text


def test_lines_have_no_blanks_at_their_end():
    table = plain_table("name", "value", rows=[("a", "b"), ("long name", "")])
    assert shown(OutputFormat.TABLE, lambda: table) == "name       value\na          b\nlong name\n"


def test_columns_have_a_key_of_their_rows_or_a_function_and_nothing_is_a_dash():
    rows = [{"name": "a", "n": 1234, "note": ""}, {"name": "b", "n": 0, "note": "x"}]
    table = rows_table({"of": "name", "#n": "n", "note": lambda row: row["note"]}, rows)
    assert shown(OutputFormat.TABLE, lambda: table) == "of      n  note\na   1,234  -\nb       0  x\n"


def test_numbers_stand_to_the_right_and_nothing_is_a_dash():
    rows = [{"port_name": f"h0:{at}", "frames": frames} for at, frames in enumerate((5, 12345, None))]
    assert shown(OutputFormat.TABLE, lambda: titled_table("ports", rows)).splitlines() == [
        "ports",
        "port name  frames",
        "h0:0            5",
        "h0:1        12345",
        "h0:2            -",
    ]


def test_brackets_are_not_markup():
    table = plain_table("t_min[usec]", rows=[("[red]h0",)])
    assert shown(OutputFormat.TABLE, lambda: table) == "t_min[usec]\n[red]h0\n"


@pytest.mark.parametrize(("make", "code"), [(good, "32"), (bad, "31")])
def test_states_have_a_colour_on_a_terminal_and_none_elsewhere(make, code):
    assert f"\x1b[{code}m" in shown(OutputFormat.TABLE, lambda: make("GOOD"), colour=True)
    assert shown(OutputFormat.TABLE, lambda: make("GOOD")) == "GOOD\n"
