"""The language of expectations and abort conditions: text to a checked tree. Pure.

    goodput(main) during flap1 >= 97% of goodput(main) before flap1
    p99.9(message_completion) < 80ms
    detect(flap1) < 5ms
    qp_errors == 0

    expectation = sum comparison sum
    sum         = product { ("+" | "-") product }
    product     = factor { ("*" | "/") factor }
    factor      = "(" sum ")" | ratio "of" factor | number | quantity
    quantity    = name [ "(" name ")" ] [ ("before" | "during" | "after") fault ]

A `-` between two names without spaces belongs to the name (`flap-1`). Every number but a plain count
carries a unit, and units are checked when the file is read: a rate is never compared with a time.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Final, Literal, NoReturn

from testbed.errors import UsageError, did_you_mean
from testbed.scenario.quantity import Dimension, QuantityKind, find_quantity
from testbed.units import parse_duration_ns, parse_rate_bps, parse_ratio, parse_size_bytes

Window = Literal["before", "during", "after"]
ArithmeticOperator = Literal["+", "-", "*", "/"]
ComparisonOperator = Literal["<", "<=", ">", ">=", "==", "!="]

WINDOWS: Final[tuple[Window, ...]] = ("before", "during", "after")
COMPARISONS: Final[tuple[ComparisonOperator, ...]] = ("<", "<=", ">", ">=", "==", "!=")
NESTING_MAX: Final = 32
"""Depth of parentheses and `of` chains; a file must not be able to exhaust the stack."""


@dataclass(frozen=True, slots=True)
class Number:
    """A number of the text, in the base unit of its dimension (ns, bit/s, bytes, fraction of one)."""

    value: float
    dimension: Dimension
    column: int


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something measured, over a window of the run or over all of it."""

    kind: QuantityKind
    name: str
    argument: str | None
    window: Window | None
    fault_id: str | None
    column: int

    @property
    def dimension(self) -> Dimension:
        """Dimension of the measured value."""
        return self.kind.dimension

    def __str__(self) -> str:
        called = f"{self.name}({self.argument})" if self.argument is not None else self.name
        return f"{called} {self.window} {self.fault_id}" if self.window else called


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Two terms joined; `97% of x` is a multiplication."""

    operator: ArithmeticOperator
    left: "Term"
    right: "Term"
    dimension: Dimension
    column: int


Term = Number | Quantity | Arithmetic


@dataclass(frozen=True, slots=True)
class Comparison:
    """A whole expectation.

    Attributes:
        left_text, right_text: the two sides as they were written.
    """

    operator: ComparisonOperator
    left: Term
    right: Term
    text: str
    left_text: str
    right_text: str

    def quantities(self) -> Iterator[Quantity]:
        """The measured quantities of both sides, in the order of the text."""
        yield from _quantities(self.left)
        yield from _quantities(self.right)


def _quantities(term: Term) -> Iterator[Quantity]:
    if isinstance(term, Quantity):
        yield term
    elif isinstance(term, Arithmetic):
        yield from _quantities(term.left)
        yield from _quantities(term.right)


class _Kind(Enum):
    NUMBER = "number"
    NAME = "name"
    OPERATOR = "operator"
    END = "end"


@dataclass(frozen=True, slots=True)
class _Token:
    kind: _Kind
    text: str
    start: int

    @property
    def column(self) -> int:
        return self.start + 1

    def __str__(self) -> str:
        return f"'{self.text}'" if self.text else "the end"


_TOKEN: Final = re.compile(
    r"""\s*(?:
      (?P<number>[0-9]+(?:\.[0-9]+)?[ ]?(?:%|[A-Za-z]+)?(?![A-Za-z0-9_.%]))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*(?:[.-][A-Za-z0-9_]+)*)
    | (?P<operator><=|>=|==|!=|[-+*/()<>,])
    )""",
    re.VERBOSE | re.ASCII,
)
_NUMBER_AND_UNIT: Final = re.compile(r"([0-9.]+) ?(.*)", re.ASCII)
_UNIT_DIMENSIONS: Final = {
    "%": Dimension.RATIO,
    **dict.fromkeys(("ns", "us", "ms", "s", "m", "h"), Dimension.TIME),
    **dict.fromkeys(("bit", "kbit", "Mbit", "Gbit"), Dimension.RATE),
    **dict.fromkeys(("B", "KB", "KiB", "MB", "MiB", "GB", "GiB"), Dimension.SIZE),
}
_PARSERS: Final = {
    Dimension.RATIO: parse_ratio,
    Dimension.TIME: parse_duration_ns,
    Dimension.RATE: parse_rate_bps,
    Dimension.SIZE: parse_size_bytes,
}


def parse_expectation(text: str) -> Comparison:
    """The checked tree of *text*; names of workloads and faults are not looked up here.

    Raises:
        UsageError: not in the language, or its units do not fit; says the column and what was expected.
    """
    return _Parser(text).comparison()


def _refuse(column: int, message: str) -> NoReturn:
    raise UsageError(f"column {column}: {message}")


def _tokens(text: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            word = re.match(r"[^\s()<>=,]+", text[start:])
            found = word.group() if word and word.group()[0].isdigit() else text[start]
            _refuse(start + 1, f"{found!r} is not part of the language")
        kind = _Kind(match.lastgroup)
        number_or_name = match.group(kind.value)
        start = match.start(kind.value)
        if kind is _Kind.NUMBER and number_or_name.endswith(" of"):
            number_or_name = number_or_name.removesuffix(" of")
        tokens.append(_Token(kind, number_or_name, start))
        position = start + len(number_or_name)
    tokens.append(_Token(_Kind.END, "", end))
    return tokens


class _Parser:
    """Recursive descent over the tokens of one expectation."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = _tokens(text)
        self._index = 0
        self._depth = 0

    @property
    def _next(self) -> _Token:
        return self._tokens[self._index]

    def _take(self) -> _Token:
        token = self._next
        if token.kind is not _Kind.END:
            self._index += 1
        return token

    def _take_operator(self, *operators: str) -> _Token | None:
        if self._next.kind is _Kind.OPERATOR and self._next.text in operators:
            return self._take()
        return None

    def comparison(self) -> Comparison:
        """A whole expectation, to the end of the text."""
        left = self._sum()
        operator = self._next
        comparison = next((known for known in COMPARISONS if known == operator.text), None)
        if comparison is None:
            _refuse(operator.column, f"expected a comparison ({' '.join(COMPARISONS)}), found {operator}")
        self._take()
        right = self._sum()
        if self._next.kind is not _Kind.END:
            _refuse(self._next.column, f"expected the end of the expectation, found {self._next}")
        if left.dimension is not right.dimension:
            _refuse(
                operator.column,
                f"a {left.dimension.value} cannot be compared with a {right.dimension.value}"
                + (f"; write the number like {left.dimension.example}" if isinstance(right, Number) else ""),
            )
        if comparison in {"==", "!="} and left.dimension is not Dimension.COUNT:
            _refuse(
                operator.column, f"{comparison} compares counts only; a {left.dimension.value} is never exact"
            )
        expectation = Comparison(
            operator=comparison,
            left=left,
            right=right,
            text=self._text,
            left_text=self._text[: operator.start].strip(),
            right_text=self._text[operator.start + len(operator.text) :].strip(),
        )
        if not any(expectation.quantities()):
            _refuse(1, "nothing measured appears in it, so it says nothing about the run")
        return expectation

    def _sum(self) -> Term:
        left = self._product()
        while token := self._take_operator("+", "-"):
            right = self._product()
            if left.dimension is not right.dimension:
                _refuse(
                    token.column,
                    f"a {right.dimension.value} cannot be added to or taken from a {left.dimension.value}",
                )
            operator: ArithmeticOperator = "+" if token.text == "+" else "-"
            left = Arithmetic(operator, left, right, left.dimension, token.column)
        return left

    def _product(self) -> Term:
        left = self._factor()
        while token := self._take_operator("*", "/"):
            right = self._factor()
            left = _multiply(left, right, token) if token.text == "*" else _divide(left, right, token)
        return left

    def _factor(self) -> Term:
        self._depth += 1
        if self._depth > NESTING_MAX:
            _refuse(self._next.column, f"more than {NESTING_MAX} levels of nesting")
        try:
            return self._unnested_factor()
        finally:
            self._depth -= 1

    def _unnested_factor(self) -> Term:
        token = self._take()
        if token.kind is _Kind.OPERATOR and token.text == "(":
            inner = self._sum()
            if self._take_operator(")") is None:
                _refuse(self._next.column, f"expected ')', found {self._next}")
            return inner
        if token.kind is _Kind.NUMBER:
            return self._number(token)
        if token.kind is _Kind.NAME:
            return self._quantity(token)
        _refuse(token.column, f"expected a number or something measured, found {token}")

    def _number(self, token: _Token) -> Term:
        number = _number(token)
        if not (self._next.kind is _Kind.NAME and self._next.text == "of"):
            return number
        of = self._take()
        if number.dimension is not Dimension.RATIO:
            _refuse(token.column, f"only a ratio such as 97% can be taken of something, found '{token.text}'")
        return _multiply(number, self._factor(), of)

    def _quantity(self, token: _Token) -> Quantity:
        kind = find_quantity(token.text)
        if isinstance(kind, str):
            _refuse(token.column, kind)
        argument = None
        if kind.argument is None:
            if self._next.text == "(":
                _refuse(self._next.column, f"{token.text} takes no argument")
        else:
            argument = self._argument(token.text, kind)
        window, fault_id = self._window(token.text, kind)
        return Quantity(kind, token.text, argument, window, fault_id, token.column)

    def _argument(self, name: str, kind: QuantityKind) -> str:
        if self._take_operator("(") is None:
            _refuse(
                self._next.column, f"expected '(' and {kind.argument_help} after {name}, found {self._next}"
            )
        argument = self._take()
        if argument.kind is not _Kind.NAME:
            _refuse(argument.column, f"expected {kind.argument_help}, found {argument}")
        if kind.argument_names and argument.text not in kind.argument_names:
            _refuse(
                argument.column,
                f"{name} has no {argument.text!r}{did_you_mean(argument.text, kind.argument_names)} "
                f"(known: {', '.join(kind.argument_names)})",
            )
        if self._take_operator(")") is None:
            _refuse(self._next.column, f"expected ')', found {self._next}")
        return argument.text

    def _window(self, name: str, kind: QuantityKind) -> tuple[Window | None, str | None]:
        word = self._next
        window = next((known for known in WINDOWS if known == word.text), None)
        if window is None:
            if word.kind is _Kind.NAME and word.text != "of":
                _refuse(
                    word.column,
                    f"expected a comparison, an operator or a window ({', '.join(WINDOWS)}), found {word}"
                    + did_you_mean(word.text, WINDOWS),
                )
            return None, None
        self._take()
        if not kind.has_windows:
            _refuse(word.column, f"{name} is one value for the whole run and has no '{window}'")
        fault = self._take()
        if fault.kind is not _Kind.NAME:
            _refuse(fault.column, f"expected the id of a fault after '{window}', found {fault}")
        return window, fault.text


