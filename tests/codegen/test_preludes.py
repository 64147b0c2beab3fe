"""What preludes are made of: found by name, each definition once, after those that it needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from noeira.codegen import environment, preludes
from noeira.codegen.c.isa import ISAS
from noeira.codegen.c.prelude import definitions
from noeira.codegen.cuda import prelude as cuda_prelude
from noeira.codegen.definitions import functions, identifiers
from noeira.codegen.preludes import Definition, found

PRELUDES = {
    **{name: definitions(isa) for name, isa in ISAS.items()},
    "cuda": cuda_prelude.definitions(),
}


@pytest.mark.parametrize("name", PRELUDES)
def test_every_name_is_defined_once_and_before_its_use(name: str) -> None:
    """libm's functions stand aside where there are own ones."""
    items: Sequence[Definition] = PRELUDES[name]
    assert not [one for one, n in Counter(n for i in items for n in i.defines).items() if n > 1]
    place = {one: at for at, item in enumerate(items) for one in item.defines}
    for at, item in enumerate(items):
        late = {one for one in item.mentions if place.get(one, at) > at}
        assert not late, f"{sorted(item.defines)} of {name} come before {sorted(late)}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where templates are looked for in this test."""
    for module in (environment, preludes):
        monkeypatch.setattr(module, "CODEGEN", tmp_path)
    return tmp_path


def test_a_file_comes_after_what_it_needs(folder: Path) -> None:
    (folder / "maths_a.c.j2").write_text("INLINE int a(void) {\n    return b() + c();\n}\n")
    (folder / "maths_b.c.j2").write_text("INLINE int b(void) {\n    return c();\n}\n")
    (folder / "maths_c.c.j2").write_text("INLINE int c(void) {\n    return 1;\n}\n")
    (folder / "other.c.j2").write_text("INLINE int d(void) {\n    return 1;\n}\n")
    assert [sorted(item.defines) for item in found("maths_*.c.j2")] == [["c"], ["b"], ["a"]]


def test_a_function_is_read_back_with_its_comment() -> None:
    text = "int x;\n// Twice x.\nstatic NOINLINE void k(const float *x) {\n    y();\n}\n\nint z;\n"
    (function,) = functions(text)
    assert (function.name, function.parameters) == ("k", "const float *x")
    assert function.code == "{\n    y();\n}\n"
    assert text.replace(function.text, "") == "int x;\nint z;\n"
    assert identifiers("// no\nint y; /* nor\nthis */ z()") == {"int", "y", "z"}
