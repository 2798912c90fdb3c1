"""One seed of an experiment on long answers: its questions, what experts wrote, and the answer of any method.

Experts are asked once a question; every method and every price then draws from the same texts, with noise of its own.
That is for published rows and repeatable noise alone: no ledger is kept, and prices are those of the plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Final, final
from zlib import crc32

import numpy as np

from sottovoce.benchmarks.public_data.worlds import Pair, World, records_of
from sottovoce.benchmarks.public_data.writers import KeptWriter
from sottovoce.data.bundled import public_pool
from sottovoce.errors import ParameterError
from sottovoce.experts.keywords import keywords_of
from sottovoce.experts.sampling import ALL, WITHOUT_REPLACEMENT, ExpertSampling
from sottovoce.experts.written import TEXTS, WrittenEnsemble, WrittenOutputs, request_of
from sottovoce.methods.answering.answerer import Answerer, AnswerPlan, AnswerSetting, Outcome, PublicSide
from sottovoce.methods.answering.public import public_side
from sottovoce.methods.base import Price, Reads
from sottovoce.models.base import Embedder, FloatArray
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import SeededRandomness
from sottovoce.tasks import Query

DELTA: Final = 1e-5
ADJACENCY: Final = Adjacency.REPLACE_ONE
LOOSE: Final = 100.0
"""An epsilon that protects nothing: a method's own answer with hardly any noise."""


WORDS: Final = 1_000
"""Keywords of the bundled texts, where there are no public pairs."""


@final
@dataclass(frozen=True)
class Size:
    """What an experiment is run with.

    Attributes:
        records: Private pairs.
        experts: Experts an answer.
        shots: Pairs that an expert sees.
        tokens: Most tokens of a text.
        pool: Public pairs.
        public: Experts that write from them.
        public_shots: Public pairs that each of these sees, and that stand in a last prompt.
        context: Private pairs in the one prompt of full context.
        fresh: Whether every question has a sample of its own; else one partition serves them all.
    """

    records: int = 1000
    experts: int = 40
    shots: int = 1
    tokens: int = 28
    pool: int = 64
    public: int = 12
    public_shots: int = 2
    context: int = 8
    fresh: bool = True

    @property
    def sampling(self) -> ExpertSampling:
        """How pairs come to experts."""
        return ExpertSampling(self.shots, self.experts, WITHOUT_REPLACEMENT if self.fresh else ALL)


