"""Which method, at which price, for how many questions. Nothing private is read.

Prices follow from the ledger's own arithmetic. Expected accuracies are those measured for the embedded model on public
tasks (``data/plan/embedded.json``, made by ``sotto bench run in-context``): a guide to the order of methods, not a
promise for other records or models.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, Final, final

from sottovoce.errors import ParameterError
from sottovoce.privacy.budget import Budget, amount_of
from sottovoce.privacy.events import BoundedRange, DpEvent, PureDP
from sottovoce.privacy.numbers import MAX_EPSILON, MIN_EPSILON
from sottovoce.privacy.unit import Adjacency

KNOWN, UNKNOWN = "own", "made up"
"""Whether the label names mean something to the model."""

_CANDIDATES: Final[Sequence[tuple[str, str, Callable[[float], DpEvent]]]] = (
    ("poe", "PoE", BoundedRange),
    ("rnm --noise exponential", "votes, exponential", BoundedRange),
    ("rnm --noise permute_and_flip", "votes, permute-and-flip", PureDP),
)


@final
@dataclass(frozen=True)
class Accuracy:
    """A measured percentage with its standard error over seeds, both in percentage points."""

    mean: float
    standard_error: float

    def __str__(self) -> str:
        return f"{self.mean:.0f} ± {2 * self.standard_error:.0f} %"


@final
@dataclass(frozen=True)
class Option:
    """One way to spend the budget.

    Attributes:
        method: As typed behind ``--method``.
        epsilon: The most that every one of the answers can have; ``None`` if not even the least price fits.
        accuracy: Expected on public tasks; ``None`` where nothing was measured near this price.
    """

    method: str
    epsilon: float | None
    accuracy: Accuracy | None


@final
@dataclass(frozen=True)
class Plan:
    """Advice for a data set and a number of questions.

    Attributes:
        options: Every method at its affordable price, best first.
        zero_shot: The floor: the model without any private record, free.
        advice: The recommendation in a sentence.
        measured_at: Number of records that the accuracies were measured with.
    """

    records: int
    questions: int
    budget: Budget
    adjacency: Adjacency
    labels: str
    options: Sequence[Option]
    zero_shot: Accuracy
    advice: str
    measured_at: int

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {**asdict(self), "adjacency": self.adjacency.value}


def make_plan(
    *,
    records: int,
    questions: int,
    budget: Budget,
    adjacency: Adjacency | str = Adjacency.REPLACE_ONE,
    labels: str = KNOWN,
    task: str | None = None,
    zero_shot: Accuracy | None = None,
) -> Plan:
    """Works out what the budget affords and which method to expect most from.

    Args:
        records: Number of units; a round figure will do. Under add-remove it is private: use a public guess.
        questions: How many answers are to be paid for.
        budget: The data set's whole budget.
        adjacency: What one change is.
        labels: ``own`` if the label names mean something to the model, ``made up`` if not.
        task: Use the measurements of this task alone, ``agnews`` or ``trec``.
        zero_shot: Measured on the caller's own public questions, instead of the benchmark's.

    Raises:
        ParameterError: A number is out of range, or the task was not measured.
    """
    adjacency = Adjacency.parse(adjacency)
    for name, value in (("records", records), ("questions", questions)):
        if value < 1:
            raise ParameterError(name, value, "a whole number, 1 or more")
    if labels not in (KNOWN, UNKNOWN):
        raise ParameterError("labels", labels, f"{KNOWN!r} or {UNKNOWN!r}")
    cells = [cell for cell in _measurements() if cell["names"] == labels and task in (None, cell["task"])]
    if not cells:
        known = sorted({cell["task"] for cell in _measurements()})
        raise ParameterError("task", task, f"one that was measured: {', '.join(known)}")
    counts = sorted({cell["records"] for cell in cells} - {0})
    measured_at = max([count for count in counts if count <= records] or counts[:1])
    floor = zero_shot or _average([c for c in cells if c["method"] == "zero-shot"])
    options = []
    for method, name, event in _CANDIDATES:
        epsilon = affordable_epsilon(budget, questions, event)
        rows = [c for c in cells if c["method"] == name and c["records"] == measured_at]
        options.append(Option(method, epsilon, _expected(rows, adjacency, epsilon) if epsilon else None))
    options.sort(key=lambda o: -(o.accuracy.mean if o.accuracy else -1))
    return Plan(
        records,
        questions,
        budget,
        adjacency,
        labels,
        options,
        floor,
        _advice(options[0], floor, questions),
        measured_at,
    )


def affordable_epsilon(budget: Budget, questions: int, event: Callable[[float], DpEvent]) -> float | None:
    """The largest epsilon, of four digits, that each of ``questions`` answers can have; ``None`` if none fits."""

    def fits(epsilon: float) -> bool:
        return questions * amount_of(event(epsilon), budget.currency) <= budget.cap

    if not fits(MIN_EPSILON):
        return None
    low, high = math.log(MIN_EPSILON), math.log(min(MAX_EPSILON, 10 * budget.epsilon + 1))
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if fits(math.exp(middle)) else (low, middle)
    best = math.exp(low)
    for digits in (best * (1 + 1e-9), best):
        rounded = math.floor(digits / (unit := 10 ** (math.floor(math.log10(digits)) - 3)) + 1e-9) * unit
        if fits(candidate := max(MIN_EPSILON, float(f"{rounded:.4g}"))):
            return candidate
    return MIN_EPSILON


def _expected(rows: list[dict[str, Any]], adjacency: Adjacency, epsilon: float) -> Accuracy | None:
    """Measured accuracy between the two nearest prices, on the safe side outside of them."""
    relation = "replace-one" if adjacency is Adjacency.REPLACE_ONE else "add-remove"
    rows = [row for row in rows if row["adjacency"] == relation]
    prices = sorted({row["epsilon"] for row in rows})
    if not prices or epsilon < prices[0]:
        return None
    below = max(price for price in prices if price <= epsilon)
    above = min([price for price in prices if price >= epsilon] or [below])
    share = 0.0 if above == below else math.log(epsilon / below) / math.log(above / below)
    low, high = (_average([row for row in rows if row["epsilon"] == price]) for price in (below, above))
    return Accuracy(low.mean + share * (high.mean - low.mean), max(low.standard_error, high.standard_error))


def _average(rows: list[dict[str, Any]]) -> Accuracy:
    errors = [row["standard_error"] for row in rows]
    return Accuracy(
        math.fsum(row["mean"] for row in rows) / len(rows), math.sqrt(math.fsum(e * e for e in errors)) / len(errors)
    )


def _advice(best: Option, floor: Accuracy, questions: int) -> str:
    if best.epsilon is None:
        return (
            f"The budget does not pay for {questions} answers. Ask fewer, grant more, or use zero-shot, which is free."
        )
    if best.accuracy is None:
        return (
            f"At epsilon {best.epsilon:g} an answer nothing was measured; expect little. Ask fewer questions, grant "
            f"more, or use zero-shot ({floor}), which is free."
        )
    if best.accuracy.mean <= floor.mean + 2 * math.hypot(best.accuracy.standard_error, floor.standard_error):
        return f"Zero-shot would do as well: {floor} for free, against {best.accuracy} for {best.method}."
    return (
        f"Use --method {best.method} --epsilon {best.epsilon:g}: expected {best.accuracy} on public tasks, "
        f"against {floor} zero-shot."
    )


@lru_cache(maxsize=1)
def _measurements() -> list[dict[str, Any]]:
    text = (resources.files("sottovoce") / "data" / "plan" / "embedded.json").read_text("utf-8")
    cells: list[dict[str, Any]] = json.loads(text)["cells"]
    return cells
