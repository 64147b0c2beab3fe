"""How C runs a kernel that says no more: in one stage; and the parts of a cut that many have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from noeira.codegen.anchor import Anchor, anchor_of, rows_dtype, rows_operand, work_of
from noeira.codegen.c.isa import ISA
from noeira.codegen.c.rows import CFunction, CRows
from noeira.codegen.cut import option, written
from noeira.codegen.rows import rows_and_columns
from noeira.errors import VerifyError
from noeira.ir.body import Body
from noeira.ir.plan import Stage

# One thread does fewer elements: half of them in another processor's cache gains nothing.
SPLIT_ELEMENTS = 4096
# A kernel that moves more bytes than any cache holds stores past the caches: whoever reads the
# result next finds it in memory anyway, and memory is not read before it is written.
STREAM_BYTES = 1 << 26


def splits(elements: int) -> bool:
    """Whether it is worth while that threads share the work."""
    return elements >= SPLIT_ELEMENTS


def streams(body: Body) -> bool:
    """Whether results go past the caches: if the kernel moves too much for them."""
    return body.moved_bytes >= STREAM_BYTES


@dataclass(frozen=True)
class SplitCut:
    """split: whether threads share the work."""

    split: bool = option(False)


@dataclass(frozen=True)
class StreamCut(SplitCut):
    """stream: whether results are stored past the caches."""

    stream: bool = option(False)


class CAnchor(Anchor):
    """One function; threads share the elements of the largest operand or result."""

    language = "c"
    Cut = SplitCut

    def rule(self, body: Body, machine: ISA) -> Any:
        return SplitCut(splits(work_of(body)))

    def stages(self, body: Body, cut: Any, machine: ISA) -> tuple[Stage, ...]:
        return (Stage(body.stem, written(cut)),)

    def view(self, body: Body, machine: ISA) -> Any:
        dtype, type = rows_dtype(body), rows_operand(body).type
        return CRows(dtype, machine.lanes(dtype), *rows_and_columns(type))

    def function(self, name: str, stage: Stage) -> CFunction:
        return CFunction(name, dict(stage.options))


class Streamed(CAnchor):
    """One function, whose results go past the caches if they are large."""

    Cut = StreamCut

    def rule(self, body: Body, machine: ISA) -> StreamCut:
        return StreamCut(splits(work_of(body)), streams(body))


class Row(Streamed):
    """The same over rows, if the op says that its kernel streams."""

    def rule(self, body: Body, machine: ISA) -> StreamCut:
        cut = super().rule(body, machine)
        return replace(cut, stream=cut.stream and anchor_of(body).op.streams)

    def check(self, body: Body, cut: StreamCut, machine: ISA) -> None:
        if cut.stream and not anchor_of(body).op.streams:
            raise VerifyError(f"{body.stem}: stream must be false: its kernel does not")
