"""Reports: what they say of tiny networks, word for word, and that what they say is so."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import noeira
from noeira.errors import CompositionError, DeviceError, NoeiraError, OptionError
from noeira.ir.graph import Value
from noeira.ir.text.dump import Dump
from noeira.nn import (
    MSE,
    SGD,
    Adam,
    CrossEntropy,
    Fused,
    Linear,
    LinearReLU,
    LinearTanh,
    Module,
    ReLU,
    Repeat,
    Residual,
    Scope,
    Sequential,
    SiLU,
    Tanh,
)
from noeira.report.difference import difference, renamed, without_names
from noeira.report.drawing import dot, mermaid, picture
from noeira.report.explain import explain_stages
from noeira.report.runs import fusible_runs
from noeira.report.structure import dump_value, plan_value
from noeira.report.suggest import NOTHING, counted, report
from noeira.report.table import bytes_text, plural, table
from noeira.stages import stages_of

Plain = Sequential[Linear[4, 3], ReLU, Linear[3, 2]]


class Tiny(Sequential[Linear[4, 3], ReLU, Linear[3, 2]]):
    """Nothing is fused."""


class TinyFused(Sequential[LinearReLU[4, 3], Linear[3, 2]]):
    """The same function, one launch fewer in each direction."""


class Deep(
    Sequential[
        Repeat[3, Sequential[Linear[8, 8], Tanh]],
        Residual[Sequential[Linear[8, 8], SiLU, Tanh]],
        LinearReLU[8, 8],
        Tanh,
        Linear[8, 2],
    ]
):
    """Chains inside chains, inside a residual, and a fused type that could do more."""


def stages(net: type[Module], **options: Any):
    """The stages of a tiny network for a vector unit that does not depend on the machine."""
    return stages_of(net, batch=5, isa="avx2", **options)


@pytest.mark.parametrize("net", [Tiny, TinyFused, Deep], ids=lambda net: net.__name__)
def test_explanation(net: type[Module], golden: Callable[..., None]):
    golden(str(explain_stages(stages(net))))


def test_suggestions(golden: Callable[..., None]):
    golden(report(stages(Deep)))
    assert report(stages(TinyFused)) == NOTHING


def test_summary(golden: Callable[..., None]):
    golden(str(noeira.summary(Tiny, batch=5)), "step")
    golden(str(noeira.summary(Tiny, batch=5, loss=None)), "forward")


@pytest.mark.parametrize("draw", [dot, mermaid], ids=lambda draw: draw.__name__)
def test_drawing(draw: Callable[..., str], golden: Callable[..., None]):
    golden(draw(stages(TinyFused).fused.graph))


def test_a_launch_of_the_forward_pass_says_what_it_is_and_why():
    found = noeira.explain(TinyFused, batch=5, loss=CrossEntropy, optimizer=Adam(), isa="avx2")
    first = json.loads(found.json())["launches"][0]
    assert first["origin"] == {"path": "0", "type": "LinearReLU[4, 3]", "pass": "trace"}
    assert first["op"] == "fused[linear, relu]" and first["fused"] is True
    assert first["why"] == "fused because you wrote LinearReLU[4, 3]"
    assert found.launches[1].why == "Linear[3, 2]" and not found.launches[1].fused
    assert [launch.number for launch in found.launches] == list(range(len(found.launches)))


def test_an_explanation_adds_up():
    step = stages(Deep)
    found = explain_stages(step)
    count = counted(step.fused.graph)
    assert len(found.launches) == count.launches == len(step.plan.calls)
    assert found.bytes == count.bytes
    assert found.arena_bytes == step.plan.arena
    assert found.to_json()["flops"] == sum(launch.flops for launch in found.launches)


def test_calls_of_several_stages_are_shown():
    text = str(noeira.explain(Linear[64, 32], batch=4096, isa="avx2"))
    assert re.search(r"gradient of Linear\[64, 32\] .*\n +└ 2 stages: chunks, total\n", text)


def test_sums_of_gradients_say_whose():
    reasons = {launch.why for launch in explain_stages(stages(Deep)).launches}
    assert any(reason.startswith("sum of the gradients of %") for reason in reasons)
    assert "optimizer adam" in reasons


def test_a_program_is_explained_under_the_names_of_its_source():
    program = noeira.compile(TinyFused, loss=CrossEntropy, optimizer=Adam(), batch=5)
    for entry in ("step", "gradients", "forward"):
        found = noeira.explain(program, entry=entry)
        assert found.name == f"tinyfused.{entry}"
        for launch in found.launches if program.source else ():
            assert re.search(rf"\b{launch.kernel}(_\w+)?\(", program.source)
    assert noeira.explain(program).name == "tinyfused.step"
    with pytest.raises(NoeiraError, match="has no entry 'steps'; it has forward, gradients, step"):
        noeira.explain(program, entry="steps")


def test_entries_over_loaded_data_are_explained_under_the_names_of_their_source():
    program = noeira.compile(TinyFused, loss=CrossEntropy, optimizer=Adam(), batch=5)
    program.load(np.zeros((10, 4), np.float32), np.zeros(10, np.int32))
    program.steps(1)
    found, source = noeira.explain(program, entry="steps"), program.units[-1].source
    for launch in found.launches if source else ():
        assert re.search(rf"\b{launch.kernel}(_\w+)?\(", source)


def test_a_reference_program_is_explained_as_c_would_run_it():
    program = noeira.compile(Tiny, loss=CrossEntropy, batch=5, target="reference")
    found = noeira.explain(program)
    assert found.name == "tiny.gradients" and found.target.startswith("c ")
    assert found.launches[1].hint == "2 launches; write LinearReLU[4, 3] for 1"


def test_a_suggestion_saves_exactly_what_writing_it_saves():
    (found,) = noeira.suggest(Tiny, batch=5)
    written = counted(stages(TinyFused).fused.graph)
    before = counted(stages(Tiny).fused.graph)
    assert found.saves == before - written
    assert found.hint == "2 launches; write LinearReLU[4, 3] for 1"
    assert found.places == (("0", "1"),)


def test_all_suggestions_together_save_what_they_say():
    class Written(
        Sequential[
            Repeat[3, LinearTanh[8, 8]],
            Residual[Fused[Linear[8, 8], SiLU, Tanh]],
            Fused[Linear[8, 8], ReLU, Tanh],
            Linear[8, 2],
        ]
    ):
        """What the suggestions for Deep say."""

    before, after = stages(Deep).fused.graph, stages(Written).fused.graph
    total = re.search(r"in all: (\d+) launches become (\d+), ([\d,]+) of", report(stages(Deep)))
    assert total is not None
    assert int(total[1]) == counted(before).launches
    assert int(total[2]) == counted(after).launches
    assert int(total[3].replace(",", "")) == (counted(before) - counted(after)).bytes


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_an_explanation_fits_a_terminal(width: int):
    found = explain_stages(stages(Deep))
    wide, text = str(found).splitlines(), found.text(width).splitlines()
    assert max(map(len, text)) <= width < 140 or text == wide
    words = " ".join(found.text(width).split())
    for launch in found.launches:
        assert f"{launch.kernel} " in words and launch.hint in words
        assert launch.why in words and launch.origin.path in words


def test_a_vector_unit_that_there_is_not():
    with pytest.raises(
        DeviceError, match="there is no target 'c sse'; there are c avx512, c avx2, c"
    ):
        noeira.explain(Tiny, isa="sse")


def test_suggesting_changes_nothing():
    step = stages(Deep)
    before = str(step.traced)
    report(step)
    assert str(step.traced) == before


def test_the_options_are_those_of_compile():
    forward = noeira.explain(Tiny, batch=2, loss=None)
    assert forward.name == "tiny.forward" and len(forward.launches) == 3
    assert noeira.explain(Tiny, optimizer=None).name == "tiny.gradients"
    assert noeira.explain(Tiny(), loss=MSE, optimizer=SGD(lr=0.1)).name == "tiny.step"
    with pytest.raises(CompositionError, match="takes a network type"):
        noeira.explain(int)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="batch must be"):
        noeira.summary(Tiny, batch=0)
    assert noeira.explain(Tiny, entry="steps").name == "tiny.steps"
    assert noeira.explain(Tiny, entry="evaluate").name == "tiny.evaluate"
    names = "forward, gradients, step, steps, order, evaluate"
    with pytest.raises(NoeiraError, match=f"no entry 'fit' here; there are {names}"):
        noeira.explain(Tiny, entry="fit")


def test_a_summary_counts_what_there_is():
    found = noeira.summary(Tiny, batch=5)
    assert found.count == 4 * 3 + 3 + 3 * 2 + 2 == sum(p.size for p in Tiny.parameters().values())
    sizes = dict(found.memory)
    gradients = sizes.pop("gradients, in the arena")
    assert sum(sizes.values()) == found.peak_bytes
    assert sizes["moments"] == 2 * sizes["parameters"] == 2 * gradients
    assert json.loads(found.json())["count"] == found.count
    assert [work.entry for work in found.work] == ["forward", "step"]
    kept = dict(noeira.summary(Tiny, batch=5, optimizer=None).memory)
    assert kept["gradients"] == kept["parameters"]


def test_a_summary_of_batches_in_parts_has_both_entries():
    found = noeira.summary(Tiny, batch=6, accumulate=2)
    assert [work.entry for work in found.work] == ["forward", "step.micro", "step"]
    assert (found.batch, found.parts) == (6, 2)
    assert "work for one of the 2 parts of a batch of 6 in f32" in str(found)


def test_a_summary_allocates_no_parameters():
    noeira.summary(Tiny)
    tracemalloc.start()
    try:
        found = noeira.summary(Linear[50_000, 50_000])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert dict(found.memory)["parameters"] > 10_000_000_000
    assert peak < 10_000_000


def test_json_has_the_whole_graph_and_plan():
    step = stages(TinyFused)
    value = json.loads(json.dumps(dump_value(step.fused)))
    graph = value["graph"]
    assert value["done"] == list(step.fused.done) and value["todo"] == []
    assert len(graph["nodes"]) == len(step.fused.graph.nodes)
    assert [part["op"] for part in graph["nodes"][0]["body"]] == ["linear", "relu"]
    assert graph["nodes"][0]["outputs"] == [
        {"name": "0.relu", "type": {"dtype": "f32", "shape": [5, 3]}}
    ]
    plan = json.loads(json.dumps(plan_value(step.plan)))
    assert len(plan["calls"]) == len(step.plan.calls)
    assert plan["arena"] == step.plan.arena


def test_a_picture_has_every_operation_once():
    graph = stages(TinyFused).fused.graph
    shown = picture(graph)
    boxes = [*shown.boxes, *(box for cluster in shown.clusters for box in cluster.boxes)]
    operations = [box for box in boxes if box.kind in ("op", "view")]
    assert len(operations) == sum(len(node.parts) for node in graph.nodes)
    assert {edge.source for edge in shown.edges} <= {box.id for box in boxes}
    assert len(shown.clusters) == 2 and len(set(shown.colours.values())) == 1


def test_a_graph_does_not_differ_from_itself():
    dump = stages(Tiny).fused
    assert difference(dump, dump).same
    assert str(difference(dump, dump)) == "the graphs are the same"


def test_a_difference_names_nodes(golden: Callable[..., None]):
    traced = stages(Tiny).traced
    text = str(traced).replace("%1.relu = relu(%0.linear)", "%1.tanh = tanh(%0.linear)")
    text = text.replace("linear(%1.relu", "linear(%1.tanh").replace("%2.linear", "%z")
    from noeira.ir.text.dump import parse_dump

    found = difference(traced, parse_dump(text))
    assert found.gone == ("1.relu", "2.linear") and found.new == ("1.tanh", "z")
    assert found.changed == ("loss",)
    golden(str(found))


def test_a_difference_knows_a_renamed_node():
    old = stages(Tiny).traced
    new = Dump(renamed(old.graph, {"1.relu": "hidden", "x": "pixels"}), old.done, old.todo)
    only = Dump(renamed(old.graph, {"1.relu": "hidden"}), old.done, old.todo)
    found = difference(old, only)
    assert found.renamed == (("1.relu", "hidden"),)
    assert found.changed == ("2.linear",) and not found.same
    assert without_names(old, new).same


def test_without_names_only_what_changed_is_left():
    old = stages(Tiny).traced
    new = stages(Sequential[Linear[4, 3], Tanh, Linear[3, 2]]).traced
    found = without_names(old, Dump(renamed(new.graph, {"0.linear": "first"})))
    changed = [line for line in found.lines if re.match(r"[-+] ", line)]
    ops = [line.split(" = ")[1].split("(")[0] for line in changed]
    assert ops == ["relu", "linear", "tanh", "linear"]
    assert not any("first" in line for line in found.lines)


def test_tables_and_numbers():
    rows = [("a", "1"), ("bbb", "22")]
    assert table(("x", "n"), rows, right=(1,)) == ["x     n", "a     1", "bbb  22"]
    assert plural(1, "launch", "launches") == "1 launch"
    assert plural(2000, "launch", "launches") == "2,000 launches"
    assert bytes_text(1) == "1 byte"
    assert bytes_text(407_040) == "407,040 bytes (397.5 KiB)"
    assert bytes_text(3 << 30) == "3,221,225,472 bytes (3.0 GiB)"


class TwoLayers(Module):
    """Children that run one after the other, of a class that is no combinator."""

    in_turn = True
    signature = "(*, 4) -> (*, 4)"

    @classmethod
    def children(cls) -> tuple[tuple[str, type[Module]], ...]:
        return (("linear", Linear[4, 4]), ("relu", ReLU))

    @classmethod
    def trace(cls, scope: Scope, x: Value) -> Value:
        for name, part in cls.children():
            x = scope.child(name, part).run(x)
        return x


def test_chains_of_ones_own_are_seen() -> None:
    assert [run.paths for run in fusible_runs(TwoLayers)] == [("linear", "relu")]
