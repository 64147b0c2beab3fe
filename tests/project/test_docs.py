"""The documentation as tests: its code runs, its commands print what it shows, its lists are whole.

A page is read from top to bottom, all its blocks in one empty folder and one interpreter:

* `python`: run. If its first line names a file (`# net.py`), it is written there first; a file of
  noeira's own (`# noeira/ir/ops/x.py`; `# …, continued` adds to it) changes a copy of the package,
  and what follows runs in a new interpreter on that copy.
* `jinja`: a file of noeira's own, named in its first line.
* `output`: what the block above printed, or the error it raised.
* `console`: lines that begin with `$` are commands, the lines after one what it prints.

In outputs `…` stands for anything on one line, a line of its own for any lines; the kind of vector
unit is not compared. A block after `<!-- not run: REASON -->` is left alone.
"""

from __future__ import annotations

import ast
import contextlib
import difflib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tokenize
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

import noeira
from noeira import config
from noeira.runtime.c.compiler import find_compiler
from noeira.runtime.cuda_cpu.compiler import find_cxx_compiler

TOP = Path(__file__).resolve().parents[2]
MAP_INTRODUCTION = "What each file says of itself in its first sentence."
PACKAGE = Path(noeira.__file__).parent
DOCS = sorted((TOP / "docs").glob("*.md"))
# Away from the source tree, where an installed wheel is tested, there is no README.
PAGES = [path for path in (TOP / "README.md", *DOCS) if path.is_file()]
READING_LIMIT = 2000
ISA = re.compile(r"\b(avx512|avx2|neon|plain)\b")
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NOT_RUN = re.compile(r"<!-- not run: .+ -->\s*\Z")
FILE = re.compile(r"(?:#|\{#) ([\w/.]+\.(?:py|j2))(, continued)?(?: #\})?$")


@dataclass(frozen=True)
class Block:
    """A fenced block of a page, and the number of its first line."""

    kind: str
    text: str
    line: int

    @property
    def file(self) -> tuple[str, bool]:
        """The file that the first line names, and whether the block is added to it."""
        found = FILE.match(self.text.partition("\n")[0])
        return (found[1], bool(found[2])) if found else ("", False)

    @property
    def own(self) -> bool:
        """Whether it is a file of noeira's own."""
        return self.file[0].startswith("noeira/")


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page that are run, in order."""
    text = page.read_text(encoding="utf-8")
    found = [
        Block(m[1], m[2], text.count("\n", 0, m.start()) + 2)
        for m in FENCE.finditer(text)
        if not NOT_RUN.search(text[: m.start()])
    ]
    return [block for block in found if block.kind in ("python", "jinja", "output", "console")]


def sessions(blocks: list[Block]) -> Iterator[list[Block]]:
    """The blocks cut where noeira's own files change."""
    current = list[Block]()
    for block in blocks:
        if block.own and current and not current[-1].own:
            yield current
            current = []
        current.append(block)
    yield current


def run_page(page: Path, folder: Path) -> None:
    """Run a page in an empty folder."""
    package = folder / "copy"
    # Away from the full MNIST, wherever it may be.
    environment = os.environ | {"XDG_CACHE_HOME": str(folder), "NOEIRA_DATA": str(folder)}
    (folder / "here").mkdir()
    for blocks in sessions(blocks_of(page)):
        for block in [block for block in blocks if block.own]:
            if not package.exists():
                shutil.copytree(
                    PACKAGE, package / "noeira", ignore=shutil.ignore_patterns("__pyc*")
                )
                environment["PYTHONPATH"] = str(package)
            name, continued = block.file
            (package / name).parent.mkdir(exist_ok=True)
            with open(package / name, "a" if continued else "w", encoding="utf-8") as file:
                file.write(block.text.partition("\n")[2] if continued else block.text)
        rest = json.dumps([asdict(block) for block in blocks if not block.own])
        done = subprocess.run(
            [sys.executable, __file__, page.name],
            cwd=folder / "here",
            env=environment,
            input=rest,
            capture_output=True,
            text=True,
            encoding="utf-8",
        )
        assert done.returncode == 0, done.stdout + done.stderr


class Reader:
    """Runs blocks one after the other."""

    def __init__(self, page: str) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: str | None = None
        self.error: BaseException | None = None

    def read(self, block: Block) -> None:
        """Run a block, or compare what the one before gave."""
        if block.kind == "output":
            assert self.printed is not None, f"{self.page}:{block.line}: nothing was run above"
            compare(f"{self.page}:{block.line}", block.text, self.printed)
            self.printed = self.error = None
            return
        self.finish()
        if block.kind == "python":
            self.python(block)
        else:
            self.console(block)

    def finish(self) -> None:
        """An error that the page does not show is one."""
        if self.error is not None:
            raise self.error

    def python(self, block: Block) -> None:
        """Run Python."""
        if block.file[0]:
            Path(block.file[0]).write_text(block.text, encoding="utf-8")
        code = compile("\n" * (block.line - 1) + block.text, self.page, "exec")
        out = io.StringIO()
        try:
            with contextlib.redirect_stdout(out):
                exec(code, self.names)
            self.error = None
        except Exception as error:
            self.error = error
            print("".join(traceback.format_exception_only(error)), end="", file=out)
        self.printed = out.getvalue()

    def console(self, block: Block) -> None:
        """Run commands."""
        lines = block.text.splitlines()
        starts = [i for i, line in enumerate(lines) if line.startswith("$ ")]
        for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
            expected = "\n".join(lines[start + 1 : end])
            compare(f"{self.page}:{block.line + start}", expected, run_command(lines[start][2:]))


