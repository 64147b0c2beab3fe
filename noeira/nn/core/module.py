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

import copyreg
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from noeira.errors import CompositionError, ShapeError
from noeira.ir.types import Layout, lay_out
from noeira.nn.core.binding import bind, refuse_call, type_text, usage
from noeira.nn.core.init import Initializer, Kaiming
from noeira.nn.core.instance import Instance
from noeira.nn.core.parameters import Param, ParamInfo, State, StateInfo, Tensor, walk
from noeira.nn.core.signature import Pattern, Shape, Signature, listed, parse_signature, pattern
from noeira.nn.core.slots import Slot
from noeira.nn.core.unify import Misfit, closed, solve

if TYPE_CHECKING:
    from typing import Self

    from noeira.nn.core.scope import Scope

# (type without parameters, values of its slots) -> type with parameters
MADE: dict[tuple[Any, tuple[Any, ...]], Any] = {}


class ModuleType(type):
    """The metaclass, for printing and pickling only; type checkers see ordinary classes."""

    def __repr__(cls) -> str:
        made = cls.__dict__.get("values")
        return cls.__name__ if made is None else type_text(cls, made)  # type: ignore[arg-type]


def with_parameters(origin: Any, values: tuple[Any, ...]) -> Any:
    """What a pickled type is made from again."""
    return origin.make(values)


def reduced(cls: Any) -> Any:
    """A type with parameters is pickled as its parent and their values, any other by its name."""
    made = cls.__dict__.get("values")
    return cls.__qualname__ if made is None else (with_parameters, (cls.origin, made))


copyreg.pickle(ModuleType, reduced)  # type: ignore[arg-type]


