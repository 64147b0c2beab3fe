"""The plans that a unit of C or CUDA carries as a string: printed into it, and read back from it.

A unit describes itself so: its text can be edited and run again, and what was built of it says what
it holds. The templates of units print what stands here, under the name SYMBOL.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from noeira.codegen.view import function_names
from noeira.errors import ParseError
from noeira.ir.plan import Plan

SYMBOL = "noeira_plans"
# The definition of the plans in a unit, what it begins with in CUDA, and one of its lines.
STRING = re.compile(r'"([^"\\\n]*(?:\\.[^"\\\n]*)*)"')
PLANS = re.compile(
    rf"const char {SYMBOL}\[\] =\n((?:\s*{STRING.pattern.replace('(', '(?:', 1)})+)\s*;"
)
DEVICE = 'extern "C" __device__ '
ESCAPES = {"n": "\n"}
# A launch as a unit of CUDA lists it.
LAUNCH = re.compile(r"^//   (\w+)<<<", flags=re.MULTILINE)


def plan_strings(plans: str) -> list[str]:
    """The text of plans as C string literals, a line each."""
    return [literal(line) for line in plans.splitlines()]


def literal(line: str) -> str:
    """A line of text as a C string literal."""
    escaped = line.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}\\n"'


def plans_text(unit: str) -> str:
    """The text of the plans that a unit carries. Raises ParseError if it has none."""
    found = PLANS.search(unit)
    if found is None:
        last = max(len(unit.splitlines()), 1)
        expected = f"expected the plans of a unit, const char {SYMBOL}[] = …"
        raise ParseError(f"line {last}: {expected}")
    lines = (match[1] for match in STRING.finditer(found[1]))
    return "".join(re.sub(r"\\(.)", lambda m: ESCAPES.get(m[1], m[1]), line) for line in lines)


def split_plans(unit: str) -> tuple[str, str]:
    """A unit without the plans that it carries, each other line where it was, and the definition of
    the plans, "" if there is none.
    """
    found = PLANS.search(unit)
    if found is None:
        return unit, ""
    lines = "\n" * found[0].count("\n")
    return f"{unit[: found.start()].removesuffix(DEVICE)}{lines}{unit[found.end() :]}", found[0]


def unit_name(unit: str) -> str:
    """The name of the program that a unit is of: its first line has it."""
    return unit.partition("\n")[0].removeprefix("// noeira: ").partition(" for ")[0]


def listed_symbols(unit: str, plans: Sequence[Plan]) -> tuple[tuple[str, ...], ...]:
    """The kernel of every call of every plan, from the launches that a unit of CUDA lists.

    Raises ParseError if they are not those of the plans.
    """
    return tuple(symbols_of(unit, plan) for plan in plans)


def symbols_of(unit: str, plan: Plan) -> tuple[str, ...]:
    """The kernel of every call of a plan."""
    start = unit.find(f"// {plan.name}: kernel<<<")
    listed = iter(LAUNCH.findall(unit[start:].split("\n\n", 1)[0]) if start >= 0 else [])
    symbols = list[str]()
    for call in plan.calls:
        endings = function_names(call, "")
        own = [next(listed, "") for _ in endings]
        symbols.append(own[0].removesuffix(endings[0]))
        if [*function_names(call, symbols[-1])] != own:
            last = len(unit[: max(start, 0)].splitlines()) + 1
            raise ParseError(f"line {last}: expected the launches of {plan.name}")
    return tuple(symbols)
