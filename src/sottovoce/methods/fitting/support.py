"""What a fit releases, and how questions are answered from it: public from then on, for any number of questions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from sottovoce.experts.public_map import PublicMap
from sottovoce.models.base import FloatArray
from sottovoce.tasks import Example


@final
@dataclass(frozen=True, eq=False)
class LinearSupport:
    """A linear classifier over an embedder's vectors.

    A question's vector x becomes z (``mapped``); label c scores weights_c.z + offset_c, divided by
    sqrt(1 + sum_j spread_j z_j^2), plus bias_c and the model's own answer to the power of ``prior_weight``.

    Attributes:
        weights: Nats for each unit of a mapped coordinate, shape (labels, mapped dimension).
        offset: Nats for each label, shape (labels,).
        spread: How uncertain the weights of each coordinate are, shape (mapped dimension,): evidence that they may have
            from noise alone counts less.
        bias: Nats for each label, whatever the question, shape (labels,).
        prior_weight: Power of the model's answer without any example.
        mapped: The public map that a question's vector goes through first; ``None`` for none.
    """

    weights: FloatArray
    offset: FloatArray
    spread: FloatArray
    bias: FloatArray
    prior_weight: float
    mapped: PublicMap | None = None

    @property
    def reads(self) -> int:
        """Length of the vectors that it is for, before the map."""
        return int((self.weights if self.mapped is None else self.mapped.matrix).shape[1])

    def log_probabilities(self, vectors: FloatArray, log_prior: FloatArray) -> FloatArray:
        """Natural-log probabilities of the labels, shape (questions, labels).

        Args:
            vectors: Of the questions, shape (questions, dimension).
            log_prior: The model's answers without any example, shape (questions, labels).
        """
        z = vectors if self.mapped is None else self.mapped(vectors)
        evidence = (z @ self.weights.T + self.offset) / np.sqrt(1 + (z * z) @ self.spread)[:, None]
        scores = self.prior_weight * log_prior + evidence + self.bias
        with np.errstate(invalid="ignore"):  # who asks looks at whether answers are finite
            return np.asarray(scores - np.logaddexp.reduce(scores, axis=1, keepdims=True))


@final
@dataclass(frozen=True)
class DemonstrationSupport:
    """Demonstrations that anybody may see, for any model that learns in context.

    Attributes:
        examples: Public texts with the labels that were chosen for them.
        classifier: What answers instead where the answering model has the embedding that it was fitted with.
    """

    examples: Sequence[Example]
    classifier: LinearSupport | None = None


Support = LinearSupport | DemonstrationSupport
"""What a fit releases."""
