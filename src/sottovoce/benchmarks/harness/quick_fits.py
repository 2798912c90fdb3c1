"""Fits for benchmarks on public rows: the product's fitters, with NumPy's noise and matrix products inside.

The exact samplers draw a few thousand numbers a second, and isolated dot products are one a row. Neither matters for
rows that anybody may read. Here a fitter's ``plan`` and ``fit`` run as they are, and three things below them are
exchanged: the noise is NumPy's normal number, rounded; a public map is applied to all rows at once; a rule's sum is
worked out for all records at once. Laws and sums agree up to the rounding of floating point (a test compares them).

Nothing in here may touch private records: NumPy's noise is not safe, and a matrix product is not isolated.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, TypeVar, final

import numpy as np

from sottovoce.experts.gradient_sums import GradientSums
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import LIMIT, Block, ClassSums, Likeness, SumRule, UnitCount, vectors_in_steps
from sottovoce.mechanisms.gaussian import NoisyVector, with_noise
from sottovoce.mechanisms.rounded_gaussian import RoundedGaussian
from sottovoce.models.base import FloatArray
from sottovoce.privacy.accounting import adaptive_composition
from sottovoce.privacy.aggregates import IntArray, VectorSum
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.randomness import Randomness
from sottovoce.tasks import Query

SHORTCUTS: Final = (
    "Gaussian noise by NumPy: round(sigma * normal), the law of the exact sampler up to the rounding of doubles. "
    "Public maps and sums over records by matrix products, likenesses in single precision, gradients not rounded "
    "one by one. Selections are drawn exactly."
)
"""Said in every result that was measured so."""
_TOGETHER: Final = 1024
"""Records whose likenesses are in memory at once."""
T = TypeVar("T")


def quick_release(mechanism: RoundedGaussian, vector: VectorSum, randomness: Randomness) -> NoisyVector:
    """``RoundedGaussian.release`` by NumPy: one seed is drawn, and all of the noise follows from it."""
    deviation = math.sqrt(mechanism.noise_variance(vector))
    noise = np.random.default_rng(randomness.below(1 << 63)).normal(0.0, deviation, vector.values.size)
    return with_noise(vector, np.rint(noise).astype(np.int64).tolist())


@contextmanager
def shortcuts() -> Iterator[None]:
    """Within it fits and their supports take the shortcuts. Not for two threads at once."""
    maps, moments, rows = _Recent(8), _Recent(8), _Recent(4)

    def applied(self: PublicMap, vectors: FloatArray) -> FloatArray:
        return rows.get((id(self), id(vectors)), (self, vectors), lambda: _applied(self, vectors))

    def concentrating(pool: FloatArray, noise: float) -> tuple[PublicMap, FloatArray]:
        return maps.get((id(pool), noise), pool, lambda: _concentrating(moments, pool, noise))

    changed: list[tuple[object, str, Any]] = [
        (adaptive_composition, "optimal_profile", _optimal_profile),
        (RoundedGaussian, "release", quick_release),
        (PublicMap, "__call__", applied),
        (PublicMap, "concentrating", staticmethod(concentrating)),
    ]
    before = [(owner, name, vars(owner)[name]) for owner, name, _ in changed]
    try:
        for owner, name, quick in changed:
            setattr(owner, name, quick)
        yield
    finally:
        for owner, name, exact in before:
            setattr(owner, name, exact)


_optimal_profile = lru_cache(maxsize=512)(adaptive_composition.optimal_profile)
"""The same prices are looked for again and again, as numbers of records and pools change."""


def _applied(mapped: PublicMap, vectors: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return _unit((vectors - mapped.centre) @ mapped.matrix.T)


def _concentrating(moments: _Recent, pool: FloatArray, noise: float) -> tuple[PublicMap, FloatArray]:
    """``PublicMap.concentrating``, the pool's own second moment once for all noises."""

    def of_pool() -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        centre = pool.mean(axis=0)
        centred = _unit(pool - centre)
        values, turn = np.linalg.eigh(centred.T @ centred / len(centred))
        return centre, centred, np.maximum(values, 0.0), turn

    centre, centred, values, turn = moments.get(id(pool), pool, of_pool)
    gain = np.sqrt(values / (values + noise)) if noise > 0 else np.ones_like(values)
    matrix = (turn * gain) @ turn.T
    mapped = _unit(centred @ matrix)
    values, turn = np.linalg.eigh(mapped.T @ mapped / len(mapped))
    return PublicMap(centre, np.ascontiguousarray((matrix @ turn).T)), np.maximum(values, 0.0)


