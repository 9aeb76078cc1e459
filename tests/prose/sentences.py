"""Comments and docstrings: the functions that they name exist, and none begins with a question word."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache

from tests.prose.words import ROOT, Finding, tracked_files

FOREIGN_FUNCTIONS = frozenset(
    {
        *("RACK_detect_loss", "TLP_process_ack", "TLP_send_probe"),  # RFC 8985
        *("check_cfg", "check_max_stack_depth"),  # Linux's verifier
        "sock_connect",  # asyncio's event loop
    }
)
"""Functions of others that comments name and no code of ours calls."""

_C = (".c", ".def", ".h")
_CODE = (*_C, ".js", ".lua", ".py", ".sh")
_C_TOKEN = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL)
_PYTHON_TOKEN = re.compile(
    r"#[^\n]*|\"\"\".*?(?<!\\)\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.DOTALL
)
_FUNCTION = re.compile(r"(?<![\w/.-])(?:\w+\.)*([A-Za-z_]\w*)\(\)")
_NAME = re.compile(r"[A-Za-z_]\w*")
_BEGINNING = re.compile(r"(?:Gives|How|Nobody|Nothing|Of|What|Whether|Who|Whose)\b")
_C_COMMENT = re.compile(r"^/\*(?:\n \*)? (\w+)", re.MULTILINE)
_TEXTS = ("description", "help")
"""Keyword arguments whose texts users read."""


def names_that_are_gone(path: str, text: str, known: Iterable[str] | None = None) -> Iterator[Finding]:
    """Each `name()` in comments and docstrings that is not in *known*: by default, the names in code."""
    if not path.endswith((*_C, ".py")):
        return
    prose = _split(path, text)[1]
    for match in _FUNCTION.finditer(prose):
        if match[1] not in (_names_in_code() if known is None else known):
            yield Finding(path, prose.count("\n", 0, match.start()) + 1, match[0], "a function that exists")


def beginnings(path: str, text: str) -> Iterator[Finding]:
    """Docstrings, texts for users and comments of C functions that begin with a word of _BEGINNING."""
    sentences: Iterable[tuple[int, str]] = ()
    if path.endswith(_C):
        sentences = ((text.count("\n", 0, it.start(1)) + 1, it[1]) for it in _C_COMMENT.finditer(text))
    elif path.endswith(".py"):
        sentences = _python(text)[1]
    for line, sentence in sentences:
        if match := _BEGINNING.match(sentence):
            yield Finding(path, line, f"{match[0]} ...", 'a noun phrase, an action, or "Return True if ..."')


@cache
def _names_in_code() -> frozenset[str]:
    names = set(FOREIGN_FUNCTIONS)
    for path in tracked_files():
        if path.endswith(_CODE):
            names.update(_NAME.findall(_split(path, (ROOT / path).read_text(encoding="utf-8"))[0]))
    return frozenset(names)


@cache
def _split(path: str, text: str) -> tuple[str, str]:
    """Code and prose of a file, each with blanks in place of the other; other languages are all code."""
    if path.endswith(_C):
        spans = [match.span() for match in _C_TOKEN.finditer(text) if match[0].startswith("/")]
    elif path.endswith(".py"):
        lines = _python(text)[0]
        spans = [
            match.span()
            for match in _PYTHON_TOKEN.finditer(text)
            if match[0].startswith("#")
            or (match[0][:3] == '"""' and text.count("\n", 0, match.start()) + 1 in lines)
        ]
    else:
        return text, ""
    code, prose = [], []
    end = 0
    for start, stop in [*spans, (len(text), len(text))]:
        code += [text[end:start], _blank(text[start:stop])]
        prose += [_blank(text[end:start]), text[start:stop]]
        end = stop
    return "".join(code), "".join(prose)


def _blank(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


@cache
def _python(text: str) -> tuple[frozenset[int], tuple[tuple[int, str], ...]]:
    """Lines on which strings that are statements begin; lines and texts of docstrings and _TEXTS."""
    lines: set[int] = set()
    texts: list[tuple[int, str]] = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Expr(
                value=ast.Constant(value=str(docstring))
            ):  # of a module, class, function or constant
                lines.add(node.lineno)
                texts.append((node.lineno, docstring.strip()))
            case ast.keyword(arg=name, value=value) if name in _TEXTS:
                first = value.values[0] if isinstance(value, ast.JoinedStr) else value
                if isinstance(first, ast.Constant):
                    texts.append((first.lineno, str(first.value)))
    return frozenset(lines), tuple(texts)
