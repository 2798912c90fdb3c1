"""Games: records and a question in, what is released out, as often as an audit asks.

A game reads each of two data sets once. Where the model repeats itself, as every label scorer here must, the experts'
outputs of a question are computed once and only the noise is drawn again: 10^5 releases cost two ensembles. Where coins
decide what the model reads, or the system is somebody else's, every release is asked anew.

Guarantee   Releases of one world are independent draws given the records, by the very code that answers: the method's
            ``choose`` on sealed outputs of the ensemble that a session builds.
Assumes     Records are made up: nothing is charged, and no ledger knows of the releases.
Sources     ContextLeak (arXiv 2512.16059), algorithm 1; specification 10, 10.10.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol, final

from sottovoce.errors import ParameterError
from sottovoce.experts.ensemble import Ensemble
from sottovoce.experts.label_scores import ExpertOutputs, calibrated
from sottovoce.experts.partition import Partition, shuffled
from sottovoce.experts.reading import bare_scores
from sottovoce.experts.subsample import SampledEnsemble
from sottovoce.methods.base import Method, Price, Reads, Subsampling
from sottovoce.models.base import LabelScorer
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.unit import DROP, Adjacency
from sottovoce.randomness import Randomness, SystemRandomness
from sottovoce.records.sealed import Opaque, PrivateRecords, Row
from sottovoce.session import PrivateICL
from sottovoce.tasks import Task

_SOURCE = "records with a canary"
_LARGEST = Budget(1000, 0.5, 0.5)
"""Of the session that checks a setting; its ledger is in memory and it answers nothing."""


class Repetition(Enum):
    """What is done again for every release."""

    NOISE = "experts' outputs computed once, noise drawn again"
    SAMPLES = "records sampled and experts asked again, noise drawn again"
    ASKED = "the whole system asked again"
    ONCE = "written once, by a model that repeats itself"


class World(Protocol):
    """One data set, behind whatever protects it."""

    def releases(self, question: str, runs: int) -> Sequence[str]:
        """What is released about a question, ``runs`` times."""

    def close(self) -> None:
        """Frees what is kept of the records."""


class Game(Protocol):
    """A system that answers from records."""

    @property
    def name(self) -> str:
        """For reports."""

    @property
    def repetition(self) -> Repetition:
        """What is done again for every release."""

    def world(self, rows: Sequence[Row]) -> World:
        """Reads records, which must be made up."""


@final
@dataclass(frozen=True)
class LabelGame:
    """A registered method that answers with labels.

    Attributes:
        method: The method.
        model: A label scorer.
        task: Labels and templates; questions have one text, which stands in every field.
        price: Of one answer.
        adjacency: The relation that is claimed.
        partition: How units are shared out.
        unit: The privacy unit; ``None`` as for a file.
        randomness: Of the noise. A seeded one makes an audit repeatable.
        calibrate: Whether each prompt is calibrated by its own answers to content-free questions, as in a session.
    """

    method: Method
    model: LabelScorer
    task: Task
    price: Price
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    partition: Partition = field(default_factory=Partition)
    unit: str | None = None
    randomness: Randomness = field(default_factory=SystemRandomness)
    calibrate: bool = False
    _checked: list[bool] = field(default_factory=list, init=False, repr=False, compare=False)
    _orders: dict[int, list[int]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    @property
    def repetition(self) -> Repetition:
        """Samples of records are drawn anew; else noise alone."""
        return Repetition.SAMPLES if isinstance(self.method, Subsampling) else Repetition.NOISE

    @property
    def event(self) -> DpEvent | None:
        """What one answer is charged; ``None`` for a method without a guarantee."""
        return self.method.event(self.price, self.adjacency) if self.method.private else None

    @property
    def noise_event(self) -> DpEvent | None:
        """The noise of one answer, which is what an audit tests; ``None`` for a method without a guarantee."""
        return self.method.noise_event(self.price, self.adjacency) if self.method.private else None

    def world(self, rows: Sequence[Row]) -> LabelWorld:
        """Reads records through what a session would build.

        Raises:
            InputError: As for a session: the method has no guarantee under the adjacency, a row does not suit the task.
        """
        records = PrivateRecords(rows, source=_SOURCE, unit=self.unit, synthetic=True)
        if not self._checked:
            self._check(records)
        return LabelWorld(self, records.with_public_size() if self.adjacency.size_is_public else records)

    def order(self, units: int) -> list[int]:
        """In which units share experts, the same one in every world of so many units.

        A session draws a secret order, and its guarantee is over that draw. Worlds that keep orders of their own for
        all of their releases would differ in far more than one expert. Given any one order a change of the data
        changes one expert, so that the guarantee covers an attacker who knows it.
        """
        return self._orders.setdefault(units, shuffled(units, SystemRandomness()))

    def _check(self, records: PrivateRecords) -> None:
        """Has a session refuse what it would; records of later worlds are checked by the ensemble."""
        with PrivateICL(
            records=records,
            task=self.task,
            method=self.method,
            model=self.model,
            adjacency=self.adjacency,
            budget=_LARGEST,
            ledger=":memory:",
            partition=self.partition,
            randomness=self.randomness,
            calibrate=self.calibrate,
            allow_non_private=True,
        ) as session:
            session.terms(self.price.epsilon, self.price.delta)
        self._checked.append(True)


@final
class LabelWorld(Opaque):
    """Records that a label game has read.

    Args:
        game: Whose world it is.
        records: Made-up records.
    """

    __slots__ = ("_empty", "_ensemble", "_game", "_outputs")

    def __init__(self, game: LabelGame, records: PrivateRecords) -> None:
        if not records.synthetic:
            raise ParameterError("records", "private ones", "made up: an audit's releases are not charged")
        self._game = game
        self._outputs: dict[str, ExpertOutputs] = {}
        self._empty = game.task.content_free_queries() if game.calibrate else []
        self._ensemble: Ensemble | SampledEnsemble | None = None
        method = game.method
        if isinstance(method, Subsampling):
            self._ensemble = SampledEnsemble(
                records,
                game.task,
                game.model,
                game.adjacency,
                sampling_probability=method.sampling_probability,
                subsamples=method.subsamples,
                randomness=game.randomness,
                max_records=game.partition.max_records,
                content_free=self._empty,
            )
        elif method.reads is not Reads.NOTHING:
            together = method.reads is Reads.EVERYTHING
            self._ensemble = Ensemble(
                records, game.task, game.model, game.partition, game.adjacency,
                together=together, order=game.order, content_free=self._empty,
            )  # fmt: skip

    def outputs(self, question: str) -> ExpertOutputs:
        """The experts' outputs for one question; sealed. Asked anew where samples are drawn."""
        if question in self._outputs:
            return self._outputs[question]
        game = self._game
        query = game.task.query_of(Row(1, dict.fromkeys(game.task.fields, question)), "the question")
        public = bare_scores(game.model, game.task, [query, *self._empty])
        if self._ensemble is None:
            return ExpertOutputs(calibrated(public[:, None], len(self._empty))[0], DROP, game.adjacency)
        (found,) = self._ensemble.ask([query], public)
        if game.repetition is Repetition.NOISE:
            self._outputs[question] = found
        return found

    def releases(self, question: str, runs: int) -> list[str]:
        """Labels, each by a draw of its own."""
        game = self._game
        labels = game.task.labels
        return [labels[game.method.choose(self.outputs(question), game.price, game.randomness)] for _ in range(runs)]

    def close(self) -> None:
        """Forgets outputs and prompts."""
        self._outputs.clear()
        if self._ensemble is not None:
            self._ensemble.close()


@final
@dataclass(frozen=True)
class FunctionGame:
    """Any system, given as a function of records and a question: for a mechanism of one's own, and for tests.

    Attributes:
        name: For reports.
        answer: Rows and a question to what is released. Called once a release.
    """

    name: str
    answer: Answer

    @property
    def repetition(self) -> Repetition:
        """Everything is asked again."""
        return Repetition.ASKED

    def world(self, rows: Sequence[Row]) -> FunctionWorld:
        """Keeps the records for the function."""
        return FunctionWorld(self.answer, rows)


class Answer(Protocol):
    """A system as a function."""

    def __call__(self, rows: Sequence[Row], question: str) -> str:
        """What is released."""


@final
class FunctionWorld(Opaque):
    """Records behind a function."""

    __slots__ = ("_answer", "_rows")

    def __init__(self, answer: Answer, rows: Sequence[Row]) -> None:
        self._answer, self._rows = answer, rows

    def releases(self, question: str, runs: int) -> list[str]:
        """One call a release."""
        return [self._answer(self._rows, question) for _ in range(runs)]

    def close(self) -> None:
        """Forgets the records."""
        self._rows = ()
