"""The text of one call's kernel: builds what its template sees, renders it."""

from __future__ import annotations

import inspect
import sys
from itertools import zip_longest
from pathlib import Path

from noeira.codegen.elements import ctype
from noeira.codegen.environment import ENDINGS, KERNELS, find_template, rendered
from noeira.codegen.language import LANGUAGES
from noeira.codegen.layout import laid_out
from noeira.codegen.lower import kernel_body, operand_id
from noeira.codegen.target import Target
from noeira.codegen.view import Kernel, Operand, Operands, Results, function_names
from noeira.errors import DtypeError, VerifyError
from noeira.ir.body import Body
from noeira.ir.graph import Value
from noeira.ir.op import Op
from noeira.ir.plan import Call


def kernel_text(call: Call, target: Target, symbol: str) -> str:
    """The functions of a call, one a stage (see `function_names`), over the target's prelude.

    The text depends on the kernel and the symbol alone: operands have positional names, and
    shapes are constants. Raises VerifyError for stages that do not fit, a template that is missing
    or wrong; DtypeError for floats that it is not written for.
    """
    view = kernel_view(call, target, symbol)
    body = kernel_body(call.node)
    text = template_text(body, view, target)
    for side, code in (("before", view.head), ("after", view.tail)):
        if not all(line in text for line in code.lines):
            assert body.anchor is not None
            raise VerifyError(
                f"the template of {body.anchor.op.name} leaves out the element-wise ops {side} it: "
                f"`takes` of the op says that its kernel does them"
            )
    return laid_out(text)


def kernel_view(call: Call, target: Target, symbol: str) -> Kernel:
    """What the template sees of a call."""
    body = kernel_body(call.node)
    anchor = target.anchor(body)
    check_dtypes(body, anchor.dtypes, target.language)
    cut = target.cut(call.node, call.choice)
    names = zip(function_names(call, symbol), call.choice.stages, strict=True)
    inputs, outputs = operands(body.inputs, "a"), operands(body.outputs, "y")
    return Kernel(
        symbol,
        inputs,
        outputs,
        (body.anchor or body.parts[0]).attrs,
        anchor.head(body),
        anchor.tail(body),
        tuple(anchor.function(name, stage) for name, stage in names),
        cut,
        anchor.view(body, target.machine),
        named_operands(body, inputs),
        named_results(body, outputs),
    )


def check_dtypes(body: Body, known: frozenset[str], language: str) -> None:
    """Raises DtypeError for a float that a kernel's template is not written for."""
    for value in (*body.inputs, *body.outputs):
        if value.type.is_float and value.type.dtype not in known:
            names = " and ".join(dict.fromkeys(part.op.name for part in body.parts))
            raise DtypeError(
                f"{value}: {names} has no kernel for {value.type.dtype} in "
                f"{LANGUAGES[language].title}: "
                f"it has {', '.join(sorted(known))}"
            )


def operands(values: tuple[Value, ...], letter: str) -> tuple[Operand, ...]:
    """The arguments for values."""
    types = [v.type for v in values]
    return tuple(
        Operand(f"{letter}{i}", ctype(t.dtype), t.dtype, t.shape, t.size)
        for i, t in enumerate(types)
    )


def named_operands(body: Body, given: tuple[Operand, ...]) -> Operands:
    """The arguments behind the operands of an anchor; under a name for any number of them, all."""
    if body.anchor is None:
        return Operands()
    op, places = body.anchor.op, range(len(body.anchor.inputs))
    by_id = {one.id: one for one in given}
    found = [by_id.get(operand_id(body, body.anchor, place), "") for place in places]
    if op.operands and op.operands[-1] == variadic(op):
        rest = len(op.operands) - 1
        found = [*found[:rest], tuple(found[rest:])]
    return Operands(**dict(zip_longest(op.operands, found[: len(op.operands)], fillvalue="")))


def variadic(op: Op) -> str:
    """The name under which the shape rule of an op takes any number of operands, if it does."""
    parameters = inspect.signature(op.infer).parameters.values()
    return next((one.name for one in parameters if one.kind is one.VAR_POSITIONAL), "")


def named_results(body: Body, given: tuple[Operand, ...]) -> Results:
    """The arguments for the results of an anchor."""
    if body.anchor is None:
        return Results()
    by_name = {v.name: one for v, one in zip(body.outputs, given, strict=True)}
    found = [by_name.get(v.name, "") for v in body.anchor.outputs]
    names = [name or "y" for name in body.anchor.op.results]
    return Results(**dict(zip_longest(names, found[: len(names)], fillvalue="")))


def template_text(body: Body, view: Kernel, target: Target) -> str:
    """What the template of a body makes of a kernel: the one beside the file of an op that is not
    noeira's, else that in the folder of its stem.

    Raises VerifyError that says which file is missing, or which of its lines is wrong.
    """
    folders = template_folders(body.anchor.op) if body.anchor else [KERNELS / body.stem]
    names = (find_template(folder, f"{body.stem}.j2", target.language) for folder in folders)
    found = next(filter(None, names), None)
    if found is None:
        assert body.anchor is not None
        path = folders[0] / f"{body.stem}.{ENDINGS[target.language]}"
        language = LANGUAGES[target.language].title
        raise VerifyError(f"{body.anchor.op.name} has no kernel in {language}: write {path}")
    return rendered(target.language, found, k=view)


def template_folders(op: Op) -> list[Path]:
    """Where the template of an op may be: one that is not noeira's has its own beside its file, or
    names one of noeira's.
    """
    if not op.foreign:
        return [KERNELS / op.template]
    file = getattr(sys.modules.get(type(op).__module__), "__file__", None)
    own = Path(file).resolve().parent if file else Path.cwd()
    return [own] if op.template == op.name else [own, KERNELS / op.template]
