"""The language of expectations and abort conditions: text to a checked tree. Pure.

    goodput(main) during flap1 >= 97% of goodput(main) before flap1
    p99.9(message_completion) < 80ms
    detect(flap1) < 5ms
    qp_errors == 0

    expectation = sum comparison sum
    sum         = product { ("+" | "-") product }
    product     = factor { ("*" | "/") factor }
    factor      = "(" sum ")" | ratio "of" factor | number | quantity
    quantity    = name [ "(" name [ "(" name ")" ] ")" ] [ window ] [ "in" variant ]
    window      = ("before" | "during" | "after") fault | "from" time "to" time

A `-` between two names without spaces belongs to the name (`flap-1`). Every number but a plain count
carries a unit, and units are checked when the file is read: a rate is never compared with a time.
"""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final, NoReturn

from mrc_testbed.errors import UsageError, did_you_mean
from mrc_testbed.scenario.spec.expression_tree import (
    Arithmetic,
    ArithmeticOperator,
    Comparison,
    ComparisonOperator,
    Number,
    Quantity,
    Term,
    Window,
)
from mrc_testbed.scenario.spec.quantity import (
    OF_WORKLOADS,
    WORKLOAD_TIMES,
    Dimension,
    QuantityKind,
    find_quantity,
)
from mrc_testbed.units import parse_duration_ns, parse_rate_bps, parse_ratio, parse_size_bytes

WINDOWS: Final[tuple[Window, ...]] = ("before", "during", "after", "from")
COMPARISONS: Final[tuple[ComparisonOperator, ...]] = ("<", "<=", ">", ">=", "==", "!=")
NESTING_MAX: Final = 32
"""Depth of parentheses and `of` chains; a file must not be able to exhaust the stack."""

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


