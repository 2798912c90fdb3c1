"""What the experts said, and how it is summed: clipped log-probabilities, clipped differences to the public, votes.

Guarantee   Each expert's summand lies in a set of the stated width and is computed from that expert's row alone; a null
            expert adds the zero vector. The integer sum does not depend on order.
Sources     specification 1.4, 5.1.1, 5.1.2 (clamp, never zeroing), 5.1.8 (difference to the public prediction), 5.1.9
            (contextual calibration), 5.2 (votes), 5.3 (probability vectors), 9.1 (order of operations, grid).
"""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from typing import Final, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ParameterError
from sottovoce.parameters import Number, OneOf
from sottovoce.privacy.aggregates import IntArray, Scores, VectorSum
from sottovoce.privacy.unit import Adjacency, ChangeType
from sottovoce.records.sealed import Opaque

FloatArray = NDArray[np.float64]
GRID_BITS: Final = 10
"""Log-probabilities are put on a grid of 2**-10 nats."""
PROBABILITY_GRID_BITS: Final = 20
"""Probabilities are put on a grid of 2**-20."""
LABEL_CLIP: Final = Number(2**-GRID_BITS, 1_000, strict=True, words="from 0.001 to 1000 nats")
"""Where log-probabilities of labels are clamped, which a method checks before anything is charged."""
NORMALIZATIONS: Final = ("labels", "vocabulary", "max")


@final
class ExpertOutputs(Opaque):
    """Log-probabilities of the labels by every expert, for one question.

    Args:
        log_probabilities: Shape (experts, labels), float64; a row of NaN is a null expert.
        change: How one change of the data can change the rows.
        adjacency: The relation that ``change`` is for.
        public: Log-probabilities of the labels without any private record, shape (labels,), where a method needs them.

    Attributes:
        labels: Number of labels.
        public: As given.
    """

    __slots__ = ("_adjacency", "_change", "_rows", "labels", "public")

    def __init__(
        self,
        log_probabilities: FloatArray,
        change: ChangeType,
        adjacency: Adjacency,
        public: FloatArray | None = None,
    ) -> None:
        self._rows = sanitized(log_probabilities)
        self._change, self._adjacency = change, adjacency
        self.labels = int(log_probabilities.shape[1])
        self.public = public

    @property
    def change(self) -> ChangeType:
        """How one change of the data can change the rows."""
        return self._change

    def _public_face(self) -> str:
        return f"{self.labels} labels, {self._adjacency.value}, {self._change.name}"

    def clipped_sum(self, clip: float, normalization: str = "labels") -> Scores:
        """Sums the experts' log-probabilities, each clamped to [-clip, 0] and put on the integer grid.

        Raises:
            ParameterError: ``clip`` is below 2**-10 or above 1000, or the normalization is unknown.
        """
        require_clipping(clip, normalization)
        return self._summed(normalized(self._rows, normalization), clip)

    def clipped_difference_sum(self, clip: float) -> Scores:
        """Sums what the records add to the public prediction: differences in log-probability, the best at 0, clamped.

        An expert that says what the public model says adds the zero vector, as a null expert does. Each summand is a
        function of its expert's row and of public numbers, and lies in [-clip, 0].

        Raises:
            ParameterError: ``clip`` is below 2**-10 or above 1000, or there is no public prediction to compare with.
        """
        require_clipping(clip, "max")
        return self._summed(normalized(self._rows - self.log_prior(), "max"), clip)

    def log_prior(self) -> FloatArray:
        """The public prediction, log-softmaxed over the labels and kept within 1000 nats, shape (labels,).

        Raises:
            ParameterError: There is none, or it is not finite.
        """
        if self.public is None or self.public.shape != (self.labels,) or not np.isfinite(self.public).all():
            raise ParameterError("public", "no finite prediction", "one finite log-probability for each label")
        return np.asarray(np.maximum(normalized(self.public[None, :], "labels")[0], -1_000.0))

    def _summed(self, rows: FloatArray, clip: float) -> Scores:
        width = _steps_of(float(clip))
        return Scores(
            on_grid(rows, width).sum(axis=0, dtype=np.int64),
            sensitivity=width * self._change.widths,
            adjacency=self._adjacency,
        )

    def probability_vectors(self) -> list[VectorSum]:
        """Each row as probabilities of the labels, a release of its own, for prediction by subsampling.

        Rounded down to the grid, entries are at least 0 and sum to at most 1, so that any two vectors, the zero vector
        of a prompt that could not be read among them, are at most the square root of 2 apart.
        """
        scale = 1 << PROBABILITY_GRID_BITS
        shares = np.floor(np.exp(normalized(self._rows, "labels")) * (scale - self.labels))
        whole = np.where(np.isnan(shares), 0, np.maximum(shares, 0)).astype(np.int64)
        if whole.size and int(whole.sum(axis=1).max()) > scale:
            raise AssertionError("a prediction left the simplex")
        return [
            VectorSum(row, squared_l2=2 * scale * scale, adjacency=self._adjacency, grid_step=Fraction(1, scale))
            for row in whole
        ]

    def votes(self) -> Scores:
        """Counts for each label the experts that prefer it; a tie inside an expert goes to the lower index."""
        valid = self._rows[~np.isnan(self._rows).all(axis=1)]
        counts = (
            np.bincount(np.argmax(valid, axis=1), minlength=self.labels) if len(valid) else np.zeros(self.labels, int)
        )
        moved = self._change.rows
        return Scores(
            counts,
            sensitivity=self._change.widths,
            adjacency=self._adjacency,
            squared_l2=1 if self._change.widths == 1 else 2 * moved * moved,
        )

    def summed_without_noise(self) -> FloatArray:
        """The plain sum of log-probabilities, shape (labels,), for the non-private references alone."""
        return np.asarray(np.nansum(np.maximum(self._rows, -1e6), axis=0))


