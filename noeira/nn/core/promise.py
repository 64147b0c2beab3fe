"""What a module's `trace` is given and gives, held against its signature: a graph that breaks the
promise of a type is refused where the trace that broke it ends.

A signature speaks of one sample. In a graph the batch is the first axis of every value, except for
what losses and metrics give, which are numbers of the whole batch, unless a loss is not reduced. In
evaluation no sample may matter for another one.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from noeira.errors import CompositionError, DtypeError, ShapeError
from noeira.ir.graph import Node, Value
from noeira.ir.numbers import finite_number
from noeira.ir.types import ADDED, COMPUTED, TensorType
from noeira.nn.core.parameters import Declaration
from noeira.nn.core.signature import Pattern, Signature, listed
from noeira.nn.core.unify import Misfit, solve

if TYPE_CHECKING:
    from noeira.nn.core.module import Module
    from noeira.nn.core.scope import Scope

Types = tuple[TensorType, ...]
# What the numbers of criteria may be, by their role.
TOTALS = {"loss": COMPUTED, "metric": ADDED}
NO_ARRAYS = "what a graph reads are parameters, buffers and inputs: declare it as one"


def check_inputs(scope: Scope, inputs: tuple[Any, ...]) -> None:
    """Raises CompositionError if the module does not take these values."""
    takes = scope.module.shapes().inputs
    for index, value in enumerate(inputs):
        if not isinstance(value, Value):
            raise CompositionError(
                f"{where(scope)}: input {index + 1} is {shown(value)}, not a value of the graph"
            )
    types = tuple(value.type for value in inputs)
    if len(types) != len(takes) or solved(scope.module, types) is None:
        gives = ", ".join(map(str, types)) or "nothing"
        giver = f"the trace of {scope.caller!r} gives it" if scope.caller else "it is given"
        raise CompositionError(
            f"{where(scope)} takes {listed(takes)} after the batch axis, but {giver} {gives}"
            f"{because(scope.module, types)}"
        )


def checked_outputs(scope: Scope, inputs: tuple[Value, ...], made: Any) -> Any:
    """What `trace` gave: its output, or the tuple of its outputs if there are several. Raises
    CompositionError if that is something else than the signature promises.
    """
    promised = scope.module.shapes().outputs
    values: tuple[Any, ...] = made if isinstance(made, tuple) else (made,)
    if not values or not all(isinstance(value, Value) for value in values):
        raise CompositionError(
            f"{scope.module.__name__}.trace must return the value it emitted last "
            f"(or a tuple of values), not {shown(made)}"
        )
    if len(values) != len(promised):
        count = f"{len(promised)} value{'s' if len(promised) > 1 else ''}"
        raise CompositionError(
            f"{where(scope)}: its signature promises {count}, {listed(promised)}, "
            f"its trace gave {len(values)}"
        )
    before, given = tuple(v.type for v in inputs), tuple(v.type for v in values)
    index = first_broken(scope.module, scope.dtype, before, given)
    if index is not None:
        raise CompositionError(
            f"{where(scope)}: its signature promises {promised[index]}, its trace gave "
            f"{given[index]}{instead(scope, before, index)}"
        )
    check_totals(scope, given)
    return values[0] if len(promised) == 1 else values


def check_totals(scope: Scope, given: Types) -> None:
    """Raises CompositionError if the loss or a metric of a program gives numbers of a dtype in
    which a program adds up none.
    """
    allowed = TOTALS.get(scope.module.role)
    if allowed and not scope.caller and not all(type.dtype in allowed for type in given):
        raise CompositionError(
            f"{where(scope)}: a {scope.module.role} gives numbers in {', '.join(allowed[:-1])} or "
            f"{allowed[-1]}, its trace gave {', '.join(map(str, given))}: write "
            f'scope.emit("cast", x, dtype="f32")'
        )


def check_operands(scope: Scope, op: str, inputs: tuple[Any, ...]) -> None:
    """Raises CompositionError for an operand that is no value of the graph."""
    for index, value in enumerate(inputs):
        if isinstance(value, Value):
            continue
        advice = ""
        if (number := finite_number(value)) is not None:
            advice = (
                f': numbers go in as attributes, as in scope.emit("scale", x, factor={number!r})'
            )
        elif is_array(value):
            advice = f": {NO_ARRAYS}"
        elif isinstance(value, (tuple, list)):
            advice = ": emit gives a tuple for an op of several results; take one of them"
        raise CompositionError(
            f"{where(scope)}: operand {index + 1} of {op} is {shown(value)}, not a value{advice}"
        )


def check_update(scope: Scope, name: str, new: Any) -> None:
    """Raises CompositionError if `new` cannot become the value of the module's buffer `name`."""
    old, place = scope.param(name), f"{where(scope)}: the update of {name}"
    if name not in scope.module.own_buffers:
        raise CompositionError(
            f"{where(scope)}: {name} is a parameter, which the optimizer updates; "
            f'declare what the module itself updates as Buffer("…")'
        )
    if scope.phase != "train":
        raise CompositionError(f'{place} is for training: emit it where scope.phase is "train"')
    if not isinstance(new, Value):
        raise CompositionError(f"{place} is {shown(new)}, not a value of the graph")
    if new.type != old.type:
        raise CompositionError(f"{place} is {new.type}, but the buffer is {old.type}")
    if old.name in scope.updated:
        raise CompositionError(f"{place}: it is updated already, and a step updates a buffer once")


