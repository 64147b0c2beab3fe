"""The tokens of `.nir` and `.plan` text, read a line at a time, with errors that point at the
place.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from noeira.errors import NoeiraError, ParseError
from noeira.ir.layouts import Layout, Range
from noeira.ir.orders import ORDERS, ordered
from noeira.ir.types import DTYPE_BYTES, TensorType

TOKEN = re.compile(
    r"""(?P<value>%[\w.~^]+) | (?P<at>@[\w.]+) | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+|inf|nan)\b)
      | (?P<word>\w[\w.]*) | (?P<mark>[\[\](){}:,=<|+@])""",
    re.VERBOSE,
)
QUOTED = r'"(?:[^"\\]|\\.)*"'
COMMENT = re.compile(rf"{QUOTED}|(?:^|(?<=\s))(#|//)")
T = TypeVar("T")

# Whole numbers are those of 64 bits.
LARGEST = 2**63 - 1


class Token(NamedTuple):
    """A piece of a line: its kind, its text, its column."""

    kind: str
    text: str
    column: int


def literal(value: Any) -> str:
    """An attribute as text: numbers, texts, truth values, ranges, and lists of them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, tuple):
        return f"[{', '.join(map(literal, value))}]"
    return str(value) if isinstance(value, Range) else repr(value)


