"""What a fit releases, and how questions are answered from it: public from then on, for any number of questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from sottovoce.models.base import FloatArray
from sottovoce.tasks import Example


@final
@dataclass(frozen=True, eq=False)
class LinearSupport:
    """A linear classifier over an embedder's vectors.

    Attributes:
        weights: Nats for each unit of a coordinate, shape (labels, dimension).
        bias: Nats for each label, shape (labels,).
        prior_weight: Power of the model's answer without any example.
    """

    weights: FloatArray
    bias: FloatArray
    prior_weight: float

    def log_probabilities(self, vectors: FloatArray, log_prior: FloatArray) -> FloatArray:
        """Natural-log probabilities of the labels, shape (questions, labels).

        Args:
            vectors: Of the questions, shape (questions, dimension).
            log_prior: The model's answers without any example, shape (questions, labels).
        """
        scores = self.prior_weight * log_prior + vectors @ self.weights.T + self.bias
        return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))


@final
@dataclass(frozen=True)
class DemonstrationSupport:
    """Demonstrations that anybody may see, for any model that learns in context.

    Attributes:
        examples: Public texts with the labels that were chosen for them.
    """

    examples: Sequence[Example]


Support = LinearSupport | DemonstrationSupport
"""What a fit releases."""