def check_child(scope: Scope, name: str, module: type[Module]) -> None:
    """Raises CompositionError if the module has no such child: its tensors would not exist, or be
    of other shapes.
    """
    there, owner = children_of(scope.module), scope.module.__name__
    if module in there.get(name, ()):
        return
    if name not in there:
        raise CompositionError(
            f"{owner}.children() does not list {name!r}: "
            f"define the classmethod children(cls), giving (({name!r}, {module!r}),)"
        )
    known = " and ".join(map(repr, there[name]))
    raise CompositionError(
        f"{owner}.children() lists {name!r} as {known}, its trace has {module!r} there"
    )


@functools.lru_cache(maxsize=1024)
def children_of(module: type[Module]) -> dict[str, tuple[type[Module], ...]]:
    """The children by name; those without a name share one."""
    found: dict[str, tuple[type[Module], ...]] = {}
    for name, child in module.inside:
        found[name] = (*found.get(name, ()), child)
    return found


def check_rows(scope: Scope, node: Node) -> None:
    """Raises CompositionError for an op along the last axis of an input that has only the batch
    axis: it would mix samples. A sum over everything says what it does.
    """
    if scope.module.role != "layer" or not any(v.type.shape for v in node.outputs):
        return
    value = batch_as_row(node, {v.name for v in scope.inputs})
    if value is not None:
        raise CompositionError(
            f"{where(scope)}: {node.op.name} works along the last axis, but one sample has no axis "
            f"here: {value.type} is the batch alone; "
            f'give it one in the signature, such as "(*, D) -> (*, D)"'
        )


def batch_as_row(node: Node, batches: Collection[str]) -> Value | None:
    """Of values that have a batch axis, an operand that is this axis alone, of an op that works
    along it; None if there is none. What has one number for each row of another is no row.
    """
    if not node.op.mixes_samples or len(node.inputs[node.rows_at].type.shape) != 1:
        return None
    alone = (v for v in node.inputs if v.name in batches and len(v.type.shape) == 1)
    return next(alone, None)


def check_apart(scope: Scope, node: Node) -> None:
    """Raises CompositionError for a node of an evaluation in whose results a row follows from more
    than one sample: what is evaluated beside a sample, such as the rows that fill up a batch, may
    not change what is said of it.
    """
    if puts_together(node, scope.by_sample):
        how = " along the batch" if batch_as_row(node, scope.by_sample) else ""
        raise CompositionError(
            f"{where(scope)}: {node.op.name} puts samples together{how}, {listed_types(node)}. In "
            f"evaluation each stands for itself, whatever else is in the batch: let this happen "
            f'where scope.phase is "train", and read a Buffer elsewhere'
        )


