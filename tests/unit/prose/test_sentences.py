"""The linter of sentences finds functions that are gone, and beginnings that hide the subject."""

import pytest

from tests.prose.sentences import beginnings, names_that_are_gone

KNOWN = {"here"}


def gone(path: str, text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.word) for finding in names_that_are_gone(path, text, KNOWN)]


def begun(path: str, text: str) -> list[tuple[int, str]]:
    return [(finding.line, finding.word) for finding in beginnings(path, text)]


def test_a_comment_of_c_names_functions_that_exist() -> None:
    text = 'int a; /* see here() */\n/*\n * as gone() does\n */\n// lost()\nx = "/* none() */"; call();\n'
    assert gone("a.h", text) == [(3, "gone()"), (5, "lost()")]


def test_a_comment_or_docstring_of_python_names_functions_that_exist() -> None:
    text = '"""As here() and\n`it.gone()`."""\na = 1  # like lost()\nb = """none()""" + "# no()"\ncall()\n'
    assert gone("a.py", text) == [(2, "it.gone()"), (3, "lost()")]


def test_names_with_arguments_and_other_files_are_not_looked_up() -> None:
    assert gone("a.py", "# gone(1), a/gone()\n") == []
    assert gone("a.md", "gone()\n") == []


def test_names_in_the_code_of_the_tree_are_known() -> None:
    text = "/* rack_detect_loss(), decode_ev(), barrier_var() */"
    assert not list(names_that_are_gone("a.h", text))
    assert list(names_that_are_gone("a.h", "/* rack_detect_" + "losses() */"))


@pytest.mark.parametrize(
    "word", ["What", "Who", "Whose", "Whether", "Nobody", "Nothing", "Of", "How", "Gives"]
)
def test_a_docstring_does_not_begin_with_a_question_word(word: str) -> None:
    text = f'"""{word} it is."""\nclass A:\n    """{word} it is.\n\n    Of more.\n    """\n\n'
    text += f'    def b():\n        "{word} it is"\n'
    assert begun("a.py", text) == [(1, f"{word} ..."), (3, f"{word} ..."), (9, f"{word} ...")]


def test_the_docstring_of_a_constant_is_one() -> None:
    assert begun("a.py", 'LIMIT = 3\n"""Of one lab."""\n') == [(2, "Of ...")]


def test_words_that_only_begin_so_are_no_finding() -> None:
    assert begun("a.py", '"""Whatever, offices, However."""\n') == []
    assert begun("a.h", "/* Whatever. */\n\t/* What a field holds. */\nint a; /* How much. */\n") == []


def test_texts_for_users_are_read_in_calls() -> None:
    text = (
        'a(help="What it is")\nb(description=f"Whether {1}", other="How")\nc(help=d)\ne(help="How "\n"so")\n'
    )
    assert begun("a.py", text) == [(1, "What ..."), (2, "Whether ..."), (4, "How ...")]


def test_a_comment_of_a_c_function_does_not_begin_with_a_question_word() -> None:
    assert begun("a.c", "/* Whether so. */\nint a();\n/*\n * What it is.\n */\n") == [
        (1, "Whether ..."),
        (4, "What ..."),
    ]
