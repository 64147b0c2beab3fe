"""What is said of a graph that cannot be: each message once, with both ends."""

from __future__ import annotations

import pytest
from says import says

import noeira
from noeira.errors import CompositionError, FusionError
from noeira.nn import (
    Add,
    ExternalNode,
    Fused,
    Graph,
    InputSlot,
    Linear,
    Node,
    Output,
    ReLU,
    Repeat,
    Sequential,
    Tanh,
)

X = InputSlot["x", 64]
H = Node["h", Linear[64, 32], "x"]


def test_shapes_that_do_not_fit() -> None:
    says(
        lambda: Graph[X, H, Node["y", Linear[16, 2], "h"]],
        """"h" and "y" of Graph do not fit

    Graph[InputSlot["x", 64], Node["h", Linear[64, 32], "x"], Node["y", Linear[16, 2], "h"]]
                              ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
                              gives (32)                      takes (*, 16)

  Change Linear[16, 2] to Linear[32, 2], or Linear[64, 32] to Linear[64, 16].""",
    )
    says(
        lambda: Graph[X, H, Node["y", Add, "h", "x"]],
        """"x" and "y" of Graph do not fit

    Graph[InputSlot["x", 64], Node["h", Linear[64, 32], "x"], Node["y", Add, "h", "x"]]
          ~~~~~~~~~~~~~~~~~~                                  ~~~~~~~~~~~~~~~~~~~~~~~~
          is (64)                                             takes (32) as "x", beside "h"

  Change one of them.""",
    )
    says(
        lambda: Graph[InputSlot["x", 32], H],
        """"x" and "h" of Graph do not fit

    Graph[InputSlot["x", 32], Node["h", Linear[64, 32], "x"]]
          ~~~~~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
          is (32)             takes (*, 64)

  Change Linear[64, 32] to Linear[32, 32], or InputSlot["x", 32] to InputSlot["x", 64].""",
    )


def test_a_shape_that_is_given() -> None:
    net = Graph[InputSlot["x"], Node["a", ReLU, "x"], InputSlot["z"], Node["y", Add, "a", "z"]]
    assert net.gives((3,), (3,)) == (3,)
    says(
        lambda: net.solve((3,), (4,)),
        """"z" and "y" of Graph, given (3,), (4,), do not fit

    Graph[InputSlot["x"], Node["a", ReLU, "x"], InputSlot["z"], Node["y", Add, "a", "z"]]
                                                ~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~~~~~~~~~~
                                                is (4)          takes (3) as "z", beside "a\"""",
    )


def test_names() -> None:
    says(
        lambda: Graph[X, H, Node["y", ReLU, "k"]],
        """Graph: "y" reads "k", which there is not; there are "x" and "h"

    Graph[InputSlot["x", 64], Node["h", Linear[64, 32], "x"], Node["y", ReLU, "k"]]
                                                              ~~~~~~~~~~~~~~~~~~~~
                                                              reads "k\"""",
    )
    says(
        lambda: Graph[X, H, Node["x", ReLU, "h"]],
        """Graph: two declarations are called "x"

    Graph[InputSlot["x", 64], Node["h", Linear[64, 32], "x"], Node["x", ReLU, "h"]]
          ~~~~~~~~~~~~~~~~~~                                  ~~~~~~~~~~~~~~~~~~~~
          "x"                                                 "x\"""",
    )
    says(
        lambda: Graph[X, Node["y", ReLU, "h"], H, Output["y"]],
        """Graph: "y" reads "h", which comes after it: move that before it

    Graph[InputSlot["x", 64], Node["y", ReLU, "h"], Node["h", Linear[64, 32], "x"], Output["y"]]
                              ~~~~~~~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
                              reads "h"             gives "h\"""",
    )
    says(
        lambda: Graph[X, Node["a", Add, "x", "b"], Node["b", ReLU, "a"]],
        """Graph: "a" reads "b", which comes after it: a node cannot read what follows from it

    Graph[InputSlot["x", 64], Node["a", Add, "x", "b"], Node["b", ReLU, "a"]]
                              ~~~~~~~~~~~~~~~~~~~~~~~~  ~~~~~~~~~~~~~~~~~~~~
                              reads "b"                 gives "b\"""",
    )
    says(
        lambda: Graph[X, H, Node["y", ReLU, "x"]],
        """Graph: nothing reads "h": write Output[…, "h"], or leave it out

    Graph[InputSlot["x", 64], Node["h", Linear[64, 32], "x"], Node["y", ReLU, "x"]]
                              ~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
                              is read by none""",
    )


