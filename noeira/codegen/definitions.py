"""What a C text mentions and defines, read back out of it: here, and nowhere else.

Texts are as templates and `layout.py` write them: a definition of the unit begins a line, and the
brace that ends a function is a line.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

# What the functions of kernels begin with, and one of them with the comment above it: its name, its
# parameters, the text from there.
KERNEL = "static NOINLINE void "
FUNCTION = re.compile(
    rf"^(?://[^\n]*\n)*{KERNEL}(\w+)\(([^{{}};]*)\) (\{{\n.*?^\}}\n)\n?",
    flags=re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class Function:
    """A function of a kernel.

    code: from its brace on; text: all of it, with the comment above it and the empty line below.
    """

    name: str
    parameters: str
    code: str
    text: str


def identifiers(text: str) -> frozenset[str]:
    """Every identifier of a C text outside its comments."""
    code = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)
    return frozenset(re.findall(r"[A-Za-z_]\w*", code))


def defined(text: str) -> frozenset[str]:
    """The names that a C text defines at its outermost level for use inside the unit: functions,
    types, macros and constants.
    """
    functions = re.findall(r"^(?:IN|OUT)LINE [\w ]+?\*?(\w+)\(", text, flags=re.MULTILINE)
    types = re.findall(r"^typedef .*? (\w+)(?: __attribute__.*)?;$", text, flags=re.MULTILINE)
    macros = re.findall(r"^#define (\w+)", text, flags=re.MULTILINE)
    constants = re.findall(r"^static const [\w ]+?\*?(\w+)[\[ ]", text, flags=re.MULTILINE)
    return frozenset(functions + types + macros + constants)


def functions(text: str) -> list[Function]:
    """The functions of a kernel, in order."""
    return [Function(m[1], m[2], m[3], m[0]) for m in FUNCTION.finditer(text)]


def beginning(text: str, names: Collection[str], start: str) -> str:
    """The text of a kernel in which the functions of those names begin otherwise."""
    pattern = rf"^{KERNEL}(?=(?:{'|'.join(names)})\()"
    return re.sub(pattern, start, text, flags=re.MULTILINE)


def renamed(text: str, name: str, other: str) -> str:
    """The text with another name in place of one."""
    return re.sub(rf"\b{name}\b", other, text)


def without_comment_lines(text: str) -> str:
    """A text with empty lines in place of those that are only a comment."""
    return re.sub(r"^[ \t]*//(?:[^\n]*[^\\\n])?$", "", text, flags=re.MULTILINE)


def uncommented(code: str) -> str:
    """The code of a function without comments that end a line."""
    return re.sub(r"//[^\n]*\n", "", code)
