"""A unit of C: a shared library, compiled in parts."""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path

from noeira.codegen.source import Source
from noeira.errors import CompilerError
from noeira.runtime.build.builder import COMMAND, command_text
from noeira.runtime.build.compiled import Compiled, Made
from noeira.runtime.build.process import BUILD_SECONDS, MESSAGE_LINES, first_lines, run
from noeira.runtime.c.compiler import Compiler

SOURCE, LIBRARY = "unit.c", "unit.so"
APART = "# This makes what parts of it made that were compiled on their own, and then linked.\n"


@dataclass(frozen=True)
class CBuilder:
    """Builds units of C with a compiler."""

    compiler: Compiler
    language = "C"
    source_name = SOURCE
    binary_name = LIBRARY

    @property
    def key_parts(self) -> tuple[str, ...]:
        """The compiler, its flags, and the instruction set that units are written for."""
        return repr(self.compiler.flags), self.compiler.identity, self.compiler.isa.name

    @property
    def command(self) -> tuple[str, ...]:
        """One run of the compiler."""
        return self.compiler.build_command(SOURCE, LIBRARY)

    @property
    def head(self) -> str:
        """`gcc (Debian 12.2.0-14) 12.2.0, avx512`"""
        return f"{self.compiler.version}, {self.compiler.isa.name}"

    @property
    def meta(self) -> dict[str, str]:
        """Compiler and instruction set."""
        return {"isa": self.compiler.isa.name, "compiler": self.compiler.version}

    def prepare(self) -> None:
        """Units share nothing."""

    def make(self, source: Source, folder: Path, compiled: Compiled) -> Made:
        """The library; where it was built in parts, also those that are its own."""
        from noeira.runtime.c.parts import build_in_parts

        (folder / SOURCE).write_text(source.text, encoding="utf-8")
        made = build_in_parts(source, self.compiler, folder, LIBRARY, compiled, BUILD_SECONDS)
        if made is None:
            build_whole(self.command, folder)
            return Made({LIBRARY: (folder / LIBRARY).read_bytes()})
        command = (command_text(self) + APART).encode()
        return Made({COMMAND: command, **made.files}, made.compiled)

    def lenient(self) -> CBuilder:
        """The same, with warnings no errors."""
        return CBuilder(self.compiler.lenient())


def build_whole(command: tuple[str, ...], folder: Path) -> None:
    """Make the library in one run of the compiler. Raises CompilerError with its message."""
    status, message = run(command, folder, BUILD_SECONDS)
    if "No space left on device" in message:
        raise OSError(errno.ENOSPC, "No space left on device")
    if status != 0 or not (folder / LIBRARY).is_file():
        raise CompilerError(first_lines(message, MESSAGE_LINES) or f"it ended with status {status}")
