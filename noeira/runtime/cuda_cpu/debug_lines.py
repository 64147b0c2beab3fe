"""What a shared library's own tables tell: its variables, and the source line of a place in its
code. Reads ELF of 64 bits and DWARF's line tables, versions 2 to 4, as `-gdwarf-4` gives them.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

COMPRESSED = 0x800
VARIABLE = 1


class Variable(NamedTuple):
    """A variable: its mangled name, and where it lies, in bytes from the library's start."""

    symbol: str
    offset: int
    nbytes: int


class Row(NamedTuple):
    """Code from `address` on, to the next row's, is of this line of this file (0: of none)."""

    address: int
    file: str
    line: int


class Library:
    """The tables of a shared library's file; empty where it has none or they cannot be read."""

    def __init__(self, path: Path) -> None:
        self.data = path.read_bytes()
        try:
            self.sections = dict(self._sections())
        except (struct.error, UnicodeDecodeError, ValueError):
            self.sections = {}

    def _sections(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Name and header of each section: name, type, flags, address, offset, size, …."""
        if self.data[:5] != b"\x7fELF\x02":
            return
        (start,) = struct.unpack_from("<Q", self.data, 40)
        size, count, names = struct.unpack_from("<HHH", self.data, 58)
        headers = [
            struct.unpack_from("<IIQQQQIIQQ", self.data, start + size * i) for i in range(count)
        ]
        for header in headers:
            yield _text(self.data, headers[names][4] + header[0])[0], header

    def content(self, name: str) -> bytes:
        """The bytes of a section, empty if there is none."""
        header = self.sections.get(name)
        if header is None:
            return b""
        content = self.data[header[4] : header[4] + header[5]]
        if header[2] & COMPRESSED:
            import zlib

            return zlib.decompress(content[24:])
        return content

    def variables(self, section: str) -> list[Variable]:
        """The variables that lie in a section, in order."""
        if section not in self.sections:
            return []
        index = list(self.sections).index(section)
        symbols, names = self.content(".symtab"), self.content(".strtab")
        found = [
            Variable(_text(names, name)[0], value, size)
            for name, kind, _, where, value, size in struct.iter_unpack("<IBBHQQ", symbols)
            if kind & 15 == VARIABLE and where == index and size > 0
        ]
        return sorted(found, key=lambda variable: variable.offset)

    def symbol(self, wanted: str) -> int | None:
        """Where a symbol lies, in bytes from the library's start."""
        symbols, names = self.content(".symtab"), self.content(".strtab")
        for name, _, _, where, value, _ in struct.iter_unpack("<IBBHQQ", symbols):
            if where != 0 and _text(names, name)[0] == wanted:
                return value
        return None

    def rows(self) -> list[Row]:
        """The whole line table, by address."""
        try:
            return sorted(_rows(self.content(".debug_line")))
        except (struct.error, IndexError, UnicodeDecodeError):
            return []


def line_at(rows: list[Row], address: int, file: str) -> int | None:
    """The line of `file` that an address belongs to; None if it does not."""
    found = bisect_right(rows, address, key=lambda row: row.address) - 1
    if found < 0 or rows[found].file != file or rows[found].line == 0:
        return None
    return rows[found].line


def _rows(table: bytes) -> Iterator[Row]:
    """The rows of all units of a `.debug_line` section."""
    start = 0
    while start + 4 <= len(table):
        (length,) = struct.unpack_from("<I", table, start)
        end = start + 4 + length
        (version,) = struct.unpack_from("<H", table, start + 4)
        if 2 <= version <= 4:
            yield from _unit_rows(table[start:end], version)
        start = end


def _unit_rows(unit: bytes, version: int) -> Iterator[Row]:
    """The rows of one unit of the table, which begins with its length."""
    (header_bytes,) = struct.unpack_from("<I", unit, 6)
    at = 10 + (1 if version < 4 else 2)
    _, line_base, line_range, opcode_base = struct.unpack_from("<BbBB", unit, at)
    step, at = unit[10], at + 4
    operands = [0, *unit[at : at + opcode_base - 1]]
    at += opcode_base - 1
    while unit[at]:
        _, at = _text(unit, at)
    at += 1
    files = ["?"]
    while unit[at]:
        name, at = _text(unit, at)
        for _ in range(3):
            _, at = _unsigned(unit, at)
        files.append(name)
    machine = _LineMachine(unit, 10 + header_bytes, files, operands)
    machine.step, machine.line_base, machine.line_range = step, line_base, line_range
    yield from machine.run()


@dataclass
class _LineMachine:
    """The machine whose program a line table is (DWARF 4, chapter 6.2)."""

    unit: bytes
    at: int
    files: list[str]
    operands: list[int]
    step: int = 1
    line_base: int = 0
    line_range: int = 1
    address: int = field(default=0, init=False)
    file: int = field(default=1, init=False)
    line: int = field(default=1, init=False)

    def run(self) -> Iterator[Row]:
        """All rows."""
        while self.at < len(self.unit):
            opcode = self.unit[self.at]
            self.at += 1
            if opcode >= len(self.operands):
                self._advance(opcode)
                yield self._row()
            elif opcode == 0:
                yield from self._extended()
            elif opcode == 1:
                yield self._row()
            else:
                self._standard(opcode)

    def _row(self) -> Row:
        name = self.files[self.file] if self.file < len(self.files) else "?"
        return Row(self.address, name, self.line)

    def _advance(self, opcode: int) -> None:
        """What a special opcode does to address and line."""
        steps, lines = divmod(opcode - len(self.operands), self.line_range)
        self.address += steps * self.step
        self.line += self.line_base + lines

    def _extended(self) -> Iterator[Row]:
        """An opcode with its length before it: the end of a sequence, or an address."""
        length, self.at = _unsigned(self.unit, self.at)
        opcode, end = self.unit[self.at], self.at + length
        if opcode == 1:
            yield Row(self.address, "", 0)
            self.address, self.file, self.line = 0, 1, 1
        elif opcode == 2:
            (self.address,) = struct.unpack_from("<Q", self.unit, self.at + 1)
        self.at = end

    def _standard(self, opcode: int) -> None:
        """Opcodes that yield no row."""
        if opcode == 3:
            lines, self.at = _signed(self.unit, self.at)
            self.line += lines
        elif opcode == 8:
            self.address += (255 - len(self.operands)) // self.line_range * self.step
        elif opcode == 9:
            (steps,) = struct.unpack_from("<H", self.unit, self.at)
            self.address += steps
            self.at += 2
        else:
            for _ in range(self.operands[opcode]):
                value, self.at = _unsigned(self.unit, self.at)
                if opcode == 2:
                    self.address += value * self.step
                elif opcode == 4:
                    self.file = value


def _text(data: bytes, at: int) -> tuple[str, int]:
    """The text that begins at a place and ends with a zero, and where the next thing begins."""
    end = data.index(0, at)
    return data[at:end].decode(), end + 1


def _unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, and where the next thing begins."""
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _signed(data: bytes, at: int) -> tuple[int, int]:
    """As _unsigned, of a number with a sign."""
    value, end = _unsigned(data, at)
    bits = 7 * (end - at)
    return value - (1 << bits) if value >> (bits - 1) else value, end
