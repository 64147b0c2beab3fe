"""The assembly of single functions of a unit, by objdump or else from the compiler's listing."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from noeira.codegen.c.isa import ISA
from noeira.codegen.source import Source
from noeira.errors import CompilerError, NoeiraError
from noeira.runtime.build.cache import open_cache
from noeira.runtime.build.process import first_lines, run
from noeira.runtime.c.compiler import Compiler, require_compiler

SECONDS = 120
# Flags of the unit's build that are for linking, or would make an error of a flag that is not used.
LEFT_OUT = ("-shared", "-Werror")
NOTE = "# as the compiler lists it: objdump (apt install binutils) would show addresses too"
# What a compiler appends to the name of a function that it specialised.
CLONE = r"(?:\.\w+)*"
SYMBOL_LINE = re.compile(r"^[0-9a-f]+ <(.+)>:$")
# Lines of -S output that are for the assembler and debugger only.
DIRECTIVE = re.compile(
    r"\s+(#DEBUG|\.(cfi_|loc|file|type|size|p2align|section|text|globl|ident|align))"
)


def assembly(source: Source, names: Sequence[str], isa: ISA) -> str:
    """The assembly of functions. Raises CompilerError without a compiler, or if it fails."""
    cache = open_cache()
    compiler = require_compiler(cache)
    if compiler.isa != isa:
        raise NoeiraError(f"this machine's compiler builds for {compiler.isa.name}, not {isa.name}")
    return cache.work(lambda folder: in_folder(folder, source, names, compiler))


def in_folder(folder: Path, source: Source, names: Sequence[str], compiler: Compiler) -> str:
    """Compile in `folder` and give the functions' text."""
    (folder / "unit.c").write_text(source.text, encoding="utf-8")
    flags = tuple(flag for flag in compiler.flags if flag not in LEFT_OUT)
    objdump = shutil.which("objdump")
    if objdump is None:
        compile_to(folder, compiler, (*flags, "-S", "-o", "unit.s", "unit.c"))
        found = from_listing((folder / "unit.s").read_text(encoding="utf-8"), names)
        return f"{NOTE}\n{found}"
    compile_to(folder, compiler, (*flags, "-c", "-o", "unit.o", "unit.c"))
    command = (objdump, "-d", "-M", "intel", "--no-show-raw-insn", "unit.o")
    if "x86-64" not in run((objdump, "-f", "unit.o"), folder, SECONDS)[1]:
        command = (objdump, "-d", "--no-show-raw-insn", "unit.o")
    status, text = run(command, folder, SECONDS)
    if status != 0:
        raise CompilerError(f"objdump failed: {first_lines(text, 5)}")
    return from_objdump(text, names)


def compile_to(folder: Path, compiler: Compiler, arguments: tuple[str, ...]) -> None:
    """Run the compiler. Raises CompilerError with its message."""
    status, message = run((*compiler.command, *arguments), folder, SECONDS)
    if status != 0:
        raise CompilerError(f"the C compiler failed.\n{first_lines(message, 20)}")


def wanted(names: Sequence[str]) -> re.Pattern[str]:
    """The names of functions as they may stand in an object file."""
    return re.compile(f"({'|'.join(map(re.escape, names))}){CLONE}")


def from_objdump(text: str, names: Sequence[str]) -> str:
    """The functions' blocks. Raises CompilerError if one is missing."""
    pattern, blocks, keep = wanted(names), list[str](), False
    for line in text.splitlines():
        if head := SYMBOL_LINE.match(line):
            keep = pattern.fullmatch(head[1]) is not None
            if keep:
                blocks.append(f"{head[1]}:")
        elif keep and line.strip():
            blocks.append(line)
    return checked(blocks, names)


def from_listing(text: str, names: Sequence[str]) -> str:
    """The functions out of a compiler's listing, each from its label to its size."""
    pattern, blocks, keep = wanted(names), list[str](), False
    for line in text.splitlines():
        label = line.partition(":")[0]
        if not line.startswith((" ", "\t", ".", "#")) and pattern.fullmatch(label):
            keep = True
        if keep and not DIRECTIVE.match(line):
            blocks.append(line.expandtabs(8))
        if re.match(r"\s+\.(size|cfi_endproc)", line):
            keep = False
    return checked(blocks, names)


def checked(blocks: list[str], names: Sequence[str]) -> str:
    """The lines as text. Raises CompilerError if there are none."""
    if not blocks:
        raise CompilerError(f"the object file has no function {names[0]}: the compiler inlined it")
    return "\n".join([*blocks, ""])