@final
@dataclass(eq=False)
class Episode:
    """One seed.

    Attributes:
        world: Its rows.
        seed: Its number.
        size: Numbers.
        writer: What writes.
        embedder: What compares texts.
        pools: Public pairs by name.
        chosen: Pairs that private choices picked, by pool, price and draw.
    """

    world: World
    seed: int
    size: Size
    writer: KeptWriter
    embedder: Embedder
    pools: dict[str, Sequence[Pair]]
    chosen: dict[tuple[str, float, int], Sequence[Pair]] = field(default_factory=dict, repr=False)
    _outputs: dict[str, WrittenOutputs] = field(default_factory=dict, repr=False)
    _sides: dict[tuple[str, str], PublicSide] = field(default_factory=dict, repr=False)
    _drawn: dict[str, Outcome] = field(default_factory=dict, repr=False)

    def questions(self, count: int) -> Sequence[Pair]:
        """Test pairs of this seed."""
        return self.world.asked(self.seed, count)

    def ask(self, questions: Sequence[str]) -> None:
        """Works out the public sides of some questions, and lets the experts answer them."""
        for question in questions:
            for pool in ("", *self.pools):
                self.side(question, pool)
            for together in (False, True):
                self.outputs(question, together=together)

    def side(self, question: str, pool: str) -> PublicSide:
        """The public side of a question, worked out once for each pool.

        Without public pairs keywords are those of the question and the usual ones of the bundled texts.
        """
        pool = pool if pool in self.pools else ""
        if (question, pool) not in self._sides:
            pairs = self.pools.get(pool, ())
            self._sides[question, pool] = public_side(
                self.world.task,
                self._query(question),
                write=lambda requests: self.writer.write(requests, tokens=self.size.tokens),
                pool=pairs,
                answers=self.size.public,
                shots=min(self.size.public_shots, max(1, len(pairs) // self.size.public)),
                embedder=self.embedder,
                vocabulary=None if pairs else [*sorted(keywords_of(question)), *usual_words()],
            )
        return self._sides[question, pool]

    def answer(self, method: Answerer, question: str, pool: str, epsilon: float | None, draw: int = 0) -> str:
        """The answer of a method at a price, with noise of its own.

        Args:
            method: With its options.
            question: An input.
            pool: Name of the public pairs.
            epsilon: Of the answer; ``None`` for a method without a price.
            draw: Number of the draw: others have other noise, over the same experts.

        Raises:
            ParameterError: The method cannot answer at this price.
        """
        side = self.side(question, pool)
        plan = self.plan(method, side, epsilon)
        outputs = self.outputs(question, together=method.reads is Reads.EVERYTHING) if _reads(method) else None
        words = f"{question} {pool} {epsilon} {method.name} {sorted(method.options.items())}" + f" {draw}" * bool(draw)
        if words not in self._drawn:
            self._drawn[words] = plan.answerer.draw(plan.setting, outputs, side, self._randomness(words))
        return plan.answerer.finish(self._drawn[words], side)

    def plan(self, method: Answerer, side: PublicSide, epsilon: float | None) -> AnswerPlan:
        """What an answer costs."""
        setting = AnswerSetting(
            ADJACENCY,
            self.size.sampling,
            self.size.records,
            dimension=self.embedder.dimension,
            candidates=len(side.candidates),
            keywords=len(side.universe),
        )
        return plan_of(method, Price(LOOSE if epsilon is None else epsilon, DELTA), setting)

    def outputs(self, question: str, *, together: bool = False) -> WrittenOutputs:
        """What experts wrote to a question, or the one prompt with the first pairs; asked once."""
        key = f"{together} {question}"
        if key not in self._outputs:
            ensemble = self._together if together else self._ensemble
            self._outputs[key] = ensemble.ask(self._query(question), self.side(question, "").zero_shot)
        return self._outputs[key]

    def after(self, question: str, shots: Sequence[Pair]) -> str:
        """What the writer answers after public pairs; the bare answer where it says nothing."""
        request = request_of(self.world.task, self._query(question), shots)
        (text,) = self.writer.write([request], tokens=self.size.tokens)
        return text or self.side(question, "").fallback

    @cached_property
    def _ensemble(self) -> WrittenEnsemble:
        return self._experts(self.world.private(self.size.records), self.size.sampling)

    @cached_property
    def _together(self) -> WrittenEnsemble:
        pairs = self.world.private(self.size.records)
        chosen = np.random.default_rng([self.seed, 1]).permutation(len(pairs))[: self.size.context]
        return self._experts([pairs[place] for place in chosen], ExpertSampling(len(chosen)), together=True)

    def _experts(self, pairs: Sequence[Pair], sampling: ExpertSampling, *, together: bool = False) -> WrittenEnsemble:
        return WrittenEnsemble(
            records_of(self.world.task, pairs).with_public_size(),
            self.world.task,
            self.writer,
            sampling,
            ADJACENCY,
            tokens=self.size.tokens,
            randomness=self._randomness("experts"),
            embedder=self.embedder,
            together=together,
        )

    def _query(self, question: str) -> Query:
        return self.world.query(question)

    def _randomness(self, words: str) -> SeededRandomness:
        return SeededRandomness(crc32(f"{self.world.name} {self.seed} {words}".encode()))


@lru_cache(maxsize=4096)
def plan_of(method: Answerer, price: Price, setting: AnswerSetting) -> AnswerPlan:
    """A method's plan; the same prices are asked for again and again."""
    return method.plan(price, setting)


def cannot(method: Answerer, episode: Episode, question: str, pool: str, epsilon: float | None) -> bool:
    """Whether a method is refused at a price, which public numbers decide."""
    try:
        episode.plan(method, episode.side(question, pool), epsilon)
    except ParameterError:
        return True
    return False


def vectors_of(embedder: Embedder, texts: Sequence[str]) -> FloatArray:
    """Vectors of published texts, shape (texts, dimension)."""
    return np.asarray(embedder.embed_questions(TEXTS, [{"text": text} for text in texts]))


@lru_cache(maxsize=1)
def usual_words() -> tuple[str, ...]:
    """The keywords that most of the bundled texts have."""
    counts = Counter(word for row in public_pool() for word in keywords_of(str(row.values["text"])))
    return tuple(word for word, _ in counts.most_common(WORDS))


def _reads(method: Answerer) -> bool:
    return method.reads is not Reads.NOTHING
