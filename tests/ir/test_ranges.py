"""Tables of ranges: which elements have which numbers, and how that is written."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noeira.errors import ParseError, ShapeError, VerifyError
from noeira.ir.layouts import Range, lay_out
from noeira.ir.op import op
from noeira.ir.ranges import Piece, check_ranges, distinct, pieces, ranges_of
from noeira.ir.text.lexer import Line, literal

SLOW, NONE = (("lr_factor", 0.1),), (("weight_decay", 0.0),)


def test_pieces_are_all_elements_in_order() -> None:
    assert pieces((), 8) == (Piece(0, 8, 0),)
    assert distinct(()) == ((),)
    table = (Range(0, 4), Range(4, 8, SLOW), Range(8, 9, SLOW), Range(12, 16))
    assert distinct(table) == ((), SLOW)
    cut = (Piece(0, 4, 0), Piece(4, 9, 1), Piece(9, 12, -1), Piece(12, 16, 0))
    assert pieces(table, 16) == cut
    assert pieces(table, 20) == (*cut, Piece(16, 20, -1))


@given(st.lists(st.integers(0, 60), max_size=8, unique=True), st.data())
def test_every_element_is_in_the_piece_of_its_range(cuts: list[int], data: st.DataObject) -> None:
    numbers = st.sampled_from(((), SLOW, NONE, (*SLOW, *NONE), (*NONE, *SLOW)))
    bounds = sorted(cuts)
    spans = tuple(Range(a, b, data.draw(numbers)) for a, b in pairwise(bounds))
    table = tuple(span for span in spans if data.draw(st.booleans())) or (Range(3, 5, SLOW),)
    check_ranges("table", table, 60)
    kinds, found = distinct(table), dict[int, dict[str, float]]()
    for piece in pieces(table, 60):
        for element in range(piece.start, piece.stop):
            assert element not in found
            found[element] = dict(kinds[piece.kind]) if piece.kind >= 0 else {"none": 1.0}
    for element in range(60):
        own = [dict(s.numbers) for s in table if s.start <= element < s.stop]
        assert found[element] == (own[0] if own else {"none": 1.0})


def test_members_with_equal_numbers_are_one_range() -> None:
    shapes = {"a": (3,), "b": (40,), "c": (5,), "d": (2, 2), "e": (32,)}
    layout = lay_out("net", shapes)
    assert ranges_of(layout, dict.fromkeys(shapes, ())) == ()
    assert ranges_of(layout, dict.fromkeys(shapes, NONE)) == (Range(0, 192, NONE),)
    groups = {"a": (), "b": (), "d": SLOW, "e": NONE}
    table = (Range(0, 96), Range(128, 160, SLOW), Range(160, 192, NONE))
    assert ranges_of(layout, groups) == table
    with pytest.raises(VerifyError, match="no member of @net is in a range"):
        ranges_of(layout, {})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ((Range(0, 4), Range(3, 8)), "the range 3:8 must be inside 0:8, hold an element, and come"),
        ((Range(4, 8), Range(0, 4)), "the range 0:4 must be inside 0:8"),
        ((Range(2, 2),), "the range 2:2 must be"),
        ((Range(4, 9, SLOW),), "the range 4:9 (lr_factor = 0.1) must be inside 0:8"),
        ((Range(-1, 4),), "the range -1:4 must be"),
    ],
)
def test_ranges_that_are_refused(table: tuple[Range, ...], message: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(message)):
        check_ranges("sgd", table, 8)


def test_a_number_that_an_op_does_not_let_vary_is_refused() -> None:
    sgd = op("sgd")
    types = [draw.type for draw in sgd.samples()[0].operands]
    message = (
        "sgd: the range 0:1 (momentum = 0.5): weight_decay and lr_factor may vary, not momentum"
    )
    with pytest.raises(VerifyError, match=re.escape(message)):
        sgd.types(sgd.Attrs(ranges=(Range(0, 1, (("momentum", 0.5),)),)), types)


def test_elements_in_no_range_stay_as_they_are() -> None:
    sgd = op("sgd")
    p, g = np.arange(8.0), np.ones(8)
    table = (Range(0, 2), Range(4, 6, SLOW))
    scalars = (np.asarray(0.5), np.asarray(0), np.asarray(True))
    (made,) = sgd.reference(sgd.Attrs(ranges=table), p, g, *scalars, None, None)
    np.testing.assert_allclose(p - made, [0.5, 0.5, 0, 0, 0.05, 0.05, 0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0:4 (lr_factor = 0.1, lr_factor = 1.0)", "lr_factor is given twice"),
        ("0:4 (lr_factor = a)", "expected a number, got 'a'"),
        ("0:4 (lr_factor 0.1)", "expected '='"),
        ("0:4 ()", "expected the name of a number, got ')'"),
        ("0:4 (lr_factor = 0.1", "expected ')'"),
        ("0:b", "expected a whole number, got 'b'"),
    ],
)
def test_what_is_said_of_a_range_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ParseError, match=re.escape(message)):
        Line(text, 1).literal()


def test_a_range_is_written_with_its_numbers() -> None:
    span = Range(64, 96, (("lr_factor", 0.1), ("weight_decay", 0.0)))
    assert literal(span) == "64:96 (lr_factor = 0.1, weight_decay = 0.0)"
    assert Line("64:96 (lr_factor = 0.1, weight_decay = 0)", 1).literal() == span
