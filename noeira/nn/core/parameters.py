"""Parameters and buffers: descriptors on a module type, and what a network type has of them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Self, TypeAlias, TypeVar, overload

from noeira.errors import CompositionError
from noeira.ir.numbers import whole_number
from noeira.ir.orders import ORDERS, canonical
from noeira.ir.random import Distribution, zero
from noeira.ir.types import DTYPE_BYTES
from noeira.nn.core.expression import Axis, names, substitute
from noeira.nn.core.signature import parse_axis

if TYPE_CHECKING:
    from noeira.nn.core.init import Initializer
    from noeira.nn.core.module import Module
    from noeira.nn.core.owned import BufferTensor, Parameter

# How a parameter begins: by the initialiser's rule for weights or biases, or always in the same
# way.
Rule: TypeAlias = "str | Distribution"
T = TypeVar("T")


class Declaration(ABC, Generic[T]):
    """What `Param` and `Buffer` share: a shape in the type parameters of the module, and a
    condition; read from an instance, its tensor there, a T.

    shape: for each axis an expression in the type parameters, such as "OUT" or "IC*K*K".
    when: the name of a type parameter; the tensor exists where that is true.
    """

    def __init__(self, *shape: str, when: str = "") -> None:
        self.shape, self.when, self.name = shape, when, ""
        self.texts(shape, "an axis")
        self.texts((when,), "when")

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    @overload
    def __get__(self, instance: None, owner: type) -> Self: ...
    @overload
    def __get__(self, instance: Module, owner: type) -> T: ...
    def __get__(self, instance: Module | None, owner: type) -> Any:
        if instance is None:
            return self
        if not self.exists(owner):
            raise self.absent(owner)
        return self.of(instance)

    def texts(self, values: tuple[Any, ...], what: str) -> None:
        """Raises CompositionError for what is no text: declarations are in the names of type
        parameters.
        """
        for value in values:
            if not isinstance(value, str):
                number = "" if whole_number(value) is None else f': write "{value}"'
                raise CompositionError(
                    f'{type(self).__name__}: {what} is a text such as "D", not {value!r}{number}'
                )

    @abstractmethod
    def of(self, instance: Module) -> T:
        """Its tensor in an instance."""

    def exists(self, module: type[Module]) -> bool:
        """Whether the module type has it."""
        return not self.when or bool(getattr(module, self.when))

    def lengths(self, module: type[Module], axes: tuple[str, ...]) -> tuple[int, ...]:
        """Expressions in the type parameters of `module`, as numbers."""
        found = list[int]()
        for axis in axes:
            length = substitute(self.parsed(module, axis), module.sizes)
            if not isinstance(length, int):
                raise CompositionError(
                    f"{module!r}.{self.name}: its axis {axis} has no length, since "
                    f"{' and '.join(names(length))} is None: give it, or declare the tensor with "
                    f'when="{names(length)[0]}"'
                )
            found.append(length)
        return tuple(found)

    def place(
        self, module: type[Module], module_path: str
    ) -> tuple[str, tuple[int, ...], type[Module], str]:
        """The fields of its `TensorInfo` in the module at `module_path`."""
        path, shape = joined(module_path, self.name), self.lengths(module, self.shape)
        return path, shape, module, module_path

    def check(self, module: type[Module]) -> None:
        """Raises CompositionError if a name in an expression is no type parameter."""
        known = {name for slot in module.slots.values() for name in slot.names}
        used = [n for axis in self.expressions() for n in names(self.parsed(module, axis))]
        for name in [*used, *([self.when] if self.when else [])]:
            if name not in known:
                raise CompositionError(
                    f"{module.__name__}.{self.name}: there is no type parameter {name}"
                )

    def parsed(self, module: type[Module], axis: str) -> Axis:
        """One expression in the type parameters."""
        return parse_axis(axis, f"{module.__name__}.{self.name}")

    def expressions(self) -> tuple[str, ...]:
        """Every expression in type parameters."""
        return self.shape

    def __repr__(self) -> str:
        """As it is written: `running_mean = Buffer('C')`."""
        return f"{self.name} = {type(self).__name__}({', '.join(map(repr, self.shape))})"

    def absent(self, module: type[Module]) -> AttributeError:
        """The error for a tensor that the type switched off."""
        value, label = getattr(module, self.when), module.slots[self.when].label
        return AttributeError(f"{module!r} has no {self.name}: it is made with {label}={value}")


class Param(Declaration["Parameter"]):
    """A trainable tensor: `weight = Param("IN", "OUT")`.

    init: "weight" or "bias", by the initialiser's rule, or a `Distribution` that it always begins
    with.
    decay: whether weight decay acts on it; by default on weights only.
    fans: the number of inputs and outputs that one element serves, as expressions; by default the
    two axes of a matrix.
    order: in which its axes lie in memory, such as `hwio` of a weight of convolutions; row major
    by default. People, files and messages have them in the order of the shape all the same.
    """

    def __init__(
        self,
        *shape: str,
        init: Rule = "weight",
        decay: bool | None = None,
        when: str = "",
        fans: tuple[str, str] | None = None,
        order: str = "",
    ) -> None:
        super().__init__(*shape, when=when)
        self.order = order
        if order and len(ORDERS.get(order, ())) != len(shape):
            raise CompositionError(
                f"Param: there is no order {order!r} of {len(shape)} axes; orders are "
                f"{', '.join(ORDERS)}"
            )
        self.init = init
        self.decay = init == "weight" if decay is None else decay
        self.fans = fans or (shape if len(shape) == 2 else None)
        self.texts(self.fans or (), "a fan")
        if init not in ("weight", "bias") and not isinstance(init, Distribution):
            raise CompositionError(
                f'Param: init must be "weight", "bias" or a Distribution, not {init!r}'
            )
        if init == "weight" and self.fans is None:
            raise CompositionError(
                'Param: a weight that is no matrix needs its fans: fans=("IC*K*K", "OC*K*K")'
            )

    def expressions(self) -> tuple[str, ...]:
        return self.shape + (self.fans or ())

    def of(self, instance: Module) -> Parameter:
        return instance.parameter(self.name)

    def info(self, module: type[Module], module_path: str) -> ParamInfo:
        """The parameter of the module at `module_path`."""
        fan_in, fan_out = self.lengths(module, self.fans) if self.fans else (0, 0)
        place = self.place(module, module_path)
        order = canonical(place[1], self.order)
        return ParamInfo(*place, self.decay, self.init, fan_in, fan_out, order)


class Buffer(Declaration["BufferTensor"]):
    """A tensor that outlives a step and has no gradient: `running_mean = Buffer("C")`.

    `trace` reads it as it reads a parameter, `scope.param("running_mean")`, and gives it the value
    that it has from the next step on by `scope.update`.
    init: a `Distribution`; 0 by default. dtype: the network's by default.
    """

    def __init__(
        self,
        *shape: str,
        init: Distribution | None = None,
        dtype: str | None = None,
        when: str = "",
    ) -> None:
        super().__init__(*shape, when=when)
        self.init, self.dtype = init or zero(), dtype
        if dtype is not None and dtype not in DTYPE_BYTES:
            raise CompositionError(
                f"Buffer: there is no dtype {dtype!r}; there are {', '.join(DTYPE_BYTES)}"
            )

    def of(self, instance: Module) -> BufferTensor:
        return instance.buffer(self.name)

    def info(self, module: type[Module], module_path: str) -> BufferInfo:
        """The buffer of the module at `module_path`."""
        return BufferInfo(*self.place(module, module_path), self.dtype, self.init)


@dataclass(frozen=True)
class TensorInfo:
    """A tensor of a network type: everything but its elements.

    path: dotted, such as `0.weight`. module, module_path: the type that declares it, and where that
    is in the network.
    """

    path: str
    shape: tuple[int, ...]
    module: type[Module]
    module_path: str

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class ParamInfo(TensorInfo):
    """A parameter. init, order: see `Param`. fan_in, fan_out: inputs and outputs one element
    serves.

    initializer: in place of the network's, if a type around it says so. frozen: whether one says
    that it is not trained.
    """

    decay: bool
    init: Rule
    fan_in: int
    fan_out: int
    order: str = ""
    initializer: Initializer | None = None
    frozen: bool = False

    def distribution(self, initializer: Initializer) -> Distribution:
        """How its elements begin. initializer: the network's."""
        if isinstance(self.init, Distribution):
            return self.init
        initializer = self.initializer or initializer
        return (
            initializer.bias()
            if self.init == "bias"
            else initializer.weight(self.fan_in, self.fan_out)
        )


