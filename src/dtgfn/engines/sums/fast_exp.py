"""exp to eleven digits, written so that a loop over it runs on vectors: libm's takes one at a time.

exp(x) is 2^k exp(x - k log 2), k whole. Adding ``MAGIC`` rounds to k and leaves it in the last bits
of a double, from where it moves to the exponent's.
"""

# numba's decorators are untyped.
# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import math
from typing import Any

from numba import types
from numba.extending import intrinsic

from dtgfn._support.compiled import INNER, njit

CONTRACT = {"contract", "arcp", "nsz"}  # sums keep their order, which ``MAGIC`` rests on
SMALLEST, LARGEST = -700.0, 700.0  # beyond, an exponent counts as this one
MAGIC = 6755399441055744.0  # 1.5 x 2^52: a double of this size has no digits after the point
MANTISSA = 52  # bits
BIAS = 1023 << MANTISSA  # of the exponent
LOG_2, LOG2_E = math.log(2.0), 1.0 / math.log(2.0)


@intrinsic
def bits_of(typing: Any, number: Any) -> Any:
    """The bits of a double, as an integer."""
    return types.int64(types.float64), _cast


@intrinsic
def with_bits(typing: Any, bits: Any) -> Any:
    """The double that has these bits."""
    return types.float64(types.int64), _cast


def _cast(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.bitcast(args[0], context.get_value_type(signature.return_type))


@njit(**INNER, fastmath=CONTRACT, inline="always")
def fast_exp(x: float) -> float:
    """Return exp(x), x taken between ``SMALLEST`` and ``LARGEST``."""
    x = min(max(x, SMALLEST), LARGEST)
    whole = x * LOG2_E + MAGIC
    r = x - (whole - MAGIC) * LOG_2
    near = 1 / 5040 + r * (1 / 40320 + r * (1 / 362880))
    near = 1 / 24 + r * (1 / 120 + r * (1 / 720 + r * near))
    near = 1.0 + r * (1.0 + r * (0.5 + r * (1 / 6 + r * near)))
    return near * with_bits((bits_of(whole) << MANTISSA) + BIAS)  # type: ignore[call-arg]
