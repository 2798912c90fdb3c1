"""The public side of a question: answers without any record and after public examples, their vectors, their keywords.

Guarantee   Everything here is computed from the question, the task and public examples alone, before a record is read
            or a charge is made.
Sources     specification 1.3, 5.4 (candidates are written without private data), 5.5 (the universe is public).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Final

import numpy as np

from sottovoce.data.bundled import public_pool
from sottovoce.errors import ModelError
from sottovoce.experts.keywords import universe_of
from sottovoce.experts.written import TEXTS, AnswerTask, request_of
from sottovoce.methods.answering.answerer import PublicSide, Write
from sottovoce.models.base import Embedder
from sottovoce.parameters import COUNT
from sottovoce.tasks import Query

ANSWERS: Final = 8
"""Answers after public examples, by default."""
SHOTS: Final = 4
"""Public examples before each of them."""


def public_side(
    task: AnswerTask,
    query: Query,
    *,
    write: Write,
    pool: Sequence[tuple[str, str]] = (),
    answers: int = ANSWERS,
    shots: int = SHOTS,
    embedder: Embedder | None = None,
    vocabulary: Sequence[str] | None = None,
) -> PublicSide:
    """Asks the writer the question without any record, and after groups of public examples.

    Args:
        task: Of the question.
        query: The question.
        write: The writer with its number of tokens.
        pool: Public examples as (input, answer), dealt out to groups in their order.
        answers: Groups at most; there are no more than the pool fills.
        shots: Examples a group.
        embedder: What embeds candidates, for methods that compare by vectors.
        vocabulary: The universe of keywords, such as ``fixed_vocabulary``; by default every keyword of the candidates
            and of the pool's answers.

    Returns:
        The public side; a candidate that cannot be embedded is left out.

    Raises:
        ModelError: The writer failed for a reason that is no request's own, or gave another number of texts.
    """
    groups = _groups(pool, COUNT.read("answers", answers), COUNT.read("shots", shots))
    texts = list(write([request_of(task, query, group) for group in ((), *groups)]))
    if len(texts) != 1 + len(groups):
        raise ModelError("The writer did not give one text for every request.")
    candidates = list(dict.fromkeys(text for text in texts if text))
    vectors = np.empty((len(candidates), 0))
    if embedder is not None:
        asked: list[Query] = [{"text": text} for text in candidates]
        vectors = embedder.embed_questions(TEXTS, asked) if asked else np.empty((0, embedder.dimension))
        kept = np.flatnonzero(np.isfinite(vectors).all(axis=1))
        candidates, vectors = [candidates[index] for index in kept.tolist()], vectors[kept]
    words = universe_of([*candidates, *(answer for _, answer in pool)])
    return PublicSide(
        request=partial(request_of, task, query),
        zero_shot=texts[0],
        candidates=tuple(candidates),
        vectors=vectors,
        universe=words if vocabulary is None else tuple(dict.fromkeys(vocabulary)),
        shots=tuple(groups[0]) if groups else (),
        write=write,
    )


@cache
def fixed_vocabulary() -> tuple[str, ...]:
    """A universe of keywords that follows from no data set: the words of the texts that ship with the package.

    Example:
        >>> vocabulary = fixed_vocabulary()
        >>> len(vocabulary) > 5_000, "card" in vocabulary, "the" in vocabulary
        (True, True, False)
    """
    return universe_of(str(row.values["text"]) for row in public_pool())


def _groups(pool: Sequence[tuple[str, str]], groups: int, shots: int) -> list[list[tuple[str, str]]]:
    """Groups of examples in the order of the pool; a pool that fills none is one group."""
    if not pool:
        return []
    most = max(1, len(pool) // shots)
    return [list(pool[start : start + shots]) for start in range(0, min(groups, most) * shots, shots)]