def puts_together(node: Node, by_sample: Collection[str]) -> bool:
    """Whether a row of its results follows from more than one sample."""
    return batch_as_row(node, by_sample) is not None or not grows_with_batch(node, by_sample)


def mixed(nodes: Iterable[Node], by_sample: set[str]) -> Node | None:
    """The first of nodes in order that puts samples together; None if none does. by_sample: what
    has one of each row; what follows from that is added.
    """
    for node in nodes:
        if by_sample.isdisjoint(value.name for value in node.inputs):
            continue
        if puts_together(node, by_sample):
            return node
        by_sample.update(value.name for value in node.outputs)
    return None


def grows_with_batch(node: Node, by_sample: Collection[str]) -> bool:
    """Whether more samples, or fewer, change the first axis of every result, and no other."""
    rows = next(v.type.shape[0] for v in node.inputs if v.name in by_sample)
    unfit = False
    for count in other_batches(node, rows):
        for attrs, operands in with_batch(node, by_sample, rows, count):
            try:
                found = node.op.types(replace(node.attrs, **attrs), operands)
            except (ShapeError, DtypeError):
                unfit = True
            except Exception:
                # What an op says of operands that it never gets is its own matter.
                continue
            else:
                pairs = zip(node.outputs, found, strict=True)
                if all(v.type.shape and t == resized(v.type, count) for v, t in pairs):
                    return True
                unfit = True
    # An op that answers nothing at all is judged by what it makes.
    return not unfit and all(v.type.shape[:1] == (rows,) for v in node.outputs)


def other_batches(node: Node, rows: int) -> list[int]:
    """Numbers of samples to ask an op about. None is the length of an axis: what fits the batch by
    chance fits no other number. A multiple, since an op may take so many at a time; one that is
    near, and a smaller one, since it may take no more.
    """
    lengths = {1, *(n for v in (*node.inputs, *node.outputs) for n in v.type.shape)}
    multiple = next(n for n in itertools.count(2 * rows, rows) if n not in lengths)
    larger = next(n for n in itertools.count(rows + 1) if n not in lengths)
    smaller = next((n for n in range(rows - 1, 1, -1) if n not in lengths), larger)
    return list(dict.fromkeys((multiple, larger, smaller)))


def with_batch(
    node: Node, by_sample: Collection[str], rows: int, count: int
) -> Iterator[tuple[dict[str, Any], list[TensorType]]]:
    """Attributes that change, and operands, of a node of `rows` samples as they may be for others.

    Other operands, and attributes such as the shape of a reshape, that begin with as many as there
    are samples either hold the batch or have this length by chance: tried are none, all, each
    alone, and all but one.
    """
    held: list[int | str] = [
        index
        for index, v in enumerate(node.inputs)
        if v.name not in by_sample and v.type.shape[:1] == (rows,)
    ]
    own = {f.name: getattr(node.attrs, f.name) for f in fields(node.attrs)}
    given = {name: grown(value, rows, count) for name, value in own.items()}
    held += [name for name, value in given.items() if value != own[name]]
    every = frozenset(held)
    alone = [frozenset({one}) for one in held]
    for chosen in dict.fromkeys((frozenset(), every, *alone, *(every - one for one in alone))):
        yield (
            {name: given[name] for name in chosen if isinstance(name, str)},
            [
                resized(v.type, count) if v.name in by_sample or index in chosen else v.type
                for index, v in enumerate(node.inputs)
            ],
        )


def grown(value: Any, rows: int, count: int) -> Any:
    """An attribute that is a number of samples, or a shape that begins with one, of so many; any
    other as it is.
    """
    if isinstance(value, tuple) and value[:1] == (rows,):
        return (count, *value[1:])
    return count if type(value) is int and value == rows else value