def _unit(rows: FloatArray) -> FloatArray:
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.asarray(rows / np.where(norms == 0, 1.0, norms))


class _Recent:
    """The latest few results, each kept with what it was worked out from, so that an id stays its own."""

    def __init__(self, most: int) -> None:
        self._most, self._kept = most, OrderedDict[Hashable, tuple[object, Any]]()

    def get(self, key: Hashable, source: object, make: Callable[[], T]) -> T:
        if key not in self._kept:
            self._kept[key] = source, make()
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        value: T = self._kept[key][1]
        return value


@final
@dataclass(eq=False)
class PublicSums:
    """The private side of a fit (``PrivateSums``), for rows that are public: one record a unit, vectors in memory.

    Attributes:
        vectors: Of the records, shape (records, dimension).
        labels: Of the records, shape (records,).
        change: How one change of the records could change the experts.
        adjacency: The relation that it is for.
        said: Gives what experts with one record each say, shape (questions, records, labels), and what the model says
            without any, shape (questions, labels).
    """

    vectors: FloatArray
    labels: IntArray
    change: ChangeType
    adjacency: Adjacency
    said: Callable[[Sequence[Query]], tuple[FloatArray, FloatArray]]
    _mapped: _Recent = field(default_factory=lambda: _Recent(1), repr=False)
    _likenesses: _Recent = field(default_factory=lambda: _Recent(1), repr=False)

    def sum_of(self, rule: SumRule) -> IntArray:
        """The sum of all records' contributions by a rule, shape (rule.size,)."""
        if isinstance(rule, UnitCount):
            return np.array([len(self.labels) * LIMIT], dtype=np.int64)
        if isinstance(rule, ClassSums):
            return self._class_sums(rule)
        if isinstance(rule, Likeness):
            same = id(rule.candidates), id(rule.mapped), rule.floor, rule.ceiling
            return self._likenesses.get(same, rule, lambda: self._likeness(rule))
        if isinstance(rule, GradientSums):
            return self._gradients(rule)
        return rule.add_up(Block(self.vectors, self.labels.tolist(), range(len(self.labels))))

    def ask(self, queries: Sequence[Query]) -> Sequence[ExpertOutputs]:
        """What experts with one record each say to public questions."""
        said, public = self.said(queries)
        return [ExpertOutputs(rows, self.change, self.adjacency, own) for rows, own in zip(said, public, strict=True)]

    def _after(self, mapped: PublicMap | None) -> FloatArray:
        if mapped is None:
            return self.vectors
        return self._mapped.get(id(mapped), mapped, lambda: mapped(self.vectors))

    def _class_sums(self, rule: ClassSums) -> IntArray:
        own = self._own(rule.labels)
        sums = own @ vectors_in_steps(self._after(rule.mapped)).astype(np.float64)
        counts = own.sum(axis=1) * (LIMIT // rule.divisor)
        return np.concatenate([sums.ravel(), counts]).astype(np.int64)

    def _likeness(self, rule: Likeness) -> IntArray:
        vectors, own = self._after(rule.mapped).astype(np.float32), self._own(rule.labels).astype(np.float32)
        candidates, total = rule.candidates.T.astype(np.float32), np.zeros((rule.labels, len(rule.candidates)))
        for start in range(0, len(vectors), _TOGETHER):
            near = vectors[start : start + _TOGETHER] @ candidates
            near -= np.float32(rule.floor)
            near *= np.float32(LIMIT / (rule.ceiling - rule.floor))
            np.floor(np.clip(near, 0.0, float(LIMIT), out=near), out=near)
            total += own[:, start : start + _TOGETHER] @ near
        return np.rint(total).astype(np.int64).ravel()

    def _gradients(self, rule: GradientSums) -> IntArray:
        vectors = self._after(rule.mapped)
        x = np.column_stack([vectors, np.full(len(vectors), rule.constant)])
        logits = x @ rule.weights.T
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        errors = self._own(len(rule.weights)).T - odds / odds.sum(axis=1, keepdims=True)
        norms = np.sqrt(np.einsum("ij,ij->i", errors, errors) * np.einsum("ij,ij->i", x, x)) / rule.clip
        steps = LIMIT / (rule.clip * np.maximum(norms, 1.0))
        return np.asarray(np.rint((errors * steps[:, None]).T @ x).astype(np.int64).ravel())

    def _own(self, labels: int) -> FloatArray:
        """Which records are whose, shape (labels, records)."""
        return np.asarray(self.labels[None, :] == np.arange(labels)[:, None], dtype=np.float64)
