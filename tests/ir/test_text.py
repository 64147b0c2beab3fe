"""The text forms: what is printed reads back as it was, what is damaged is refused by its line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import pytest
from graphs import STAGES, choose, compiled, deep_step, graphs, stages
from hypothesis import given, settings
from hypothesis import strategies as st
from text_forms import damaged
from timing import near_linear, quick

from noeira.errors import ParseError, VerifyError
from noeira.ir.builder import Builder
from noeira.ir.graph import Node, Value
from noeira.ir.layouts import Range
from noeira.ir.op import op
from noeira.ir.text.dump import Dump, parse_dump, split_passes
from noeira.ir.text.lexer import Line, literal
from noeira.ir.text.parser import parse_graph
from noeira.ir.text.printer import graph_text
from noeira.ir.types import TensorType
from noeira.ir.verify import verify
from noeira.job import job_of
from noeira.nn import Adam, CrossEntropy, Linear, LinearReLU, Sequential
from noeira.planning.memory import make_plan

SMALL = """\
// noeira-ir 1
// done: trace   to do: vjp, dce, fuse
layout @net: 64 {
  weight: [4, 3] @ 0
  bias: [3] @ 32
}
graph @small.step {
  input %x: f32[2, 4]
  input %target: i32[2] < 3
  state %params: f32 @net members
  initial %weight = uniform(-1.0, 1.0)
  initial %bias = zero()
  state %lr: f32[] = constant(0.001)
  state %step: i64[]
  group net: LinearReLU[4, 3]
  %relu = fused[linear, relu](%x, %weight, %bias) : f32[2, 3]   in net   from net: Type by trace
      | %linear = linear(%x, %weight, %bias) : f32[2, 3]   from net: LinearReLU[4, 3] by trace
      | %relu = relu(%linear) : f32[2, 3]   from net: LinearReLU[4, 3] by trace
  %loss, %lse = cross_entropy(%relu, %target) {smoothing = 0.1} : f32[], f32[2]   from l: C by trace
  %step.next = count(%step) : i64[]   from net:  by update
  update %step = %step.next
  return %loss
}
"""


@pytest.mark.parametrize("dump", STAGES.values(), ids=STAGES)
def test_every_stage_reads_back_as_it_was(dump: Dump):
    text = str(dump)
    again = parse_dump(text)
    assert again == dump
    assert str(again) == text


@given(graphs(stamps=("", "0", "1", "0~", "1^")))
def test_random_graphs_read_back_as_they_were(graph: Any):
    assert parse_graph(graph_text(graph)) == graph


NUMBERS = st.dictionaries(
    st.sampled_from(("lr_factor", "weight_decay")), st.floats(allow_nan=False)
).map(lambda numbers: tuple(numbers.items()))
LITERALS = st.recursive(
    st.booleans()
    | st.integers(-(2**63) + 1, 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.builds(Range, st.integers(0, 99), st.integers(0, 99), NUMBERS),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=6,
)


@given(LITERALS)
def test_literals_read_back_as_they_were(value: Any):
    line = Line(literal(value), 1)
    again = line.literal()
    line.end()
    assert again == value
    assert repr(again) == repr(value)


@pytest.mark.parametrize(
    "value", [-0.0, 1e-45, 1e16, 5e-324, 1.7e308, math.inf, -math.inf, math.nan]
)
def test_floats_keep_every_digit(value: float):
    builder = Builder("floats")
    builder.emit("clamp", builder.input("x", TensorType("f64", (3,))), low=value, high=value)
    (node,) = parse_graph(graph_text(builder.done(builder.nodes[0].outputs))).nodes
    assert repr(node.attrs) == repr(builder.nodes[0].attrs)


def test_texts_may_hold_anything():
    text = 'a "b" \\ # c\n\r\u2028 } , {'
    builder = Builder("texts")
    x = builder.input("x", TensorType("f32", (32,)))
    rule = op("pack")
    y = Value("y", TensorType("f32", (32,)))
    attrs = rule.Attrs(layout=text, size=32, offsets=(0,))  # type: ignore[call-arg]
    builder.nodes.append(Node(rule, (x,), (y,), attrs, builder.origin))
    assert parse_graph(graph_text(builder.done([y]))).nodes == tuple(builder.nodes)
    passes = (f"vjp{{loss = {literal(text)}}}", "dce")
    assert split_passes(", ".join(passes)) == passes


@given(st.lists(st.sampled_from(["vjp", 'a{x = "}, {"}', "b{y = [1, [2, 0:3]], z = 0.5}"])))
def test_lists_of_passes_are_taken_apart(passes: list[str]):
    assert split_passes(", ".join(passes) or "-") == tuple(passes)


@pytest.mark.parametrize("mark", ["#", "//"])
def test_comments_and_spaces_are_nothing(mark: str):
    dump = parse_dump(SMALL)
    lines = SMALL.splitlines()
    spaced = [
        *lines[:2],
        f"{mark} a comment",
        *(f"{line}   {mark} {line}\t\r\n" for line in lines[2:]),
        "",
        f"  {mark} end",
    ]
    assert parse_dump("\n".join(spaced)) == dump


def test_the_small_graph_is_what_it_says():
    dump = parse_dump(SMALL)
    assert str(dump) == SMALL
    assert (dump.done, dump.todo) == (("trace",), ("vjp", "dce", "fuse"))
    verify(dump.graph)
    assert dump.graph.inputs[1].limit == 3
    assert dump.graph.states[0].initial == ("uniform(-1.0, 1.0)", "zero()")
    assert [part.op.name for part in dump.graph.nodes[0].body] == ["linear", "relu"]
    assert {part.group for part in dump.graph.nodes[0].body} == {"net"}


BAD_LINES = [
    ("// noeira-ir 1", "// noeira-ir 2", "line 1: expected // noeira-ir 1"),
    ("// done: trace ", "// done trace ", "line 2: expected // done: PASSES   to do: PASSES"),
    ("layout @net: 64", "layout @net 64", "line 3: expected ':', got '64'"),
    ("[4, 3] @ 0", "[4, 3] 0", "line 4: expected a member such as"),
    (
        "layout @net",
        "input %y: f32[]\nlayout @net",
        "line 3: expected layout @name: SIZE { or graph @name {",
    ),
    (
        "  input %x",
        "layout @net: 64 {\n}\n  input %x",
        "line 8: expected a line inside the graph, or }",
    ),
    (
        "f32[2, 4]",
        "f32[2 4]",
        "line 8: expected ',', got '4'\n    input %x: f32[2 4]\n                    ^",
    ),
    ("f32[2, 4]", "f32[2.0, 4]", "line 8: expected a whole number of 64 bits, got 2.0"),
    ("f32[2, 4]", f"f32[{10**30}]", "line 8: expected a whole number of 64 bits"),
    ("f32[2, 4]", "f23[2, 4]", "line 8: there is no dtype 'f23'; there are f32, f64, bf16"),
    ("f32[2, 4]", "f32 @nett", "line 8: there is no layout @nett"),
    ("input %x", "input %target", "line 9: %target is defined twice"),
    (
        "input %x",
        "imput %x",
        "line 8: expected layout, graph, input, state, group, region, a node, update, return or }",
    ),
    ("input %x", "input ?x", "line 8: '?' has no meaning here"),
    ("uniform(-1.0", "uniforn(-1.0", "line 11: there is no distribution 'uniforn'"),
    ("uniform(-1.0, 1.0)", "", "line 11: '' is no distribution"),
    ("initial %bias", "initial %x", "line 12: expected a member of the state above"),
    ("initial %bias", "initial %weight", "line 12: %weight has an initial value already"),
    (
        "  initial %bias = zero()\n",
        "",
        "line 22: %params: expected an initial line for every member",
    ),
    (
        "@net members",
        "@net members = zero()",
        "line 10: expected an initial line for each member below",
    ),
    ("i64[]\n", "i64[] members\n", "line 14: %step has no layout, so it has no members"),
    ("group net:", "group net", "line 15: expected group PATH: TYPE"),
    ("group net:", "region net in", "line 15: expected region PATH: TYPE, or region PATH in PATH"),
    (
        "%relu = fused[linear, relu](%x",
        "%relu = fused[linear, relu](%y",
        "line 16: %y is not defined above",
    ),
    (
        "[linear, relu](",
        "[linear, tanh](",
        "line 16: expected a body of linear, tanh below, got linear, relu",
    ),
    ("[linear, relu](", "[](", "line 16: expected the name of an op"),
    ("relu(%linear)", "relu(%lse)", "line 18: %lse is not defined above"),
    ("relu(%linear)", "relu(%linear", "line 18: expected ')'"),
    (
        "cross_entropy(",
        "cros_entropy(",
        "line 19: there is no op called 'cros_entropy'; did you mean 'cross_entropy'",
    ),
    (
        "{smoothing = 0.1}",
        '{smoothing = "a"}',
        'line 19: cross_entropy: smoothing must be a number, not "a"',
    ),
    (
        "{smoothing = 0.1}",
        "{alpha = 0.1}",
        "cross_entropy has no attribute 'alpha'; it has reduction, smoothing",
    ),
    ("{smoothing = 0.1}", "{smoothing = 1, smoothing = 2}", "line 19: smoothing is given twice"),
    ("f32[], f32[2]", "f32[]", "line 19: expected 2 types, one for each name, got 1"),
    (
        " by trace\n  %step.next",
        "\n  %step.next",
        "line 19: expected '   from PATH: TYPE by PASS' at the end",
    ),
    ("update %step =", "update %stop =", "line 21: %stop is not defined above"),
    ("return %loss", "return %loss,", "line 22: expected a value such as %loss"),
    ("  return %loss\n", "", "line 22: expected return before }"),
    ("return %loss\n", "return %loss\n  return %lse\n", "line 23: expected } after return"),
    ("return %loss\n}", "return %loss", "line 23: the text ends too early: expected return and }"),
    ("return %loss\n}", "return %loss\n}\nmore", "line 24: expected nothing after the graph's }"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_LINES)
def test_a_bad_line_is_named_with_what_was_expected(old: str, new: str, message: str):
    assert SMALL.count(old) >= 1
    with pytest.raises(ParseError) as caught:
        parse_dump(SMALL.replace(old, new, 1))
    assert message in str(caught.value)


def test_body_lines_need_a_fused_node_above():
    body = "      | %y = relu(%x) : f32[2, 4]   from net: ReLU by trace\n"
    with pytest.raises(
        ParseError, match="line 16: expected a fused node above this line of a body"
    ):
        parse_dump(SMALL.replace("  %relu = fused", f"{body}  %relu = fused"))
    nested = body.replace("relu(%x)", "fused[relu](%x)")
    with pytest.raises(ParseError, match="line 17: expected a plain node: a kernel has no kernels"):
        parse_dump(SMALL.replace("      | %linear", f"{nested}      | %linear"))


DAMAGED = [
    SMALL,
    *(
        str(STAGES[name])
        for name in ("residual step vjp", "fused step schedule", "parallel steps resident")
    ),
]


@settings(max_examples=1000)
@given(st.data())
def test_a_damaged_text_is_read_or_refused_with_a_line(data: st.DataObject):
    text = damaged(data.draw, data.draw(st.sampled_from(DAMAGED)))
    try:
        dump = parse_dump(text)
        verify(dump.graph, after="reading")
    except (ParseError, VerifyError) as error:
        assert (
            re.match(r"line \d+: .", str(error))
            if isinstance(error, ParseError)
            else re.search(r"line \d+ of|at the (head|end) of", str(error))
        )
        return
    assert parse_dump(str(dump)) == dump


def test_every_stage_of_a_small_network(golden: Callable[..., None]):
    net = Sequential[LinearReLU[4, 8], Linear[8, 3]]
    job = job_of(net, batch=2, loss=CrossEntropy, optimizer=Adam(weight_decay=0.5))
    for dump in stages(job.training(6).entries[0].dump):
        golden(str(dump), dump.done[-1].partition("{")[0])
    golden(str(make_plan(compiled(job.step()), choose, "c avx512")), "plan")


@pytest.mark.slow
def test_reading_and_printing_are_quick_and_near_linear():
    small, twice = deep_step(166), deep_step(332)
    assert 2000 < len(small.nodes) < 2200
    assert quick(lambda: parse_graph(graph_text(small)), 0.4)
    assert near_linear(parse_graph, graph_text(small), graph_text(twice))
    assert near_linear(graph_text, small, twice)
