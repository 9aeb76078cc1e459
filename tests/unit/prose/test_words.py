"""The linter of words finds them in sentences and identifiers, and nothing else."""

from pathlib import Path

import pytest

from tests.prose.words import FOREIGN, Finding, Words, read_dictionary, tracked_files

WORDS = Words(
    {"lend": "request", "hand on": "forward", "is_by_hand": "interactive", "old evs": "EVs"},
    {"meet": "apply"},
)


def found(text: str, path: str = "a.py") -> list[str]:
    return [finding.word for finding in WORDS.find(path, text)]


@pytest.mark.parametrize("text", ["Lend it", "lend_frames()", "canLendIt", "LEND_MAX", "# lend.", "a-lend"])
def test_a_word_is_found_in_sentences_and_identifiers(text: str) -> None:
    assert found(text) == ["lend"]


@pytest.mark.parametrize("text", ["blend", "lender", "lends"])
def test_a_part_of_a_word_is_not_that_word(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize("text", ["hand on", "hand_on", "HandOn", "# hand\n# on a", "to\n * hand\n * on"])
def test_a_phrase_is_found_however_it_is_joined(text: str) -> None:
    assert found(text) == ["hand on"]


@pytest.mark.parametrize("text", ["hand. On", "hand it on", "(hand) on"])
def test_words_of_a_phrase_that_stand_apart_are_not_found(text: str) -> None:
    assert found(text) == []


def test_the_plural_of_an_abbreviation_is_one_word() -> None:
    assert found("old EVs, old_evs, OLD_EVS, oldEvs") == ["old evs"] * 4


def test_an_entry_with_an_underscore_stands_for_names_only() -> None:
    assert found("is_by_hand, isByHand; by hand") == ["is_by_hand", "is_by_hand"]


def test_the_words_of_c_are_looked_for_in_c_only() -> None:
    assert found("meet and lend", "a.h") == ["meet", "lend"]
    assert found("meet and lend") == ["lend"]


def test_a_finding_has_its_line_and_what_to_write() -> None:
    assert WORDS.find("a.py", "\n\nlend") == [Finding("a.py", 3, "lend", "request")]
    assert str(Finding("a.py", 3, "lend", "request")) == "a.py:3: lend ==> request"


def test_code_in_the_changelog_may_have_former_names() -> None:
    assert found("`lend_frames` was renamed; to lend", "CHANGELOG.md") == ["lend"]


def test_a_foreign_name_is_found_in_other_files_only() -> None:
    words = Words.read()
    for word, path in FOREIGN:
        assert not words.find(path, word)
        assert words.find("a.py", word)
        assert word in Path(path).read_text()


@pytest.mark.parametrize("text", ["b->c\na->c\n", "a->b\na->c\n", "A->b\n", "a\n", "->b\n", "a->\n"])
def test_a_dictionary_out_of_order_or_form_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "words.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"words\.txt:[12]: "):
        read_dictionary(path)


def test_text_of_all_kinds_is_read_but_not_the_page_that_explains_the_words() -> None:
    files = set(tracked_files())
    assert {
        "README.md",
        "Makefile",
        "testbed/mrc_testbed/errors.py",
        "agents/mrc_agents/include/mrc/abi.h",
    } <= files
    assert not files & {"docs/explanation/vocabulary.md", "tests/prose/words.txt", "requirements.lock"}