class Line:
    """A cursor over the tokens of one line; after the last one comes a token of kind `end`."""

    def __init__(self, text: str, number: int) -> None:
        self.text, self.number, self.position = text, number, 0
        self.tokens: list[Token] = []
        at, end = 0, len(text)
        while at < end:
            found = TOKEN.match(text, at)
            if found:
                self.tokens.append(Token(found.lastgroup or "mark", found.group(), at))
                at = found.end()
            elif text[at].isspace():
                at += 1
            else:
                raise self.error(f"{text[at]!r} has no meaning here", at)
        self.tokens.append(Token("end", "", end))

    def error(self, message: str, column: int | None = None) -> ParseError:
        """An error that shows the line and the place."""
        if column is None:
            column = self.tokens[self.position].column
        shown = self.text.lstrip()
        spaces = " " * max(column - len(self.text) + len(shown), 0)
        return ParseError(f"line {self.number}: {message}\n    {shown}\n    {spaces}^")

    def unexpected(self, what: str) -> ParseError:
        """The error for a next token that is not `what`."""
        got = self.peek()
        return self.error(f"expected {what}" + (f", got {got!r}" if got else ""))

    def peek(self) -> str:
        """The next token's text, or the empty string at the end."""
        return self.tokens[self.position].text

    def more(self) -> bool:
        """Whether there is another token."""
        return self.tokens[self.position].kind != "end"

    def take(self, kind: str, what: str) -> str:
        """The next token, which must be of that kind."""
        token = self.tokens[self.position]
        if token.kind != kind:
            raise self.unexpected(what)
        self.position += 1
        return token.text

    def accept(self, text: str) -> bool:
        """Go past the next token if it reads so."""
        if self.tokens[self.position].text != text:
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> None:
        """Go past the next token, which must read so."""
        if not self.accept(text):
            raise self.unexpected(repr(text))

    def end(self) -> None:
        """Nothing may follow."""
        if self.more():
            raise self.unexpected("the end of the line")

    def integer(self) -> int:
        """A whole number."""
        text = self.take("number", "a whole number")
        try:
            value = int(text)
        except ValueError:
            value = LARGEST + 1
        if abs(value) > LARGEST:
            self.position -= 1
            raise self.error(f"expected a whole number of 64 bits, got {text}")
        return value

    def name(self) -> str:
        """A value's name, without its %."""
        return self.take("value", "a value such as %loss")[1:]

    def names(self) -> list[str]:
        """Names with commas between them, at least one."""
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
        return found

    def words(self) -> list[str]:
        """`[linear, relu]`, at least one word."""
        self.expect("[")
        found = [self.take("word", "the name of an op")]
        while self.accept(","):
            found.append(self.take("word", "the name of an op"))
        self.expect("]")
        return found

    def shape(self) -> tuple[int, ...]:
        """`[100, 784]`"""
        self.expect("[")
        found = list[int]()
        while not self.accept("]"):
            if found:
                self.expect(",")
            found.append(self.integer())
        return tuple(found)

    def type(self, layouts: dict[str, Layout]) -> TensorType:
        """`f32[100, 784]`, `f32[2, 3, 8, 8] nhwc` or `f32 @net`."""
        dtype = self.take("word", "a type such as f32[100, 784]")
        if dtype not in DTYPE_BYTES:
            self.position -= 1
            raise self.error(f"there is no dtype {dtype!r}; there are {', '.join(DTYPE_BYTES)}")
        if self.peek().startswith("@"):
            name = self.take("at", "a layout")[1:]
            if name not in layouts:
                raise self.error(f"there is no layout @{name}")
            return TensorType(dtype, (layouts[name].size,), name)
        return ordered(TensorType(dtype, self.shape()), self.order())

    def order(self) -> str:
        """The order in which the axes of a shape lie, or nothing."""
        return self.take("word", "an order") if self.peek() in ORDERS else ""

    def number_or_range(self) -> Any:
        """`3`, `0.5`, `inf`, `0:64`, `0:64 (weight_decay = 0.0)`"""
        if re.fullmatch(r"-?\d+", self.peek()):
            start = self.integer()
            return self.range(start) if self.accept(":") else start
        return self.decimal("a number, a text, true, false or a list")

    def decimal(self, what: str) -> float:
        """A number as a float."""
        text = self.take("number", what)
        return math.nan if text == "nan" else float(text)

    def range(self, start: int) -> Range:
        """The end of a range, and the numbers that its elements have."""
        stop, numbers = self.integer(), list[tuple[str, float]]()
        if self.accept("("):
            while not numbers or self.accept(","):
                name = self.take("word", "the name of a number")
                if name in dict(numbers):
                    raise self.error(f"{name} is given twice")
                self.expect("=")
                numbers.append((name, self.decimal("a number")))
            self.expect(")")
        return Range(start, stop, tuple(numbers))

    def string(self) -> str:
        """A text in double quotes, with the escapes of JSON."""
        text = self.take("string", "a text in quotes")
        try:
            return json.loads(text)
        except ValueError as error:
            self.position -= 1
            raise self.error(f"{text} is no text: {error}") from None

    def literal(self) -> Any:
        """What `literal` printed."""
        if self.accept("true"):
            return True
        if self.accept("false"):
            return False
        if self.accept("["):
            found = list[Any]()
            while not self.accept("]"):
                if found:
                    self.expect(",")
                found.append(self.literal())
            return tuple(found)
        if self.tokens[self.position].kind == "string":
            return self.string()
        return self.number_or_range()

    def fields(self) -> dict[str, Any]:
        """`{name = literal, …}`, or nothing."""
        found: dict[str, Any] = {}
        if self.accept("{"):
            while not self.accept("}"):
                if found:
                    self.expect(",")
                name = self.take("word", "the name of an attribute")
                if name in found:
                    raise self.error(f"{name} is given twice")
                self.expect("=")
                found[name] = self.literal()
        return found


def parsing(line: Line, action: Callable[..., T], *args: Any) -> T:
    """Call something that may refuse what the line says; its refusal becomes a ParseError of the
    line.
    """
    try:
        return action(*args)
    except NoeiraError as error:
        raise ParseError(f"line {line.number}: {error}\n    {line.text.strip()}") from error


def expected_error(text: str, number: int, expected: str) -> ParseError:
    """The error for a line that is not what must stand there."""
    return ParseError(f"line {number}: expected {expected}\n    {text.strip()}")


def uncommented(line: str) -> str:
    """The line up to a `#` or `//` that begins it or follows a space, and is not inside quotes."""
    if "#" not in line and "//" not in line:
        return line
    found = next((m for m in COMMENT.finditer(line) if m[1]), None)
    return line[: found.start()] if found else line


def significant(text: str, first: int = 1) -> list[tuple[int, str]]:
    """The lines that say something, numbered from `first`, without comments."""
    lines = enumerate(text.split("\n"), first)
    bare = [(number, uncommented(line).rstrip()) for number, line in lines]
    return [(number, line) for number, line in bare if line]