@cache
def _steps_of(clip: float) -> int:
    """Whole grid steps of a clip as it is written."""
    return int(Fraction(repr(clip)) * 2**GRID_BITS)


def require_clipping(clip: float, normalization: str) -> None:
    """Checks both parameters of ``clipped_sum``."""
    LABEL_CLIP.read("clip", clip)
    OneOf(NORMALIZATIONS).read("normalization", normalization)


def sanitized(log_probabilities: FloatArray) -> FloatArray:
    """NaN becomes minus infinity, then a row without a finite maximum becomes a null expert (all NaN)."""
    # In this order of the memory a row is added up by itself.
    rows = np.ascontiguousarray(np.where(np.isnan(log_probabilities), -np.inf, log_probabilities.astype(np.float64)))
    null = ~np.isfinite(rows.max(axis=1))
    rows[null] = np.nan
    return rows


def normalized(rows: FloatArray, normalization: str) -> FloatArray:
    """Log-probabilities at most 0, row by row: over the labels, as given, or relative to the best label."""
    if normalization == "vocabulary":
        return np.minimum(rows, 0.0)
    with np.errstate(over="ignore"):  # a warning would tell that a record made a model say such a number
        below = rows - rows.max(axis=1, keepdims=True)
    if normalization == "max":
        return np.asarray(below)
    return np.asarray(below - np.log(np.exp(below).sum(axis=1, keepdims=True)))


def calibrated(scores: FloatArray, content_free: int) -> FloatArray:
    """Contextual calibration, prompt by prompt: scores less the same prompt's mean scores of content-free questions.

    A row is a function of its own prompt's scores alone (specification 5.1.9).

    Args:
        scores: Log-probabilities, shape (questions and then content-free questions, prompts, labels).
        content_free: How many of the questions are free of content; with 0 the scores stay as they are.

    Returns:
        Log-probabilities of the labels, shape (questions, prompts, labels). A row is NaN where the prompt could not be
        read with that question, or with one without content.

    Example:
        >>> answers = np.log([[[0.8, 0.2]], [[0.9, 0.1]]])  # one prompt: a question, and a content-free one
        >>> np.exp(calibrated(answers, 1)).round(3).tolist()
        [[[0.308, 0.692]]]
    """
    if not content_free:
        return scores
    asked, empty = scores[:-content_free], scores[-content_free:]
    with np.errstate(invalid="ignore", over="ignore"):
        # Added one after another, so that no bit of a prompt's row follows from how many prompts there are.
        less = asked - sum(empty[1:], empty[0]) / content_free
    rows = sanitized(less.reshape(-1, less.shape[-1]))
    return normalized(rows, "labels").reshape(less.shape)


def on_grid(rows: FloatArray, width: int) -> IntArray:
    """Clamps each row to [-width, 0] whole grid steps; a null row becomes zeros."""
    steps = np.maximum(np.floor(np.maximum(rows, -1e9) * 2**GRID_BITS), -width)
    whole = np.where(np.isnan(rows), 0, np.minimum(steps, 0)).astype(np.int64)
    if whole.size and (whole.min() < -width or whole.max() > 0):
        raise AssertionError("an expert left its interval")
    return whole