class TokenKind(Enum):
    NUMBER = "number"
    NAME = "name"
    OPERATOR = "operator"
    END = "end"


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the text."""

    kind: TokenKind  # what it is
    text: str  # as written; a number with its unit
    start: int  # place of its first character, from 0

    @property
    def column(self) -> int:
        """Place of its first character, from 1, as messages count."""
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


def refuse(column: int, message: str) -> NoReturn:
    """Raises UsageError for what is wrong at a column."""
    raise UsageError(f"column {column}: {message}")


def tokenize(text: str) -> list[Token]:
    """The words of *text*, and the end."""
    tokens: list[Token] = []
    position = 0
    end = len(text.rstrip())
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            start = position + len(text[position:]) - len(text[position:].lstrip())
            word = re.match(r"[^\s()<>=,]+", text[start:])
            found = word.group() if word and word.group()[0].isdigit() else text[start]
            refuse(start + 1, f"{found!r} is not part of the language")
        kind = TokenKind(match.lastgroup)
        number_or_name = match.group(kind.value)
        start = match.start(kind.value)
        if kind is TokenKind.NUMBER and number_or_name.endswith((" of", " to")):
            number_or_name = number_or_name[:-3]  # a word of the language, not a unit
        tokens.append(Token(kind, number_or_name, start))
        position = start + len(number_or_name)
    tokens.append(Token(TokenKind.END, "", end))
    return tokens


def parse_quantity(text: str) -> Quantity:
    """The quantity that *text* is, such as `goodput(main) during flap1`; names are not looked up here."""
    return _Parser(text).lone_quantity()


def parse_expectation(text: str) -> Comparison:
    """The checked tree of *text*; names of workloads and faults are not looked up here."""
    return _Parser(text).comparison()


class _Parser:
    """Recursive descent over the tokens of one expectation."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = tokenize(text)
        self._index = 0
        self._depth = 0

    @property
    def _next(self) -> Token:
        return self._tokens[self._index]

    def _take(self) -> Token:
        token = self._next
        if token.kind is not TokenKind.END:
            self._index += 1
        return token

    def _take_operator(self, *operators: str) -> Token | None:
        if self._next.kind is TokenKind.OPERATOR and self._next.text in operators:
            return self._take()
        return None

    def lone_quantity(self) -> Quantity:
        """A quantity, to the end of the text."""
        token = self._take()
        if token.kind is not TokenKind.NAME:
            refuse(token.column, f"expected something measured, found {token}")
        quantity = self._quantity(token)
        if self._next.kind is not TokenKind.END:
            refuse(self._next.column, f"expected the end, found {self._next}")
        return quantity

    def comparison(self) -> Comparison:
        """A whole expectation, to the end of the text."""
        left = self._sum()
        operator = self._next
        comparison = next((known for known in COMPARISONS if known == operator.text), None)
        if comparison is None:
            refuse(operator.column, f"expected a comparison ({' '.join(COMPARISONS)}), found {operator}")
        self._take()
        right = self._sum()
        if self._next.kind is not TokenKind.END:
            refuse(self._next.column, f"expected the end of the expectation, found {self._next}")
        if left.dimension is not right.dimension:
            refuse(
                operator.column,
                f"a {left.dimension.value} cannot be compared with a {right.dimension.value}"
                + (f"; write the number like {left.dimension.example}" if isinstance(right, Number) else ""),
            )
        if comparison in {"==", "!="} and left.dimension is not Dimension.COUNT:
            refuse(
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
            refuse(1, "nothing measured appears in it, so it says nothing about the run")
        return expectation

    def _sum(self) -> Term:
        left = self._product()
        while token := self._take_operator("+", "-"):
            right = self._product()
            if left.dimension is not right.dimension:
                refuse(
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
            refuse(self._next.column, f"more than {NESTING_MAX} levels of nesting")
        try:
            return self._unnested_factor()
        finally:
            self._depth -= 1

    def _unnested_factor(self) -> Term:
        token = self._take()
        if token.kind is TokenKind.OPERATOR and token.text == "(":
            inner = self._sum()
            if self._take_operator(")") is None:
                refuse(self._next.column, f"expected ')', found {self._next}")
            return inner
        if token.kind is TokenKind.NUMBER:
            return self._number(token)
        if token.kind is not TokenKind.NAME:
            refuse(token.column, f"expected a number or something measured, found {token}")
        return self._quantity(token)

    def _number(self, token: Token) -> Term:
        number = _number(token)
        if not (self._next.kind is TokenKind.NAME and self._next.text == "of"):
            return number
        of = self._take()
        if number.dimension is not Dimension.RATIO:
            refuse(token.column, f"only a ratio such as 97% can be taken of something, found '{token.text}'")
        return _multiply(number, self._factor(), of)

    def _quantity(self, token: Token) -> Quantity:
        kind = find_quantity(token.text)
        if isinstance(kind, str):
            refuse(token.column, kind)
        argument = workload = None
        if kind.argument is None:
            if self._next.text == "(":
                refuse(self._next.column, f"{token.text} takes no argument")
        elif kind.needs_argument or self._next.text == "(":
            argument, workload = self._argument(token.text, kind)
        window, fault_id, stretch_ns = self._window(token.text, kind)
        variant = self._variant()
        return Quantity(
            kind, token.text, argument, workload, window, fault_id, token.column, stretch_ns, variant
        )

    def _variant(self) -> str | None:
        if self._next.text != "in":
            return None
        self._take()
        variant = self._take()
        is_size = variant.kind is TokenKind.NUMBER and " " not in variant.text  # such as 4MiB
        if variant.kind is not TokenKind.NAME and not is_size:
            refuse(variant.column, f"expected the name of a variant after 'in', found {variant}")
        return variant.text

    def _argument(self, name: str, kind: QuantityKind) -> tuple[str, str | None]:
        """The argument in the parentheses, and the workload that is named there."""
        if self._take_operator("(") is None:
            refuse(
                self._next.column, f"expected '(' and {kind.argument_help} after {name}, found {self._next}"
            )
        argument = self._take()
        if argument.kind is not TokenKind.NAME:
            refuse(argument.column, f"expected {kind.argument_help}, found {argument}")
        if kind.argument_names and argument.text not in kind.argument_names:
            refuse(
                argument.column,
                f"{name} has no {argument.text!r}{did_you_mean(argument.text, kind.argument_names)} "
                f"(known: {', '.join(kind.argument_names)})",
            )
        workload = argument.text if kind.argument in OF_WORKLOADS else None
        if argument.text in WORKLOAD_TIMES and kind.argument == "latency":
            inner = self._take_operator("(") and self._take()
            if not inner or inner.kind is not TokenKind.NAME or self._take_operator(")") is None:
                example = f"{name}({argument.text}(job))"
                refuse(argument.column, f"{argument.text} needs a workload, such as {example}")
            workload = inner.text
        if self._take_operator(")") is None:
            refuse(self._next.column, f"expected ')', found {self._next}")
        return argument.text, workload

    def _window(
        self, name: str, kind: QuantityKind
    ) -> tuple[Window | None, str | None, tuple[int, int] | None]:
        word = self._next
        window = next((known for known in WINDOWS if known == word.text), None)
        if window is None:
            if word.kind is TokenKind.NAME and word.text not in ("of", "in"):
                refuse(
                    word.column,
                    f"expected a comparison, an operator or a window ({', '.join(WINDOWS)}), found {word}"
                    + did_you_mean(word.text, WINDOWS),
                )
            return None, None, None
        self._take()
        if not kind.has_windows:
            refuse(word.column, f"{name} is one value for the whole run and has no '{window}'")
        if window == "from":
            return window, None, self._stretch()
        fault = self._take()
        if fault.kind is not TokenKind.NAME:
            refuse(fault.column, f"expected the id of a fault after '{window}', found {fault}")
        return window, fault.text, None

    def _stretch(self) -> tuple[int, int]:
        """The two times of `from 4s to 8s`."""
        start, start_ns = self._instant("from")
        to = self._take()
        if to.text != "to":
            refuse(to.column, f"expected 'to' and a time after {start}, found {to}")
        _, end_ns = self._instant("to")
        if end_ns <= start_ns:
            refuse(start.column, "the window ends before it begins")
        return start_ns, end_ns

    def _instant(self, after: str) -> tuple[Token, int]:
        token = self._take()
        number = _number(token) if token.kind is TokenKind.NUMBER else None
        if number is None or number.dimension is not Dimension.TIME:
            refuse(token.column, f"expected a time such as 4s after '{after}', found {token}")
        return token, round(number.value)


def _number(token: Token) -> Number:
    digits, unit = _NUMBER_AND_UNIT.findall(token.text)[0]
    if not unit:
        return Number(float(digits), Dimension.COUNT, token.column)
    dimension = _UNIT_DIMENSIONS.get(unit)
    if dimension is None:
        refuse(
            token.column,
            f"unknown unit {unit!r} in {token.text!r}{did_you_mean(unit, _UNIT_DIMENSIONS)} "
            f"(known: {', '.join(_UNIT_DIMENSIONS)})",
        )
    try:
        return Number(float(_PARSERS[dimension](token.text)), dimension, token.column)
    except UsageError as error:
        refuse(token.column, error.message)


def _multiply(left: Term, right: Term, token: Token) -> Term:
    scalars = (Dimension.RATIO, Dimension.COUNT)
    if left.dimension in scalars:
        dimension = right.dimension
    elif right.dimension in scalars:
        dimension = left.dimension
    else:
        refuse(token.column, f"a {left.dimension.value} times a {right.dimension.value} has no meaning here")
    return Arithmetic("*", left, right, dimension, token.column)


def _divide(left: Term, right: Term, token: Token) -> Term:
    is_plain_number = isinstance(right, Number) and right.dimension is Dimension.COUNT
    if left.dimension is right.dimension and not is_plain_number:
        dimension = Dimension.RATIO
    elif right.dimension in (Dimension.RATIO, Dimension.COUNT):
        dimension = left.dimension
    else:
        refuse(
            token.column, f"a {left.dimension.value} divided by a {right.dimension.value} has no meaning here"
        )
    return Arithmetic("/", left, right, dimension, token.column)
