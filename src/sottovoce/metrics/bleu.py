"""BLEU of a whole set of answers, 0 to 100, by ``sacrebleu`` with its own tokens (13a) and smoothing.

A corpus score, not a mean over answers: n-grams are counted in every answer and added up. A resample adds up the counts
of the answers that it drew.

Sources     Papineni et al. (2002); Post (2018) for the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from sottovoce.errors import MissingExtraError
from sottovoce.metrics.base import FloatArray, References, Statistics


@final
@dataclass(frozen=True)
class Bleu:
    """BLEU with n-grams of up to four words."""

    def measure(
        self, answers: Sequence[str], references: References, questions: Sequence[str] | None = None
    ) -> Mapping[str, Statistics]:
        """Counts of each answer: lengths, n-grams found, n-grams written."""
        bleu = _bleu()
        each = [
            bleu.corpus_score([answer], [[text] for text in texts])
            for answer, texts in zip(answers, references, strict=True)
        ]
        rows = [[found.sys_len, found.ref_len, *found.counts, *found.totals] for found in each]
        return {"bleu": Statistics(np.array(rows, dtype=np.float64), _score, (str(bleu.get_signature()),))}


def _score(sums: FloatArray) -> float:
    written, reference, *counts = (round(number) for number in sums)
    return float(
        _bleu()
        .compute_bleu(counts[: len(counts) // 2], counts[len(counts) // 2 :], written, reference, smooth_method="exp")
        .score
    )


def _bleu() -> Any:
    try:
        from sacrebleu.metrics import BLEU
    except ImportError:
        raise MissingExtraError("sacrebleu", "eval") from None
    return BLEU()
