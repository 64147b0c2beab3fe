"""Runs passes one after the other: verifies after each, checks its undo, times it, and shows each
stage to a watcher.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from noeira.errors import NoeiraError, VerifyError
from noeira.ir.text.dump import Dump
from noeira.ir.verify import verify
from noeira.passes.base import Pass, parse_pass
from noeira.passes.fuse import inline
from noeira.passes.guard import check_guarded
from noeira.passes.own import Own

Watcher = Callable[[str, Dump], None]


@dataclass(frozen=True)
class Pipeline:
    """The passes to run."""

    passes: tuple[Pass, ...]

    def __call__(
        self, dump: Dump, watch: Watcher | None = None, seconds: dict[str, float] | None = None
    ) -> Dump:
        """The graph after every pass.

        watch: called with each pass's name and the dump after it. seconds: filled with each pass's
        time.
        """
        for number, step in enumerate(self.passes):
            started = time.perf_counter()
            before = dump.graph
            after = step(before)
            if after is not before:
                verify(after, after=step.name)
                step.check(before, after)
            todo = tuple(str(p) for p in self.passes[number + 1 :])
            dump = Dump(after, (*dump.done, str(step)), todo)
            if seconds is not None:
                seconds[step.name] = time.perf_counter() - started
            if watch:
                watch(step.name, dump)
        prove_fusion(dump)
        # A copy that `own` made stands for what was copied.
        check_guarded(Own().undo(dump.graph))
        return dump


def resume(dump: Dump) -> Pipeline:
    """The passes that a dump says are still to run. Raises ParseError if it names one that does not
    exist.
    """
    return Pipeline(tuple(parse_pass(text) for text in dump.todo))


def prove_fusion(dump: Dump) -> None:
    """The cheap proof of every compile: the fused graph, opened, is still valid."""
    if not any(node.body for node in dump.graph.nodes):
        return
    try:
        verify(inline(dump.graph))
    except NoeiraError as error:
        raise VerifyError(f"opened, the fused graph is not valid: {error}") from error
