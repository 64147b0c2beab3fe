"""Mutation tests of the CUDA kernels that are generated: whether check mode and the references see
every mistake in them.

golden/equivalent_mutants.txt lists the mutants that do what their kernel does, with the reason. Of
the others at least 95 % must be caught. `pytest -s` prints every mutant and what caught it.
"""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from mutant_runs import SURVIVED, UNCHANGED, Pair, all_mutants, taken
from needs import needs_cxx

pytestmark = needs_cxx

TESTS = Path(__file__).parents[1]
SUPPORT = TESTS / "support"
EQUIVALENT = TESTS / "golden" / "equivalent_mutants.txt"
FRACTION = 0.95
# Of every so many mutants the quick test takes one: no divisor of how many there are of a line.
STEP = 47
SHARES = 2
SECONDS = 1800


def name_of(pair: Pair) -> str:
    """What a mutant is listed as."""
    subject, mutant = pair
    return f"{subject.label} | {mutant.key}"


def equivalent() -> dict[str, str]:
    """The reason for every mutant listed: lines that begin with `=`, mutants under them."""
    reasons, reason = dict[str, str](), ""
    for line in EQUIVALENT.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            reason = line[2:]
        elif line and not line.startswith("#"):
            assert reason and line not in reasons, line
            reasons[line] = reason
    return reasons


def outcomes(step: int) -> dict[int, str]:
    """What caught every `step`-th mutant, by number, found by processes side by side."""
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "mutant_runs", *map(str, (i, SHARES, step))],
            cwd=SUPPORT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(SHARES)
    ]
    found = dict[int, str]()
    for process in processes:
        printed, _ = process.communicate(timeout=SECONDS)
        assert process.returncode == 0
        pairs = (line.split(" ", 1) for line in printed.splitlines())
        found |= {int(number): outcome for number, outcome in pairs}
    return found


def check(step: int) -> None:
    """Enough of every `step`-th mutant is caught, and nothing that is listed as equivalent."""
    mutants, reasons = all_mutants(), equivalent()
    found = outcomes(step)
    assert sorted(found) == taken(mutants, step)
    total, caught, same = Counter[str](), Counter[str](), Counter[str]()
    wrong, missed = list[str](), list[str]()
    for number, outcome in sorted(found.items()):
        kind, name = mutants[number][1].kind, name_of(mutants[number])
        print(f"{outcome:24} {name}")
        if kind == UNCHANGED or name in reasons:
            same[kind] += 1
            wrong += [name] if outcome != SURVIVED else []
            continue
        total[kind] += 1
        caught[kind] += outcome != SURVIVED
        missed += [name] if outcome == SURVIVED else []
    table = [f"{'':26}{'caught':>8}{'of':>6}{'equivalent':>12}"]
    for kind in sorted(total):
        table.append(f"{kind:26}{caught[kind]:8}{total[kind]:6}{same[kind]:12}")
    listed = same.total() - same[UNCHANGED]
    table.append(f"{'all':26}{caught.total():8}{total.total():6}{listed:12}")
    print("\n".join(["", *table, "", "not caught:", *missed]))
    assert not wrong, "kernels as they are, or mutants listed as equivalent, that fail:\n" + (
        "\n".join(wrong)
    )
    assert caught.total() >= FRACTION * total.total(), "\n".join(missed)


def test_equivalent_mutants_exist() -> None:
    names = {name_of(pair) for pair in all_mutants()}
    assert equivalent().keys() <= names, sorted(equivalent().keys() - names)


def test_every_kind_of_mistake_is_tried() -> None:
    mutants = all_mutants()
    kinds = Counter(mutant.kind for _, mutant in mutants)
    assert len(mutants) > 1000 and all(kinds.values())
    assert kinds.keys() >= {
        *("barrier dropped", "guard dropped", "part of a guard dropped", "comparison changed"),
        *("bound lowered", "index shifted", "stride changed", "step changed", "division changed"),
        *("thread shifted", "block shifted", "exchange changed", "initial value changed"),
    }
    sample = Counter(mutants[number][1].kind for number in taken(mutants, STEP))
    assert sample.keys() == kinds.keys()


def test_mutants_are_caught() -> None:
    """A sample of all kinds and kernels."""
    check(STEP)


@pytest.mark.slow
def test_all_mutants_are_caught() -> None:
    check(1)
