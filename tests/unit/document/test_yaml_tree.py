"""The subset of YAML our files use: what it reads, where things stand, what it refuses."""

import contextlib
import math

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mrc_testbed.document.problem import Position, Tree
from mrc_testbed.document.text_file import TEXT_BYTES_MAX
from mrc_testbed.document.yaml_tree import DEPTH_MAX, parse_tree
from mrc_testbed.errors import UsageError

words = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x2FFF, exclude_categories=["Cs", "Cc"]), max_size=12
)
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(10**18), 10**18)
    | st.floats(allow_nan=False, allow_infinity=False)
    | words
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=4),
    max_leaves=12,
)


YAML_SIGNS = [
    "a: ",
    "- ",
    "[",
    "]",
    "{",
    "}",
    ", ",
    "&x ",
    "*x ",
    "!!int ",
    "\n",
    "  ",
    "1",
    "? ",
    "|\n",
    "'",
    "<<: ",
]


def parse(text: str) -> Tree:
    return parse_tree(text, "file")[0]


def parse_or_refuse(text: str) -> None:
    """Lets only a UsageError pass."""
    with contextlib.suppress(UsageError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("0.5", 0.5),
        ("1.0e+3", 1000.0),
        ("-1.5e-2", -0.015),
        ("true", True),
        ("false", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("'5'", "5"),
        ('"true"', "true"),
        ("!!str 5", "5"),
        ("5s", "5s"),
    ],
)
def test_scalar_is_read_as_it_looks(text: str, value: Tree) -> None:
    read = parse(f"[{text}]" if text else "[a, ]")
    assert read == ([value] if text else ["a"])


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "no",
        "on",
        "off",
        "True",
        "1:30",
        "010",
        "0x10",
        "1_000",
        ".inf",
        ".nan",
        "2024-01-01",
        "=",
        "1e3",
        "1.5e3",
    ],
)
def test_surprises_of_yaml_1_1_stay_text(text: str) -> None:
    assert parse(f"- {text}") == [text]


def test_key_without_a_value_is_none() -> None:
    assert parse("a:\nb: 1\n") == {"a": None, "b": 1}


def test_alias_repeats_what_its_anchor_holds() -> None:
    assert parse("a: &link {planes: 4}\nb: *link\n") == {"a": {"planes": 4}, "b": {"planes": 4}}


def test_positions_are_those_of_keys_and_items() -> None:
    _, positions = parse_tree("a: 1\nb:\n  - x\n  - {c: 2}\n", "file")
    assert positions == {
        (): Position(1, 1),
        ("a",): Position(1, 1),
        ("b",): Position(2, 1),
        ("b", 0): Position(3, 5),
        ("b", 1): Position(4, 5),
        ("b", 1, "c"): Position(4, 6),
    }


@given(trees)
def test_what_another_writer_wrote_is_read_back(tree: Tree) -> None:
    assert parse(yaml.safe_dump(tree, allow_unicode=True)) == tree


@given(st.text(max_size=80))
def test_any_text_gives_a_tree_or_a_usage_error(text: str) -> None:
    parse_or_refuse(text)


@given(st.lists(st.sampled_from(YAML_SIGNS), max_size=25).map("".join))
def test_any_mix_of_yaml_signs_gives_a_tree_or_a_usage_error(text: str) -> None:
    parse_or_refuse(text)


def test_nesting_is_limited() -> None:
    deepest = DEPTH_MAX - 1
    tree = parse("[" * deepest + "]" * deepest)
    for _ in range(deepest - 1):
        assert isinstance(tree, list)
        tree = tree[0]
    assert tree == []
    with pytest.raises(UsageError, match=f"^file:1: nested more than {DEPTH_MAX} levels deep$"):
        parse("[" * 100_000)


def test_size_is_limited() -> None:
    with pytest.raises(UsageError, match=r"^file: larger than 256 KiB$"):
        parse("#" * (TEXT_BYTES_MAX + 1))


def test_control_character_is_named_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"^file:2: character #x0007 is not allowed$"):
        parse("a: 1\nb: \a")


def test_numbers_are_finite() -> None:
    with pytest.raises(UsageError, match=r"^file:1: a: '1\.0e\+999' is too large$"):
        parse("a: 1.0e+999")
    assert math.isfinite(float(str(parse("1.0e+308"))))
