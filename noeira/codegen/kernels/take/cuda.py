"""How CUDA copies rows of a data set."""

from __future__ import annotations

import math

from noeira.codegen.cuda.arch import ACCESS_BYTES
from noeira.codegen.cuda.moving import Moving
from noeira.ir.body import Body


class Take(Moving):
    """Samples are moved as they are."""

    stem = "take"

    def most_access(self, body: Body) -> int:
        type = body.outputs[0].type
        return math.gcd(ACCESS_BYTES, type.nbytes // type.shape[0])
