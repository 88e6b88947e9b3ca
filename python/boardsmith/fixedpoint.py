"""Fixed-point arithmetic as TensorFlow Lite's kernels have it, for parameters and tables that are computed here."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ONE = (1 << 31) - 1  # the largest number of 31 bits after the point

# exp(-2^n) for n from -2, as integers of 31 bits after the point.
POWERS = {-2: 1672461947, -1: 1302514674, 0: 790015084, 1: 290630308, 2: 39332535, 3: 720401, 4: 242}


def multiplier(real: float) -> tuple[int, int]:
    """Returns an integer of 31 bits after the point, and a shift to the left, whose product is a real factor."""
    if real == 0:
        return 0, 0
    fraction, shift = math.frexp(real)
    value = math.floor(fraction * (1 << 31) + 0.5)
    if value == 1 << 31:
        value, shift = value // 2, shift + 1
    if shift > 30:
        return ONE, 30
    return (0, 0) if shift < -31 else (value, shift)


def scaled(x: int, factor: int, shift: int) -> int:
    """Returns an integer times such a factor: rounded to 31 bits, then by the shift."""
    return divided(high(x << max(shift, 0), factor), max(-shift, 0))


def high(a: int, b: int, bits: int = 31) -> int:
    """Returns a product's upper bits, rounded: of factors with so many bits after the point."""
    return min((a * b + (1 << (bits - 1))) >> bits, (1 << bits) - 1)


def narrow(factor: int) -> int:
    """Returns a factor of 31 bits after the point with 15 of them."""
    return min((factor + (1 << 15)) >> 16, 0x7FFF)


def divided(x: int, bits: int) -> int:
    """Returns x by a power of two, rounded, halves away from zero."""
    rest, half = x & ((1 << bits) - 1), ((1 << bits) - 1) >> 1
    return (x >> bits) + (rest > half + (x < 0))


def limited(x: int, bits: int = 32) -> int:
    """Returns the nearest integer that has so many bits."""
    return max(-1 << (bits - 1), min((1 << (bits - 1)) - 1, x))


def exp(x: int, bits: int) -> int:
    """Returns e to the power of a number that is not positive, with so many bits before the point."""
    quarter = 1 << (29 - bits)
    part = (x & (quarter - 1)) - quarter

    # The series of the part between -1/4 and 0, around -1/8.
    a = limited(part << bits) + (1 << 28)
    squared = high(a, a)
    series = high(divided(high(squared, squared), 2) + high(squared, a), 715827883) + squared
    result = 1895147668 + high(1895147668, a + divided(series, 1))

    rest = part - x
    for power, factor in POWERS.items():
        if bits > power and rest & (1 << (31 - bits + power)):
            result = high(result, factor)
    return ONE if x == 0 else result


def _inverse(x: int) -> int:
    """Returns 2 / (1 + x) for x between 0 and 1, with two bits before the point."""
    half = (x + ONE + 1) >> 1
    result = 1515870810 + high(half, -1010580540)
    for _ in range(3):
        result += limited(high(result, (1 << 29) - high(half, result)) << 2)
    return result


def logistic(x: int) -> int:
    """Returns the logistic function of a number with four bits before the point."""
    if x == 0:
        return 1 << 30
    positive = limited(_inverse(exp(-abs(x), 4)) << 1)
    return positive if x > 0 else ONE - positive


def tanh(x: int) -> int:
    """Returns the hyperbolic tangent of a number with four bits before the point."""
    if x == 0:
        return 0
    positive = limited((_inverse(exp(-abs(x), 5)) - (1 << 29)) << 2)
    return positive if x > 0 else -positive


def rounded(x: Any) -> Any:
    """Returns real numbers as whole ones, halves away from zero, in their own type."""
    return np.copysign(np.floor(np.abs(x).astype("float64") + 0.5), x).astype(x.dtype)


def curve(function: Callable[[Any], Any], inputs: Sequence[float], outputs: Sequence[float]) -> np.ndarray:
    """Returns a table of 512 steps and the end, between whose entries kernels of int16 interpolate. inputs and outputs
    are the ranges; all is computed in float32."""
    least, most = (np.float32(x) for x in inputs)
    step = np.float32((most - least) / np.float32(512))
    scale = np.float32(np.float32(65536) / np.float32(np.float32(outputs[1]) - np.float32(outputs[0])))
    i = np.arange(512, dtype="float32")
    at, middle, after = (function(x) for x in (least + i * step, least + i * step + step / np.float32(2),
                                               least + (i + np.float32(1)) * step))  # fmt: skip
    sample = rounded(at * scale)
    between = rounded((after * scale + sample) / np.float32(2))
    bias = rounded((between - rounded(middle * scale)) / np.float32(2))
    table = np.append(sample - bias, rounded(function(np.float32([most])) * scale))
    return table.clip(-32768, 32767).astype("int16")
