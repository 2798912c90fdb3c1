"""What embedding-space aggregation gives away of concrete experts' answers, for published rows alone."""

from __future__ import annotations

import numpy as np

from sottovoce.audits.exact.answers import AnswerWorld, answer_pair
from sottovoce.audits.exact.pair import GaussianPair
from sottovoce.experts.written import WrittenOutputs
from sottovoce.methods.answering.answerer import AnswerPlan


def furthest_pair(plan: AnswerPlan, outputs: WrittenOutputs, others: WrittenOutputs) -> GaussianPair:
    """The pair of worlds, in the second of which an expert says what one of some others says, that gives away most.

    It is that of the two texts whose vectors lie furthest apart: leakage under Gaussian noise grows with how far the
    sum moves.

    Args:
        plan: Of an answer by ``esa``.
        outputs: What experts wrote.
        others: What one of them may say instead.
    """
    texts, vectors = tuple(outputs.texts_without_noise()), outputs.vectors_without_noise()
    said, new = others.texts_without_noise(), others.vectors_without_noise()
    distances = np.linalg.norm(vectors[:, None] - new[None], axis=2)
    own, other = np.unravel_index(int(np.nanargmax(distances)), distances.shape)
    changed = np.array(vectors)
    changed[own] = new[other]
    second = AnswerWorld((*texts[:own], said[other], *texts[own + 1 :]), changed)
    leak = answer_pair(plan, AnswerWorld(texts, vectors), second)
    assert isinstance(leak, GaussianPair)
    return leak
