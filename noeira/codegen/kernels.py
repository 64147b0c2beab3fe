"""The text of one call's kernel: picks its anchor's template, builds what that sees, renders it."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

from noeira.codegen.environment import TEMPLATES, rendered
from noeira.codegen.gemm_stages import gemm_of
from noeira.codegen.layout import laid_out
from noeira.codegen.loops import Function, Grid, Staged
from noeira.codegen.lower import Body, Lowered, body_of, needed, rows_and_columns
from noeira.codegen.target import Target
from noeira.codegen.view import Elementwise, Kernel, Operand
from noeira.errors import VerifyError
from noeira.ir.op import Op
from noeira.ir.plan import Call
from noeira.ir.scalar import var
from noeira.ir.types import DTYPE_BYTES


def kernel_text(call: Call, target: Target, symbol: str) -> str:
    """The functions of a call, one a stage (see `function_names`), over the target's prelude.

    The text depends on the kernel and the symbol alone: operands have positional names, and
    shapes are constants.
    """
    body = body_of(call.node)
    view = kernel_view(call, body, target, symbol)
    return laid_out(template_text(body, view, target))


def function_names(call: Call, symbol: str) -> tuple[str, ...]:
    """The functions of a call in order: the symbol itself, or one for each of several stages."""
    stages = call.choice.stages
    return (symbol,) if len(stages) == 1 else tuple(f"{symbol}_{stage.name}" for stage in stages)


def kernel_view(call: Call, body: Body, target: Target, symbol: str) -> Kernel:
    """What the template sees of a call."""
    node = call.node

    def operands(letter: str) -> tuple[Operand, ...]:
        values = node.inputs if letter == "a" else node.outputs
        types = [v.type for v in values]
        return tuple(
            Operand(f"{letter}{i}", target.ctype(t.dtype), t.dtype, t.shape, t.size)
            for i, t in enumerate(types)
        )

    inputs, outputs = operands("a"), operands("y")
    names = function_names(call, symbol)
    stages = zip(names, call.choice.stages, strict=True)
    choice: Any = Staged(tuple(Function(name, dict(stage.options)) for name, stage in stages))
    head = tail = Elementwise("")
    attrs = (body.anchor or node).attrs
    if body.anchor is None:
        head = map_code(body)
        anchor: Any = map_grid(body, head, target, inputs)
    elif body.template == "gemm":
        anchor, tail = gemm_of(body), tail_code(body)
        choice = target.gemm_cut(anchor, call.choice, symbol, outputs[0].dtype)
    else:
        rows, columns = rows_and_columns(body.anchor.inputs[0].type)
        result = ""
        if body.anchor.op.kind == "column":
            head, result = column_code(body)
        dtype = body.anchor.inputs[0].type.dtype
        anchor = grid(dtype, target, rows, columns, inputs, result)
    return Kernel(symbol, inputs, outputs, attrs, head, tail, anchor, choice)


def grid(
    dtype: str,
    target: Target,
    rows: int,
    columns: int,
    inputs: tuple[Operand, ...],
    result: str = "",
) -> Grid:
    """Rows and columns of a dtype, as the target takes them."""
    ctype, size, lanes = target.ctype(dtype), DTYPE_BYTES[dtype], target.lanes(dtype)
    return Grid(dtype, ctype, size, lanes, rows, columns, inputs, result)


def map_code(body: Body) -> Elementwise:
    """The code of a chain of element-wise ops."""
    node = body.node
    lowered = Lowered(node, node.outputs[0].type.dtype, body.shape)
    for part in needed(body.head, {v.name for v in node.outputs}):
        lowered.compute(part)
    return lowered.code()


def map_grid(body: Body, code: Elementwise, target: Target, inputs: tuple[Operand, ...]) -> Grid:
    """One row of all elements, or rows as long as the shortest operand that is repeated."""
    size = math.prod(body.shape)
    sizes = {operand.id: operand.size for operand in inputs}
    columns = min((sizes[load.source] for load in code.loads if load.access == "row"), default=size)
    return grid(code.dtype, target, size // columns, columns, inputs)


def column_code(body: Body) -> tuple[Elementwise, str]:
    """The code before a column sum, and the C name of what is summed."""
    assert body.anchor is not None
    node, summed = body.node, body.anchor.inputs[0]
    lowered = Lowered(node, summed.type.dtype, summed.type.shape)
    for part in needed(body.head, {v.name for v in node.outputs} | {summed.name}):
        lowered.compute(part)
    result = lowered.operand(body.anchor, 0)
    return lowered.code(), result


def tail_code(body: Body) -> Elementwise:
    """The code after a contraction, which hands in its sums as `r0`; a bias is added first."""
    assert body.anchor is not None
    node, product = body.node, body.anchor.outputs[0]
    lowered = Lowered(node, product.type.dtype, product.type.shape, {product.name: "r0"})
    if len(body.anchor.inputs) > 2:
        bias = lowered.operand(body.anchor, 2)
        lowered.assign(product, var("product") + var("bias"), {"product": "r0", "bias": bias})
    for part in needed(body.tail, {v.name for v in node.outputs}):
        lowered.compute(part)
    return lowered.code()


def template_text(body: Body, view: Kernel, target: Target) -> str:
    """What the template of a body makes of a kernel: noeira's own, or one beside the file of an
    op that is not.

    Raises VerifyError that says which file is missing, or which of its lines is wrong.
    """
    from jinja2 import TemplateNotFound

    folder = own_folder(body.anchor.op) if body.anchor else None
    name = f"{body.template}.{target.ending}"
    try:
        return rendered(folder, name, k=view)
    except TemplateNotFound:
        assert body.anchor is not None
        language = {"c": "C", "cuda": "CUDA"}[target.language]
        raise VerifyError(
            f"{body.anchor.op.name} has no kernel in {language}: "
            f"write {(folder or TEMPLATES) / name}"
        ) from None


def own_folder(op: Op) -> Path | None:
    """The folder of the file that defines an op outside noeira."""
    if not op.foreign:
        return None
    file = getattr(sys.modules.get(type(op).__module__), "__file__", None)
    return Path(file).resolve().parent if file else Path.cwd()
