"""Plain text tables, and numbers as people read them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

UNITS = ("KiB", "MiB", "GiB", "TiB")


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


def plural(count: int, noun: str, many: str = "") -> str:
    """`1 launch`, `2 launches` (with `many` = `launches`)."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def bytes_text(count: int) -> str:
    """A number of bytes, and from 10 KiB on also in a larger unit: `407,040 bytes (397.5 KiB)`."""
    exact = plural(count, "byte")
    if count < 10 * 1024:
        return exact
    power = min((count.bit_length() - 1) // 10, len(UNITS))
    return f"{exact} ({count / 1024**power:.1f} {UNITS[power - 1]})"
