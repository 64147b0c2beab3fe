"""From scalar expressions to C statements over vectors, or CUDA scalars: the same text for both."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noeira.codegen.elements import form, literal
from noeira.ir.scalar import COMPARISONS, FUNCTIONS, Expr, parts

INFIX = ("+", "-", "*", "/")
# Code is short if it has few lines, none of which calls more than an instruction.
SHORT_LINES = 4


@dataclass
class Lowering:
    """Turns expressions into C statements over vectors (or CUDA scalars): the same text for both.

    dtype: the one that is computed in. A subexpression that is used more than once, and every
    literal, gets a name of its own. image: channels and places of the images that elements with
    random numbers are of, if their channels lie last.
    """

    dtype: str
    constants: dict[str, str]
    lines: list[str]
    temporaries: int = 0
    image: tuple[int, int] | None = None

    def literal(self, value: float) -> str:
        """The name of a constant, broadcast before the loop."""
        text = literal(value, self.dtype)
        return self.constants.setdefault(text, f"c{len(self.constants)}")

    def assign(self, target: str, expr: Expr, names: Mapping[str, str], rounded: str = "") -> None:
        """Append the statements that give `target` the value of the expression, rounded to the
        dtype `rounded`.
        """
        every = parts(expr)
        uses = Counter(arg for e in every for arg in e.operands)
        texts = dict[Expr, str]()
        for e in every:
            if e.op == "var":
                texts[e] = names[e.args[0]]
            elif e.op == "const":
                texts[e] = self.literal(e.args[0])
            else:
                texts[e] = self.form(e.op, [texts[arg] for arg in e.operands])
                if uses[e] > 1 and e.op not in COMPARISONS:
                    name = f"t{self.temporaries}"
                    self.temporaries += 1
                    self.lines.append(f"const {self.dtype}v {name} = {bare(texts[e])};")
                    texts[e] = name
        made = bare(texts[expr])
        if rounded and rounded != self.dtype:
            made = f"round_{form(rounded, self.dtype)}({made})"
        self.lines.append(f"const {self.dtype}v {target} = {made};")

    def form(self, op: str, args: list[str]) -> str:
        """One operation as text."""
        if op in INFIX:
            return f"({args[0]} {op} {args[1]})"
        if op == "neg":
            return f"(-{args[0]})"
        if op == "uniform":
            args = ["element", *map(str, self.image or ()), *args]
            op = "uniform_last" if self.image else op
        return f"{op}_{self.dtype}({', '.join(args)})"


def bare(text: str) -> str:
    """The text without one pair of parentheses that encloses the whole of it."""
    if not text.startswith("("):
        return text
    depth = 0
    for position, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            return text[1:-1] if position == len(text) - 1 else text
    return text


def is_cheap(name: str) -> bool:
    """Whether a function, comparison or choice is an instruction, or a few."""
    function = FUNCTIONS.get(name)
    return function.cheap if function else name == "select" or name in COMPARISONS


def is_short(lines: Sequence[str]) -> bool:
    """Whether statements are worth writing out for each of several elements."""
    called = re.findall(r"(\w+)_f(?:32|64)\(", " ".join(lines))
    return len(lines) <= SHORT_LINES and all(map(is_cheap, called))
