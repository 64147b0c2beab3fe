"""What the tests of the IR share: networks with their jobs, stages of a compile, random graphs."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from hypothesis import strategies as st
from stateful_layers import Net

from noeira.ir.arrays import numpy_dtype
from noeira.ir.broadcasting import common_shape
from noeira.ir.builder import Builder
from noeira.ir.graph import ComputeGraph, Node, Origin, Value
from noeira.ir.layouts import lay_out
from noeira.ir.plan import Choice, Stage
from noeira.ir.text.dump import Dump
from noeira.ir.types import TensorType
from noeira.job import Job, job_of
from noeira.nn import (
    ELU,
    GELU,
    MSE,
    SGD,
    Accuracy,
    Adam,
    AdamW,
    Checkpointed,
    Clamp,
    CrossEntropy,
    Deterministic,
    Dropout,
    Fused,
    LeakyReLU,
    Linear,
    LinearELU,
    LinearGELU,
    LinearReLU,
    LinearTanh,
    Mish,
    Normal,
    Parallel,
    ReLU,
    Repeat,
    Residual,
    Scale,
    Sequential,
    Sigmoid,
    SoftCrossEntropy,
    Softplus,
    Tanh,
    TopK,
    Xavier,
)
from noeira.passes.pipeline import resume

FUSED = Fused[Linear[5, 6], Tanh, Scale.of(multiplier=0.5), Clamp.of(low=-0.25, high=0.25)]

JOBS: dict[str, Job] = {
    "mlp": job_of(
        Sequential[LinearReLU[5, 8], Linear[8, 3]], batch=4, loss=CrossEntropy, optimizer=Adam()
    ),
    "unfused": job_of(
        Sequential[Linear[5, 8], ReLU, Linear[8, 3]], batch=4, loss=CrossEntropy, optimizer=Adam()
    ),
    "residual": job_of(
        Sequential[
            Linear[5, 6], Residual[Sequential[LinearTanh[6, 6], Linear[6, 6]]], Linear[6, 3]
        ],
        batch=3,
        loss=CrossEntropy,
        optimizer=AdamW(lr=0.01),
        metrics=(Accuracy, TopK[2]),
    ),
    "residual root": job_of(
        Residual[LinearGELU[5, 5]], batch=2, loss=MSE, optimizer=SGD(momentum=0.9, nesterov=True)
    ),
    "repeat": job_of(Repeat[3, LinearELU[5, 5]], batch=2, loss=MSE, optimizer=SGD(), init=Xavier),
    "parallel": job_of(
        Sequential[Parallel[Linear[5, 3], LinearReLU[5, 4], Sigmoid], Linear[12, 3]],
        batch=4,
        loss=CrossEntropy.of(smoothing=0.1),
        optimizer=SGD(weight_decay=0.1),
    ),
    "fused": job_of(FUSED, batch=4, loss=MSE, optimizer=Adam(weight_decay=0.5)),
    "fused chains": job_of(
        Sequential[Fused[Tanh, Softplus], Linear[5, 3], Fused[Mish, LeakyReLU.of(slope=0.2), GELU]],
        batch=2,
        loss=MSE,
        optimizer=AdamW(),
    ),
    "no parameters": job_of(Sequential[ReLU, Fused[Tanh, ELU]], batch=3, input=(2, 5)),
    "f64": job_of(
        Sequential[LinearReLU[5, 4], Linear[4, 3]], batch=4, loss=MSE, optimizer=Adam(), dtype="f64"
    ),
    "no bias": job_of(
        Sequential[LinearReLU.of(5, 4, bias=False), Linear.of(4, 3, bias=False)],
        batch=4,
        loss=SoftCrossEntropy.of(smoothing=0.2),
        optimizer=SGD(momentum=0.9, dampening=0.1, weight_decay=0.1),
        init=Normal[0.0, 0.5],
    ),
    "states": job_of(Net, batch=4, loss=CrossEntropy, optimizer=Adam()),
    "checkpointed": job_of(
        Checkpointed[Sequential[Checkpointed[Fused[Linear[5, 5], GELU, Dropout[0.5]]], Tanh]],
        batch=4,
        loss=MSE,
        optimizer=SGD(),
    ),
    "axes": job_of(
        Sequential[Linear[5, 32], Tanh, Linear[32, 2]],
        batch=2,
        loss=MSE,
        optimizer=Adam(lr=1e-2),
        input=(3, 5),
        init=Deterministic,
    ),
}


def dumps(job: Job) -> list[Dump]:
    """Every entry of a job, traced and still to be compiled."""
    found = [job.forward()]
    if job.options.loss:
        found += [job.gradients(), job.step()]
        passes = (job.training(10), job.evaluation(7))
        found += [entry.dump for data_pass in passes for entry in data_pass.entries]
    return found


def stages(dump: Dump) -> list[Dump]:
    """A traced graph and what it is after each pass."""
    found = [dump]
    resume(dump)(dump, lambda _, after: found.append(after))
    return found


def compiled(dump: Dump) -> ComputeGraph:
    """The graph after all passes."""
    return resume(dump)(dump).graph


STAGES = {
    f"{name} {dump.graph.entry} {dump.done[-1].partition('{')[0]}": dump
    for name, job in JOBS.items()
    for first in dumps(job)
    for dump in stages(first)
}
FINAL = {name.rpartition(" ")[0]: dump for name, dump in STAGES.items() if not dump.todo}


def choose(node: Node) -> Choice:
    """Made-up stages and workspaces."""
    if node.op.kind == "row":
        return Choice(
            (Stage("rows", (("split", True),)), Stage("total")), node.inputs[0].type.nbytes
        )
    rows = (("rows", 3), ("scale", 0.5), ("names", ("a", "b")))
    return Choice((Stage(node.op.name.partition(".")[0], rows),), 100 * (len(node.body) > 1))


def arrays(graph: ComputeGraph, seed: int = 0) -> dict[str, np.ndarray]:
    """Inputs and states with something in them; gaps of flat states stay zero."""
    random = np.random.default_rng(seed)
    found: dict[str, np.ndarray] = {}
    for given in graph.inputs:
        found[given.value.name] = drawn(random, given.value.type, given.limit)
    for state in graph.states:
        value = drawn(random, state.value.type, 1)
        if state.value.name in ("adam.m", "adam.v", "sgd.m", "gradients"):
            value = np.zeros_like(value)
        if state.members:
            value = np.zeros_like(value)
            for member in graph.layout(state.value.type.layout or "").members:
                value[member.offset : member.end] = random.standard_normal(member.size)
        found[state.value.name] = value
    return found


def drawn(random: np.random.Generator, type: TensorType, limit: int | None) -> np.ndarray:
    """An array of a type."""
    if type.is_float:
        return np.asarray(random.standard_normal(type.shape), numpy_dtype(type.dtype))
    return np.asarray(random.integers(0, limit or 10, type.shape), numpy_dtype(type.dtype))


def emit(builder: Builder, name: str, *values: Value, group: str = "", **attrs: Any) -> Any:
    """A node of a small graph written by hand."""
    with builder.at(Origin("net", "Test", "trace"), group):
        return builder.emit(name, *values, **attrs)


def f32(*shape: int) -> TensorType:
    """A float type."""
    return TensorType("f32", shape)


UNARY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("relu", {}),
    ("tanh", {}),
    ("sigmoid", {}),
    ("scale", {"factor": 0.5}),
    ("clamp", {"low": -0.5, "high": 1e-07}),
    ("elu", {"alpha": 0.25}),
)
BINARY = ("add", "subtract", "multiply")
# Elements of the largest value.
MOST = 200


def go_together(*shapes: tuple[int, ...]) -> bool:
    """Whether shapes are repeated to a common one, which is not too large."""
    common = common_shape(shapes)
    return common is not None and math.prod(common) <= MOST


@dataclass
class Drawing:
    """A random graph in the making; values: the floats so far; stamps: those to choose from."""

    draw: Any
    dtype: str
    stamps: tuple[str, ...] = ("",)
    builder: Builder = field(default_factory=lambda: Builder("random.step"))
    values: list[Value] = field(default_factory=list)

    def begin(self) -> None:
        """Inputs, a flat state of weights, and states of two shapes."""
        b, rows, columns = self.builder, self.size(), self.size()
        shapes = {"w": (columns, self.size()), "u": (columns, columns), "b": (columns,)}
        b.layouts.append(lay_out("net", shapes))
        x = b.input("x", TensorType(self.dtype, (rows, columns)))
        members = [Value(name, TensorType(self.dtype, shape)) for name, shape in shapes.items()]
        b.state(
            "params",
            TensorType(self.dtype, (b.layouts[0].size,), "net"),
            members,
            ["uniform(-0.5, 0.5)", "normal(0.0, 1e-05)", "zero()"],
        )
        plain = b.state("s", TensorType(self.dtype, (rows, columns)), (), ["constant(-1.0)"])
        b.state("n", TensorType("i64", ()))
        self.values = [x, *members, plain]

    def size(self) -> int:
        """A small length."""
        return self.draw(st.integers(1, 5))

    def pick(self, wanted: Any = lambda v: True) -> Value | None:
        """One of the values that are as wanted, the later ones more likely."""
        fitting = [v for v in self.values if wanted(v.type)]
        return self.draw(st.sampled_from(fitting)) if fitting else None

    def step(self) -> None:
        """One more node, if the chosen kind finds operands."""
        kind = self.draw(st.sampled_from(("unary", "binary", "linear", "reduce", "move", "view")))
        with self.builder.at(
            Origin("net", "Test[1, 2]", "trace"), self.draw(st.sampled_from(self.stamps))
        ):
            made = getattr(self, kind)()
        if made is not None:
            self.values.append(made)

    def unary(self) -> Value:
        x = self.pick()
        name, attrs = self.draw(st.sampled_from(UNARY))
        return self.builder.emit(name, x, **attrs)

    def binary(self) -> Value:
        x = self.pick()
        assert x is not None
        shape = x.type.shape
        y = self.pick(lambda t: go_together(shape, t.shape))
        assert y is not None
        assert y is not None
        return self.builder.emit(self.draw(st.sampled_from(BINARY)), x, y)

    def linear(self) -> Value | None:
        x = self.pick(lambda t: len(t.shape) == 2)
        assert x is not None
        inner = x.type.shape[-1]
        weight = self.pick(lambda t: len(t.shape) == 2 and t.shape[0] == inner)
        if weight is None:
            return None
        if self.draw(st.booleans()):
            return (
                self.builder.emit("matmul", weight, x, transpose_b=True)
                if (weight.type.shape[-1] == inner)
                else self.builder.emit("matmul", x, weight)
            )
        bias = self.pick(lambda t: t.shape == weight.type.shape[1:])
        return self.builder.emit("linear", x, weight, *([bias] if bias else []))

    def reduce(self) -> Value | None:
        x = self.pick(lambda t: len(t.shape) > 0)
        assert x is not None
        rank = len(x.type.shape)
        first = self.draw(st.integers(0, rank - 1))
        axes = tuple(range(first, self.draw(st.integers(first, rank - 1)) + 1))
        return self.builder.emit("sum", x, axes=axes, scale=0.25)

    def move(self) -> Value | None:
        x = self.pick(lambda t: len(t.shape) > 0)
        assert x is not None
        name = self.draw(st.sampled_from(("concat", "slice", "pad", "broadcast")))
        width = x.type.shape[-1]
        if name == "concat":
            return self.builder.emit(name, x, x)
        if name == "slice":
            half = width // 2
            return self.builder.emit(name, x, starts=(half,), lengths=(width - half,))
        if name == "pad":
            return self.builder.emit(name, x, starts=(1,), lengths=(width + 2,))
        return self.builder.emit(name, x, shape=(2, *x.type.shape), scale=-0.5)

    def view(self) -> Value | None:
        if self.draw(st.booleans()):
            return self.builder.emit(
                "constant", value=self.draw(st.floats(-2, 2)), dtype=self.dtype
            )
        x = self.pick()
        assert x is not None
        shape = self.draw(st.sampled_from(((x.type.size,), (1, x.type.size), (x.type.size, 1))))
        return self.builder.emit("reshape", x, shape=shape)

    def end(self) -> ComputeGraph:
        """Outputs, updates and a pack of what is left: values with memory of their own."""
        b = self.builder
        with b.at(Origin("net", "Test", "update")):
            b.update(b.states[2].value, b.emit("count", b.states[2].value, hint="n.next"))
            free = [v for n in b.nodes if n.op.launches for v in n.outputs if v.type.is_float]
            free = self.draw(st.permutations(free)) if free else []
            state = b.states[1].value
            if self.draw(st.booleans()):
                b.update(state, self.taken(free, state.type))
            if self.draw(st.booleans()):
                parts = [self.taken(free, m.type) for m in b.states[0].members]
                b.update(b.states[0].value, self.packed(parts))
            elif len(free) > 2 and self.draw(st.booleans()):
                flat = self.packed([free.pop(), free.pop()])
                free.append(b.emit("tanh", flat))
            outputs = free[: self.draw(st.integers(1, 3))] or [b.emit("copy", self.values[0])]
        return b.done(outputs)

    def taken(self, free: list[Value], type: TensorType) -> Value:
        """A value of a type that owns its memory; it is nobody else's then."""
        for value in free:
            if value.type == type:
                free.remove(value)
                return value
        source = self.pick(lambda t: t.size == type.size)
        if source is None:
            zero = self.builder.emit("constant", value=0.5, dtype=self.dtype)
            return self.builder.emit("broadcast", zero, shape=type.shape)
        return self.builder.emit("copy", self.builder.emit("reshape", source, shape=type.shape))

    def packed(self, parts: list[Value]) -> Value:
        """The parts side by side in the layout of the parameters, or in one of their own."""
        b, layout = self.builder, self.builder.layouts[0]
        if [p.type.shape for p in parts] != [m.shape for m in layout.members]:
            layout = lay_out("own", {f"p{i}": p.type.shape for i, p in enumerate(parts)})
            b.layouts.append(layout)
        offsets = tuple(m.offset for m in layout.members)
        return b.emit("pack", *parts, layout=layout.name, size=layout.size, offsets=offsets)


@st.composite
def graphs(draw: Any, nodes: int = 12, stamps: tuple[str, ...] = ("",)) -> ComputeGraph:
    """Random graphs that verify, their nodes stamped at random: with a group's path, `~` or `^`
    after it or not.
    """
    drawing = Drawing(draw, draw(st.sampled_from(("f32", "f64"))), stamps)
    paths = dict.fromkeys(stamp.rstrip("~^") for stamp in stamps if stamp)
    for path in paths:
        drawing.builder.group(path, f"Fused[{path}]")
    drawing.begin()
    for _ in range(draw(st.integers(0, nodes))):
        drawing.step()
    return drawing.end()


def deep(layers: int) -> Job:
    """A network whose training step has about 12 nodes a layer before fusion, 10 after."""
    block = Residual[Sequential[LinearReLU[16, 16], Linear[16, 16], Tanh]]
    net = Sequential[Linear[8, 16], Repeat[layers, block], Linear[16, 4]]
    return job_of(net, batch=4, loss=CrossEntropy, optimizer=Adam())


@cache
def deep_step(layers: int) -> ComputeGraph:
    """Its compiled training step."""
    return compiled(deep(layers).step())
