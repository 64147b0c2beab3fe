"""A kernel that mutants are made of, and what it is run on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from cuda_sweep import TARGET
from mutants import Mutant, mutants_of
from special_cases import LOGITS
from sweep import Case

from noeira.codegen.cuda.prelude import device_prelude
from noeira.codegen.cuda.target import CudaTarget
from noeira.codegen.kernel import kernel_text
from noeira.ir.plan import Call, Choice


@dataclass(frozen=True)
class Subject:
    """A kernel: the case that it serves, how it is launched, and functions of the prelude that
    become part of its text, so that they have mutants too.
    """

    case: Case
    choice: Choice
    target: CudaTarget = TARGET
    own: tuple[str, ...] = ()

    @property
    def label(self) -> str:
        """What mutants are listed under."""
        numbers = r"numbers=\((?:\([^()]*\)[, ]*)*\)"
        span = rf"\(start=(\d+), stop=(\d+), {numbers}\)"
        label = re.sub(span, r"(\1..\2)", self.case.label)
        return re.sub(r" \{('transpose_\w': \w+(, )?)*\}", "", label)

    @cached_property
    def text(self) -> str:
        """The kernel, named KERNEL."""
        text = kernel_text(Call(self.case.node, self.choice), self.target, "KERNEL")
        if not self.own:
            return text
        library = device_prelude(frozenset(self.own))
        functions = [
            re.search(rf"^INLINE \w+ {name}\(.*?^}}\n", library, re.DOTALL | re.MULTILINE)
            for name in self.own
        ]
        text = "\n".join([*(match[0] for match in functions if match), text])
        return re.sub(rf"\b({'|'.join(self.own)})\b", r"KERNEL_\1", text)

    @cached_property
    def mutants(self) -> list[Mutant]:
        return mutants_of(self.text)

    def trials(self) -> Iterator[list[np.ndarray]]:
        """Operands to run it on: drawn ones, and those that a branch is there for."""
        case, names = self.case, self.case.node.op.operands
        yield case.arrays()
        if "ok" in names:
            for first, ok in ((-1, False), (3, False), (0, False), (-1, True)):
                arrays = case.arrays(1)
                for name, array, draw in zip(names, arrays, case.draws, strict=False):
                    if name == "ok":
                        array[...] = ok
                    elif draw.kind == "counter":
                        array[...] = first if name == names[0] else 7
                yield arrays
        if "step" in names:
            arrays = case.arrays(2)
            arrays[names.index("step")][...] = 0
            yield arrays
        if case.node.op.name == "take":
            source, order, cursor = case.arrays(3)
            # In the middle of what is taken the order begins again.
            cursor[...] = 2 * len(order) - case.node.outputs[0].type.shape[0] // 2
            yield [source, order, cursor]
        if case.node.op.name == "cross_entropy_grad_grad":
            arrays = case.arrays(3)
            arrays[names.index("d_loss")] *= 1000
            yield arrays
        if case.node.op.name in LOGITS:
            yield from special_logits(case)
        if case.node.op.name == "top_k":
            yield from boundaries(case)


def special_logits(case: Case) -> Iterator[list[np.ndarray]]:
    """Infinities and NaNs, each in another row; then logits that grow, fall, or are often equal;
    then one large one in each row.
    """
    z, *others = case.arrays(4)
    for row, value in enumerate((np.nan, np.inf, -np.inf)):
        z[4 * row % len(z), row] = value
    if len(z) > 9:
        z[9] = -np.inf
    yield [z, *others]
    z, *others = case.arrays(5)
    z[::3], z[1::3], z[2::3] = np.sort(8 * z[::3]), -np.sort(-8 * z[1::3]), np.round(z[2::3])
    yield [z, *others]
    for number in range(3):
        z, *others = case.arrays(6 + number)
        z += 20 * number
        for row in range(len(z)):
            # exp of it is infinite, so what is relative to another element cannot be right.
            last = z.shape[1] - 1
            z[row, (37 * (row + 5 * number) + 5) % last if number < 2 else last - row % 4] = 200
        yield [z, *others]


def boundaries(case: Case) -> Iterator[list[np.ndarray]]:
    """Classes that are just among the k greatest, or just not; also of equal logits."""
    k = vars(case.node.attrs)["k"]
    for number in range(6):
        z, classes = case.arrays(9 + number)
        # Where rows have ends that are taken apart, those must count too.
        z[:, [0, 1, -3, -2, -1]] += 4 * (number > 2)
        z = np.minimum(np.round(z), 4) if number % 2 else z
        order = np.argsort(-z, axis=1, kind="stable")
        for row in range(len(z)):
            classes[row] = order[row, k - 1 + (row + number // 2) % 2]
        yield [z, classes]
