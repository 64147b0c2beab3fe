"""The plans that a unit carries: what is printed into it is what is read back."""

from __future__ import annotations

import pytest

from noeira.codegen.embedded import listed_symbols, literal, plans_text, unit_name
from noeira.errors import ParseError
from noeira.ir.text.plan import parse_plans
from noeira.nn import Linear, LinearReLU, Sequential
from noeira.stages import stages_of


class Net(Sequential[LinearReLU[4, 3], Linear[3, 2]]):
    """Two layers."""


class Other(Net):
    """The same network under another name."""


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_a_unit_gives_back_its_plans(target: str) -> None:
    isa = "avx2" if target == "cpu" else None
    # So many rows that calls have several stages.
    stages = stages_of(Net, batch=3000, target=target, isa=isa)
    unit = stages.source.text
    assert plans_text(unit) == stages.source.plans == str(stages.plan)
    assert unit_name(unit) == "Net"
    (plan,) = parse_plans(plans_text(unit))
    assert any(len(call.choice.stages) > 1 for call in plan.calls)
    if target == "cuda":
        assert listed_symbols(unit, [plan]) == stages.source.symbols


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_the_code_of_a_unit_knows_neither_its_plans_nor_its_name(target: str) -> None:
    one, other = (stages_of(net, batch=30, target=target).source for net in (Net, Other))
    code = one.code.splitlines()
    assert len(code) == len(one.text.splitlines()) and set(code) & set(one.text.splitlines())
    assert "noeira-plan" not in one.code and "//" not in one.code
    assert one.text != other.text
    assert (one.code == other.code) == (target == "cuda"), "entries of C have names"


def test_signs_that_c_gives_a_meaning() -> None:
    line = 'hint "a\\b" // %d ?? é'
    unit = f'const char noeira_plans[] =\n    {literal(line)}\n    "";\n'
    assert plans_text(unit) == line + "\n"


def test_units_without_plans() -> None:
    with pytest.raises(ParseError, match=r"line 2: expected the plans of a unit, const char noe"):
        plans_text("int x;\nint y;\n")
    stages = stages_of(Net, batch=3000, target="cuda")
    unit = stages.source.text.replace("//   k02_cross_entropy_total<<<", "//   another<<<")
    with pytest.raises(ParseError, match=r"line \d+: expected the launches of net\.step"):
        listed_symbols(unit, [stages.plan])
