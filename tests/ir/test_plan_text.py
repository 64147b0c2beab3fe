"""The text form of plans: what is printed reads back as it was."""

from __future__ import annotations

import re

import pytest
from graphs import (
    FINAL,
    choose,
)
from hypothesis import given, settings
from hypothesis import strategies as st
from text_forms import damaged

from noeira.errors import ParseError
from noeira.ir.text.dump import Dump
from noeira.ir.text.plan import parse_plan
from noeira.planning.memory import make_plan


@pytest.mark.parametrize("dump", FINAL.values(), ids=FINAL)
def test_every_plan_reads_back_as_it_was(dump: Dump):
    plan = make_plan(dump.graph, choose, "c avx512")
    again = parse_plan(str(plan))
    assert again == plan
    assert str(again) == str(plan)


@settings(max_examples=600)
@given(st.data())
def test_a_damaged_plan_is_read_or_refused_with_a_line(data: st.DataObject):
    text = damaged(data.draw, data.draw(st.sampled_from(PLANS)))
    try:
        plan = parse_plan(text)
    except ParseError as error:
        assert re.match(r"line \d+: .", str(error))
        return
    assert parse_plan(str(plan)) == plan


PLANS = [
    str(make_plan(FINAL[name].graph, choose, "c avx512"))
    for name in ("mlp step", "fused steps", "no parameters forward")
]


BAD_PLAN_LINES = [
    ("// noeira-plan 1", "// noeira-ir 1", "line 1: expected // noeira-plan 1"),
    ("plan @", "plann @", "expected nothing after the graph's }"),
    ("plan @fused.steps", "plan @fused.last", "expected the plan of @fused.steps"),
    ("for c avx512 {", "{", "expected 'for', got '{'"),
    ("  arena ", "  arenas ", "expected arena SIZE"),
    ("place %x: arena", "place %y: arena", "the graph has no value %y"),
    ("place %x: arena", "place %linear: arena", "the graph has no value %linear"),
    ("place %x: arena", "place %params: arena", "%params has a place already"),
    (
        "place %x: arena",
        "place %x: attic",
        "expected arena, input, state, output or literal, got 'attic'",
    ),
    ("place %x: arena", "place %x: input %loss", "the graph has no input %loss"),
    ("place %x: arena + ", "place %x: arena + 9", "expected a place inside the arena of"),
    ("size 80 ", "size 84 ", "%x has 80 bytes"),
    ("call %x: take", "call %y: take", "no node has %y as its first result"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_PLAN_LINES)
def test_a_bad_line_of_a_plan_is_named(old: str, new: str, message: str):
    text = PLANS[1]
    assert old in text
    with pytest.raises(ParseError) as caught:
        parse_plan(text.replace(old, new, 1))
    assert re.match(r"line \d+: ", str(caught.value))
    assert message in str(caught.value)


def test_a_plan_has_a_call_for_every_launching_node_and_places_for_their_operands():
    call = re.search(r"  call %x: .*\n", PLANS[1])
    place = re.search(r"  place %x: .*\n", PLANS[1])
    assert call and place
    with pytest.raises(
        ParseError, match=r"line \d+: expected a call for each launching node, in their order"
    ):
        parse_plan(PLANS[1].replace(call[0], ""))
    with pytest.raises(
        ParseError, match=r"line \d+: expected a call for each launching node, in their order"
    ):
        parse_plan(PLANS[1].replace(call[0], call[0] * 2))
    with pytest.raises(ParseError, match=r"line \d+: expected a place for %x"):
        parse_plan(PLANS[1].replace(place[0], ""))
    with pytest.raises(ParseError, match=r"line \d+: the text ends too early: expected }"):
        parse_plan(PLANS[1].removesuffix("}\n"))
    with pytest.raises(ParseError, match="expected nothing after the plan's }"):
        parse_plan(PLANS[1] + "arena 0\n")
