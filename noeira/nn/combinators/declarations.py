"""What a graph of modules is written in: `InputSlot`, `Node`, `ExternalNode` and `Output`, values
that print as they are written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar

from noeira.errors import CompositionError
from noeira.nn.core.module import Module
from noeira.nn.core.parts import module_type
from noeira.nn.core.scope import Scope
from noeira.nn.core.signature import Pattern, Shape, pattern
from noeira.nn.core.slots import ModulesSlot, described

__all__ = ["ExternalNode", "InputSlot", "Node", "Output"]

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What a node reads: a name or, of a node of several outputs, one of them: `h.1`.
REFERENCE = re.compile(rf"({NAME.pattern})(?:\.(\d+))?")


@dataclass(frozen=True, repr=False)
class Declaration:
    """The parent of what stands in the brackets of a graph. like: how one is written."""

    like: ClassVar[str]

    def __class_getitem__(cls, args: Any) -> Any:
        """The declaration. Raises CompositionError."""
        return cls.of(*(args if isinstance(args, tuple) else (args,)))

    @classmethod
    def of(cls, *args: Any, **named: Any) -> Any:
        """The same, with options by name."""
        raise NotImplementedError(cls.__name__)


@dataclass(frozen=True, repr=False)
class InputSlot(Declaration):
    """`InputSlot["x", 64]`: an input of a graph, and the shape of one sample of it, in numbers and
    letters, `InputSlot["tokens", "T", 64]`, with `"*"` in front for any axes. A letter is one
    length in all of a graph's inputs. `InputSlot["x"]` is what its readers take.

    What its elements are, its readers say. Raises CompositionError for a shape that is none.
    """

    name: str
    shape: Shape | None = None
    like: ClassVar[str] = 'InputSlot["x", 64]'

    @classmethod
    def of(cls, name: Any, *shape: Any) -> Any:
        check_name(cls, name)
        if not shape:
            return cls(name)
        found = pattern(shape[0] if isinstance(shape[0], (tuple, list)) else shape)
        return cls(name, found.written())

    @property
    def pattern(self) -> Pattern | None:
        """The shape; None if it is what its readers take."""
        return None if self.shape is None else pattern(self.shape)

    def __repr__(self) -> str:
        shape = ["()"] if self.shape == () else [text(axis) for axis in self.shape or ()]
        return f"InputSlot[{', '.join([text(self.name), *shape])}]"


@dataclass(frozen=True, repr=False)
class Node(Declaration):
    """`Node["y", Add, "h", "x"]`: what a module makes of inputs and nodes before it, by their
    names. Of a node of several outputs each is read by its number: `"h.0"`, `"h.1"`.

    Its parameters are at its name: `y.weight`. Raises CompositionError for what is no module.
    """

    name: str
    module: type[Module]
    inputs: tuple[str, ...]
    like: ClassVar[str] = 'Node["h", Linear[64, 32], "x"]'

    @classmethod
    def of(cls, name: Any, *args: Any) -> Any:
        check_name(cls, name)
        return cls(name, *cls.checked(name, args))

    @classmethod
    def checked(cls, name: str, args: tuple[Any, ...]) -> tuple[type[Module], tuple[str, ...]]:
        """A module and the names that it reads. Raises CompositionError."""
        if not args:
            raise CompositionError(
                f'{cls.__name__}["{name}"] has no module: write '
                f'{cls.__name__}["{name}", Linear[64, 32], "x"]'
            )
        written = f'{cls.__name__}["{name}", …]'
        module = module_type(args[0], written, None)
        for value in args[1:]:
            if not isinstance(value, str) or not REFERENCE.fullmatch(value):
                raise CompositionError(
                    f'{written} reads inputs and nodes by their names, such as "x", not '
                    f"{described(value)}"
                )
        if len(args) == 1:
            raise CompositionError(
                f'{written} reads nothing: write {cls.__name__}["{name}", {module!r}, "x"]'
            )
        return module, args[1:]

    def scope(self, around: Scope) -> Scope:
        """The place of the module, in that of the graph."""
        return around.child(self.name, self.module)

    def __repr__(self) -> str:
        parts = [text(self.name), repr(self.module), *map(text, self.inputs)]
        return f"{type(self).__name__}[{', '.join(parts)}]"


@dataclass(frozen=True, repr=False)
class ExternalNode(Node):
    """`ExternalNode["critic", Critic, "s", "a"]`: as `Node`, with the parameters and buffers of a
    module that stands elsewhere in the network: one called so in the same graph, or in a module
    around it, the nearest first. `ExternalNode.of("q", Critic, "s", "a", owner="critic")` has a
    name of its own; owner: the name, or a dotted path, of whose parameters they are.

    It adds no parameters to the network: what is shared has one gradient, the sum of its uses.
    Buffers are updated where they belong alone. The module there has parameters and buffers of the
    same names and shapes; `StopGradParams[Critic]` uses those of `Critic`, and does not train them.
    """

    owner: str = ""
    like: ClassVar[str] = 'ExternalNode.of("q", Critic, "s", "a", owner="critic")'

    @classmethod
    def of(cls, name: Any, *args: Any, owner: Any = "") -> Any:
        check_name(cls, name)
        module, inputs = cls.checked(name, args)
        if not isinstance(owner, str) or not re.fullmatch(r"(\w+(\.\w+)*)?", owner):
            raise CompositionError(
                f'ExternalNode["{name}", …]: owner must be the name or path of a module, such as '
                f'"critic" or "0.critic", not {owner!r}'
            )
        if not module.parameters() and not module.buffers():
            raise CompositionError(
                f'ExternalNode["{name}", …]: {module!r} has no parameters to share: write Node'
            )
        return cls(name, module, inputs, "" if owner == name else owner)

    @property
    def path(self) -> str:
        """Whose parameters they are."""
        return self.owner or self.name

    def scope(self, around: Scope) -> Scope:
        return around.sharing(self.name, self.module, self.path)

    def __repr__(self) -> str:
        plain = super().__repr__()
        inside = plain.partition("[")[2][:-1]
        return f"ExternalNode.of({inside}, owner={text(self.owner)})" if self.owner else plain


@dataclass(frozen=True, repr=False)
class Output(Declaration):
    """`Output["y", "z"]`: what a graph gives, as its last declaration; without it that is the last
    node. Raises CompositionError.
    """

    names: tuple[str, ...]
    like: ClassVar[str] = 'Output["y", "z"]'

    @classmethod
    def of(cls, *names: Any) -> Any:
        for name in names:
            if not isinstance(name, str) or not REFERENCE.fullmatch(name):
                raise CompositionError(
                    f'Output takes names of nodes, as in Output["y", "z"], not {described(name)}'
                )
        if not names:
            raise CompositionError('Output[()] is empty: write Output["y"]')
        return cls(names)

    def __repr__(self) -> str:
        return f"Output[{', '.join(map(text, self.names))}]"


def check_name(kind: type[Declaration], name: Any) -> None:
    """Raises CompositionError for what cannot be the name of an input or a node."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise CompositionError(
            f"{kind.__name__} begins with its name, of letters, digits and _, as in "
            f'{kind.__name__}["x", …], not with {described(name)}'
        )


