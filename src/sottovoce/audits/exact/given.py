"""The worst single change of given records, for every kind of method that states its law.

Labels, by a model that scores them; the first token of a text, or a whole short one, by a model that writes token by
token; what a fit or an answerer releases, by an embedder. Every record is an expert or a unit of its own.

Guarantee   As for the laws of each kind. A text's law is over every text of so many tokens, of public candidates.
Assumes     Records are made up: laws are never released, and no ledger is charged.
Sources     specification 10.7; 5.4, 5.5, 5.8 to 5.11, 5.13, 5.14, 5.16.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, final

import numpy as np

from sottovoce.audits.exact import answers, fits, labels, texts
from sottovoce.audits.exact.answers import AnswerWorld
from sottovoce.audits.exact.fits import Units
from sottovoce.audits.exact.labels import LabelWorld, Worst, worst_of
from sottovoce.audits.exact.pair import MOST_OUTCOMES, Leak, Pair
from sottovoce.audits.exact.texts import TextTree, text_law, token_plan
from sottovoce.audits.roc import FloatArray
from sottovoce.data.bundled import public_pool
from sottovoce.errors import ParameterError
from sottovoce.experts.keywords import keywords_of
from sottovoce.experts.written import TEXTS
from sottovoce.generation import GenerationTemplate
from sottovoce.methods.answering.answerer import Answerer, AnswerSetting
from sottovoce.methods.answering.ksa import KSA, TEST
from sottovoce.methods.base import Method, Price
from sottovoce.methods.choice import Choice
from sottovoce.methods.class_means import ClassMeans
from sottovoce.methods.decoding.decoder import Decoder
from sottovoce.methods.fitting.fitter import FitSetting, Fitter
from sottovoce.methods.label_public import LabelPublic
from sottovoce.models.base import Embedder, LabelScorer, Writer, WritingRequest
from sottovoce.models.stepper import Stepper
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.records.sealed import Row
from sottovoce.tasks import Query, Task

CANDIDATES: Final = 8
"""Public texts that a fit chooses among or labels, and keywords that an answer is made of, at most."""
KEYWORDS: Final = 2
"""Keywords that are released, unless an option says how many."""
WRITTEN: Final = 60
"""Most tokens of what an expert writes."""
_LARGEST: Final = MOST_OUTCOMES // 16


@final
@dataclass(frozen=True)
class Given:
    """The worst pairs that were found.

    Attributes:
        event: What a release is charged, before a sample amplifies it.
        worst: By what was asked or written about.
        setting: What else a repetition needs.
    """

    event: DpEvent
    worst: Mapping[str, Worst] = field(repr=False)
    setting: Mapping[str, Any] = field(default_factory=dict)


def of_labels(
    method: Method, scorer: LabelScorer, task: Task, rows: Sequence[Row], price: Price, adjacency: Adjacency,
    questions: Sequence[str] = (),
) -> Given:  # fmt: skip
    """One label, for every question; every record's own text is asked where there is none.

    Raises:
        ParameterError: The method states no law (``labels.why_no_law``).
    """
    _require_law(method.name, labels.why_no_law(type(method)))
    examples = [task.example_of(row, "records") for row in rows]
    queries = _queries(task, questions) or [example.fields for example in examples]
    worst = {}
    for number, query in enumerate(queries, 1):
        world = LabelWorld.of_examples(scorer, task, examples, query)
        worst[f"question {number}"] = labels.worst_label_pair(method, world, price, adjacency)
    return Given(method.event(price, adjacency), worst)


def of_texts(
    decoder: Decoder, stepper: Stepper, task: Task, rows: Sequence[Row], price: Price, adjacency: Adjacency,
    tokens: int = 1, longest: int = 200,
) -> Given:  # fmt: skip
    """A text of so many tokens from records of one label, at the price of the whole text.

    Args:
        decoder: The method.
        stepper: What writes.
        task: Labels and templates.
        rows: Made-up records; those of their commonest label write, each an expert.
        price: Of the text.
        adjacency: The relation.
        tokens: Of the text; for more than one the candidates must be few (``top_k``).
        longest: Room for a record, in tokens.

    Raises:
        ParameterError: The method states no law of a text, or there are too many texts to be added up.
    """
    _require_law(decoder.name, texts.why_no_law(type(decoder)))
    writing = GenerationTemplate.of(task)
    counts = Counter(task.label_of(row, "records") for row in rows)
    label = min(counts, key=lambda one: (-counts[one], one))
    members = [row for row in rows if task.label_of(row, "records") == label]
    opening = writing.opening(task.labels[label])
    tree = TextTree(stepper, opening, [writing.show(row.values) for row in members], writing.ending, tokens, longest)
    try:
        plan = token_plan(decoder, price, len(members), adjacency, tokens)
        own = text_law(plan, tree, range(len(members)))
        changed = _changes(len(members), adjacency)
        pairs = ((words, Pair.of(own, text_law(plan, tree, kept))) for words, kept in changed)
        worst = worst_of(pairs, plan.event, adjacency, price.delta)
    finally:
        tree.close()
    setting = {"records that write": len(members), "label": task.labels[label], "tokens": tokens, "texts": len(own)}
    return Given(plan.event, {f"a text of {tokens} {'token' if tokens == 1 else 'tokens'}": worst}, setting)


def of_fits(
    fitter: Fitter, model: LabelScorer, task: Task, rows: Sequence[Row], price: Price, adjacency: Adjacency
) -> Given:
    """What a fit releases. Public texts are the first of the bundled pool.

    Raises:
        ParameterError: The method states no law, or the model embeds no texts.
    """
    _require_law(fitter.name, fits.why_no_law(type(fitter)))
    embedder = _embedder(model)
    examples = [task.example_of(row, "records") for row in rows]
    vectors = np.asarray(embedder.embed_records(task, [example.fields for example in examples]), dtype=np.float64)
    units = Units(vectors, np.array([example.label for example in examples], dtype=np.intp))
    many = CANDIDATES
    if isinstance(fitter, LabelPublic):  # every text has a label of its own
        many = min(many, int(math.log(_LARGEST) / math.log(len(task.labels))))
    pool = _pool(task, many)
    change = change_type(Assignment.OWN_SLOT, adjacency)
    setting = FitSetting(
        len(task.labels), vectors.shape[1], len(rows) if adjacency.size_is_public else None, adjacency, change, many
    )
    plan = fitter.plan(price, setting)
    if isinstance(plan.fitter, LabelPublic):
        asked = pool[: int(plan.fitter.texts or 0)]
        worlds = [LabelWorld.of_examples(model, task, examples, query) for query in asked]
        pairs: Iterator[tuple[str, Leak]] = (
            (words, fits.label_public_pair(plan, worlds, [_of(world, kept) for world in worlds]))
            for words, kept in _changes(len(examples), adjacency)
        )
        worst = worst_of(pairs, plan.event, adjacency, price.delta)
        return Given(plan.event, {"labels of public texts": worst}, {"public texts": len(asked)})
    pair_of: Callable[[Units, Units], Leak]
    if isinstance(plan.fitter, Choice):
        candidates = np.asarray(embedder.embed_records(task, pool), dtype=np.float64)
        pair_of = lambda one, other: fits.choice_pair(plan, candidates, one, other)  # noqa: E731
        told, what = {"public texts": many, "map": "none: embeddings as they are"}, "public texts for every label"
    else:
        _is_class_means(plan.fitter)
        pair_of = lambda one, other: fits.class_means_pair(plan, one, other)  # noqa: E731
        told, what = {}, "noisy class means"
    found = ((words, pair_of(units, other)) for words, other in units.neighbours(adjacency))
    return Given(plan.event, {what: worst_of(found, plan.event, adjacency, price.delta)}, told)


def of_answers(
    answerer: Answerer, model: LabelScorer, task: Task, rows: Sequence[Row], price: Price, adjacency: Adjacency,
    questions: Sequence[str] = (), writer: Writer | None = None, keywords: int | None = None,
) -> Given:  # fmt: skip
    """What a long answer's private step releases: embeddings' noisy mean, or keywords.

    Args:
        answerer: The method.
        model: Embeds texts.
        task: Names the fields.
        rows: Made-up records, each an expert.
        price: Of the answer.
        adjacency: The relation.
        questions: What is asked, where experts write.
        writer: Writes after each record; without one an expert says its record's own text, which no writer surpasses
            in what it gives away of it.
        keywords: That are released; by default 2, or 1 where there is one: every list of them is added up.

    Raises:
        ParameterError: The method states no law, or the model embeds no texts.
    """
    _require_law(answerer.name, answers.why_no_law(type(answerer)))
    shown = [task.text_of(task.example_of(row, "records").fields) for row in rows]
    asked = list(questions) if writer else [""]
    if writer and not asked:
        raise ParameterError("--question-text", None, "given with --writer: experts write an answer to it")
    worst: dict[str, Worst] = {}
    told: dict[str, Any] = {"experts say": f"what {writer.name} writes" if writer else "their records' own texts"}
    for number, question in enumerate(asked, 1):
        said = _written(writer, task, rows, shown, question) if writer else list(shown)
        universe = _universe([text for text in said if text])
        if isinstance(answerer, KSA):
            answerer = _of_few_keywords(answerer, universe, keywords)
        if isinstance(answerer, KSA) and math.perm(len(universe), answerer.k) > _LARGEST:
            raise ParameterError("k", answerer.k, f"one with at most {_LARGEST:,} lists of {len(universe)} keywords")
        vectors = _vectors(_embedder(model), said)
        setting = AnswerSetting(
            adjacency, units=len(rows) if adjacency.size_is_public else None, dimension=vectors.shape[1],
            candidates=CANDIDATES, keywords=len(universe),
        )  # fmt: skip
        plan = answerer.plan(price, setting)
        worst[f"question {number}" if writer else "the records' own texts"] = answers.worst_answer_pair(
            plan, AnswerWorld(tuple(said), vectors), universe, price.delta
        )
        told |= {"keywords": len(universe)} if isinstance(answerer, KSA) else {}
    return Given(plan.base, worst, told)


def _require_law(name: str, reason: str | None) -> None:
    if reason is not None:
        raise ParameterError("--method", name, f"one with an exact law: {reason}")


def _queries(task: Task, questions: Sequence[str]) -> list[Query]:
    return [task.query_of(Row(1, dict.fromkeys(task.fields, text)), "the question") for text in questions]


def _embedder(model: LabelScorer) -> Embedder:
    if not isinstance(model, Embedder):
        raise ParameterError("--model", model.name, "one that embeds texts, such as embedded: the method sums vectors")
    return model


def _pool(task: Task, many: int) -> list[Query]:
    """Public texts that ship, one for every so many, in every field of the task."""
    rows = list(public_pool())
    return [dict.fromkeys(task.fields, str(rows[place * len(rows) // many].values["text"])) for place in range(many)]


def _universe(said: Sequence[str]) -> list[str]:
    """The commonest keywords of both worlds' texts. Known to the attacker, and the same in every world."""
    counts = Counter(word for text in said for word in keywords_of(text))
    return sorted(counts, key=lambda word: (-counts[word], word))[:CANDIDATES]