def run_command(line: str) -> str:
    """What a command prints."""
    words = shlex.split(line)
    settings = dict[str, str]()
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        settings[name] = value
    if words[0] != "noeira":
        # `python` is the one that runs the tests.
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
        done = subprocess.run(
            line,
            shell=True,
            env=os.environ | {"PATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            encoding="utf-8",
        )
        return done.stdout
    from noeira.__main__ import main

    out, before = io.StringIO(), dict(os.environ)
    os.environ.update(settings)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main(words[1:])
    finally:
        os.environ.clear()
        os.environ.update(before)
    return out.getvalue()


def compare(place: str, expected: str, printed: str) -> None:
    """Both texts, with `…` in the expected one for what may differ."""
    wanted = [line.rstrip() for line in expected.strip("\n").split("\n")]
    got = [line.rstrip() for line in printed.strip("\n").split("\n")]
    if not re.fullmatch(pattern(wanted), "\n".join(map(without_isa, got))):
        lines = difflib.unified_diff(wanted, got, "the page", "printed", lineterm="")
        raise AssertionError(f"{place}: the output is another\n" + "\n".join(lines))


def pattern(lines: list[str]) -> str:
    """The regular expression of an expected output."""
    found = ""
    for number, line in enumerate(lines):
        last = number == len(lines) - 1
        if line.strip() == "…":
            found += "(?:.*(?:\n|$))*" if not last else "(?:.|\n)*"
        else:
            parts = map(re.escape, without_isa(line).split("…"))
            found += ".*".join(parts) + ("" if last else "\n")
    return found


def without_isa(line: str) -> str:
    """The line without the kind of vector unit."""
    return ISA.sub("ISA", line)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_code_and_commands(page: Path, tmp_path: Path) -> None:
    if find_compiler() is None:
        pytest.skip("the pages show what a C compiler makes")
    if "cuda-cpu" in page.read_text(encoding="utf-8") and find_cxx_compiler() is None:
        pytest.skip("the page runs CUDA on the CPU, which takes a C++ compiler")
    run_page(page, tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith(("http:", "https:")):
            continue
        name, _, section = target.partition("#")
        found = (page.parent / name).resolve() if name else page
        if found.is_relative_to(TOP / "noeira"):
            found = PACKAGE / found.relative_to(TOP / "noeira")
        elif not (TOP / "README.md").exists() and found.parent == TOP:
            continue
        assert found.exists(), f"{page.name}: {target} does not exist"
        if section:
            assert section in anchors(found), f"{page.name}: {name} has no section #{section}"


def anchors(page: Path) -> set[str]:
    """The sections of a page as links name them."""
    heads = re.findall(r"^#+ (.+)$", FENCE.sub("", page.read_text(encoding="utf-8")), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def code_lines(text: str) -> int:
    """The lines that hold code: no comments, docstrings or empty lines."""
    documented = set[int]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                documented |= set(range(first.lineno, (first.end_lineno or 0) + 1))
    nothing = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
    lines = set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in (*nothing, tokenize.ENDMARKER):
            lines |= set(range(token.start[0], token.end[0] + 1))
    return len(lines - documented)


def test_code_lines() -> None:
    text = (
        '"""One."""\n\nx = 1  # two\n# three\n\ndef f():\n    """F."""\n    return (\n        x)\n'
    )
    assert code_lines(text) == 4


def section(page: str, title: str) -> str:
    """The text of a section, up to the next of its level."""
    text = (TOP / "docs" / page).read_text(encoding="utf-8")
    return text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def test_the_reading_order_is_short_enough_and_counted_right() -> None:
    listed = re.findall(
        r"^\d+\. \[`(noeira/[\w/.]+)`\].* \((\d+) lines\)",
        section("reading-order.md", "In order"),
        re.MULTILINE,
    )
    assert listed
    total = 0
    for name, stated in listed:
        path = PACKAGE.parent / name
        assert path.is_file(), name
        lines = code_lines(path.read_text(encoding="utf-8"))
        total += lines
        assert abs(lines - int(stated)) <= 0.1 * lines, f"{name} has {lines} lines, not {stated}"
    assert total <= READING_LIMIT


def test_the_map_is_what_files_say_of_themselves(pytestconfig: pytest.Config) -> None:
    from package_map import package_map

    page, head = TOP / "docs" / "reading-order.md", "\n## The whole package\n"
    text = page.read_text(encoding="utf-8")
    before, _, mapped = text.partition(head)
    made = f"\n{MAP_INTRODUCTION}\n{package_map(PACKAGE)}\n"
    if pytestconfig.getoption("update_golden"):
        page.write_text(f"{before}{head}{made}", encoding="utf-8")
    else:
        assert mapped == made, "write it anew: pytest --update-golden tests/project/test_docs.py"


def test_the_table_of_settings_is_that_of_the_code() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.+) \|$", section("debugging.md", "Settings"), re.MULTILINE)
    assert rows == [(setting.name, setting.doc) for setting in config.SETTINGS]


def test_the_keys_of_a_training_file_are_all_listed() -> None:
    from noeira.commands.support.config import SECTIONS

    for name, keys in SECTIONS.items():
        row = re.search(
            rf"^\| `\[{name}\]` \| (.+) \|$", section("trainer.md", "The command"), re.M
        )
        assert row and set(keys) <= set(re.findall(r"`(\w+)", row[1])), name


def main() -> None:
    """Run the blocks that stand on the standard input."""
    sys.path.insert(0, "")
    reader = Reader(sys.argv[1])
    for item in json.load(sys.stdin):
        reader.read(Block(**item))
    reader.finish()


if __name__ == "__main__":
    main()
