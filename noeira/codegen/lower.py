"""From the parts of a phase to its element-wise code: what an element loads, makes, stores."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import cast

from noeira.codegen.definitions import identifiers
from noeira.codegen.expressions import Lowering
from noeira.codegen.view import NUMBER, Constant, Elementwise, Load, Store
from noeira.errors import VerifyError
from noeira.ir.body import Body, Phases, phases_of
from noeira.ir.forms import part_dtype, refusal
from noeira.ir.graph import Node, Value
from noeira.ir.ops import elementwise
from noeira.ir.orders import IMAGES
from noeira.ir.scalar import Expr, keys, var, variables
from noeira.ir.types import computed

# The name of an anchor's result in the code after it.
RESULT = "r0"
# What the names of results begin with in the code before an anchor, which may be in one block with
# that after it.
HEAD = "h"


def kernel_phases(node: Node) -> Phases:
    """The phases of a node. Raises VerifyError if they cannot be one kernel."""
    if node.body and (reason := refusal(node.body)):
        raise VerifyError(f"{node.outputs[0]}: this cannot be one kernel: {reason}")
    return phases_of(node)


def operand_id(body: Body, part: Node, position: int) -> str:
    """The kernel's argument behind a part's operand; "" if the body itself makes it."""
    if part.inputs == body.inputs:
        return body.sources[position]
    names = [v.name for v in body.inputs]
    name = part.inputs[position].name
    return body.sources[names.index(name)] if name in names else ""


def loaded_name(source: str) -> str:
    """The C name of an element that is loaded from an argument: `x0` of `a0`, `xy0` of `y0`."""
    return f"x{source.removeprefix('a')}"


@dataclass
class Lowered:
    """Collects the element-wise code of `body` over `shape`, computed in `dtype`. A value that
    other parts read is rounded to what it would be stored as, so that fusion changes no bits.

    `names` gives the C names of the values in registers: what was computed so far, and what an
    anchor hands in. An element loaded from `aN` is called `xN`, see `loaded_name`, a result `rN`
    (`letter`), a subexpression that is used twice `tN`, a constant `cN`, a whole number that random
    numbers follow from `nN`.
    """

    body: Body
    dtype: str
    shape: tuple[int, ...]
    names: dict[str, str] = field(default_factory=dict)
    loads: dict[str, Load] = field(default_factory=dict)
    letter: str = "r"

    def __post_init__(self) -> None:
        self.lowering, self.random = Lowering(self.dtype, {}, []), False
        self.results = len(self.names)

    def operand(self, part: Node, position: int, shape: tuple[int, ...] | None = None) -> str:
        """The C name of a part's operand, which is loaded at its first use, in a loop over a shape:
        by default that of the code.
        """
        value = part.inputs[position]
        if value.name in self.names:
            return self.names[value.name]
        source = operand_id(self.body, part, position)
        key, type = is_key(part, position), value.type
        name = source.replace("a", "n") if key else loaded_name(source)
        read = Load.of(name, source, type.dtype, type.shape, shape or self.shape)
        if key:
            read = replace(read, access=NUMBER, walk=())
        # Through a view, an operand may be walked through in another way as well.
        while self.loads.setdefault(read.name, read) != read:
            read = replace(read, name=f"{read.name}_")
        return read.name

    def assign(self, value: Value, expression: Expr, operands: dict[str, str]) -> None:
        """Compute a value from operands given by their C names."""
        name = f"{self.letter}{self.results}"
        self.results += 1
        read = any(value.name == v.name for part in self.body.parts for v in part.inputs)
        self.lowering.assign(name, expression, operands, value.type.dtype if read else "")
        self.names[value.name] = name

    def compute(self, part: Node) -> None:
        """Compute the result of an element-wise part."""
        shape = part.outputs[0].type.shape
        operands = {part.operands[i]: self.operand(part, i, shape) for i in places_read(part)}
        self.random |= any(is_key(part, i) for i in range(len(part.inputs)))
        self.lowering.image = channels_and_places(part)
        self.assign(part.outputs[0], expression_of(part), operands)

    def code(self) -> Elementwise:
        """The code, with stores of those outputs of the phase that have a C name."""
        stores = [
            Store(target, self.names[value.name], value.type.dtype)
            for target, value in zip(self.body.targets, self.body.outputs, strict=True)
            if value.name in self.names
        ]
        constants = (Constant(name, text) for text, name in self.lowering.constants.items())
        loads = sorted(self.loads.values(), key=lambda load: argument_order(load.source))
        return Elementwise(
            self.dtype,
            tuple(constants),
            tuple(loads),
            tuple(self.lowering.lines),
            tuple(stores),
            temporaries=self.lowering.temporaries,
            random=self.random,
        )


def argument_order(id: str) -> tuple[str, int]:
    """What arguments are sorted by: operands, what other phases leave, results; each by number."""
    return id[0], int(id[1:])


def is_key(part: Node, position: int) -> bool:
    """Whether an operand of a part is one that its random numbers follow from."""
    op = part.op
    if not isinstance(op, elementwise.Elementwise) or not op.numbers:
        return False
    return part.operands[position] in keys(op.expression(part.attrs))


def channels_and_places(part: Node) -> tuple[int, int] | None:
    """Of a part whose result has its channels last, how many there are, and places of each in an
    image.
    """
    shape = part.outputs[0].type.shape
    return (shape[-1], math.prod(shape[1:-1])) if part.order in IMAGES.values() else None


def expression_of(part: Node) -> Expr:
    """What an element-wise part computes."""
    return cast(elementwise.Elementwise, part.op).expression(part.attrs)


def places_read(part: Node) -> tuple[int, ...]:
    """The operands that an element-wise part reads, by position: of `w * x + (1 - w) * z` with
    w = 1 nothing is left of z.
    """
    read = variables(expression_of(part))
    return tuple(i for i, name in enumerate(part.operands) if name in read)


def needed(parts: tuple[Node, ...], wanted: set[str]) -> tuple[Node, ...]:
    """The element-wise parts whose results are wanted, or lead to what is."""
    found, wanted = list[Node](), set(wanted)
    for part in reversed(parts):
        if any(v.name in wanted for v in part.outputs):
            found.insert(0, part)
            wanted |= {part.inputs[i].name for i in places_read(part)}
    return tuple(found)


def map_code(body: Body) -> Elementwise:
    """The code of a chain of element-wise ops."""
    lowered = Lowered(body, part_dtype(body.head[0]), body.head[0].outputs[0].type.shape)
    for part in needed(body.head, {v.name for v in body.outputs}):
        lowered.compute(part)
    return lowered.code()


def head_code(body: Body) -> Elementwise:
    """The code before an anchor: what the kernel gives of it, and what leads to its `result`, the
    operand whose rows the anchor runs over.
    """
    return lowered_head(body, {v.name for v in body.outputs}, {})


def operand_code(body: Body, head: Elementwise) -> Elementwise:
    """What of the code before an anchor leads to its result, stored or not."""
    code = lowered_head(body, set(), constant_names(head))
    return replace(code, stores=())


def lowered_head(body: Body, wanted: set[str], constants: dict[str, str]) -> Elementwise:
    """The code before an anchor for its operand and other values; constants have names already."""
    if body.anchor is None or "head" not in body.anchor.op.takes:
        return Elementwise("")
    place = body.anchor.rows_at
    taken = body.anchor.inputs[place]
    lowered = Lowered(body, computed(taken.type.dtype), taken.type.shape, letter=HEAD)
    lowered.lowering.constants |= constants
    for part in needed(body.head, wanted | {taken.name}):
        lowered.compute(part)
    result = lowered.operand(body.anchor, place)
    return replace(lowered.code(), result=result)


def constant_names(code: Elementwise) -> dict[str, str]:
    """The names of constants by their text."""
    return {constant.value: constant.name for constant in code.constants}


def tail_code(body: Body, bias: int | None = None, apart: bool = False) -> Elementwise:
    """The code after an anchor, which hands in its result as `r0`; `bias`: the position of the
    operand that is added to it before anything else. It stands beside the code before the anchor:
    what it reads of that it makes again, from the same constants. If it is `apart`, in a function
    of its own, it loads and makes all that it needs; what the head stores is stored all the same.
    """
    assert body.anchor is not None
    if "tail" not in body.anchor.op.takes:
        return Elementwise("")
    made, before = body.anchor.outputs[0], head_code(body)
    if apart:
        before = Elementwise("", stores=before.stores)
    lowered = Lowered(body, computed(made.type.dtype), made.type.shape, {made.name: RESULT})
    lowered.lowering.constants |= constant_names(before)
    lowered.lowering.temporaries = before.temporaries
    own = {v.name for part in body.tail for v in part.outputs}
    wanted = {v.name for v in body.outputs if v.name in own}
    parts = needed((*body.head, *body.tail), wanted)
    read = {part.inputs[i].name for part in parts for i in places_read(part)}
    if made.name in read or made in body.outputs:
        finish(lowered, made, bias)
    for part in parts:
        lowered.compute(part)
    return named(lowered.code().without(before))


def finish(lowered: Lowered, made: Value, bias: int | None) -> None:
    """The result of an anchor as others read it: with the bias, and rounded."""
    body = lowered.body
    if bias is not None:
        assert body.anchor is not None
        name = lowered.operand(body.anchor, bias)
        lowered.assign(made, var("product") + var("bias"), {"product": RESULT, "bias": name})
    elif body.tail and made.type.dtype != lowered.dtype:
        lowered.assign(made, var("result"), {"result": RESULT})


def named(tail: Elementwise) -> Elementwise:
    """The code after an anchor, which names what it is handed even where it drops it."""
    read = identifiers("\n".join(tail.lines)) | {store.name for store in tail.stores}
    dropped = tail.lines and RESULT not in read
    return replace(tail, lines=(f"(void){RESULT};", *tail.lines)) if dropped else tail
