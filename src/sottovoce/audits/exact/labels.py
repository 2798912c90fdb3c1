"""The exact law of a label for concrete experts, and the worst pair among given records.

Guarantee   Laws are the methods' own (``law``), which the contract tests compare with their draws.
Assumes     Rows come from public or synthetic records: laws are never released, and no ledger is charged.
Sources     specification 10.7; 1.5 and table 2.2 for what a neighbour is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from sottovoce.audits.exact.pair import Leak, Pair, exact_epsilon
from sottovoce.audits.roc import FloatArray
from sottovoce.errors import ParameterError
from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.mechanisms.base import log_law
from sottovoce.methods.base import Method, Price, Selecting
from sottovoce.models.base import LabelScorer
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.unit import Adjacency, Assignment, change_type
from sottovoce.tasks import Example, Query, Task


@final
@dataclass(frozen=True, eq=False)
class LabelWorld:
    """What experts say to one question, one unit an expert.

    Attributes:
        rows: Log-probabilities, shape (experts, labels); a row of NaN is a null expert.
        public: The model's answer without any record, shape (labels,).

    Raises:
        ParameterError: The shapes do not fit.
    """

    rows: FloatArray = field(repr=False)
    public: FloatArray = field(repr=False)

    def __post_init__(self) -> None:
        if np.ndim(self.rows) != 2 or np.shape(self.public) != np.shape(self.rows)[1:]:
            raise ParameterError("public", np.shape(self.public), f"one number a label of rows {np.shape(self.rows)}")

    @classmethod
    def of_examples(cls, scorer: LabelScorer, task: Task, examples: Sequence[Example], query: Query) -> LabelWorld:
        """Every example as an expert of its own, read by a model. The examples are public or synthetic."""
        contexts = scorer.prepare(task, [(), *((example,) for example in examples)])
        try:
            scores = np.asarray(contexts.score([query])[0], dtype=np.float64)
        finally:
            contexts.close()
        return cls(scores[1:], scores[0])

    def outputs(self, adjacency: Adjacency) -> ExpertOutputs:
        """As a method reads them."""
        change = change_type(Assignment.OWN_SLOT, adjacency)
        return ExpertOutputs(np.array(self.rows, dtype=np.float64), change, adjacency, np.array(self.public))

    def neighbours(self, adjacency: Adjacency, pool: FloatArray | None = None) -> Iterator[tuple[str, LabelWorld]]:
        """Every world that one change makes of this one, with the change in words; equal ones once.

        Args:
            adjacency: The relation.
            pool: Rows that may replace one, shape (rows, labels); by default the rows that there are.

        Raises:
            ParameterError: The pool's rows have another length.
        """
        pool = self.rows if pool is None else np.asarray(pool, dtype=np.float64)
        if np.ndim(pool) != 2 or pool.shape[1] != self.rows.shape[1]:
            raise ParameterError("pool", np.shape(pool), f"rows of {self.rows.shape[1]} labels")
        replacements = _distinct(pool)
        for own in _distinct(self.rows):
            rest = np.delete(self.rows, own, axis=0)
            if adjacency is Adjacency.ADD_REMOVE:
                yield f"expert {own + 1} removed", LabelWorld(rest, self.public)
                continue
            if adjacency is Adjacency.ZERO_OUT:
                blank = np.full((1, self.rows.shape[1]), np.nan)
                yield f"expert {own + 1} blanked", LabelWorld(np.concatenate([rest, blank]), self.public)
                continue
            for other in replacements:
                if not np.array_equal(pool[other], self.rows[own], equal_nan=True):
                    world = LabelWorld(np.concatenate([rest, pool[other : other + 1]]), self.public)
                    yield f"expert {own + 1} says what row {other + 1} says", world


def label_pair(method: Method, first: LabelWorld, second: LabelWorld, price: Price, adjacency: Adjacency) -> Pair:
    """The exact laws of a method's label in two worlds.

    Raises:
        ParameterError: The method states no law (``coverage`` says why).

    Example:
        >>> from sottovoce.methods.poe import PoE
        >>> rows = np.log([[0.9, 0.1], [0.2, 0.8]])
        >>> world = LabelWorld(rows, np.log([0.5, 0.5]))
        >>> other = LabelWorld(rows[:1], np.log([0.5, 0.5]))
        >>> round(label_pair(PoE(), world, other, Price(1.0), Adjacency.ADD_REMOVE).max_loss, 4)
        0.3959
    """
    laws = [_law(method, world, price, adjacency) for world in (first, second)]
    return Pair(*laws)


@final
@dataclass(frozen=True, eq=False)
class Worst:
    """The pair that gives away most, of those that were tried.

    Attributes:
        change: In words.
        pair: Its laws.
        tried: How many pairs were compared.
        excess: What the method's own event does not allow of some pair; ``None`` where it allows all of them.
    """

    change: str
    pair: Leak = field(repr=False)
    tried: int
    excess: str | None


def worst_label_pair(
    method: Method, world: LabelWorld, price: Price, adjacency: Adjacency, pool: FloatArray | None = None
) -> Worst:
    """Searches every single change of a world for the largest loss, and holds every pair against the method's event.

    Raises:
        ParameterError: The method states no law, or the world has no neighbour.

    Example:
        >>> from sottovoce.methods.rnm import RNM
        >>> world = LabelWorld(np.log([[0.9, 0.1], [0.2, 0.8], [0.3, 0.7]]), np.log([0.5, 0.5]))
        >>> worst = worst_label_pair(RNM(), world, Price(1.0), Adjacency.REPLACE_ONE)
        >>> worst.change, round(worst.pair.max_loss, 4), worst.excess
        ('expert 1 says what row 2 says', 0.7273, None)
    """
    event = method.event(price, adjacency)
    own = _law(method, world, price, adjacency)
    changed = world.neighbours(adjacency, pool)
    pairs = ((words, Pair(own, _law(method, other, price, adjacency))) for words, other in changed)
    return worst_of(pairs, event, adjacency, price.delta)


def worst_of(pairs: Iterable[tuple[str, Any]], event: DpEvent, adjacency: Adjacency, delta: float = 0.0) -> Worst:
    """The pair with the largest epsilon at a delta (its largest loss at 0), of equal ones the largest total variation.

    Raises:
        ParameterError: There is no pair.
    """
    best: tuple[tuple[float, float], str, Any] | None = None
    tried, excess = 0, None
    for words, pair in pairs:
        tried += 1
        excess = excess or pair.excess_over(event, adjacency)
        rank = exact_epsilon(pair, delta), pair.total_variation
        if best is None or rank > best[0]:
            best = rank, words, pair
    if best is None:
        raise ParameterError("records", 0, "enough that one change makes another world")
    return Worst(best[1], best[2], tried, excess)


def why_no_law(method: type[Method]) -> str | None:
    """Why a method has no exact law here; ``None`` where it has one."""
    if issubclass(method, Selecting):
        return None
    if not method.private:
        return "it has no guarantee to compare with: its answer follows from the records without noise"
    if method.reads.name == "NOTHING":
        return "it reads no private record"
    if method.reads.name == "SAMPLES":
        return "its law is a mixture over every sample of the records; the contract tests add up small ones"
    return None if callable(getattr(method, "law", None)) else "it states no law"


def _law(method: Method, world: LabelWorld, price: Price, adjacency: Adjacency) -> FloatArray:
    """Natural logs."""
    if reason := why_no_law(type(method)):
        raise ParameterError("method", method.name, f"one with an exact law: {reason}")
    stated: Any = method
    outputs = world.outputs(adjacency)
    if isinstance(method, Selecting):
        return method.log_law(outputs, price)
    return log_law(stated.law(outputs, price))


def _distinct(rows: FloatArray) -> list[int]:
    """The places of rows that differ."""
    return sorted({row.tobytes(): place for place, row in reversed(list(enumerate(rows)))}.values())
