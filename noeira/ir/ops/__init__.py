"""The operations, one file a family. Importing the package imports them all."""

from noeira.ir import fused  # noqa: F401  (the one op that is no family)
from noeira.ir.packages import import_all

import_all(__name__)
