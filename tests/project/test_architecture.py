"""The house: which package may import which, and how large a file may be."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import noeira

PACKAGE = Path(noeira.__file__).parent
# Room -> the rooms it may import from; errors and config are open to all.
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
    "job": {"ir", "passes", "nn", "options"},
    "dump": {"ir", "passes", "codegen", "runtime.build.disk"},
    "compiler": {"ir", "passes", "planning", "codegen", "runtime", "nn", "options", "job", "dump"},
    "training": {"ir", "nn", "runtime", "options", "compiler"},
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
OPEN = {"errors", "config", "log", "__version__"}
LONGEST = 450


def modules() -> list[tuple[str, Path]]:
    """Every module of the package by its dotted name."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found.append((".".join(p for p in parts if p != "__init__"), path))
    free = ("", "__main__", "errors", "config", "log")
    return [(name, path) for name, path in found if name not in free]


def room(name: str) -> str:
    """The room of a module."""
    found = (r for r in MAY_IMPORT if name == r or name.startswith(f"{r}."))
    return max(found, key=len, default="")


def imported(path: Path) -> set[str]:
    """The modules of noeira that a file imports, those for type checking alone left out."""
    found = set[str]()

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            return
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "noeira":
            module = (node.module or "").removeprefix("noeira").lstrip(".")
            names = [alias.name for alias in node.names] if module in ("", "nn", "ir") else []
            found.update([f"{module}.{n}".strip(".") for n in names] or [module])
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.startswith("noeira."):
                    found.add(alias.name.removeprefix("noeira."))
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text(encoding="utf-8")))
    return found


@pytest.mark.parametrize(("name", "path"), modules(), ids=[n for n, _ in modules()])
def test_arrows_between_packages_point_one_way(name: str, path: Path) -> None:
    own = room(name)
    assert own, f"{name} is in no room of MAY_IMPORT"
    allowed = MAY_IMPORT[own] | {own} | OPEN
    for other in imported(path):
        fine = any(other == a or other.startswith(f"{a}.") for a in allowed)
        assert fine, f"{name} imports {other}; {own} may import {sorted(allowed)}"


def test_the_memory_of_a_network_needs_no_device() -> None:
    code = "import sys, noeira.runtime.store; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout
    assert "noeira.runtime.store" in loaded and "noeira.runtime.device" not in loaded


def test_no_file_is_too_long_to_read_at_a_sitting() -> None:
    sizes = {str(p.relative_to(PACKAGE)): len(p.read_text().splitlines()) for _, p in modules()}
    sizes |= {p.name: len(p.read_text().splitlines()) for p in PACKAGE.rglob("*.j2")}
    assert not {name: size for name, size in sizes.items() if size > LONGEST}