def resized(type: TensorType, rows: int) -> TensorType:
    """The type of so many samples."""
    return replace(type, shape=(rows, *type.shape[1:]))


def listed_types(node: Node) -> str:
    """`of f32[2, 3] it makes f32[3]`"""
    made = ", ".join(str(v.type) for v in node.outputs)
    return f"of {', '.join(str(v.type) for v in node.inputs)} it makes {made}"


@functools.lru_cache(maxsize=1024)
def solved(module: type[Module], inputs: Types) -> Signature | None:
    """The signature for inputs of these types; None if they do not fit."""
    signature = module.shapes()
    found = [sample(t, like) for t, like in zip(inputs, signature.inputs, strict=True)]
    try:
        return None if None in found else solve(signature, found)
    except Misfit:
        return None


def because(module: type[Module], inputs: Types) -> str:
    """Why the module does not take inputs, where their shapes do not show it; or empty."""
    signature = module.shapes()
    found = [sample(t, like) for t, like in zip(inputs, signature.inputs, strict=False)]
    try:
        solve(signature, found)
    except Misfit as misfit:
        return module.why(misfit)
    return ""


@functools.lru_cache(maxsize=1024)
def first_broken(module: type[Module], dtype: str, inputs: Types, outputs: Types) -> int | None:
    """The first output that is not what the signature promises for these inputs, if any; dtype:
    that of the network.
    """
    signature = module.shapes()
    before = [sample(t, like) for t, like in zip(inputs, signature.inputs, strict=True)]
    given = list[Pattern | None]()
    # A module that is run on what its caller cast may give the same.
    plain = {dtype, *(t.dtype for t in inputs if t.is_float)}
    for index, (type, like) in enumerate(zip(outputs, signature.outputs, strict=True)):
        if module.keeps_batch():
            kept = type.shape[:1] == inputs[0].shape[:1] and (like.dtype or type.dtype in plain)
            alone = sample(type, like) if kept else None
        else:
            alone = Pattern(type.shape, None, like.dtype)
        given.append(alone)
        try:
            solve(signature, before, given)
        except Misfit:
            return index
        if alone is None:
            return index
    return None


def sample(type: TensorType, like: Pattern) -> Pattern | None:
    """One sample of a value, to be held against `like`; None if it has no batch axis, or is not
    floating point where that is wanted.
    """
    if not type.shape or (like.dtype is None and not type.is_float):
        return None
    return Pattern(type.shape[1:], None, type.dtype if like.dtype else None)


def instead(scope: Scope, inputs: Types, index: int) -> str:
    """`, not f32[2, 5]`: the type that the signature promises for these inputs, if it is known."""
    signature = solved(scope.module, inputs)
    assert signature is not None
    try:
        shape = signature.outputs[index].shape
    except ValueError:
        return ""
    front = inputs[0].shape[:1] if scope.module.keeps_batch() else ()
    dtype = signature.outputs[index].dtype or scope.dtype
    return f", not {TensorType(dtype, (*front, *shape))}"


def where(scope: Scope) -> str:
    """The module and its place: `Q at 0`; the network itself needs none."""
    return f"{scope.module!r} at {scope.path}" if scope.path else repr(scope.module)


def is_array(value: Any) -> bool:
    """Whether it is an array with axes, of NumPy or another framework."""
    return not isinstance(value, Declaration) and getattr(value, "shape", ()) != ()


def shown(value: Any) -> str:
    """What stands where a value of the graph belongs."""
    if isinstance(value, Declaration):
        return f'the declaration of {value.name} (write scope.param("{value.name}"))'
    if isinstance(value, (tuple, list)):
        return f"a {type(value).__name__} of {len(value)}"
    if is_array(value):
        return f"an array of shape {tuple(value.shape)}"
    return repr(value)
