"""The map of the package in docs/reading-order.md, made from what files say of themselves: the
first sentence of a module's docstring, of a template's or a header's first comment.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Folders that are no Python packages.
FOLDERS = {
    "noeira/codegen/lib": "Templates for both languages.",
    "noeira/codegen/c/lib": "What the templates of C kernels share.",
    "noeira/codegen/c/prelude": "What kernels of C call: vectors, maths, random numbers.",
    "noeira/codegen/c/unit": "A unit of C around its kernels, and units for measuring.",
    "noeira/codegen/cuda/lib": "What the templates of CUDA kernels share.",
    "noeira/codegen/cuda/prelude": "What kernels of CUDA call.",
    "noeira/codegen/cuda/unit": "A unit of CUDA around its kernels.",
    "noeira/runtime/cuda_cpu/native": "Headers that make C++ of a `.cu`, and the runtime that is "
    "its device.",
}
KERNELS = "noeira/codegen/kernels"
ENDINGS = {".py", ".j2", ".h", ".cpp"}


def package_map(package: Path) -> str:
    """A heading for every folder and a line for every file; of kernels, a line for every folder."""
    return "\n".join(lines(package))


def lines(package: Path) -> Iterator[str]:
    """The lines of the map."""
    root = package.parent
    for folder in sorted([package, *(p for p in package.rglob("*") if p.is_dir())]):
        name = folder.relative_to(root).as_posix()
        files = [f for f in sorted(folder.iterdir()) if f.suffix in ENDINGS and f.stat().st_size]
        if not files or name.startswith(f"{KERNELS}/"):
            continue
        yield from ("", f"### `{name}/`", "", FOLDERS.get(name) or said(folder / "__init__.py"), "")
        yield from (f"* `{f.name}`: {said(f)}" for f in files if f.name != "__init__.py")
        if name == KERNELS:
            for kernel in sorted(
                p for p in folder.iterdir() if (p / "__init__.py").exists() or any(p.glob("*.j2"))
            ):
                yield f"* `{kernel.name}/`: {said(main_file(kernel))}"


def main_file(kernel: Path) -> Path:
    """The template of the kernel's own name, of C or of both languages; where there is none, what
    the folder says of itself, as that of an algorithm does.
    """
    names = (f"{kernel.name}.{ending}" for ending in ("c.j2", "j2"))
    return next((kernel / n for n in names if (kernel / n).exists()), kernel / "__init__.py")


def said(file: Path) -> str:
    """The first sentence that a file says of itself. Raises AssertionError if it says nothing."""
    text = file.read_text(encoding="utf-8")
    if file.suffix == ".py":
        found = ast.get_docstring(ast.parse(text)) or ""
    elif file.suffix == ".j2":
        comment = re.match(r"\s*\{#(.*?)#\}", text, re.DOTALL)
        found = comment[1] if comment else ""
    else:
        found = "\n".join(re.findall(r"^//(.*)", text.split("\n\n")[0], re.MULTILINE))
    sentence = re.split(r"(?<=\.)\s", re.sub(r"\s+", " ", found).strip(), maxsplit=1)[0]
    assert sentence, f"{file} does not begin with a sentence that says what it is"
    return sentence
