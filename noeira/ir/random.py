"""Random numbers that are a function of where they are used: Philox-4x32-10, and the distributions
drawn from it.

Element `e` of stream `s` at tick `t` under seed `k` is made from the four 32-bit words

    philox4x32-10(key = (k, s), counter = (e mod 2^32, e div 2^32, t mod 2^32, t div 2^32))

on every target. A uniform f32 uses the upper 24 bits of the first word, a uniform f64 53 bits of
the first two, a normal number all four. Those of kernels, `uniform24`, are 24 bits in every dtype,
so that a mask does not depend on it, and four of them share a counter: element e is made from word
e mod 4 of the counter e div 4. Source: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as
easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noeira.errors import DtypeError, OptionError, ParseError
from noeira.ir.numbers import whole_number
from noeira.ir.types import DTYPES

if TYPE_CHECKING:
    import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
WORD = 0xFFFFFFFF
# Words that a counter gives.
WORDS = 4

# Streams of a seed: trace numbers those of training from 0; evaluation, initial values and data
# order have ranges of their own.
EVALUATION_STREAM = 0x40000000
INITIAL_STREAM = 0x80000000
ORDER_STREAM = 0xC0000000

# Elements computed at a time: their words of 64 bits stay in the L1 and L2 caches, and in memory
# that the allocator keeps.
CHUNK = 1 << 12
# No standard normal number is further from 0: √(−2 ln 2^-53), as 1 − u is at least 2^-53.
FURTHEST_NORMAL = 8.58
# A truncated normal draws an element again, at the next tick, while it lies outside; 2 in 10^82
# would need more.
ATTEMPTS = 64

# kind of a distribution -> names of its arguments
KINDS = {
    "zero": (),
    "constant": ("value",),
    "uniform": ("low", "high"),
    "normal": ("mean", "std"),
    "truncated_normal": ("std", "bound"),
    "deterministic": (),
}


def philox(seed: int, stream: int, first: int, count: int, tick: int = 0) -> np.ndarray:
    """The words of elements first, …, first + count - 1: uint32[count, 4].

    Raises OptionError for a bad seed or stream.
    """
    import numpy as np

    check_key(seed, stream)
    words = np.empty((count, 4), np.uint32)
    for start in range(0, count, CHUNK):
        stop = min(start + CHUNK, count)
        elements = np.arange(first + start, first + stop, dtype=np.uint64)
        words[start:stop] = philox_block((seed, stream), elements, tick)
    return words


def philox_block(key: tuple[int, int], elements: np.ndarray, tick: int) -> np.ndarray:
    """The words of the given elements (uint64): uint32[len(elements), 4]."""
    import numpy as np

    low, shift = np.uint64(WORD), np.uint64(32)
    m0, m1 = (np.uint64(m) for m in MULTIPLIERS)
    k0, k1 = key
    c0, c1 = elements & low, elements >> shift
    c2 = np.full_like(elements, tick & WORD)
    c3 = np.full_like(elements, tick >> 32 & WORD)
    p0, p1 = np.empty_like(elements), np.empty_like(elements)
    for _ in range(ROUNDS):
        # (c0, c1, c2, c3) becomes (high(p1) ^ c1 ^ k0, low(p1), high(p0) ^ c3 ^ k1, low(p0)).
        np.multiply(c0, m0, out=p0)
        np.multiply(c2, m1, out=p1)
        np.right_shift(p1, shift, out=c0)
        c0 ^= c1
        c0 ^= np.uint64(k0)
        np.bitwise_and(p1, low, out=c1)
        np.right_shift(p0, shift, out=c2)
        c2 ^= c3
        c2 ^= np.uint64(k1)
        np.bitwise_and(p0, low, out=c3)
        k0, k1 = (k0 + WEYL[0]) & WORD, (k1 + WEYL[1]) & WORD
    words = np.empty((len(elements), 4), np.uint32)
    for index, word in enumerate((c0, c1, c2, c3)):
        words[:, index] = word
    return words


def check_key(seed: int, stream: int) -> None:
    """Raises OptionError unless seed and stream are whole numbers of 32 bits."""
    check_seed(seed)
    check_seed(stream, "stream")


def check_seed(value: int, name: str = "seed") -> int:
    """The value, a whole number of 32 bits. Raises OptionError."""
    number = whole_number(value)
    if number is None or not 0 <= number <= WORD:
        raise OptionError(f"{name} must be a whole number from 0 to {WORD}, not {value!r}")
    return number


def uniform01(
    seed: int, stream: int, count: int, dtype: str = "f32", tick: int = 0, first: int = 0
) -> np.ndarray:
    """Uniform numbers in [0, 1): multiples of 2^-24 for f32, of 2^-53 for f64; shape [count]."""
    import numpy as np

    words = philox(seed, stream, first, count, tick)
    if dtype == "f32":
        return (words[:, 0] >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return unit53(words[:, 0], words[:, 1])


def uniform24(seed: int, stream: int, count: int, tick: int = 0) -> np.ndarray:
    """Uniform numbers in [0, 1), multiples of 2^-24, of elements 0, …, count - 1, each from a word
    of its own, as the scalar function `uniform` gives them in kernels; f32, shape [count]. Of the
    seed and the stream the lower 32 bits count.
    """
    import numpy as np

    words = philox(seed & WORD, stream & WORD, 0, -(-count // WORDS), tick).reshape(-1)[:count]
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def unit53(high: np.ndarray, low: np.ndarray) -> np.ndarray:
    """53 bits of two words as multiples of 2^-53 in [0, 1)."""
    import numpy as np

    bits = (high.astype(np.uint64) >> np.uint64(5) << np.uint64(26)) | (
        low.astype(np.uint64) >> np.uint64(6)
    )
    return bits.astype(np.float64) * 2.0**-53


def normal(seed: int, stream: int, count: int, tick: int = 0, first: int = 0) -> np.ndarray:
    """Standard normal numbers by Box and Muller (1958), in f64; shape [count]."""
    return box_muller(philox(seed, stream, first, count, tick))


def box_muller(words: np.ndarray) -> np.ndarray:
    """√(−2 ln(1 − u)) · cos 2πv, u and v from the four words of each element."""
    import numpy as np

    u, v = unit53(words[:, 0], words[:, 1]), unit53(words[:, 2], words[:, 3])
    return np.sqrt(-2.0 * np.log1p(-u)) * np.cos(2.0 * np.pi * v)


def truncated_normal(
    seed: int, stream: int, count: int, bound: float, first: int = 0
) -> np.ndarray:
    """Standard normal numbers in [-bound, bound], in f64: the first draw that lies inside."""
    import numpy as np

    values = normal(seed, stream, count, first=first)
    outside = np.flatnonzero(np.abs(values) > bound)
    for tick in range(1, ATTEMPTS):
        if not outside.size:
            break
        elements = outside.astype(np.uint64) + np.uint64(first)
        values[outside] = box_muller(philox_block((seed, stream), elements, tick))
        outside = outside[np.abs(values[outside]) > bound]
    return np.clip(values, -bound, bound)


def permutation(seed: int, stream: int, n: int, tick: int = 0) -> np.ndarray:
    """The numbers 0, …, n - 1 in random order, int32[n]: sorted by 64 random bits each."""
    import numpy as np

    words = philox(seed, stream, 0, n, tick).astype(np.uint64)
    return np.argsort(words[:, 0] << np.uint64(32) | words[:, 1], kind="stable").astype(np.int32)


@dataclass(frozen=True)
class Distribution:
    """How the elements of a tensor begin; its text, such as `uniform(-0.5, 0.5)`, reads back
    exactly.

    zero() ; constant(value) ; uniform(low, high) ; normal(mean, std)
    truncated_normal(std, bound): std · z, z standard normal within ±bound
    deterministic(): ((i mod 7) − 3) · 0.1 for element i
    """

    kind: str
    args: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParseError(
                f"there is no distribution {self.kind!r}; there are {', '.join(KINDS)}"
            )
        if len(self.args) != len(KINDS[self.kind]) or not all(map(math.isfinite, self.args)):
            raise ParseError(
                f"{self}: write {self.kind}({', '.join(KINDS[self.kind])}) with finite numbers"
            )

    def __str__(self) -> str:
        return f"{self.kind}({', '.join(map(repr, self.args))})"

    __repr__ = __str__

    @property
    def ends(self) -> tuple[float, float]:
        """What no element is below, and what none is above; not finite where drawing one is not."""
        match self.kind, self.args:
            case "constant", (value,):
                return value, value
            case "uniform", (low, high):
                return (low, high) if math.isfinite(high - low) else (-math.inf, math.inf)
            case "normal", (mean, std):
                return mean - FURTHEST_NORMAL * std, mean + FURTHEST_NORMAL * std
            case "truncated_normal", (std, bound):
                return -std * bound, std * bound
            case "deterministic", _:
                return -0.3, 0.3
        return 0.0, 0.0

    def check_fits(self, name: str, dtype: str) -> None:
        """Raises DtypeError if elements may be too large for the dtype of `name`, or are one number
        that it has not.
        """
        row, ends = DTYPES[dtype], self.ends
        if self.kind == "uniform":
            # The upper end is never drawn.
            ends = ends[0], math.nextafter(ends[1], ends[0])
        if all(map(math.isfinite, ends)) and not row.is_float and self.kind != "constant":
            # Of what is drawn, whole numbers keep the whole part.
            ends = tuple(map(math.trunc, ends))
        if not all(math.isfinite(end) and row.fits(end) for end in ends):
            raise DtypeError(f"{name} begins as {self}, which does not fit in {dtype}")

    @classmethod
    def parse(cls, text: str) -> Distribution:
        """Read the text of a distribution. Raises ParseError."""
        found = re.fullmatch(r"\s*(\w+)\(([^()]*)\)\s*", text)
        if found is None:
            raise ParseError(f"{text!r} is no distribution; one is written like uniform(-0.5, 0.5)")
        try:
            args = tuple(float(part) for part in found[2].split(",")) if found[2].strip() else ()
        except ValueError:
            raise ParseError(f"{text!r}: the arguments of a distribution are numbers") from None
        return cls(found[1], args)


def zero() -> Distribution:
    """All elements 0."""
    return Distribution("zero")


def constant(value: float) -> Distribution:
    """All elements `value`."""
    return Distribution("constant", (float(value),))


def fill(
    distribution: Distribution, seed: int, stream: int, shape: tuple[int, ...], dtype: str = "f32"
) -> np.ndarray:
    """An array of the distribution. Raises DtypeError for a dtype other than f32 and f64."""
    import numpy as np

    if dtype not in ("f32", "f64"):
        raise DtypeError(f"initial values are f32 or f64, not {dtype}")
    check_key(seed, stream)
    values = np.empty(shape, np.float32 if dtype == "f32" else np.float64)
    write(distribution, seed, stream, values.reshape(-1), dtype)
    return values


def write(
    distribution: Distribution, seed: int, stream: int, values: np.ndarray, dtype: str
) -> None:
    """Write what `fill` gives in a dtype over a flat array, which may be of another one."""
    for first in range(0, values.size, CHUNK):
        part = values[first : first + CHUNK]
        part[...] = draw(distribution, seed, stream, first, part.size, dtype)


def draw(
    distribution: Distribution, seed: int, stream: int, first: int, count: int, dtype: str
) -> np.ndarray:
    """Elements first, …, first + count - 1 of `fill`, flat, before the last rounding."""
    import numpy as np

    args = distribution.args
    match distribution.kind:
        case "zero":
            return np.zeros(count)
        case "constant":
            return np.full(count, args[0])
        case "uniform":
            drawn = uniform01(seed, stream, count, dtype, first=first)
            return args[0] + (args[1] - args[0]) * drawn.astype(np.float64)
        case "normal":
            return args[0] + args[1] * normal(seed, stream, count, first=first)
        case "truncated_normal":
            return args[0] * truncated_normal(seed, stream, count, args[1], first)
        case _:
            return (np.arange(first, first + count) % 7 - 3) * 0.1
