"""Name maps: what a file of another framework calls the tensors of a network, and how they lie in
it, a row each.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Literal

from noeira.errors import CheckpointError, OptionError
from noeira.ir.arrays import is_float
from noeira.nn.core.module import Module
from noeira.nn.primitives.linear import Linear

if TYPE_CHECKING:
    import numpy as np

__all__ = ["NameMap", "Row"]

# Kind of a row -> whether it has a name of ours, and one of theirs.
KINDS = {
    "plain": (True, True),
    "transpose": (True, True),
    "zeros": (True, False),
    "ignore": (False, True),
}


@dataclass(frozen=True)
class Row:
    """What one tensor is called here, `ours`, and in the file, `theirs`.

    kind: plain, the same array; transpose, a matrix that lies transposed in the file, as the weight
    of a `torch.nn.Linear` does, [OUT, IN]; zeros, which the file has not: zero when loaded, left
    out when saved; ignore, which the network has not: `theirs` may be a pattern as file names have
    them, `*.num_batches_tracked`.

    keep: of a tensor that both may have: when loaded, ours stays as it is, whether the file has
    one or not, of whatever shape; it is saved as others are. Raises OptionError.
    """

    ours: str = ""
    theirs: str = ""
    kind: Literal["plain", "transpose", "zeros", "ignore"] = "plain"
    keep: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise OptionError(f"{self}: kind must be one of {', '.join(KINDS)}")
        for side, name, wanted in zip(
            ("ours", "theirs"), (self.ours, self.theirs), KINDS[self.kind], strict=True
        ):
            if not isinstance(name, str) or bool(name) != wanted:
                must = "is the name of a tensor" if wanted else "has no place in it"
                raise OptionError(f"{self}: {side} {must}")
        if self.keep and KINDS[self.kind] != (True, True):
            raise OptionError(f"{self}: keep is of a tensor that both have, plain or transpose")

    def turned(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape in the file of a tensor of ours, or the other way round."""
        return shape[::-1] if self.kind == "transpose" else shape


