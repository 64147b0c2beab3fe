"""The text of a `.cu` made ready for a C++ compiler: its kernels found, its dynamic shared memory
named.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# What a scan skips: comments, strings, characters, preprocessor lines.
_SKIPPED = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|^[ \t]*\#(?:\\\n|[^\n])*""",
    re.DOTALL | re.MULTILINE,
)
_TOKEN = re.compile(r'"C"|\w+|[^\w\s]')
_DYNAMIC = re.compile(r"\bextern\b[^;{}]*\b__shared__\b[^;{}]*\[\s*\][^;{}]*;")
# Words before a kernel's name that take arguments in brackets.
_WITH_ARGUMENTS = ("__launch_bounds__", "__attribute__", "__align__", "alignas", "__declspec")


@dataclass(frozen=True)
class HostText:
    """C++ that means what a `.cu` does, line by line, and the names of its kernels."""

    text: str
    kernels: tuple[str, ...]


def host_text(text: str, name: str) -> HostText:
    """What to compile, after the header, for the text of a `.cu` that messages call `name`."""
    kernels = find_kernels(text)
    entries = "".join(f"NOEIRA_KERNEL({kernel})\n" for kernel in kernels)
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    head = f'#line 1 "{quoted}"\n'
    return HostText(f'{head}{_name_dynamic(text)}\n#line 1 "entries"\n{entries}', kernels)


def find_kernels(text: str) -> tuple[str, ...]:
    """The names of all `extern "C" __global__` functions that a text defines."""
    found = dict[str, None]()
    # One item an open brace: whether what it encloses has C's names.
    braces = list[bool]()
    words = list[str]()
    depth = 0
    for token in _TOKEN.findall(_without_skipped(text)):
        depth += (token == "(") - (token == ")")
        if token == "{" and all(braces):
            is_block = words[-2:] == ["extern", '"C"']
            has_c_names = any(braces) or '"C"' in words
            if "__global__" in words and "template" not in words and has_c_names:
                found[_function_name(words)] = None
            braces.append(is_block)
            words = []
        elif token == "{":
            braces.append(False)
        elif token == "}":
            braces = braces[:-1]
            words = []
        elif token == ";" and depth == 0:
            words = []
        else:
            words.append(token)
    return tuple(name for name in found if name)


def _function_name(words: list[str]) -> str:
    """The name of the function that a head, as far as its brace, declares; "" if it has none."""
    depth = 0
    for i, word in enumerate(words):
        if word == "(":
            if depth == 0 and i > 0 and words[i - 1] not in _WITH_ARGUMENTS:
                return words[i - 1]
            depth += 1
        elif word == ")":
            depth -= 1
    return ""


def _without_skipped(text: str) -> str:
    """The text, as long as it was, with spaces for comments, strings and preprocessor lines."""

    def blank(match: re.Match[str]) -> str:
        skipped = match[0]
        return skipped if skipped == '"C"' else re.sub(r"[^\n]", " ", skipped)

    return _SKIPPED.sub(blank, text)


def _name_dynamic(text: str) -> str:
    """The text with every `extern __shared__ T x[];` standing for the runtime's buffer."""
    parts = list[str]()
    end = 0
    for match in _DYNAMIC.finditer(_without_skipped(text)):
        parts.append(text[end : match.start()])
        declared = text[match.start() : match.end()]
        declared = declared.replace("__shared__", "NOEIRA_DYNAMIC_SHARED")
        parts.append(re.sub(r"\[(\s*)\]", r'[\1] __asm__("noeira_dynamic")', declared))
        end = match.end()
    return "".join([*parts, text[end:]])
