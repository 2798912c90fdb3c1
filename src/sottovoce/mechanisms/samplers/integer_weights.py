"""Exact integer weights for exponentials, quick for any number of candidates and any range.

Floating point would make unlikely candidates impossible, which is an unbounded privacy loss (specification 9.4). Here
the weight of a candidate j grid steps below the best is a whole number, a product of entries for the digits of j:

    W(j) = A[j >> k] * B(j mod 2**k),   B(b) = T0[b_0] * T1[b_1] * ..., every product of T's rounded down to 63 bits,

with A[a] = floor(2**130 exp(-rate a 2**k)), Ti[d] = floor(2**63 exp(-rate d 2**(13 i))) and k such that B is about
2**62 or more. These integers *are* the law, so a sampler can follow it exactly; how far from ideal they are is proved.

Guarantee   ln W is within 10 (1 + 2**-50) 2**-62 of its ideal value, down to the floor at exp(-68 ln 2).
Sources     specification 9.2, T16(c) for the floor; the standard library's decimal (libmpdec) for the exponential.
            Proof of the constant: docs/proofs/exponential.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.privacy.aggregates import IntArray, Scores

WeightArray = NDArray[np.uint64]

BLOCK_BITS: Final = 130
FINE_BITS: Final = 63
BEST: Final = 1 << (BLOCK_BITS + FINE_BITS)
"""The weight of the best candidate; no weight is larger."""

ROUNDING: Final = Fraction(1, 2**57)
"""Taken off epsilon before weights are computed: more than rounding can add to the loss, 20 * 2**-62 (1 + 2**-50)."""

LN2_BELOW: Final = Fraction(693147180559945309417232121458, 10**30)
DEEPEST: Final = 68 * LN2_BELOW
"""The largest exponent in use, about 47.1 nats; lower utilities are raised to it, which costs no privacy."""

_DIGIT_BITS: Final = 13
_MOST_SHIFT: Final = 60
_MOST_STEPS: Final = (1 << 62) + 1
"""More than two scores, each with a public prior, can differ."""
_GUARD_DIGITS: Final = 8
_WORKING_BITS: Final = 256


@final
@dataclass(frozen=True)
class WeightTable:
    """The weights for one rate.

    Attributes:
        shift: k, how many low bits of a level belong to the fine part.
        floor: The level, in grid steps, from which on all weights are that of the floor.
        blocks: A, and behind it the floor's own entry.
        digits: T0, T1, ...
    """

    shift: int
    floor: int
    blocks: tuple[int, ...]
    digits: tuple[WeightArray, ...]

    def split(self, levels: IntArray) -> tuple[IntArray, WeightArray]:
        """The two factors of every weight: which entry of ``blocks``, and the fine part; both shape (levels,)."""
        floored = (len(self.blocks) - 1) << self.shift
        at = np.where(levels >= self.floor, floored, levels)
        fine = np.full(len(at), 1 << FINE_BITS, dtype=np.uint64) if not self.digits else self._digit(0, at)
        for place in range(1, len(self.digits)):
            fine = multiply_high(fine, self._digit(place, at))
        return at >> self.shift, fine

    def block_of(self, level: int) -> int:
        """Which entry of ``blocks`` a level has; it grows with the level."""
        return len(self.blocks) - 1 if level >= self.floor else level >> self.shift

    def weights(self, levels: IntArray) -> list[int]:
        """Every weight as one whole number."""
        blocks, fine = self.split(levels)
        return [self.blocks[a] * b for a, b in zip(blocks.tolist(), fine.tolist(), strict=True)]

    def _digit(self, place: int, at: IntArray) -> WeightArray:
        table = self.digits[place]
        shifted = at >> (place * _DIGIT_BITS) if place else at
        return table.take(shifted & (len(table) - 1))


@lru_cache(maxsize=64)
def weight_table(rate: Fraction) -> WeightTable:
    """Builds the tables for ``rate`` nats a grid step: milliseconds, at most 320 KiB.

    Example:
        >>> [round(w / BEST, 3) for w in weight_table(Fraction(1, 2)).weights(np.array([0, 1, 4]))]
        [1.0, 0.607, 0.135]
    """
    shift = min(max(0, math.floor(LN2_BELOW / rate).bit_length() - 1), _MOST_SHIFT)
    floor = min(math.ceil(DEEPEST / rate), _MOST_STEPS)
    blocks = floors_of_powers(rate * (1 << shift), ((floor - 1) >> shift) + 1, BLOCK_BITS)
    digits = []
    for start in range(0, shift, _DIGIT_BITS):
        size = 1 << min(_DIGIT_BITS, shift - start)
        digits.append(np.array(floors_of_powers(rate * (1 << start), size, FINE_BITS), dtype=np.uint64))
    return WeightTable(shift, floor, (*blocks, floor_exp(DEEPEST, BLOCK_BITS)), tuple(digits))


def floors_of_powers(x: Fraction, count: int, bits: int) -> list[int]:
    """floor(2**bits exp(-x n)) for n = 0, ..., count - 1."""
    base, power, floors = floor_exp(x, _WORKING_BITS), 1 << _WORKING_BITS, []
    for n in range(count):
        # The true 2**256 exp(-x n) lies in [power, power + 2 n]: in each step base and product lose less than 1.
        low, high = (edge >> (_WORKING_BITS - bits) for edge in (power, power + 2 * n))
        floors.append(low if low == high else floor_exp(x * n, bits))
        power = power * base >> _WORKING_BITS
    return floors


def floor_exp(x: Fraction, bits: int) -> int:
    """Returns floor(2**bits * exp(-x)) for 0 <= x <= 100, computed at rising precision until the floor is certain.

    Every precision is passed by hand: a process-wide one could be changed by another thread meanwhile.

    Example:
        >>> floor_exp(Fraction(1), 10)
        376
    """
    if x == 0:
        return 1 << bits
    digits = bits // 3 + 40
    while True:
        # Quotient and exponential are each correctly rounded, so the relative error is below (x + 2) 10**(1 - digits).
        with localcontext(_context(digits)) as context:
            value = context.exp(-(Decimal(x.numerator) / Decimal(x.denominator))) * Decimal(1 << bits)
            slack = value.scaleb(_GUARD_DIGITS - digits)
            low, high = int(value - slack), int(value + slack)
        if low == high:
            return low
        digits *= 2


def multiply_high(x: WeightArray, y: WeightArray) -> WeightArray:
    """floor(x * y / 2**63) for factors up to 2**63, exactly, by halves of 32 bits; no sum below passes 2**64."""
    half, low_half = np.uint64(32), np.uint64(0xFFFFFFFF)
    x_high, x_low, y_high, y_low = x >> half, x & low_half, y >> half, y & low_half
    middle = x_high * y_low + x_low * y_high + (x_low * y_low >> half)
    return np.asarray((x_high * y_high << np.uint64(1)) + (middle >> np.uint64(31)), dtype=np.uint64)


def rate_per_step(epsilon: Fraction, sensitivity: int) -> Fraction:
    """Nats of log-weight for one grid step, so that one change of the data moves log-odds by at most epsilon."""
    return (epsilon - ROUNDING) / sensitivity


def levels_below_best(scores: Scores) -> IntArray:
    """Grid steps below the best candidate, shape (candidates,)."""
    return np.asarray(scores.values.max() - scores.values, dtype=np.int64)


def _context(digits: int) -> Context:
    """Nothing is inherited from a default that somebody may have changed."""
    return Context(prec=digits, rounding=ROUND_HALF_EVEN, Emin=-(10**6), Emax=10**6, flags=[], traps=[])
