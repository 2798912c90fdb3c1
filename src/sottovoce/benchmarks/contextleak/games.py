"""One attack on one registered method: a canary, questions, releases of both data sets, and the exact loss beside them.

Expert outputs of both data sets are computed once a question and only the noise is drawn again, unless the method
samples records. The exact loss is that of the very pair and question whose releases were counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from sottovoce.audits.exact.pair import Pair, exact_epsilon
from sottovoce.audits.game.canaries import Canary, Insertion, make_canaries, rare_and_common, worlds_of
from sottovoce.audits.game.detectors import of_labels
from sottovoce.audits.game.games import Game, LabelGame, Repetition
from sottovoce.audits.game.play import Certified, Claim, Runs, play
from sottovoce.audits.game.questions import Question
from sottovoce.benchmarks.harness import evaluation as e
from sottovoce.benchmarks.harness.datasets import Episode
from sottovoce.benchmarks.harness.experiment import Bench
from sottovoce.benchmarks.harness.quick_fits import PublicSums, shortcuts
from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.experts.partition import Partition
from sottovoce.methods.base import Method, Price, Selecting
from sottovoce.methods.class_means import ClassMeans
from sottovoce.methods.fitting.fitter import FitSetting, PublicInputs
from sottovoce.methods.fitting.support import LinearSupport
from sottovoce.models.base import LabelScorer
from sottovoce.privacy.unit import SWAP, Adjacency, Assignment, change_type
from sottovoce.randomness import Randomness, SeededRandomness
from sottovoce.records.sealed import RECORD_UNIT, Row
from sottovoce.tasks import Example, Task


@final
@dataclass(frozen=True, eq=False)
class Attack:
    """What one canary found.

    Attributes:
        certified: The chosen question, its counts and its bound.
        exact: Epsilon that the chosen question's pair of laws has at the claim's delta; ``None`` without a law.
        most_accurate: Accuracy of the best guess about that pair, from the laws; ``None`` without a law.
    """

    certified: Certified
    exact: float | None
    most_accurate: float | None


def rows_of(task: Task, examples: Sequence[Example]) -> list[Row]:
    """Public examples as the rows of a data set."""
    return [
        Row(number, {**example.fields, task.label_field: task.labels[example.label]})
        for number, example in enumerate(examples, 1)
    ]


def canaries_of(rows: Sequence[Row], task: Task, seed: int) -> tuple[list[Canary], str]:
    """One canary of every kind, with the rarest label, and the commonest label of the rows."""
    rare, common = rare_and_common(rows, task)
    return make_canaries(None, (), rows, task, SeededRandomness(seed), rare), common


def game_of(
    method: Method,
    scorer: LabelScorer,
    task: Task,
    price: Price,
    adjacency: Adjacency,
    seed: int,
    *,
    calibrate: bool = False,
) -> LabelGame:
    """A registered method as a game. Its noise is seeded: the records are public."""
    return LabelGame(
        method, scorer, task, price, adjacency, Partition(), RECORD_UNIT, SeededRandomness(seed), calibrate
    )


@final
@dataclass(frozen=True)
class GroupedGame:
    """Several records an expert, in an order that the attacker knows; a session draws a secret one.

    Given any order a replaced record changes one expert, so that the proof covers this game too. It is played once an
    order, where a session's own game would deal the records out for every release.

    Attributes:
        method: A method that selects.
        model: A label scorer.
        task: Of the rows.
        price: Of one answer.
        adjacency: One that makes the number of records public.
        group: Records an expert.
        randomness: Of the noise.
    """

    method: Selecting
    model: LabelScorer
    task: Task
    price: Price
    adjacency: Adjacency
    group: int
    randomness: Randomness

    @property
    def name(self) -> str:
        """The method's."""
        return self.method.name

    @property
    def repetition(self) -> Repetition:
        """Noise alone."""
        return Repetition.NOISE

    def world(self, rows: Sequence[Row]) -> GroupedWorld:
        """Deals the rows out as they stand."""
        examples = [self.task.example_of(row, "rows") for row in rows]
        contexts = [examples[start : start + self.group] for start in range(0, len(examples), self.group)]
        return GroupedWorld(self, contexts)


@final
class GroupedWorld:
    """Public records that a grouped game has read."""

    def __init__(self, game: GroupedGame, contexts: Sequence[Sequence[Example]]) -> None:
        self._game, self._contexts = game, contexts
        self._known: dict[str, ExpertOutputs] = {}

    def outputs(self, question: str) -> ExpertOutputs:
        """The experts' outputs for one question, worked out once."""
        if question not in self._known:
            game = self._game
            prepared = game.model.prepare(game.task, [(), *self._contexts])
            said = np.asarray(prepared.score([dict.fromkeys(game.task.fields, question)])[0], dtype=np.float64)
            prepared.close()
            self._known[question] = ExpertOutputs(said[1:], SWAP, game.adjacency, said[0])
        return self._known[question]

    def releases(self, question: str, runs: int) -> list[str]:
        """Labels, each by a draw of its own."""
        game, outputs = self._game, self.outputs(question)
        return [game.task.labels[game.method.choose(outputs, game.price, game.randomness)] for _ in range(runs)]

    def close(self) -> None:
        """Forgets outputs."""
        self._known.clear()


