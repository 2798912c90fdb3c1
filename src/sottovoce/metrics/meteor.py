"""METEOR, 0 to 1: words matched in three stages, exact, by stem and by synonym, less a penalty for scattered matches.

By ``nltk``, of several references the best. Three things differ from the authors' own program, so scores are compared
within one of them only: words are split at signs here; NLTK chooses matches greedily; and it looks synonyms up by the
stems that its second stage leaves, so that ``car`` finds ``auto`` and not ``automobile``. Synonyms need WordNet, which
Debian's ``wordnet-base`` brings; ``meteor-exact-stem`` leaves that stage out and says so by its name.

Sources     Lavie and Agarwal (2007).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, final

import numpy as np

from sottovoce.errors import MissingExtraError
from sottovoce.metrics.base import References, Statistics, mean_of
from sottovoce.metrics.synonyms import FOLDER, NoSynonyms, wordnet

WORD: Final = re.compile(r"\w+|[^\w\s]")


@final
@dataclass(frozen=True)
class Meteor:
    """METEOR with or without its synonym stage.

    Attributes:
        synonyms: Whether words match by synonyms.
        folder: Where WordNet's files lie.
    """

    synonyms: bool = True
    folder: Path = FOLDER

    @property
    def name(self) -> str:
        """How the score is called."""
        return "meteor" if self.synonyms else "meteor-exact-stem"

    def measure(
        self, answers: Sequence[str], references: References, questions: Sequence[str] | None = None
    ) -> Mapping[str, Statistics]:
        """Scores of each answer against its best reference.

        Raises:
            MissingExtraError: NLTK is not installed.
            InputError: Synonyms are wanted and WordNet is not there.
        """
        score = _score()
        known = wordnet(self.folder) if self.synonyms else NoSynonyms()
        best = [
            score([WORD.findall(text) for text in texts], WORD.findall(answer), wordnet=known)
            for answer, texts in zip(answers, references, strict=True)
        ]
        notes = () if self.synonyms else ("without synonyms: exact words and stems alone",)
        return {self.name: mean_of(np.array(best, dtype=np.float64), *notes)}


def _score() -> Callable[..., float]:
    try:
        from nltk.translate.meteor_score import meteor_score
    except ImportError:
        raise MissingExtraError("nltk", "eval") from None
    return meteor_score  # type: ignore[no-any-return]
