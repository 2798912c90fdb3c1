"""Small worlds for answerers: what experts wrote, neighbours, settings, and the public side that a draw is given.

A world is one text an expert, ``None`` for a null expert. Texts have keywords and known vectors, so that sums, counts
and points come from the package's own rules on texts that are known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from textwrap import shorten
from typing import Any, Final, final

import numpy as np

from sottovoce.experts.keywords import universe_of
from sottovoce.experts.sampling import CATEGORICAL, CELLS, WITHOUT_REPLACEMENT, ExpertSampling
from sottovoce.experts.written import WrittenOutputs
from sottovoce.methods.answering.answerer import AnswerSetting, PublicSide
from sottovoce.models.base import FloatArray, WritingRequest
from sottovoce.privacy.unit import Adjacency, is_drop
from sottovoce.testing.ladders import TOP, counted, is_alone, ladders

World = tuple[str | None, ...]
LONG: Final = " ".join(
    ["Card"] * 40 + ["bank", "branch", "block", "today", "lost", "refunded"] + [f"word{n}" for n in range(154)]
)
"""A text of many words, one of which, a public keyword, stands in it often, and not as it is written elsewhere. Six
more of the eleven public keywords stand in it once."""
NULLS: Final = (None,)
"""What a null expert says."""

VECTORS: Final[Mapping[str, tuple[float, ...]]] = {
    "a lost card": (1.0, 0.0, 0.0),
    "a late fee": (-1.0, 0.0, 0.0),
    "block the lost card today": (0.0, 1.0, 0.0),
    "a secret codeword": (0.48, 0.6, 0.64),
    "fee card codeword today": (3000.0, -4000.0, 50.0),
    "the fee is late again": (0.06, -0.08, 0.0),
    "a card": (0.0, 0.0, 0.0),
    "the of and": (math.nan,) * 3,
    LONG: (0.8, -0.6, 0.0),
}
"""What experts may write: unit vectors, opposite ones, one that is far too long, a short one, a zero, and one that
cannot be embedded. Some words stand in no public text, and one stands 40 times in a text of 200 words."""
TEXTS: Final[tuple[str | None, ...]] = (*VECTORS, None)
SHARP: Final[tuple[str | None, ...]] = ("a lost card", "a late fee", "fee card codeword today", LONG, None)
"""The few of them that are furthest apart."""
POOL: Final[Mapping[str, tuple[float, ...]]] = {
    "the card is lost": (0.8, 0.6, 0.0),
    "a fee is late today": (-0.6, 0.0, 0.8),
    "block the card": (0.6, 0.0, 0.8),
    "the fee is refunded, please write to the bank or to its branch": (-0.8, -0.6, 0.0),
}
"""Public answers and their vectors."""
OTHERS: Final[Mapping[str, tuple[float, ...]]] = {
    "the card is lost, so block the card": (0.0, 0.6, 0.8),
    "the secret codeword": (-0.48, 0.6, -0.64),
    "the card codeword, an extraordinary one": (0.0, 0.0, 1.0),
    "a fee of somebody": (0.28, 0.0, -0.96),
    "block whatever needs a signature, and the mandate": (0.96, 0.28, 0.0),
}
"""Other public answers and their vectors."""
DIMENSION: Final = 3
SMALL: Final = ("a lost card", "a late fee", "block the lost card today")
"""Experts beside the one that changes, for laws that are written out."""
SHORT: Final = "the fee is late again"
"""On a ladder some turn to this, and with them the middle length of all vectors."""
REST: Final = (*SMALL, SHORT, "a card")
"""Experts beside the one that changes, where there are more: some have short vectors, so that the mean length of all
changes by much with one text that is far too long."""
ONE_WORD: Final[Mapping[str, tuple[float, ...]]] = {"the card": (1.0, 0.0, 0.0), "the fee": (-1.0, 0.0, 0.0)}
"""Texts of one public keyword each, which are opposite: where many write one of them, no other word is as frequent."""
FORMS: Final = ("Card, and all my cards too!", "the card is lost, or a card's number")
"""One public keyword in other forms: with a capital, a mark behind it, or the ending of another number or case."""
CLIMBED: Final = (tuple(ONE_WORD), (SMALL[0], SHORT), FORMS)
"""What is written less and less often, and what others write."""
BESIDE: Final = "a secret codeword"
"""Of the others in a crowd: it shares no word with those of which ever fewer are counted."""
MANY: Final = 48
"""Experts of a world in which groups can be found."""
CROWDS: Final = (144, 600)
"""More of them, one after another, where an answerer refuses fewer."""
SIZES: Final = (MANY, 4, *CROWDS)
"""Experts, of which one check takes the first number that an answerer takes."""


@final
@dataclass(frozen=True)
class Relation:
    """An adjacency with a sampling, and what one change does.

    Attributes:
        adjacency: The relation.
        sampling: How units come to experts, but for the number of experts.
        counted: Whether the number of experts is public.
        population: Units for every unit in the sample; 1 where all are used.
    """

    adjacency: Adjacency
    sampling: ExpertSampling
    counted: bool = True
    population: int = 1

    def __str__(self) -> str:
        experts = "" if self.counted else ", number of experts private"
        return f"{self.adjacency.value}, {self.sampling.sampling}, {self.sampling.shots} an expert{experts}"

    def setting(
        self,
        experts: int,
        candidates: int,
        keywords: int,
        *,
        adds_epsilons: bool = True,
        dimension: int = DIMENSION,
        unit: str = "record",
    ) -> AnswerSetting:
        """The public side of an answer of so many experts."""
        sampling = replace(self.sampling, experts=experts if self.counted else None)
        units = experts * sampling.shots * self.population if self.adjacency.size_is_public else None
        return AnswerSetting(
            self.adjacency,
            sampling,
            units=units,
            dimension=dimension,
            candidates=candidates,
            keywords=keywords,
            adds_epsilons=adds_epsilons,
            unit=unit,
        )

    def outputs(self, world: World, setting: AnswerSetting) -> WrittenOutputs:
        """What the experts of a world wrote."""
        vectors = _vectors_of(world, setting.dimension)
        slots = len(world) if self.counted else None
        return WrittenOutputs(world, setting.change, self.adjacency, slots=slots, vectors=vectors)


_RO, _AR, _ZO = Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE, Adjacency.ZERO_OUT
RELATIONS: Final = (
    Relation(_RO, ExpertSampling()),
    Relation(_AR, ExpertSampling(experts=1)),
    Relation(_ZO, ExpertSampling(experts=1)),
    Relation(_AR, ExpertSampling(shots=4, experts=1)),
    Relation(_AR, ExpertSampling(), counted=False),
    Relation(_RO, ExpertSampling(shots=2, experts=1, sampling=WITHOUT_REPLACEMENT), population=8),
    Relation(_AR, ExpertSampling(shots=2, experts=1, sampling=CATEGORICAL, rate=0.25)),
    Relation(_ZO, ExpertSampling(shots=4, experts=1)),
    Relation(_RO, ExpertSampling(shots=2, experts=1, sampling=CATEGORICAL, rate=0.25)),
    Relation(_RO, ExpertSampling(shots=4, experts=1, sampling=CELLS)),
)
"""Every adjacency with every change type that experts which write can have, and both samplings under each."""


Neighbourhood = tuple[list[World], list[tuple[int, int]]]
"""Worlds with the pairs among them that are neighbours."""


def sharpest(relation: Relation, experts: int) -> Neighbourhood:
    """The few worlds that are furthest apart: opposite texts, one that says much and far too loud, and none."""
    return _neighbourhood(relation, experts, SHARP)


def neighbourhoods(relation: Relation, experts: int) -> Neighbourhood:
    """Worlds of so many experts, of which one changes, or two alike, with the pairs among them that are neighbours.

    Where a text can be replaced, every two are; a change may turn an expert into a null one, too. Where an expert only
    comes or goes, its neighbour is the world in which it is null, or not there where the number is private.
    """
    return _neighbourhood(relation, experts, TEXTS)


def _neighbourhood(relation: Relation, experts: int, texts: Sequence[str | None]) -> Neighbourhood:
    others, change = SMALL if experts <= len(REST) else REST, relation.setting(experts, 4, 4).change
    rest = tuple(others[number % len(others)] for number in range(experts - change.rows))
    worlds: list[World] = [(*rest, *(text,) * change.rows) for text in texts]
    null = len(worlds) - 1
    if not relation.counted:
        worlds[null] = rest
    if not is_drop(change):
        return worlds, [(i, j) for i in range(len(worlds)) for j in range(i)]
    return worlds, [(i, null) for i in range(null)]


def climbed(relation: Relation) -> Iterator[list[World]]:
    """Worlds in which ever fewer experts write one text, each a change away from the next."""
    swaps = not is_drop(relation.setting(TOP, 4, 4).change)
    for said, other in CLIMBED:
        for rungs in ladders(said, other, None, swaps=swaps, comes=not relation.counted):
            if said == CLIMBED[0][0] or not is_alone(rungs, NULLS):
                yield rungs


def vector_of(text: str | None) -> Sequence[float]:
    """What the fake embedder says of a text; of a null expert nothing."""
    if text is None:
        return (math.nan,) * DIMENSION
    return {**VECTORS, **POOL, **OTHERS, **ONE_WORD}.get(text, (0.6, 0.8, 0.0))


def _vectors_of(texts: Sequence[str | None], dimension: int) -> FloatArray:
    """One vector a row; numbers above three are zero."""
    said = np.array([vector_of(text) for text in texts], dtype=np.float64).reshape(len(texts), DIMENSION)
    return np.pad(said, ((0, 0), (0, dimension - DIMENSION)))


def shown(world: World) -> str:
    """A world in words."""
    if len(world) > 8 and len({*world[-4:]}) > 1 and len({*world[:4]}) > 1:
        return f"{{{len(world) - 1} experts, and {shorten(world[-1] or 'null', 60)!r}}}"
    return "{" + counted(repr(shorten(text, 60)) if text else "null" for text in world) + "}"


@final
class Writing:
    """The writer of a public side: says which hint it was given, and counts what it was asked.

    Args:
        silent: Whether it gives no text.

    Attributes:
        asked: Requests so far.
    """

    def __init__(self, *, silent: bool = False) -> None:
        self.silent, self.asked = silent, 0

    def __call__(self, requests: Sequence[WritingRequest]) -> list[str | None]:
        self.asked += len(requests)
        return [None if self.silent else f"written: {request.instruction}" for request in requests]


def public_side(
    answers: Sequence[str] | int,
    write: Callable[[Sequence[WritingRequest]], Sequence[str | None]],
    shot: str = "a public question",
    dimension: int = DIMENSION,
) -> PublicSide:
    """The public side, with these public answers, or so many, and a public example with this question."""
    answers = list(POOL)[:answers] if isinstance(answers, int) else answers

    def request(shots: Sequence[tuple[str, str]], hint: str) -> WritingRequest:
        return WritingRequest(f"Answer. {hint}", shots, "What now?")

    return PublicSide(
        request,
        zero_shot=answers[0] if answers else "nothing",
        candidates=answers,
        vectors=_vectors_of(answers, dimension),
        universe=universe_of(answers),
        shots=[(shot, "a public answer")],
        write=write,
    )


def marks(outcome: Any) -> str:
    """What an outcome holds, to be compared."""
    import json

    return json.dumps(outcome.to_json(), sort_keys=True)


def settings(relation: Relation, experts: int, public: PublicSide) -> Iterator[AnswerSetting]:
    """Settings of both kinds of ledger."""
    for adds in (True, False):
        yield relation.setting(experts, len(public.candidates), len(public.universe), adds_epsilons=adds)