def price_at(method: Method, epsilon: float, adjacency: Adjacency) -> Price:
    """Epsilon without a delta where the method's noise allows that, else with the benchmarks' delta.

    Raises:
        AssignmentError: The method has no guarantee under this adjacency.
        ParameterError: No noise meets the price.
    """
    if method.private:
        try:
            method.event(Price(epsilon), adjacency)
        except ParameterError:
            method.event(Price(epsilon, e.DELTA), adjacency)
            return Price(epsilon, e.DELTA)
    return Price(epsilon)


def attack(
    game: Game,
    rows: Sequence[Row],
    task: Task,
    canary: Canary,
    questions: Sequence[Question],
    other: str,
    claim: Claim,
    runs: Runs,
    seed: int,
    alpha: float,
) -> Attack:
    """Plays one canary, by the insertion that tests the claim's adjacency.

    Args:
        game: What is audited.
        rows: Public rows.
        task: Of the rows.
        canary: What comes in.
        questions: From which one is chosen.
        other: The label that an answer has where the canary is not there.
        claim: What is tested.
        runs: How many releases.
        seed: Says which record is changed.
        alpha: Level of the bound.
    """
    insertion = Insertion.of(claim.adjacency)[-1]
    played = play(
        game, rows, task, [canary], [insertion], questions, of_labels, claim, SeededRandomness(seed),
        other=other, unit=RECORD_UNIT, runs=runs, alpha=alpha,
    )  # fmt: skip
    (certified,) = played.certified
    asked = next(one for one in questions if one.name == certified.cell.question).about(canary, other)
    pair = law_pair(game, rows, task, canary, insertion, asked, seed)
    if pair is None:
        return Attack(certified, None, None)
    return Attack(certified, exact_epsilon(pair, claim.delta), pair.accuracy)


def law_pair(
    game: Game, rows: Sequence[Row], task: Task, canary: Canary, insertion: Insertion, question: str, seed: int
) -> Pair | None:
    """The exact laws of an answer in both data sets; ``None`` where the method states none."""
    method: Any = getattr(game, "method", None)
    if not (isinstance(game, LabelGame | GroupedGame) and isinstance(method, Selecting)):
        return None
    worlds = worlds_of(rows, canary, insertion, task, SeededRandomness(seed))
    laws = []
    for side in (worlds.present, worlds.absent):
        world = game.world(side)
        laws.append(method.log_law(world.outputs(question), game.price))
        world.close()
    return Pair(*laws)


def references(bench: Bench, episode: Episode, records: int) -> Iterator[tuple[str, float]]:
    """Percent right without any record, and with all of them in one prompt, which has no privacy."""
    yield e.ZERO_SHOT, e.right(e.best_laws(e.ask_public(bench.scorer, episode)), episode.truth)
    together = e.ask(bench.scorer, episode, [range(records)])[:, 0]
    yield e.FULL, e.right(e.best_laws(together), episode.truth)


def class_means_right(
    bench: Bench, episode: Episode, records: int, epsilon: float, adjacency: Adjacency, seed: int
) -> float | None:
    """Percent right of noisy class means at this total price; ``None`` where the model embeds no texts."""
    model: Any = bench.scorer.scorer
    if not hasattr(model, "embed_records"):
        return None
    task, rows = episode.task, episode.records[:records]
    vectors = np.asarray(model.embed_records(task, [row.fields for row in rows]))
    labels = np.array([row.label for row in rows], dtype=np.intp)
    change = change_type(Assignment.OWN_SLOT, adjacency)
    units = records if adjacency.size_is_public else None
    setting = FitSetting(len(task.labels), vectors.shape[1], units, adjacency, change)
    plan = ClassMeans().plan(Price(epsilon, e.DELTA), setting)
    private = PublicSums(vectors, labels, change, adjacency, lambda queries: (np.empty(0), np.empty(0)))
    nothing = np.empty((0, vectors.shape[1]))
    inputs = PublicInputs(task, model, model, [], nothing, lambda queries: np.empty((0, len(task.labels))))
    with shortcuts():
        support = plan.fitter.fit(plan, private, inputs, SeededRandomness(seed))
    assert isinstance(support, LinearSupport)
    asked = np.asarray(model.embed_questions(task, episode.questions))
    flat = np.zeros((len(asked), len(task.labels)))
    evidence = support.log_probabilities(asked, flat) + support.prior_weight * e.ask_public(bench.scorer, episode)
    return e.right(e.best_laws(evidence), episode.truth)