class Module(Instance, metaclass=ModuleType):
    """The parent of every layer, combinator, network, loss and metric.

    slots, own_params, own_states: what the class declares, found by reflection, in that order.
    values: the values of the slots; None as long as there are none. origin: whom they were given.
    signature: what it takes and gives for one sample; a composite defines `compose` instead.
    role: where it may stand: `layer`, `loss` or `metric`.
    placeholders: how messages name the value of a slot.
    """

    slots: ClassVar[dict[str, Slot]] = {}
    own_params: ClassVar[dict[str, Param]] = {}
    own_states: ClassVar[dict[str, State]] = {}
    values: ClassVar[tuple[Any, ...] | None] = None
    origin: ClassVar[Any] = None
    signature: ClassVar[str] = ""
    role: ClassVar[Literal["layer", "loss", "metric"]] = "layer"
    placeholders: ClassVar[dict[str, str]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "values" in cls.__dict__:
            return
        own = cls.__dict__
        cls.slots = declared(cls.slots, own, Slot)
        cls.own_params = declared(cls.own_params, own, Param)
        cls.own_states = declared(cls.own_states, own, State)
        if cls.values is not None and any(isinstance(value, Slot) for value in own.values()):
            raise CompositionError(
                f"{cls.__name__}: type parameters belong on a child of {cls.origin.__name__}, "
                f"not of {cls.origin.__name__}[…]"
            )
        for value in own.values():
            if isinstance(value, Tensor):
                value.check(cls)
        if "signature" in own:
            parse_signature(cls.signature, cls.__name__)

    def __class_getitem__(cls, args: Any) -> type[Self]:
        """The type with its parameters. Raises CompositionError, one message for each mistake."""
        return cls.parametrised(args if isinstance(args, tuple) else (args,), {})

    @classmethod
    def of(cls, *args: Any, **named: Any) -> type[Self]:
        """The type with its parameters, some of them by name: `Linear.of(784, 256, bias=False)`."""
        return cls.parametrised(args, named)

    @classmethod
    def parametrised(cls, args: tuple[Any, ...], named: dict[str, Any]) -> type[Self]:
        """What `[…]` and `.of(…)` share."""
        if cls.values is not None and "values" not in cls.__dict__:
            raise CompositionError(
                f"{cls.__name__} is complete and takes no parameters: write {cls.__name__}"
            )
        if cls.values is not None:
            raise CompositionError(
                f"{cls!r} has its parameters already; "
                f"write {usage(cls.origin)} with one pair of brackets"
            )
        cls.refuse(args, named)
        return cls.make(bind(cls, args, named))

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
            space = dict(zip(cls.slots, values, strict=True))
            space |= {"values": values, "origin": cls, "__doc__": cls.__doc__}
            space |= {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
            made: Any = ModuleType(cls.__name__, (cls,), space)
            made.check()
            found = MADE.setdefault((cls, values), made)
        return found

    @classmethod
    def check(cls) -> None:
        """Raise CompositionError for what can be known when the type is made."""
        cls.shapes()

    @classmethod
    def need_parameters(cls, place: str = "") -> None:
        """Raise CompositionError if the type still lacks parameters that must be given."""
        if cls.values is None and any(slot.required for slot in cls.slots.values()):
            front = f"{place}: " if place else ""
            raise CompositionError(
                f"{front}{cls.__name__} needs its parameters: write {usage(cls)}"
            )

    @classmethod
    def sizes(cls) -> dict[str, int]:
        """The type parameters that are whole numbers, by name."""
        found = {name: getattr(cls, name) for name in cls.slots}
        return {name: value for name, value in found.items() if type(value) is int}

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        """The modules inside and their names; one without a name is at its parent's place."""
        return ()

    @classmethod
    def parameters(cls) -> dict[str, ParamInfo]:
        """Every parameter by its dotted path, in definition order; nothing is allocated."""
        cls.need_parameters()
        return {
            info.path: info
            for path, module in walk(cls)
            for info in (
                p.info(module, path) for p in module.own_params.values() if p.exists(module)
            )
        }

    @classmethod
    def states(cls) -> dict[str, StateInfo]:
        """Every state by its dotted path, in definition order; nothing is allocated."""
        cls.need_parameters()
        return {
            info.path: info
            for path, module in walk(cls)
            for info in (
                s.info(module, path) for s in module.own_states.values() if s.exists(module)
            )
        }

    @classmethod
    def layout(cls) -> Layout:
        """How the parameters lie in flat memory: those with weight decay, then the others."""
        infos = cls.parameters().values()
        order = sorted(infos, key=lambda info: not info.decay)
        decayed = {info.path for info in infos if info.decay}
        return lay_out("net", {info.path: info.shape for info in order}, decayed)

    @classmethod
    def shapes(cls) -> Signature:
        """What the type takes and gives for one sample, with its parameters put in.

        Raises CompositionError.
        """
        found = cls.__dict__.get("known_shapes")
        if found is None:
            cls.need_parameters()
            found = cls.compose()
            cls.known_shapes = found
        return found

    @classmethod
    def compose(cls) -> Signature:
        """Work out `shapes`.

        A layer writes `signature`; a composite works it out from its children.
        """
        if not cls.signature:
            raise CompositionError(
                f'{cls.__name__} has no signature: write signature = "(*) -> (*)" in the class'
            )
        return parse_signature(cls.signature, cls.__name__).filled(cls.sizes())

    @classmethod
    def solve(cls, *inputs: Shape | Pattern | None) -> Signature:
        """Inputs and outputs for the given shapes of one sample, with nothing open.

        Shapes that are not given follow from the others; `*` that nothing decides stands for no
        axes. Raises ShapeError if a shape does not fit, CompositionError if an axis stays open.
        """
        found = closed(cls.fitted(inputs, ()))
        for p in found.patterns:
            if names := p.open_names():
                raise CompositionError(
                    f"{cls!r}, {cls.shapes()}: {', '.join(names)} of {p} can be anything; "
                    f"give the shape of a sample"
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
        except Misfit:
            raise cls.misfit(inputs, outputs) from None

    @classmethod
    def misfit(cls, inputs: list[Pattern | None], outputs: list[Pattern | None]) -> Exception:
        """The error for shapes that do not fit."""
        if any(inputs):
            given = ", ".join("?" if p is None else str(p.written()) for p in inputs)
            return ShapeError(f"{cls!r} takes {listed(cls.shapes().inputs)}, not {given}")
        given = ", ".join("?" if p is None else str(p.written()) for p in outputs)
        return ShapeError(f"{cls!r} gives {listed(cls.shapes().outputs)}, never {given}")

    @classmethod
    def adjusted(cls, end: Literal["takes", "gives"], axis: int, length: int) -> Any:
        """The type with one axis (-1 is the last) of what it takes or gives changed.

        None if no single size decides that axis.
        """
        if cls.values is None or "values" not in cls.__dict__:
            return None
        for index, value in enumerate(cls.values):
            if type(value) is not int:
                continue
            try:
                new = cls.origin.make((*cls.values[:index], length, *cls.values[index + 1 :]))
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
