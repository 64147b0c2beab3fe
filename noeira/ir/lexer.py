"""The tokens of `.nir` and `.plan` text, read a line at a time, with errors that point at the place."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Any

from noeira.errors import NoeiraError, ParseError
from noeira.ir.types import Layout, Range, TensorType

TOKEN = re.compile(
    r"""(?P<value>%[\w.~^]+) | (?P<at>@[\w.]+) | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>-?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|\d+|inf|nan)\b)
      | (?P<word>\w[\w.]*) | (?P<mark>[\[\](){}:,=<|+@])""",
    re.VERBOSE,
)


@dataclass(frozen=True)
class Token:
    """A piece of a line: its kind, its text, its column."""

    kind: str
    text: str
    column: int


def literal(value: Any) -> str:
    """An attribute as text: numbers, texts, truth values, ranges, and lists of them."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, tuple):
        return f"[{', '.join(map(literal, value))}]"
    return str(value) if isinstance(value, Range) else repr(value)


class Line:
    """A cursor over the tokens of one line."""

    def __init__(self, text: str, number: int) -> None:
        self.text, self.number, self.position = text, number, 0
        self.tokens: list[Token] = []
        at = 0
        while at < len(text):
            if text[at].isspace():
                at += 1
                continue
            found = TOKEN.match(text, at)
            if not found:
                raise self.error(f"{text[at]!r} has no meaning here", at)
            kind = found.lastgroup or "mark"
            self.tokens.append(Token(kind, found.group(), at))
            at = found.end()

    def error(self, message: str, column: int | None = None) -> ParseError:
        """An error that shows the line and the place."""
        if column is None:
            ahead = self.position < len(self.tokens)
            column = self.tokens[self.position].column if ahead else len(self.text)
        return ParseError(f"line {self.number}: {message}\n    {self.text}\n    {' ' * column}^")

    def peek(self) -> str:
        """The next token's text, or the empty string at the end."""
        return self.tokens[self.position].text if self.position < len(self.tokens) else ""

    def take(self, kind: str, what: str) -> str:
        """The next token, which must be of that kind."""
        if self.position >= len(self.tokens) or self.tokens[self.position].kind != kind:
            raise self.error(f"expected {what}" + (f", got {self.peek()!r}" if self.peek() else ""))
        self.position += 1
        return self.tokens[self.position - 1].text

    def accept(self, text: str) -> bool:
        """Go past the next token if it reads so."""
        if self.peek() != text:
            return False
        self.position += 1
        return True

    def expect(self, text: str) -> None:
        """Go past the next token, which must read so."""
        if not self.accept(text):
            raise self.error(f"expected {text!r}" + (f", got {self.peek()!r}" if self.peek() else ""))

    def end(self) -> None:
        """Nothing may follow."""
        if self.position < len(self.tokens):
            raise self.error(f"expected the end of the line, got {self.peek()!r}")

    def integer(self) -> int:
        """A whole number."""
        text = self.take("number", "a whole number")
        if not re.fullmatch(r"-?\d+", text):
            self.position -= 1
            raise self.error(f"expected a whole number, got {text}")
        return int(text)

    def name(self) -> str:
        """A value's name, without its %."""
        return self.take("value", "a value such as %loss")[1:]

    def names(self) -> list[str]:
        """Names with commas between them, at least one."""
        found = [self.name()]
        while self.accept(","):
            found.append(self.name())
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
        """`f32[100, 784]` or `f32 @net`."""
        dtype = self.take("word", "a type such as f32[100, 784]")
        if self.peek().startswith("@"):
            name = self.take("at", "a layout")[1:]
            if name not in layouts:
                raise self.error(f"there is no layout @{name}")
            return TensorType(dtype, (layouts[name].size,), name)
        return TensorType(dtype, self.shape())

    def number_or_range(self) -> Any:
        """`3`, `0.5`, `inf`, `0:64`"""
        text = self.take("number", "a number")
        if self.accept(":"):
            return Range(int(text), self.integer())
        if re.fullmatch(r"-?\d+", text):
            return int(text)
        return {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}.get(text) or float(text)

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
        if self.position < len(self.tokens) and self.tokens[self.position].kind == "string":
            return re.sub(r"\\(.)", r"\1", self.take("string", "a text")[1:-1])
        return self.number_or_range()

    def fields(self) -> dict[str, Any]:
        """`{name = literal, …}`, or nothing."""
        found: dict[str, Any] = {}
        if self.accept("{"):
            while not self.accept("}"):
                if found:
                    self.expect(",")
                name = self.take("word", "the name of an attribute")
                self.expect("=")
                found[name] = self.literal()
        return found


def parsing(line: Line, action: Any, *args: Any, **kwargs: Any) -> Any:
    """Call something that may refuse what the line says; its refusal becomes a ParseError of the line."""
    try:
        return action(*args, **kwargs)
    except ParseError:
        raise
    except (NoeiraError, TypeError, ValueError) as error:
        raise ParseError(f"line {line.number}: {error}\n    {line.text.strip()}") from error