@dataclass(frozen=True)
class BufferInfo(TensorInfo):
    """A buffer. dtype: None for the network's."""

    dtype: str | None
    init: Distribution


def joined(path: str, name: str) -> str:
    """A dotted path; an empty part adds nothing."""
    return f"{path}.{name}" if path and name else path or name


def infos(cls: type[Module], kind: type[Param] | type[Buffer]) -> dict[str, Any]:
    """Every parameter, or every buffer, of a network type by its dotted path.

    Raises CompositionError if two modules would have theirs at the same path.
    """
    cls.need_parameters()
    found = dict[str, Any]()
    for path, module, around in walk(cls):
        tensors = module.own_params if kind is Param else module.own_buffers
        for tensor in tensors.values():
            if not tensor.exists(module):
                continue
            info = tensor.info(module, path)
            if isinstance(info, ParamInfo):
                for outer in reversed(around):
                    info = outer.governs(info)
            if info.path in found:
                raise CompositionError(
                    f"{cls!r} has two tensors called {info.path}, of {found[info.path].module!r} "
                    f"and of {module!r}: give its children different names"
                )
            found[info.path] = info
    return found


def walk(
    module: type[Module], path: str = "", around: tuple[type[Module], ...] = ()
) -> Iterator[tuple[str, type[Module], tuple[type[Module], ...]]]:
    """Every module of a network type with its path and those around it, parents first, in
    definition order.
    """
    yield path, module, around
    for name, child in module.inside:
        yield from walk(child, joined(path, name), (*around, module))
