"""The house: which package may import which, how large files and functions may be, and that no
text stands twice.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import Path

import networkx
import pytest
from jinja2 import Environment, nodes

import noeira

PACKAGE = Path(noeira.__file__).parent
ARITHMETIC = nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv, nodes.Mod, nodes.Pow
# Room -> the rooms it may import from; errors, settings, files and messages are open to all.
MAY_IMPORT = {
    "ir": set(),
    "passes": {"ir"},
    "planning": {"ir"},
    "codegen": {"ir"},
    "runtime": {"ir", "codegen"},
    "machine": {"ir", "codegen", "runtime"},
    "nn": {"ir", "runtime.store"},
    "datasets": set(),
    "options": {"ir", "codegen.choices", "nn", "runtime.targets"},
    "tracing": {"ir", "nn", "options"},
    "job": {"ir", "passes", "nn", "options", "tracing"},
    "dump": {"ir", "passes", "codegen"},
    "compiler": {"ir", "passes", "planning", "codegen", "runtime", "nn", "options", "job", "dump"},
    "training": {"ir", "nn", "runtime", "options", "job", "compiler", "report"},
    "stages": {
        "ir",
        "passes",
        "planning",
        "codegen",
        "runtime",
        "nn",
        "options",
        "job",
        "compiler",
    },
    "report": {
        "ir",
        "passes",
        "planning",
        "codegen",
        "runtime",
        "machine",
        "nn",
        "options",
        "job",
        "compiler",
        "stages",
    },
    "tuning": {"ir", "passes", "planning", "codegen", "runtime"},
    "commands": {
        "",
        "ir",
        "passes",
        "planning",
        "codegen",
        "runtime",
        "machine",
        "nn",
        "datasets",
        "options",
        "job",
        "compiler",
        "dump",
        "training",
        "stages",
        "report",
        "tuning",
    },
}
# Inside the runtime: the folders that may import each other when they are loaded, and those that
# may be imported where they are used. What lies in no folder is open to all of them.
IN_RUNTIME = {
    "build": set(),
    "c": {"build"},
    "device": set(),
    "cuda": {"build", "device"},
    "cuda_cpu": {"build", "device", "cuda"},
    "": {"c"},
}
IN_RUNTIME_LATE = {"": {"build", "c", "cuda", "cuda_cpu"}}
OPEN = {"errors", "config", "disk", "garbage", "habits", "log", "__version__"}
IN_NO_ROOM = {"", "__main__", *OPEN}
REPOSITORY = Path(__file__).parents[2]
LONGEST, LONGEST_TEMPLATE, LONGEST_FUNCTION = 400, 150, 60
# So many lines, blank ones and imports left out, stand nowhere twice but where twins must agree.
SAME_LINES = 12
TWINS = [{"vector_neon.c.j2", "vector_plain.c.j2"}]


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its name without `noeira.`; the package itself is ""."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(part for part in parts if part != "__init__")] = path
    return found


def in_rooms() -> list[str]:
    """The modules that lie in rooms."""
    return [name for name in modules() if name not in IN_NO_ROOM]


def room(name: str) -> str:
    """The room of a module."""
    found = (r for r in MAY_IMPORT if name == r or name.startswith(f"{r}."))
    return max(found, key=len, default="")


@cache
def imported(name: str) -> tuple[tuple[str, bool], ...]:
    """The modules of noeira that a module imports, and whether when it loads: not in a function,
    nor for type checking alone.
    """
    found = list[tuple[str, bool]]()

    def visit(node: ast.AST, loads: bool) -> None:
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "noeira":
            module = (node.module or "").removeprefix("noeira").lstrip(".")
            for alias in node.names:
                inner = f"{module}.{alias.name}".lstrip(".")
                # `from noeira import compile` is an import of `compile`, which is in no room.
                found.append((inner if inner in modules() or not module else module, loads))
        elif isinstance(node, ast.Import):
            names = [a.name for a in node.names if a.name.split(".")[0] == "noeira"]
            found.extend((n.removeprefix("noeira").lstrip("."), loads) for n in names)
        typing = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        loads = loads and not typing and not isinstance(node, ast.FunctionDef)
        for child in ast.iter_child_nodes(node):
            visit(child, loads)

    visit(ast.parse(modules()[name].read_text(encoding="utf-8")), True)
    return tuple(dict.fromkeys(found))


@pytest.mark.parametrize("name", in_rooms())
def test_arrows_between_packages_point_one_way(name: str) -> None:
    """Imports for type checking alone are arrows too."""
    own = room(name)
    assert own, f"{name} is in no room of MAY_IMPORT"
    allowed = MAY_IMPORT[own] | {own} | OPEN
    for other, _ in imported(name):
        fine = any(other == a or other.startswith(f"{a}.") for a in allowed)
        assert fine, f"{name} imports {other or 'noeira'}; {own} may import {sorted(allowed)}"


@pytest.mark.parametrize("name", sorted(OPEN & set(modules())))
def test_what_is_open_to_all_imports_no_room(name: str) -> None:
    assert {other for other, _ in imported(name)} <= OPEN


def folder(name: str) -> str:
    """The folder of a module of the runtime; "" for those in none."""
    parts = name.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in IN_RUNTIME else ""


@pytest.mark.parametrize("name", [n for n in in_rooms() if n.startswith("runtime.")])
def test_arrows_inside_the_runtime_point_one_way(name: str) -> None:
    own = folder(name)
    for other, loads in imported(name):
        if other.startswith("runtime.") and folder(other) not in ("", own):
            late = set() if loads else IN_RUNTIME_LATE.get(own, set())
            allowed = IN_RUNTIME[own] | late
            assert folder(other) in allowed, f"{name} imports {other}"


def cycles(arrows: Iterable[tuple[str, str]]) -> list[list[str]]:
    """What imports itself by way of others."""
    graph = networkx.DiGraph((a, b) for a, b in arrows if a != b)
    return [sorted(c) for c in networkx.strongly_connected_components(graph) if len(c) > 1]


def package(name: str) -> str:
    """The folder that a module lies in, as a package; a module in no folder is one by itself."""
    parts = modules()[name].parent.relative_to(PACKAGE).parts if name in modules() else ()
    return ".".join(parts) or name


def related(a: str, b: str) -> bool:
    """Whether one package lies in the other: these know each other."""
    return f"{a}.".startswith(f"{b}.") or f"{b}.".startswith(f"{a}.")


@pytest.mark.parametrize("of", [room, package])
def test_no_packages_import_each_other(of: Callable[[str], str]) -> None:
    """Imports for type checking alone, and those in functions, count too."""
    pairs = {(of(name), of(other)) for name in in_rooms() for other, _ in imported(name)}
    assert not cycles((a, b) for a, b in pairs if a and b and not related(a, b))


def test_no_modules_load_each_other() -> None:
    assert not cycles(
        (name, other) for name in in_rooms() for other, loads in imported(name) if loads and other
    )


def test_the_text_of_a_plan_is_read_where_it_is_checked() -> None:
    """So what is built from a text has been checked; the cache reads what was written there."""
    reading = {name for name in modules() for other, _ in imported(name) if other == "ir.text.plan"}
    assert reading == {"planning.check", "runtime.build.library"}


def test_the_memory_of_a_network_needs_no_device() -> None:
    code = "import sys, noeira.runtime.store; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "noeira.runtime.store" in loaded and "noeira.runtime.device" not in loaded


@cache
def texts(*endings: str) -> dict[str, list[str]]:
    """The lines of the files of the package, the tests, the examples and the benchmarks."""
    folders = [PACKAGE, *(REPOSITORY / name for name in ("tests", "examples", "benchmarks"))]
    return {
        str(path.relative_to(folder.parent)): path.read_text(encoding="utf-8").splitlines()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.name.endswith(endings)
    }


def test_no_file_is_too_long_to_read_at_a_sitting() -> None:
    sizes = {name: len(lines) for name, lines in texts(".py").items()}
    assert not {name: n for name, n in sizes.items() if n > LONGEST}
    templates = {name: len(lines) for name, lines in texts(".j2").items()}
    assert not {name: size for name, size in templates.items() if size > LONGEST_TEMPLATE}


def functions(lines: list[str]) -> Iterator[tuple[str, int]]:
    """The functions of a file with their lengths."""
    for node in ast.walk(ast.parse("\n".join(lines))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield node.name, node.end_lineno - node.lineno + 1


def test_functions_do_one_thing() -> None:
    sizes = {
        f"{file}: {name}": size
        for file, lines in texts(".py").items()
        for name, size in functions(lines)
    }
    assert not {name: size for name, size in sizes.items() if size > LONGEST_FUNCTION}


def told(lines: list[str]) -> list[tuple[int, str]]:
    """The lines that say something, with their numbers, however they are spaced."""
    pairs = ((i, re.sub(r"\s+", " ", line.strip())) for i, line in enumerate(lines, 1))
    return [(i, line) for i, line in pairs if line and not line.startswith(("from ", "import "))]


def test_nothing_is_written_twice() -> None:
    seen = dict[tuple[str, ...], tuple[str, int]]()
    twice = list[str]()
    for file, lines in texts(".py", ".j2").items():
        found = told(lines)
        for start in range(len(found) - SAME_LINES + 1):
            part = tuple(line for _, line in found[start : start + SAME_LINES])
            number = found[start][0]
            other, place = seen.setdefault(part, (file, number))
            twins = any({Path(file).name, Path(other).name} <= pair for pair in TWINS)
            if (other, place) != (file, number) and not twins:
                twice.append(f"{other}:{place} and {file}:{number}")
    assert not twice, "\n".join(twice)


def reckoned(text: str) -> Iterator[int]:
    """The lines of a template on which it reckons; `"row %d" % row` is a text."""
    for node in Environment().parse(text).find_all(ARITHMETIC):
        left = node.left
        is_text = isinstance(left, nodes.Const) and isinstance(left.value, str)
        if not (isinstance(node, nodes.Mod) and is_text):
            yield node.lineno


def test_templates_do_no_arithmetic() -> None:
    assert list(reckoned('{{ "row %d" % 3 }}\n{{ 2 * rows }}{% set n = k.rows // 2 %}')) == [2, 2]
    found = {file: [*reckoned("\n".join(lines))] for file, lines in texts(".j2").items()}
    wrong = [f"{file}:{line}" for file, numbers in found.items() for line in numbers]
    assert not wrong, f"give these numbers names in a view or a cut: {', '.join(wrong)}"


def test_macros_of_one_name_take_the_same_in_all_languages() -> None:
    found = dict[str, dict[str, str]]()
    for file, lines in texts(".j2").items():
        if language := re.search(r"codegen/(\w+)/lib/", file):
            for name, taken in re.findall(r"{% macro (\w+)\((.*?)\) %}", "\n".join(lines)):
                found.setdefault(name, {})[language[1]] = taken
    assert {name for name in found if len(found[name]) > 1} >= {"function", "row_sums"}
    assert not {name: taken for name, taken in found.items() if len({*taken.values()}) > 1}
