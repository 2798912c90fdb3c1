"""References for long answers: what a private method is measured against.

Guarantee   ``zero-shot``, ``public-shots`` and ``public-consensus`` read no private record and cost nothing. The others
            have **none**: they answer from private records without noise, and a ledger refuses them unless the owner
            allows it by name.
Sources     Public-data-assisted ICL; specification 5.7.2 (a coreset by k-means is covered by no budget), 8 (item 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self, final

import numpy as np

from sottovoce.experts.written import WrittenOutputs
from sottovoce.methods.answering.answerer import Answerer, AnswerSetting, Outcome, PublicSide, register_answerer
from sottovoce.methods.base import Price, Reads
from sottovoce.models.base import FloatArray
from sottovoce.parameters import Whole
from sottovoce.privacy.events import DpEvent, NonPrivateDpEvent, NoOpDpEvent
from sottovoce.randomness import Randomness

ROUNDING: Final = 1e-6
"""Likenesses of unit vectors that differ by no more than this are equal: embedders compute in single precision."""


class _Reference(Answerer):
    """A method without noise."""

    def calibrated(self, price: Price, setting: AnswerSetting) -> Self:
        return self

    def event(self, setting: AnswerSetting) -> DpEvent:
        return NoOpDpEvent() if self.reads is Reads.NOTHING else NonPrivateDpEvent()

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        return str(outcome.values.get("text") or public.fallback)


@final
@register_answerer("zero-shot", summary="the writer alone, no private record read, free", source="reference")
@dataclass(frozen=True)
class ZeroShotAnswer(_Reference):
    """The writer without any example."""

    reads: ClassVar[Reads] = Reads.NOTHING
    least_candidates: ClassVar[int] = 0

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        return Outcome(self.name, {})

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        return public.fallback


@final
@register_answerer("public-shots", summary="the writer after public examples, free", source="reference")
@dataclass(frozen=True)
class PublicShots(_Reference):
    """The writer after public examples, such as those that were chosen or synthesised once."""

    reads: ClassVar[Reads] = Reads.NOTHING
    needs: ClassVar[frozenset[str]] = frozenset({"pool"})
    least_candidates: ClassVar[int] = 0

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        return Outcome(self.name, {})

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        return public.written()


@final
@register_answerer(
    "public-consensus", summary="the public answer nearest to the mean of all different ones, free", source="reference"
)
@dataclass(frozen=True)
class PublicConsensus(_Reference):
    """The public answer that is most like the others: what ``esa`` gives where the experts' mean is that of the public
    answers. It tells what private records add to agreement among answers.

    Equal answers count once. Of answers that are equally near, such as any two, it is the last: one after examples.
    """

    reads: ClassVar[Reads] = Reads.NOTHING
    needs: ClassVar[frozenset[str]] = frozenset({"Embedder", "pool"})
    least_candidates: ClassVar[int] = 3

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        return Outcome(self.name, {})

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        likeness = public.vectors @ public.vectors.sum(axis=0)
        nearest = np.flatnonzero(likeness >= likeness.max() - ROUNDING)
        return public.candidates[int(nearest[-1])]


class _NonPrivate(_Reference):
    """Answers from private records without noise."""

    private: ClassVar[bool] = False


@final
@register_answerer("full-context", summary="all records in one prompt, NO guarantee", source="reference")
@dataclass(frozen=True)
class FullContextAnswer(_NonPrivate):
    """The undefended prompt: every private record before the question."""

    reads: ClassVar[Reads] = Reads.EVERYTHING
    least_candidates: ClassVar[int] = 0

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        return Outcome(self.name, {"text": _said(experts)[:1]})

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        return str(next(iter(outcome.values["text"]), "") or public.fallback)


@final
@register_answerer("nearest-to-mean", summary="ESA without noise, NO guarantee", source="reference")
@dataclass(frozen=True)
class NearestToMean(_NonPrivate):
    """The public answer nearest to the mean of the experts' embeddings, as it is."""

    needs: ClassVar[frozenset[str]] = frozenset({"Embedder", "pool"})

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        rows = _vectors(experts)
        chosen = int(np.argmax(public.vectors @ rows.sum(axis=0)))
        return Outcome(self.name, {"text": public.candidates[chosen]})


@final
@register_answerer(
    "coreset", summary="a coreset of answers by k-means on private embeddings, NO guarantee", source="spec. 5.7.2"
)
@dataclass(frozen=True)
class Coreset(_NonPrivate):
    """The answer nearest to the middle of the largest of k clusters, by k-means without noise: one record can change
    every representative. Only to be compared with.

    Attributes:
        k: Clusters.
        rounds: Of k-means.
    """

    needs: ClassVar[frozenset[str]] = frozenset({"Embedder"})
    least_candidates: ClassVar[int] = 0
    k: Whole = 4
    rounds: Whole = 10

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        rows, texts = _vectors(experts), _said(experts)
        if not len(rows):
            return Outcome(self.name, {})
        near, means = k_means(rows, self.k, self.rounds)
        largest = int(np.bincount(near).argmax())
        chosen = int(np.argmin(((rows - means[largest]) ** 2).sum(axis=1)))
        return Outcome(self.name, {"text": texts[chosen]})


def k_means(rows: FloatArray, k: int, rounds: int) -> tuple[Any, FloatArray]:
    """Lloyd's algorithm from evenly spaced rows: the cluster of every row, and the means. Without any guarantee."""
    means = rows[np.linspace(0, len(rows) - 1, min(k, len(rows))).astype(int)].copy()
    near = np.zeros(len(rows), dtype=np.intp)
    for _ in range(rounds):
        near = ((rows[:, None, :] - means[None, :, :]) ** 2).sum(axis=2).argmin(axis=1)
        for index in range(len(means)):
            if (near == index).any():
                means[index] = rows[near == index].mean(axis=0)
    return near, means


def _said(experts: WrittenOutputs | None) -> list[str]:
    """The texts of experts that wrote one that could be embedded, where texts are embedded."""
    assert experts is not None
    texts = experts.texts_without_noise()
    if not experts.dimension:
        return [text for text in texts if text is not None]
    finite = np.isfinite(experts.vectors_without_noise()).min(axis=1).tolist()
    return [str(text) for text, kept in zip(texts, finite, strict=True) if kept]


def _vectors(experts: WrittenOutputs | None) -> FloatArray:
    assert experts is not None
    rows = experts.vectors_without_noise()
    return np.asarray(rows[np.isfinite(rows).all(axis=1)])
