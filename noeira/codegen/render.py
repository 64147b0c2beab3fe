"""Plans to one unit of source, in the language of their target."""

from __future__ import annotations

from collections.abc import Sequence

from noeira.codegen.c import CTarget
from noeira.codegen.source import Source
from noeira.codegen.target import Target
from noeira.ir.plan import Plan


def render(
    name: str, plans: Sequence[Plan], target: Target, earlier: Sequence[Plan] = ()
) -> Source:
    """The unit of a program's plans; `earlier`: the plans of another unit, whose kernels keep their
    names.
    """
    if isinstance(target, CTarget):
        from noeira.codegen.render_c import render_c

        return render_c(name, plans, target, earlier=earlier)
    from noeira.codegen.cuda import CudaTarget
    from noeira.codegen.render_cuda import render_cuda

    assert isinstance(target, CudaTarget)
    return render_cuda(name, plans, target, earlier)
