"""Small worlds for exact tests: expert outputs, neighbouring data sets, and the losses between two laws."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.privacy.unit import DROP, SWAP, Adjacency, ChangeType

ADJACENCIES = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)


def change_of(adjacency: Adjacency) -> ChangeType:
    """One unit an expert: table 2.2, first row, written out by hand."""
    return DROP if adjacency is Adjacency.ADD_REMOVE else SWAP


def outputs(rows: Sequence[Sequence[float]] | np.ndarray, adjacency: Adjacency) -> ExpertOutputs:
    array = np.asarray(rows, dtype=float)
    return ExpertOutputs(array, change_of(adjacency), adjacency)


def neighbour(rows: np.ndarray, adjacency: Adjacency, other: np.ndarray) -> np.ndarray:
    """The data set after one change: the first expert gone, or saying something else."""
    return rows[1:] if adjacency is Adjacency.ADD_REMOVE else np.vstack([other[None], rows[1:]])


def losses(p: Sequence[Fraction | float], q: Sequence[Fraction | float]) -> np.ndarray:
    """Privacy losses ln p/q by outcome."""
    return np.array([_log(a) - _log(b) for a, b in zip(p, q, strict=True)])


def hockey_stick(p: Sequence[float], q: Sequence[float], epsilon: float) -> float:
    """The least delta at which the pair (p, q) is (epsilon, delta)-close, one direction."""
    return float(sum(max(float(a) - math.exp(epsilon) * float(b), 0.0) for a, b in zip(p, q, strict=True)))


def _log(x: Fraction | float) -> float:
    if isinstance(x, Fraction):
        return math.log(x.numerator) - math.log(x.denominator)
    return math.log(x)
