"""ROUGE-1, ROUGE-2 and ROUGE-L: n-grams, or the longest common subsequence, shared with a reference; F1, 0 to 1.

By the package ``rouge-score``, with its Porter stemmer, as summaries are usually scored; of several references the best
counts. It reads the letters a to z and digits alone: scores of texts in other scripts mean nothing.

Sources     Lin (2004).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import MissingExtraError, ParameterError
from sottovoce.metrics.base import References, Statistics, mean_of

KINDS: Final = {"rouge-1": "rouge1", "rouge-2": "rouge2", "rouge-l": "rougeL"}


@final
@dataclass(frozen=True)
class Rouge:
    """One kind of ROUGE.

    Attributes:
        kind: ``rouge-1``, ``rouge-2`` or ``rouge-l``.

    Raises:
        ParameterError: There is no such kind.
    """

    kind: str = "rouge-l"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ParameterError("kind", self.kind, f"one of {', '.join(KINDS)}")

    def measure(
        self, answers: Sequence[str], references: References, questions: Sequence[str] | None = None
    ) -> Mapping[str, Statistics]:
        """F1 of each answer against its best reference."""
        score = _scorer(KINDS[self.kind])
        best = [
            max(score(reference, answer).fmeasure for reference in texts)
            for answer, texts in zip(answers, references, strict=True)
        ]
        return {self.kind: mean_of(np.array(best, dtype=np.float64))}


def rouge_l_recall(answer: str, text: str) -> float:
    """How much of a text stands in an answer, in its order: the share of its words in the longest common subsequence.

    Raises:
        MissingExtraError: ``rouge-score`` is not installed.

    Example:
        >>> rouge_l_recall("you said: the cat sat, I think", "The cat sat down")
        0.75
    """
    return float(_scorer("rougeL")(text, answer).recall)


@cache
def _scorer(kind: str) -> Callable[[str, str], Any]:
    """Precision, recall and F1 of a reference and an answer."""
    try:
        from rouge_score import rouge_scorer
    except ImportError:
        raise MissingExtraError("rouge-score", "eval") from None
    scorer = rouge_scorer.RougeScorer([kind], use_stemmer=True)
    return lambda reference, answer: scorer.score(reference, answer)[kind]