def _number(token: _Token) -> Number:
    digits, unit = _NUMBER_AND_UNIT.findall(token.text)[0]
    if not unit:
        return Number(float(digits), Dimension.COUNT, token.column)
    dimension = _UNIT_DIMENSIONS.get(unit)
    if dimension is None:
        _refuse(
            token.column,
            f"unknown unit {unit!r} in {token.text!r}{did_you_mean(unit, _UNIT_DIMENSIONS)} "
            f"(known: {', '.join(_UNIT_DIMENSIONS)})",
        )
    try:
        return Number(float(_PARSERS[dimension](token.text)), dimension, token.column)
    except UsageError as error:
        _refuse(token.column, error.message)


def _multiply(left: Term, right: Term, token: _Token) -> Term:
    scalars = (Dimension.RATIO, Dimension.COUNT)
    if left.dimension in scalars:
        dimension = right.dimension
    elif right.dimension in scalars:
        dimension = left.dimension
    else:
        _refuse(token.column, f"a {left.dimension.value} times a {right.dimension.value} has no meaning here")
    return Arithmetic("*", left, right, dimension, token.column)


def _divide(left: Term, right: Term, token: _Token) -> Term:
    is_plain_number = isinstance(right, Number) and right.dimension is Dimension.COUNT
    if left.dimension is right.dimension and not is_plain_number:
        dimension = Dimension.RATIO
    elif right.dimension in (Dimension.RATIO, Dimension.COUNT):
        dimension = left.dimension
    else:
        _refuse(
            token.column, f"a {left.dimension.value} divided by a {right.dimension.value} has no meaning here"
        )
    return Arithmetic("/", left, right, dimension, token.column)
