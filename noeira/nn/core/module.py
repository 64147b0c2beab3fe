"""Module: types become modules, `Linear[784, 256]` is a class.

Such a class is cached, hashable, picklable, and printed as it is written. A new layer is a
class with its type parameters, its parameters, its signature and its trace:

    class Linear(Module):
        IN, OUT = size(), size()
        weight = Param("IN", "OUT")
        bias = Param("OUT", init="bias")
        signature = "(*, IN) -> (*, OUT)"

        @classmethod
        def trace(cls, scope: Scope, x: Value) -> Value:
            return scope.emit("linear", x, scope.param("weight"), scope.param("bias"))

Everything about a network that needs no elements is asked of the type: `Net.parameters()`,
`Net.gives((784,))`. An instance, `Net()`, owns the memory: `net[0].weight.val`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noeira.errors import CompositionError, ShapeError
from noeira.ir.layouts import Layout, lay_out
from noeira.ir.orders import channel_moves
from noeira.nn.core.binding import refuse_call
from noeira.nn.core.declaration import check_declaration
from noeira.nn.core.image_axes import image_axes
from noeira.nn.core.init import Initializer, Kaiming
from noeira.nn.core.instance import Instance
from noeira.nn.core.module_type import ModuleType, made_type
from noeira.nn.core.parameters import Buffer, BufferInfo, Param, ParamInfo, infos
from noeira.nn.core.signature import Pattern, Shape, Signature, listed, parse_signature, pattern
from noeira.nn.core.slots import Slot
from noeira.nn.core.unify import Misfit, closed, solve

if TYPE_CHECKING:
    from typing import Self

    from noeira.nn.core.scope import Scope

# What an example of a shape has for an axis that may have any length.
SIDE = 32
# (type without parameters, values of its slots) -> type with parameters
MADE: dict[tuple[Any, tuple[Any, ...]], Any] = {}


class Module(Instance, metaclass=ModuleType):
    """The parent of every layer, combinator, network, loss and metric.

    signature: what it takes and gives for one sample; a composite defines `compose` instead.
    role: where it may stand: `layer`, `loss` or `metric`.
    in_turn: whether it does nothing but run its children, each on what the one before it gives. A
    class that defines `trace` says so, or it is False there.
    placeholders: how messages name the value of a slot.
    pytorch_names: what its own tensors are called in PyTorch, where that is something else.
    """

    _slots: ClassVar[dict[str, Slot]] = {}
    _params: ClassVar[dict[str, Param]] = {}
    _buffers: ClassVar[dict[str, Buffer]] = {}
    _made: ClassVar[tuple[Any, tuple[Any, ...]] | None] = None
    signature: ClassVar[str] = ""
    role: ClassVar[Literal["layer", "loss", "metric"]] = "layer"
    in_turn: ClassVar[bool] = False
    placeholders: ClassVar[dict[str, str]] = {}
    pytorch_names: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.is_made:
            return
        own = cls.__dict__
        if "trace" in own and "in_turn" not in own:
            cls.in_turn = False
        cls._slots = declared(cls._slots, own, Slot)
        cls._params = declared(cls._params, own, Param)
        cls._buffers = declared(cls._buffers, own, Buffer)
        check_declaration(cls)

    def __class_getitem__(cls, args: Any) -> type[Self]:
        """The type with its parameters. Raises CompositionError, one message for each mistake."""
        return cls.parametrised(args if isinstance(args, tuple) else (args,), {})

    @classmethod
    def of(cls, *args: Any, **named: Any) -> type[Self]:
        """The type with its parameters, some of them by name: `Linear.of(784, 256, bias=False)`."""
        return cls.parametrised(args, named)

    @classmethod
    def refuse(cls, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Raise CompositionError for a mistake that has a message of its own."""

    @classmethod
    def make(cls, values: tuple[Any, ...]) -> Any:
        """The one type with these values of its slots; the type itself if all are the defaults."""
        if all(
            not slot.required and slot.default == value
            for slot, value in zip(cls.slots.values(), values, strict=True)
        ):
            return cls
        found = MADE.get((cls, values))
        if found is None:
            made = made_type(cls, values)
            made.check()
            found = MADE.setdefault((cls, values), made)
        return found

    @classmethod
    def check(cls) -> None:
        """Raise CompositionError for what can be known when the type is made."""
        cls.shapes()

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        """The modules inside and their names; one without a name is at its parent's place."""
        return ()

    @classmethod
    def governs(cls, info: ParamInfo) -> ParamInfo:
        """A parameter of a module inside, as this type lets it be: by default as it is."""
        return info

    @classmethod
    def keeps_batch(cls) -> bool:
        """Whether what it gives has the batch as its first axis, as that of layers does."""
        return cls.role == "layer"

    @classmethod
    def parameters(cls) -> Mapping[str, ParamInfo]:
        """Every parameter by its dotted path, in definition order; nothing is allocated."""
        return cls.remembered("_every_parameter", lambda: MappingProxyType(infos(cls, Param)))

    @classmethod
    def buffers(cls) -> Mapping[str, BufferInfo]:
        """Every buffer by its dotted path, in definition order; nothing is allocated."""
        return cls.remembered("_every_buffer", lambda: MappingProxyType(infos(cls, Buffer)))

    @classmethod
    def layout(cls) -> Layout:
        """How the parameters lie in flat memory: those with weight decay, then the others."""
        return cls.remembered("_layout", lambda: flat_layout(cls))

    @classmethod
    def shapes(cls) -> Signature:
        """What the type takes and gives for one sample, with its parameters put in.

        Raises CompositionError.
        """
        cls.need_parameters()
        return cls.remembered("_shapes", cls.compose)

    @classmethod
    def compose(cls) -> Signature:
        """Work out `shapes`.

        A layer writes `signature`; a composite works it out from its children.
        """
        if not cls.signature:
            raise CompositionError(
                f'{cls.__name__} has no signature: write signature = "(*) -> (*)" in the class'
            )
        return parse_signature(cls.signature, cls.__name__).filled(cls.sizes)

    @classmethod
    def solve(cls, *inputs: Shape | Pattern | None) -> Signature:
        """Inputs and outputs for the given shapes of one sample, with nothing open.

        Shapes that are not given follow from the others; `*` that nothing decides stands for no
        axes. Raises ShapeError if a shape does not fit, CompositionError if an axis stays open.
        """
        fitted = cls.fitted(inputs, ())
        try:
            found = closed(fitted)
        except Misfit:
            raise CompositionError(
                f"{cls!r}, {fitted}: give the shape of a sample, input=(…)"
            ) from None
        for p in found.patterns:
            if names := p.open_names():
                raise CompositionError(
                    f"{cls!r}, {cls.shapes()}: {', '.join(names)} of {p} can be anything; "
                    f"{advice_for_open(names, found, cls.sizes)}"
                )
        return found

    @classmethod
    def gives(cls, *takes: Shape | Pattern) -> Any:
        """The shape it gives for the shape it takes: `Linear[3, 4].gives((7, 3))` is `(7, 4)`.

        Axes that stay open are texts, `("*", 4)`; a module of several outputs gives a tuple of
        shapes. Raises ShapeError if the shape does not fit.
        """
        return plain(cls.fitted(takes, ()).outputs)

    @classmethod
    def takes(cls, *gives: Shape | Pattern) -> Any:
        """The shape it takes if it gives this one: `Linear[3, 4].takes((7, 4))` is `(7, 3)`.

        Without a shape: what it takes at all, `("*", 3)`. Raises ShapeError if it does not fit.
        """
        return plain(cls.fitted((), gives).inputs)

    @classmethod
    def fitted(cls, takes: tuple[Any, ...], gives: tuple[Any, ...]) -> Signature:
        """The signature with some inputs or outputs given.

        Raises ShapeError that shows what does not fit.
        """
        signature = cls.shapes()
        for word, expected, shapes in (
            ("takes", signature.inputs, takes),
            ("gives", signature.outputs, gives),
        ):
            if len(shapes) > len(expected):
                raise ShapeError(
                    f"{cls!r} {word} {len(expected)} values, {listed(expected)}, not {len(shapes)}"
                )
        inputs, outputs = patterns(takes, signature.inputs), patterns(gives, signature.outputs)
        try:
            return solve(signature, inputs, outputs)
        except Misfit as misfit:
            raise cls.misfit(inputs, outputs, misfit) from None

    @classmethod
    def misfit(
        cls, inputs: list[Pattern | None], outputs: list[Pattern | None], misfit: Misfit
    ) -> Exception:
        """The error for shapes that do not fit."""
        if any(inputs):
            given = ", ".join("?" if p is None else str(p.written()) for p in inputs)
            takes = f"{cls!r} takes {listed(cls.shapes().inputs)}, not {given}"
            also = flattening(cls.shapes().inputs, inputs) or turning(cls.shapes(), inputs)
            return ShapeError(takes + (cls.why(misfit) or also))
        given = ", ".join("?" if p is None else str(p.written()) for p in outputs)
        return ShapeError(f"{cls!r} gives {listed(cls.shapes().outputs)}, never {given}")

    @classmethod
    def because(cls, misfit: Misfit) -> str:
        """What the type says of a shape that it does not take, in a sentence; empty where the shape
        says it all.
        """
        return misfit.unmet

    @classmethod
    def why(cls, misfit: Misfit) -> str:
        """All that is said behind a shape that the type does not take."""
        reason = cls.because(misfit)
        return misfit.why + (f": {reason}" if reason else "")

    @classmethod
    def varied(cls, name: str, value: Any) -> Any:
        """The type with another value of one slot; None if it cannot have that."""
        if name not in cls.slots or not cls.is_complete or (cls.values and not cls.is_made):
            return None
        values = {one: getattr(cls, one) for one in cls.slots} | {name: value}
        try:
            cls.slots[name].read(value, repr(cls))
            return cls.family.make(tuple(values.values()))
        except CompositionError:
            return None

    @classmethod
    def adjusted(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        """The type with one axis (-1 is the last) of what it takes or gives changed.

        None if no single size decides that axis.
        """
        if not cls.is_made or cls.values is None:
            return None
        for index, value in enumerate(cls.values):
            if type(value) is not int:
                continue
            try:
                new = cls.family.make((*cls.values[:index], length, *cls.values[index + 1 :]))
            except CompositionError:
                continue
            signature = new.shapes()
            axes = (signature.inputs if end == "takes" else signature.outputs)[0].axes
            if -axis <= len(axes) and axes[axis] == length:
                return new
        return None

    @classmethod
    def trace(cls, scope: Scope, *inputs: Any, **options: Any) -> Any:
        """Emit the nodes of the module through `scope`; gives its output or a tuple of them."""
        raise CompositionError(
            f"{cls.__name__} has no trace: define the classmethod trace(cls, scope, x)"
        )

    def __new__(cls, *args: Any, **options: Any) -> Self:
        refuse_call(cls, args, options)
        cls.need_parameters()
        return super().__new__(cls)

    def __init__(
        self,
        *,
        init: Initializer | type[Initializer] = Kaiming,
        seed: int = 0,
        dtype: Literal["f32", "f64"] = "f32",
    ) -> None:
        """An instance with initial values drawn from `init` under `seed`.

        Raises CompositionError or ShapeError.
        """
        self.begin(init, seed, dtype)


def flat_layout(cls: type[Module]) -> Layout:
    """The layout of a type's parameters."""
    infos = cls.parameters().values()
    order = sorted(infos, key=lambda info: not info.decay)
    decayed = {info.path for info in infos if info.decay}
    orders = {info.path: info.order for info in infos}
    return lay_out("net", {info.path: info.shape for info in order}, decayed, orders)


def declared(inherited: dict[str, Any], own: Any, kind: type) -> dict[str, Any]:
    """What a class declares of one kind, after what it inherits and does not define otherwise."""
    kept = {name: value for name, value in inherited.items() if name not in own}
    return kept | {name: value for name, value in own.items() if isinstance(value, kind)}


def patterns(shapes: tuple[Any, ...], like: tuple[Pattern, ...]) -> list[Pattern | None]:
    """Shapes that a user gave as patterns; None stays None."""
    pairs = zip(shapes, like, strict=False)
    return [None if shape is None else pattern(shape, expected) for shape, expected in pairs]


def plain(patterns: tuple[Pattern, ...]) -> Any:
    """One shape, or a tuple of shapes."""
    shapes = tuple(p.written() for p in patterns)
    return shapes[0] if len(shapes) == 1 else shapes


def flattening(expected: Sequence[Pattern], given: Sequence[Pattern | None]) -> str:
    """What to write for the one sample that has as many numbers as it must, in more axes."""
    if len(expected) != 1 or given[0] is None or not expected[0].axes:
        return ""
    axes, length = given[0].axes, expected[0].axes[-1]
    sizes = [axis for axis in axes if isinstance(axis, int)]
    if not 1 < len(axes) == len(sizes) or math.prod(sizes) != length:
        return ""
    return f"; samples of {length} numbers in a row are x.reshape(len(x), -1)"


def turning(signature: Signature, given: Sequence[Pattern | None]) -> str:
    """What to write for images whose channels are at the other end than they must be."""
    sample, axes = given[0], image_axes(signature.inputs[0])
    if sample is None or not axes or len(given) > 1:
        return ""
    for order in channel_moves(len(sample.axes) + 1):
        turned = tuple(sample.axes[place - 1] for place in order[1:])
        with suppress(Misfit):
            solve(signature, [replace(sample, axes=turned)])
            return f"; of such images, x.transpose{order} is {axes}"
    return ""


def advice_for_open(names: Sequence[str], found: Signature, sizes: Mapping[str, int]) -> str:
    """What to do about axes that stay open."""
    if any(name in p.open_names() for p in found.inputs for name in names):
        if found.where:
            return "give the shape of a sample, input=(…)"
        samples = [tuple(a if isinstance(a, int) else SIDE for a in p.axes) for p in found.inputs]
        example = samples[0] if len(samples) == 1 else tuple(samples)
        return f"give the shape of a sample, such as input={example}"
    near = get_close_matches(names[0], sizes, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    return f"no type parameter is called so, and no input has it{hint}"


def solved_for(net: type[Module], input: Shape | tuple[Shape, ...] | None) -> Signature:
    """`Module.solve` for the option `input`: the shape of one sample, or a tuple of them.

    Raises as that, and CompositionError if their number is wrong.
    """
    count = len(net.shapes().inputs)
    if input is None:
        return net.solve()
    several = (tuple, list)
    nested = isinstance(input, several) and any(isinstance(axis, several) for axis in input)
    shapes: tuple[Shape, ...] = tuple(input) if nested else (input,)  # type: ignore[assignment]
    if len(shapes) != count:
        raise CompositionError(
            f"{net!r} takes {count} input{'s' * (count > 1)}, but input gives {len(shapes)} "
            f"shape{'s' * (len(shapes) > 1)}"
        )
    return net.solve(*shapes)
