"""A unit for tests of the cache, and what damages its files."""

from __future__ import annotations

from pathlib import Path

import pytest

from noeira.codegen.language import C
from noeira.codegen.source import Source
from noeira.runtime.c.compiler import Compiler, find_compiler


@pytest.fixture(scope="module")
def compiler() -> Compiler:
    found = find_compiler()
    if found is None:
        pytest.skip("there is no C compiler")
    return found


def unit(answer: int, name: str = "mlp") -> Source:
    text = f"int noeira_answer(void);\nint noeira_answer(void) {{ return {answer}; }}\n"
    return Source(C, name, text, f"plan of {name}\n")


def damage_by_truncation(folder: Path) -> None:
    data = (folder / "unit.so").read_bytes()
    (folder / "unit.so").write_bytes(data[: len(data) // 2])
