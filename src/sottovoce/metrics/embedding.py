"""How near an answer is to a reference in an embedding: the cosine of their two vectors, -1 to 1.

In the manner of BERTScore, but coarser: one vector stands for a whole text, not for a token, and the scores are neither
those of BERTScore nor those of another embedder. The name of the score holds the embedder's. An encoder cuts long
texts.

Sources     Reimers and Gurevych (2019) for cosines of sentence vectors; Zhang et al. (2020) for BERTScore.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, final

import numpy as np

from sottovoce.metrics.base import FloatArray, References, Statistics, mean_of
from sottovoce.models.base import Embedder
from sottovoce.tasks import Task

TEXTS: Final = Task(labels=("no", "yes"), name="texts", instruction="", query="{text}", example="{text} {label}")
"""A task whose question is a text as it stands. Its labels are never used."""


@final
@dataclass(frozen=True)
class EmbeddingCosine:
    """Cosines in an embedder's vectors; of several references the nearest counts. An empty answer has 0.

    Attributes:
        embedder: Any.
    """

    embedder: Embedder

    def measure(
        self, answers: Sequence[str], references: References, questions: Sequence[str] | None = None
    ) -> Mapping[str, Statistics]:
        """Cosines of each answer; a text that the embedder cannot read does not count."""
        texts = list(dict.fromkeys([*answers, *(text for several in references for text in several)]))
        vectors = dict(zip(texts, vectors_of(self.embedder, texts), strict=True))
        values = np.array(
            [
                max(float(vectors[answer] @ vectors[text]) for text in several) if answer.strip() else 0.0
                for answer, several in zip(answers, references, strict=True)
            ]
        )
        unread = int(np.isnan(values).sum())
        notes = (f"{unread} of {len(values)} answers could not be embedded and do not count",) if unread else ()
        return {f"cosine by {self.embedder.name}": mean_of(values, *notes)}


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> FloatArray:
    """Unit vectors of public texts, shape (texts, dimension); NaN where one is blank or cannot be read."""
    vectors = np.full((len(texts), embedder.dimension), np.nan)
    readable = [place for place, text in enumerate(texts) if text.strip()]
    if readable:
        vectors[readable] = embedder.embed_questions(TEXTS, [{"text": texts[place]} for place in readable])
    return vectors
