"""The text of one call's kernel: builds what the templates of its phases see, renders them."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from noeira.codegen.anchor import described
from noeira.codegen.definitions import identifiers
from noeira.codegen.elements import ctype
from noeira.codegen.environment import ENDINGS, KERNELS, find_template, rendered
from noeira.codegen.language import LANGUAGES
from noeira.codegen.layout import laid_out
from noeira.codegen.lower import kernel_phases, operand_code, operand_id
from noeira.codegen.phases import own_stages
from noeira.codegen.scratch import scratch_arrays
from noeira.codegen.stored import statements_of
from noeira.codegen.target import Target
from noeira.codegen.view import (
    ABSENT,
    MADE,
    Elementwise,
    Kernel,
    Operand,
    Operands,
    Results,
    ScratchOperand,
    function_names,
)
from noeira.errors import VerifyError
from noeira.ir.body import Body, Phases
from noeira.ir.graph import Value
from noeira.ir.op import Op, place
from noeira.ir.plan import Call, Stage

# What is said of an array of a kernel's that there is not.
UNDECLARED = re.compile(r"is not there; (?:k\.scratch|Scratch) has")


def kernel_text(call: Call, target: Target, symbol: str) -> str:
    """The functions of a call, one a stage (see `function_names`), over the target's prelude.

    The text depends on the kernel and the symbol alone: operands have positional names, and
    shapes are constants. Raises VerifyError for stages that do not fit, a template that is missing
    or wrong; DtypeError for floats that it is not written for.
    """
    phases = kernel_phases(call.node)
    cuts = target.cuts(call.node, call.choice)
    own = own_stages(phases, call.choice.stages)
    names = iter(function_names(call, symbol))
    texts = list[str]()
    for body, label, cut, stages in zip(phases.bodies, phases.labels, cuts, own, strict=True):
        functions = [(next(names), stage) for stage in stages]
        own_symbol = f"{symbol}_{label}" if label else symbol
        view = kernel_view(phases, body, own_symbol, cut, functions, target)
        texts.append(checked_text(body, view, target))
    return laid_out("\n".join(texts))


def checked_text(body: Body, view: Kernel, target: Target) -> str:
    """What the template of a phase makes of it. Raises VerifyError if it leaves something out,
    DtypeError if it takes the bits of a 16-bit float for a number.
    """
    text = template_text(body, view, target)
    target.anchor(body).check_text(body, text)
    if body.anchor is not None:
        name, values = body.anchor.op.name, dict(zip(body.targets, body.outputs, strict=True))
        for side, code in (("before", view.head), ("after", view.tail)):
            if code.lines and (reason := left_out(text, code, values)):
                raise VerifyError(f"the template of {name} {reason.format(side=side)}")
        for result, operand in vars(view.result).items():
            if operand and not is_used(text, operand.id):
                raise VerifyError(
                    f"the template of {name} never stores its result {result}: it is to be "
                    f"written to {{{{ k.result.{result} }}}}, as row_results and row_number do"
                )
    return text


def left_out(text: str, code: Elementwise, values: Mapping[str, Value]) -> str:
    """What a text leaves out of the element-wise code on one {side} of an op: its lines, or stores
    of values, where names of arguments are followed by where the elements lie; or nothing.
    """
    if not all(line in text for line in code.lines):
        return (
            "leaves out the element-wise ops {side} it: "
            "`takes` of the op says that its kernel does them"
        )
    for store in code.stores:
        if not re.search(rf"\b{store.target}( \+|\[)", text):
            return (
                f"computes the element-wise ops {{side}} it, but never stores "
                f"{values[store.target]}, which others read: give its last look at the rows "
                "last=true, as row_sum.j2 does, or write row_results"
            )
    return ""


def is_used(text: str, argument: str) -> bool:
    """Whether the statements of a text use an argument: that it is declared, or marked as one that
    they do not use, does not count.
    """
    return argument in identifiers(statements_of(text))


def kernel_view(
    phases: Phases,
    body: Body,
    symbol: str,
    cut: Any,
    functions: Sequence[tuple[str, Stage]],
    target: Target,
) -> Kernel:
    """What the template sees of a phase, of which `functions` are the names and stages."""
    anchor = target.anchor(body)
    anchor.check_dtypes(body)
    inputs, outputs = operands(phases.inputs, "a"), operands(phases.outputs, "y")
    carried = tuple(
        ScratchOperand(
            one.id, ctype(one.type.dtype), one.type.dtype, one.type.shape, one.type.size, one.offset
        )
        for one in phases.scratch
        if one.id in (*body.sources, *body.targets)
    )
    by_id = {one.id: one for one in (*inputs, *outputs, *carried)}
    head = anchor.head(body)
    return Kernel(
        symbol,
        inputs,
        outputs,
        (body.anchor or body.parts[0]).attrs,
        head,
        anchor.tail(body),
        tuple(anchor.function(name, stage) for name, stage in functions),
        cut,
        anchor.view(body, target.machine),
        named_operands(body, by_id),
        named_results(body, by_id),
        scratch_arrays(anchor.scratch(body, cut), phases.scratch_bytes),
        carried,
        operand_code(body, head),
    )


def operands(values: tuple[Value, ...], letter: str) -> tuple[Operand, ...]:
    """The arguments for values."""
    types = [v.type for v in values]
    return tuple(
        Operand(f"{letter}{i}", ctype(t.dtype), t.dtype, t.shape, t.size)
        for i, t in enumerate(types)
    )


def named_operands(body: Body, by_id: Mapping[str, Operand]) -> Operands:
    """The arguments behind the operands of an anchor; under a name for any number of them, all."""
    if body.anchor is None:
        return Operands()
    op, places = body.anchor.op, range(len(body.anchor.inputs))
    ids = [operand_id(body, body.anchor, place) for place in places]
    found: list[Any] = [
        ABSENT if id is None else by_id.get(id, MADE) for id in body.anchor.arguments(ids)
    ]
    if op.variadic:
        alone = len(op.operands) - 1
        found = [*found[:alone], tuple(found[alone:])]
    return Operands(**dict(zip(op.operands, found, strict=True)))


def named_results(body: Body, by_id: Mapping[str, Operand]) -> Results:
    """The arguments for the results of an anchor."""
    if body.anchor is None:
        return Results()
    targets = dict(zip((v.name for v in body.outputs), body.targets, strict=True))
    pairs = zip(body.anchor.results, body.anchor.outputs, strict=True)
    found = {result: by_id[targets[v.name]] for result, v in pairs if v.name in targets}
    return Results(
        **{result or "y": found.get(result, ABSENT) for result in body.anchor.op.results}
    )


def template_text(body: Body, view: Kernel, target: Target) -> str:
    """What the template of a body makes of a kernel: the one beside the file of an op that is not
    noeira's, else that in the folder of its stem.

    Raises VerifyError that says which file is missing, or which of its lines is wrong.
    """
    stem = target.anchor(body).template(body, view.cut)
    folders = template_folders(body.anchor.op, stem) if body.anchor else [KERNELS / stem]
    names = (find_template(folder, f"{stem}.j2", target.language) for folder in folders)
    found = next(filter(None, names), None)
    if found is None:
        assert body.anchor is not None
        path = folders[0] / f"{stem}.{ENDINGS[target.language]}"
        language = LANGUAGES[target.language].title
        both = f", or {stem}.j2 for all languages" if body.anchor.kind.by_rows else ""
        raise VerifyError(f"{body.anchor.op.name} has no kernel in {language}: write {path}{both}")
    try:
        return rendered(target.language, found, k=view)
    except VerifyError as error:
        if UNDECLARED.search(str(error)):
            raise VerifyError(f"{error}: {declaring(body, target)}") from error
        raise


def declaring(body: Body, target: Target) -> str:
    """Where an array is declared that the template of a body asks for."""
    anchor = target.anchor(body)
    file, name = place(type(anchor))
    if described(body.stem, target.language) is None:
        where = f"a class that derives from {name}, with stem = {body.stem!r}"
    else:
        where = f"{name}, {Path(file).name}"
    return f"declare it in `scratch` of {where}"


def template_folders(op: Op, stem: str) -> list[Path]:
    """Where an op's template of a stem may be: one that is not noeira's has its own beside its
    file, or names one of noeira's.
    """
    if not op.foreign:
        return [KERNELS / stem]
    file = getattr(sys.modules.get(type(op).__module__), "__file__", None)
    own = Path(file).resolve().parent if file else Path.cwd()
    return [own] if stem == op.name else [own, KERNELS / stem]