def _of_few_keywords(answerer: KSA, universe: Sequence[str], keywords: int | None) -> KSA:
    if not universe:
        raise ParameterError("keywords", 0, "1 or more in what the experts say: other records, or another --writer")
    if keywords is not None:
        return replace(answerer, k=keywords)
    return replace(answerer, k=min(KEYWORDS, max(1, len(universe) - (answerer.selection == TEST))))


def _written(writer: Writer, task: Task, rows: Sequence[Row], shown: Sequence[str], question: str) -> list[str | None]:
    named = [task.labels[task.label_of(row, "records")] for row in rows]
    requests = [
        WritingRequest(task.instruction, [(text, label)], question) for text, label in zip(shown, named, strict=True)
    ]
    return writer.write(requests, tokens=WRITTEN)


def _vectors(embedder: Embedder, said: Sequence[str | None]) -> FloatArray:
    """One row a text; the row of an expert whose writer failed is not finite, and no text stands in for it."""
    vectors = np.full((len(said), embedder.dimension), np.nan)
    wrote = [index for index, text in enumerate(said) if text is not None]
    if wrote:
        field_name = TEXTS.fields[0]
        vectors[wrote] = embedder.embed_records(TEXTS, [{field_name: str(said[index])} for index in wrote])
    return vectors


def _changes(experts: int, adjacency: Adjacency) -> Iterator[tuple[str, list[int | None]]]:
    """Every single change of so many experts, as which of them there are then; ``None`` is a null expert."""
    for own in range(experts):
        rest: list[int | None] = [*range(own), *range(own + 1, experts)]
        if adjacency is Adjacency.ADD_REMOVE:
            yield f"expert {own + 1} removed", rest
        elif adjacency is Adjacency.ZERO_OUT:
            yield f"expert {own + 1} blanked", [*rest, None]
        else:
            for other in range(experts):
                if other != own:
                    yield f"expert {own + 1} says what expert {other + 1} says", [*rest, other]


def _of(world: LabelWorld, experts: Sequence[int | None]) -> LabelWorld:
    rows = [np.full(world.public.size, np.nan) if expert is None else world.rows[expert] for expert in experts]
    return LabelWorld(np.array(rows).reshape(len(rows), world.public.size), world.public)


def _is_class_means(fitter: Fitter) -> None:
    if not isinstance(fitter, ClassMeans):
        raise AssertionError(f"{fitter.name} has a law, and no worst pair of given records here")