def test_numbers_of_inputs_and_outputs() -> None:
    says(
        lambda: Graph[X, H, Node["y", Add, "h"]],
        """Graph: "y" is given 1: Add takes 2 inputs

    Graph[InputSlot["x", 64], Node["h", Linear[64, 32], "x"], Node["y", Add, "h"]]
                                                              ~~~~~~~~~~~~~~~~~~~
                                                              takes (*), (*), given "h\"""",
    )
    two = Graph[InputSlot["x"], Node["a", ReLU, "x"], Node["b", Tanh, "x"], Output["a", "b"]]
    with pytest.raises(CompositionError, match=r'"y" reads "n": "n" gives "n\.0" and "n\.1"'):
        Graph[InputSlot["x"], Node["n", two, "x"], Node["y", ReLU, "n"]]
    with pytest.raises(CompositionError, match=r'"y" reads "x\.0": "x" is one input'):
        Graph[InputSlot["x"], Node["y", ReLU, "x.0"]]
    with pytest.raises(CompositionError, match="in Sequential a layer gives one"):
        Sequential[two, ReLU]


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Graph[Linear[3, 4], ReLU], 'write Node["name", Linear[3, 4], "x"]'),
        (lambda: Graph[X], "has no node: write Graph"),
        (lambda: Graph[X, H, Output["g"]], 'reads "g", which there is not; there are "x" and "h"'),
        (lambda: Graph[X, H, Output["h"], Node["y", ReLU, "h"]], "must be the last"),
        (lambda: Graph[H, X], "the last declaration gives the output"),
        (lambda: Node["h", Linear[3, 4]], 'write Node["h", Linear[3, 4], "x"]'),
        (lambda: Node["h"], "has no module"),
        (lambda: Node["h", Linear, "x"], "Linear needs its parameters"),
        (lambda: Node["h", ReLU, 3], 'by their names, such as "x", not 3'),
        (lambda: Node["h.1", ReLU, "x"], "begins with its name, of letters, digits and _"),
        (lambda: InputSlot["x", 0], "an axis has at least one element, not 0"),
        (lambda: Output[()], 'write Output["y"]'),
        (lambda: ExternalNode["e", ReLU, "x"], "ReLU has no parameters to share: write Node"),
        (lambda: Fused[X, H, Node["y", ReLU, "h"]], "leave InputSlot"),
        (lambda: Fused[Node["h", ReLU, "x"], ReLU], 'write Node["name", ReLU, "x"]'),
        (lambda: Repeat[2, Graph[X, H]], "it must give the shape it takes"),
    ],
)
def test_what_is_no_declaration(make: object, said: str) -> None:
    with pytest.raises(CompositionError) as found:
        make()  # type: ignore[operator]
    assert said in str(found.value)


def test_parameters_that_are_nowhere() -> None:
    lost = Graph[InputSlot["s"], ExternalNode["critic", Linear[4, 1], "s"]]
    with pytest.raises(CompositionError, match=r"no module around it has such, critic\.weight"):
        noeira.compile(lost, target="reference")
    with pytest.raises(CompositionError, match='"c" cannot have the parameters of "e"'):
        Graph[
            InputSlot["s"],
            Node["e", Linear[4, 4], "s"],
            ExternalNode.of("c", Linear[4, 1], "e", owner="e"),
        ]


def test_a_fused_graph_that_cannot_be() -> None:
    with pytest.raises(FusionError) as found:
        Fused[Node["s", Linear[3, 4], "x"], Node["y", Linear[4, 5], "s"]]
    assert 'Write Graph[InputSlot["x"], Node["s", ' in str(found.value)