@dataclass(frozen=True)
class NameMap:
    """The rows for all tensors of a network, parameters and buffers, made once and checked:
    `program.tensors.load(path, names=…)` and `save` take it.

    network: the module type. Raises OptionError for a tensor that has no row or two, a name that
    the network has not, and a transpose of what is no matrix.
    """

    network: type[Module]
    rows: Sequence[Row] = ()

    def __post_init__(self) -> None:
        check_network_type(self.network)
        if not isinstance(self.rows, Iterable):
            raise OptionError(f"the rows of a name map are a list of Row(…), not {self.rows!r}")
        object.__setattr__(self, "rows", tuple(self.rows))
        for row in self.rows:
            if not isinstance(row, Row):
                raise OptionError(f"a row of a name map is a Row(ours, theirs), not {row!r}")
        for names in ([row.ours for row in self.rows], [row.theirs for row in self.rows]):
            twice = [name for name, count in Counter(names).items() if name and count > 1]
            if twice:
                raise OptionError(f"the name map of {self.network!r} has two rows for {twice[0]}")
        self.check_ours()

    def check_ours(self) -> None:
        """Raises OptionError unless there is a row for each tensor of the network that fits it."""
        shapes = self.shapes
        for row in self.rows:
            if row.ours and row.ours not in shapes:
                near = get_close_matches(row.ours, shapes, n=1)
                hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(shapes)}"
                raise OptionError(f"{self.network!r} has no tensor {row.ours}; {hint}")
            if row.kind == "transpose" and len(shapes[row.ours]) != 2:
                shape = list(shapes[row.ours])
                raise OptionError(f"{row}: {row.ours} is {shape}; only a matrix has a transpose")
        lacking = shapes.keys() - {row.ours for row in self.rows}
        if lacking:
            names = ", ".join(name for name in shapes if name in lacking)
            raise OptionError(
                f"the name map of {self.network!r} has no row for {names}: write "
                'Row(ours, theirs), or Row(ours, kind="zeros") for what the file has not'
            )

    @classmethod
    def of(
        cls, network: type[Module], ignore: Iterable[str] = (), keep: Iterable[str] = ()
    ) -> NameMap:
        """The map to PyTorch for a network of the same structure and names: names stay but where a
        layer says what they are there, such as `weight` for the `gamma` of a norm, and the weights
        of `Linear` are transposed. So `Sequential` and `torch.nn.Sequential` exchange tensors.

        ignore: a list of what the files have beside them, each a name or a pattern; the
        `num_batches_tracked` of batch normalisations is always ignored. keep: a list of
        what stays as it is when a file is loaded, such as a new head, `4.*`. Raises OptionError for
        a pattern that no tensor of ours has.
        """
        check_network_type(network)
        infos, patterns = {**network.parameters(), **network.buffers()}, listed("keep", keep)
        for pattern in patterns:
            if not any(fnmatchcase(name, pattern) for name in infos):
                names = ", ".join(infos)
                raise OptionError(f"keep: {network!r} has no tensor {pattern}; it has {names}")
        rows = [
            Row(
                name,
                pytorch_name(info),
                "transpose" if is_linear_weight(info) else "plain",
                keep=any(fnmatchcase(name, pattern) for pattern in patterns),
            )
            for name, info in infos.items()
        ]
        ignored = dict.fromkeys((*listed("ignore", ignore), *counters(rows)))
        return cls(network, (*rows, *(Row(theirs=name, kind="ignore") for name in ignored)))

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shapes of the network's tensors by name."""
        infos = {**self.network.parameters(), **self.network.buffers()}
        return {name: info.shape for name, info in infos.items()}

    def exported(self, own: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Views of the network's tensors, with the names and shapes of the file. Raises
        CheckpointError if they are of another network.
        """
        self.check_network(own)
        return {
            row.theirs: own[row.ours].T if row.kind == "transpose" else own[row.ours]
            for row in self.rows
            if row.ours and row.theirs
        }

    def imported(
        self, own: Mapping[str, np.ndarray], given: Mapping[str, Any], source: str
    ) -> dict[str, np.ndarray]:
        """The network's tensors out of what a file has. Raises CheckpointError that lists all that
        is missing, is used by no row, or is of another shape or kind of dtype.

        own: the network's, for their shapes and dtypes. source: the path of the file.
        """
        import numpy as np

        self.check_network(own)
        found, wrong, used = dict[str, np.ndarray](), list[str](), set[str]()
        for row in self.rows:
            if row.kind == "ignore":
                used |= {name for name in given if fnmatchcase(name, row.theirs)}
            elif row.kind == "zeros":
                found[row.ours] = np.zeros_like(own[row.ours])
            elif row.keep:
                found[row.ours] = own[row.ours]
                used.add(row.theirs)
            elif row.theirs not in given:
                wrong.append(f"missing: {as_there(row, own[row.ours])}")
            else:
                used.add(row.theirs)
                array = np.asarray(given[row.theirs])
                wrong += misfits(row, array, own[row.ours])
                found[row.ours] = array.T if row.kind == "transpose" else array
        unused = [name for name in given if name not in used]
        wrong += [f"unused: {shaped(name, np.asarray(given[name]))}" for name in unused]
        if wrong:
            head = f"{source}: " if source else ""
            lines = "\n".join(f"  {line}" for line in [*wrong, *advice(wrong)])
            raise CheckpointError(
                f"{head}these are not the tensors of the name map of {self.network!r}:\n{lines}"
            )
        return found

    def check_network(self, own: Mapping[str, np.ndarray]) -> None:
        """Raises CheckpointError unless these are the tensors of the network."""
        if {name: array.shape for name, array in own.items()} != self.shapes:
            raise CheckpointError(
                f"the name map is of {self.network!r}, and the tensors are of another network"
            )


def advice(wrong: Sequence[str]) -> list[str]:
    """What can be done about what is missing or does not fit."""
    found, lines = {line.partition(":")[0] for line in wrong}, list[str]()
    if {"missing", "unused"} <= found:
        lines.append(
            "the same tensors under other names: write a NameMap of rows, Row(ours, theirs, kind); "
            "modules without tensors count as places: LinearReLU is one, Linear and ReLU are two"
        )
    if {"missing", "wrong shape"} & found:
        lines.append("what stays as it is, such as a new head: NameMap.of(…, keep=[pattern, …])")
    return lines


def listed(name: str, patterns: Iterable[str]) -> list[str]:
    """Patterns as a list. Raises OptionError for a single text."""
    if isinstance(patterns, str):
        raise OptionError(f"{name} is a list of names and patterns: write [{patterns!r}]")
    return list(patterns)


def check_network_type(network: Any) -> None:
    """Raises OptionError unless it is a module type."""
    if not isinstance(network, type) or not issubclass(network, Module):
        raise OptionError(f"a name map is of a module type, not of {network!r}")


def counters(rows: Iterable[Row]) -> list[str]:
    """What PyTorch's batch normalisations have beside their tensors: of those that are loaded."""
    mean = "running_mean"
    return [
        f"{row.theirs.removesuffix(mean)}num_batches_tracked"
        for row in rows
        if row.theirs.endswith(f".{mean}") and not row.keep
    ]


def pytorch_name(info: Any) -> str:
    """What a tensor is called in PyTorch."""
    place, dot, own = info.path.rpartition(".")
    return f"{place}{dot}{info.module.pytorch_names.get(own, own)}"


def is_linear_weight(info: Any) -> bool:
    """Whether a tensor is the weight of a Linear, [IN, OUT] here and [OUT, IN] in PyTorch."""
    return issubclass(info.module, Linear) and info.path.rpartition(".")[2] == "weight"


def shaped(name: str, array: np.ndarray) -> str:
    """A tensor as a report has it: `0.weight float32[4, 3]`."""
    return f"{name} {array.dtype}{list(array.shape)}"


def as_there(row: Row, own: np.ndarray) -> str:
    """What a file should have for a row: `fc.weight [3, 4], which is 0.weight [4, 3] here`."""
    there = f"{row.theirs} {list(row.turned(own.shape))}"
    if row.ours == row.theirs and row.kind == "plain":
        return there
    return f"{there}, which is {row.ours} {list(own.shape)} here"


def misfits(row: Row, array: np.ndarray, own: np.ndarray) -> list[str]:
    """What is wrong with a file's tensor."""
    if array.shape != row.turned(own.shape):
        return [f"wrong shape: {shaped(row.theirs, array)}, not {as_there(row, own)}"]
    if array.dtype != own.dtype and not (is_float(array) and is_float(own)):
        return [f"wrong dtype: {shaped(row.theirs, array)}, not {own.dtype}: {row.ours} here"]
    return []
