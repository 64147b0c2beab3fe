"""Plain text tables, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from textwrap import wrap

UNITS = ("KiB", "MiB", "GiB", "TiB")
PREFIXES = ("k", "M", "G", "T", "P")


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[int] = ()
) -> list[str]:
    """Aligned lines: a header, then the rows, two spaces between columns.

    right: the columns whose cells end at the same place. Trailing spaces are left out.
    """
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = []
    for row in cells:
        padded = [
            cell.rjust(width) if i in right else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def fitting(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int, spare: Sequence[str]
) -> list[int]:
    """The columns of a table that has lines of at most `width` characters, 0 for any number: as
    many of those with the names `spare` are left out, in that order, as must be and can be.
    """
    kept, left_out = list(range(len(head))), [head.index(name) for name in spare]
    while left_out and width and len(line_of(head, rows, kept)) > width:
        kept.remove(left_out.pop(0))
    return kept


def line_of(head: Sequence[str], rows: Sequence[Sequence[str]], columns: Sequence[int]) -> str:
    """A line that is as long as the longest of a table of these columns may be."""
    return "  ".join(max((row[i] for row in (head, *rows)), key=len) for i in columns)


def filled(text: str, width: int, indent: int = 0) -> list[str]:
    """A text in lines of at most `width` characters, 0 for one line; `indent` spaces before it, and
    then two more before all lines but the first.
    """
    before = " " * indent
    if not width:
        return [f"{before}{text}"]
    more = f"{before}  " if indent else ""
    return wrap(text, width, initial_indent=before, subsequent_indent=more)


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 launch`, `2 launches` (with `many` = `launches`)."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def short(count: int) -> str:
    """A number to three digits with a decimal prefix: `812`, `4.07k`, `40.1M`."""
    value, prefix = float(count), ""
    for larger in PREFIXES:
        if value < 999.5:
            break
        value, prefix = value / 1000, larger
    return f"{count:,}" if not prefix else f"{value:.{max(0, 3 - len(str(int(value))))}f}{prefix}"


def seconds_text(seconds: float, places: int) -> str:
    """A time: `1.83 s` (with `places` = 2), and below a tenth of a second `4.07 ms`."""
    return f"{seconds:.{places}f} s" if seconds >= 0.1 else f"{1000 * seconds:.3g} ms"


def bytes_text(count: int) -> str:
    """A number of bytes, and from 10 KiB on also in a larger unit: `407,040 bytes (397.5 KiB)`."""
    exact = plural(count, "byte")
    if count < 10 * 1024:
        return exact
    power = min((count.bit_length() - 1) // 10, len(UNITS))
    return f"{exact} ({count / 1024**power:.1f} {UNITS[power - 1]})"
