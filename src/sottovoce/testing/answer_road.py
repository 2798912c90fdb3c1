"""An answer on the package's own road, from records on: prompts of own units, a writer that fails, one text an expert.

Guarantee   What a unit changes is no more than the setting's change says; a writer that fails on one expert's prompt
            makes that expert null and no other; one that fails for everybody leaves no outcome and quotes nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import InputError, ModelError
from sottovoce.experts.sampling import CELLS
from sottovoce.experts.written import WrittenEnsemble, WrittenOutputs
from sottovoce.methods.answering.answerer import Answerer, AnswerPlan, PublicSide
from sottovoce.methods.base import Price
from sottovoce.models.base import WritingRequest
from sottovoce.models.fake import FakeScorer, FakeWriter
from sottovoce.privacy.unit import Adjacency
from sottovoce.records.sealed import PrivateRecords, Row
from sottovoce.tasks import Query
from sottovoce.testing import answer_worlds as worlds
from sottovoce.testing.answer_worlds import Relation
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.report import ContractError, Report, must_not_raise

SECRET: Final = "a secret codeword"
QUERY: Final[Query] = {"text": "what now"}


@final
@dataclass(frozen=True)
class _Task:
    """A task whose examples answer one text with another."""

    instruction: str = "Answer."
    names: tuple[str, str] = ("Input", "Output")
    fields: tuple[str, ...] = ("text",)
    output_field: str = "answer"

    def render_query(self, query: Query) -> str:
        return query["text"]

    def example_of(self, row: Row, file: str) -> Mapping[str, Any]:
        return row.values

    def shot(self, example: Any) -> tuple[str, str]:
        return str(example["text"]), str(example["answer"])


TASK: Final = _Task()


def road(answerer: Answerer, subject: str, report: Report, price: Price) -> None:
    """Drives one answer from records on, in the first relations of every adjacency that the answerer plans for."""
    for relation in worlds.RELATIONS:
        public = worlds.public_side(len(worlds.POOL), worlds.Writing())
        plan, experts = _planned(answerer, relation, price, public)
        if plan is None or plan.setting.sampling.sampling == CELLS:  # those are placed by a clustering
            continue
        setting, where = plan.setting, str(relation)
        with must_not_raise("road", subject, "an answer from records", where):
            first = _ensemble(relation, experts, setting.sampling, {}).ask(QUERY, "zero shot")
            failing = _ensemble(relation, experts, setting.sampling, {3: "own"}).ask(QUERY, "zero shot")
            for outputs in (first, failing):
                _require_shape(outputs, setting.experts, subject, where)
                outcome = plan.answerer.draw(plan.setting, outputs, public, seeded(5))
                plan.answerer.finish(outcome, public)
        if relation.adjacency.size_is_public and relation.sampling.shots == 1:  # else secret keys deal units out
            _require_own_failure(first, failing, subject, where)
        _require_no_quote(relation, experts, plan.setting.sampling, subject, where)
        report.kept("road", 1, "answers from records on, with prompts that fail")


def _planned(answerer: Answerer, relation: Relation, price: Price, public: PublicSide) -> tuple[AnswerPlan | None, int]:
    """A plan for the first number of experts that it takes."""
    for experts in worlds.SIZES:
        try:
            setting = relation.setting(experts, len(public.candidates), len(public.universe))
            return answerer.plan(price, setting), experts
        except InputError:
            continue
    return None, 0


def _ensemble(relation: Relation, experts: int, sampling: Any, fails: Mapping[int, str]) -> WrittenEnsemble:
    """Experts over as many records as the relation's setting has; the writer fails on those that are named."""
    adjacency = relation.adjacency
    count = experts * relation.sampling.shots * relation.population
    texts = list(worlds.SMALL)
    rows = [Row(n + 1, {"id": f"id{n}", "text": f"record {n}", "answer": texts[n % len(texts)]}) for n in range(count)]
    records = PrivateRecords(rows, source="a world", synthetic=True)
    records = records.with_public_size() if adjacency.size_is_public else records
    broken = {f"record {number}": how for number, how in fails.items()}

    def text(request: WritingRequest) -> str | None:
        if not request.shots:
            return "zero shot"
        for given, _ in request.shots:
            if broken.get(given) == "own":
                raise ValueError(f"{SECRET} {given}")
            if broken.get(given) == "shared":
                raise MemoryError(f"{SECRET} {given}")
        return request.shots[0][1]

    return WrittenEnsemble(
        records,
        TASK,
        FakeWriter(text),
        sampling,
        adjacency,
        tokens=20,
        randomness=seeded(11),
        embedder=FakeScorer(vectors=_vector),
    )


def _vector(text: str) -> Sequence[float]:
    vector = worlds.vector_of(text)
    return vector if all(map(math.isfinite, vector)) else (math.nan,) * worlds.DIMENSION


def _require_shape(outputs: WrittenOutputs, experts: int | None, subject: str, where: str) -> None:
    if experts is not None and outputs.slots != experts:
        raise ContractError("road", subject, f"there are {outputs.slots} experts, and {experts} are charged for", where)


def _require_own_failure(first: WrittenOutputs, failing: WrittenOutputs, subject: str, where: str) -> None:
    """A prompt that fails by itself is one null expert, and every other one says what it said."""
    one, other = first.texts_without_noise(), failing.texts_without_noise()
    if len(one) == len(other) and sum(a != b for a, b in zip(one, other, strict=True)) > 1:
        raise ContractError("road", subject, "a prompt that fails changes what other experts say", where)
    null = np.isnan(failing.vectors_without_noise()).max(axis=1, initial=False).tolist()
    if not all(null[index] for index, text in enumerate(other) if text is None):
        raise ContractError("road", subject, "a null expert has a vector", where)


def _require_no_quote(relation: Relation, experts: int, sampling: Any, subject: str, where: str) -> None:
    """A failure that experts share is the model's, and what it said of it stays inside."""
    everybody = dict.fromkeys(range(experts * relation.sampling.shots * relation.population), "shared")
    try:
        _ensemble(relation, experts, sampling, everybody).ask(QUERY, "zero shot")
    except ModelError as failure:
        if SECRET in str(failure) or failure.__context__ is not None:
            raise ContractError("road", subject, "a failure quotes a record", where) from None
        return
    if relation.adjacency is Adjacency.ADD_REMOVE and relation.sampling.is_fresh:
        return  # nobody may be in the sample
    raise ContractError("road", subject, "a failure that experts share leaves an outcome", where)
