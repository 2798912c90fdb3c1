"""The sum of units' gradients of the logistic loss, each clipped in whole numbers, at public weights.

Guarantee   A unit adds a vector of norm at most ``LIMIT`` grid steps, a function of its own records, their labels and
            public numbers; the norm is checked behind the rounding, in whole numbers. What is not finite adds zero.
Sources     specification 5.18, 9.1, 9.3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import LIMIT, Block, SumRule, vectors_in_steps
from sottovoce.models.base import FloatArray
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.unit import ChangeType, is_drop

_TOGETHER: Final = 1 << 20
"""Numbers of gradients that are in memory at once."""


@final
@dataclass(frozen=True, eq=False)
class GradientSums(SumRule):
    """The units' negative gradients of the multinomial logistic loss at public weights, clipped and added up.

    A record (z, y) has the gradient (e_y - softmax(weights x)) x' with x = (z, constant). A unit has the mean of its
    records' gradients, divided by ``clip`` and shortened to norm 1 where it is longer.

    Attributes:
        weights: Public, shape (K, mapped dimension + 1); the last column belongs to the constant.
        clip: Norm that a unit's gradient is clipped to.
        constant: Last coordinate of every x: what the labels' intercepts are learned from.
        mapped: A public map that vectors go through first; ``None`` for none.

    Example:
        At zero weights two labels are equally likely: a record of label 0 moves them half a step apart.

        >>> rule = GradientSums(weights=np.zeros((2, 3)), clip=1.0, constant=0.0)
        >>> block = Block(np.array([[1.0, 0.0], [0.0, 1.0]]), [0, 1], [0, 1])
        >>> (rule.add_up(block) / LIMIT).reshape(2, 3).tolist()
        [[0.5, -0.5, 0.0], [-0.5, 0.5, 0.0]]
    """

    weights: FloatArray
    clip: float
    constant: float
    mapped: PublicMap | None = None

    @property
    def size(self) -> int:
        return self.weights.size

    def squared_l2(self, change: ChangeType) -> int:
        """Largest squared norm, in squared grid steps, by which the sum can change (specification 5.18).

        A drop takes a vector of norm at most 1 away, a swap exchanges it for another: 2, for opposite ones.
        """
        is_drop(change)
        return (LIMIT * change.widths) ** 2

    def add_up(self, block: Block) -> IntArray:
        total = np.zeros(self.size, dtype=np.int64)
        vectors = block.vectors if self.mapped is None else self.mapped(block.vectors)
        said = np.isfinite(vectors).all(axis=1)
        with np.errstate(all="ignore"):
            for gradients in self._of_units(vectors[said], block.labels[said], block.units[said]):
                total += vectors_in_steps(gradients / self.clip).sum(axis=0)
        return total

    def _of_units(self, vectors: FloatArray, labels: IntArray, units: IntArray) -> Iterator[FloatArray]:
        """Gradients of some units at a time, shape (units, size). Nothing in a row depends on the other rows."""
        _, first, counts = np.unique(units, return_index=True, return_counts=True)
        single = first[counts == 1]
        together = max(1, _TOGETHER // self.size)
        for start in range(0, len(single), together):
            yield self._of_records(vectors[part := single[start : start + together]], labels[part])
        for start, count in zip(first[counts > 1].tolist(), counts[counts > 1].tolist(), strict=True):
            summed = np.zeros((1, self.size))
            for record in range(start, start + count):
                summed += self._of_records(vectors[record : record + 1], labels[record : record + 1])
            yield summed / count

    def _of_records(self, vectors: FloatArray, labels: IntArray) -> FloatArray:
        """Gradients of records, shape (records, size): one dot product a label, then one coordinate at a time."""
        x = np.column_stack([vectors, np.full(len(vectors), self.constant)])
        logits = np.vecdot(self.weights[None], x[:, None])
        odds = np.exp(logits - logits.max(axis=1, keepdims=True))
        errors = -odds / odds.sum(axis=1, keepdims=True)
        errors[np.arange(len(labels)), labels] += 1
        return np.asarray((errors[:, :, None] * x[:, None, :]).reshape(len(vectors), self.size))