def text(value: Any) -> str:
    """A name as it is written."""
    return f'"{value}"' if isinstance(value, str) else repr(value)


def part_text(one: Declaration) -> str:
    """What of a declaration is to be changed."""
    return repr(one.module) if isinstance(one, Node) else repr(one)


def quoted(names: Any) -> str:
    """Names as they are written."""
    return " and ".join(map(text, names)) or "none"


class DeclarationsSlot(ModulesSlot):
    """Declarations of a graph, one or more. or_modules: or else module types, as of a chain."""

    what = 'InputSlot["x", 64], Node["h", Linear[64, 32], "x"] and the like'
    each = "declaration"

    def __init__(self, or_modules: bool = False) -> None:
        super().__init__("layer")
        self.or_modules = or_modules

    def read(self, value: Any, written: str) -> Any:
        if self.or_modules and not any(isinstance(part, Declaration) for part in value):
            return super().read(value, written)
        for part in value:
            if not isinstance(part, Declaration):
                instead = f'write Node["name", {part!r}, "x"]' if isinstance(part, type) else ""
                raise self.refuse(part, written, instead)
            if self.or_modules and isinstance(part, InputSlot):
                raise CompositionError(
                    f"{written}: its inputs are the names that no node has, in the order in which "
                    f"they are read: leave {part!r} out"
                )
        return tuple(value)


def declarations(or_modules: bool = False) -> tuple[Any, ...]:
    """Type parameters that are declarations of a graph."""
    slot: Any = DeclarationsSlot(or_modules)
    return slot
