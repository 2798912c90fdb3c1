"""Which method, with which settings, at which price, for how many questions. Nothing private is read.

Prices follow from the ledger's own arithmetic. Expected accuracies are those measured for the embedded model on public
tasks (``planner_data``): a guide to the order of methods, not a promise for other records or models.

The best of many settings, judged by the figures it was chosen by, looks better than it is. So no figure here takes part
in a choice that it is reported for. For a named task a setting is chosen on one half of the seeds, and reported on the
other. For the average over tasks every task is reported with the setting that is best on the *other* tasks (leave one
out), which is also what a caller with a new task does; the setting that is advised is the best on all of them. Choosing
with a task less makes the figure, if anything, too low. Its interval is Student's t over tasks and holds both their
spread and that of seeds; it is about the mean of tasks like these, and a single new task may lie outside of it.

Records: the nearest measured number m that is not above n, at n / m times the price. Utilities are sums over experts,
so that n records at a price have about the odds of m at n / m times that price, with less chance in which records they
are. For 400 and 1,600 records read at 100 (``sotto bench run in-context``: AG News and TREC, one record an expert, PoE
and votes) that was 1.1 points too high at worst and 2.6 too low. Between small numbers it is coarser: over the cells of
this grid 25 records read at 8, and 100 at 25, came out 5.6 points too high at worst (votes) and 20 too low (two experts
of four records), 0.2 to 1.7 too low on average.

Zero-out: table 2.2 has a drop for one record an expert, so what was measured under add-remove holds, and a swap for
several, dealt out as under replace-one, so that is read there. No slot is assumed to be nulled for a blank.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import NoneType
from typing import Any, Final, final

from sottovoce.parameters import PLANNED, Kind, OneOf
from sottovoce.planner.measurements import Accuracy, Grid, Reading, Setting, measured_tasks, packaged_grid
from sottovoce.privacy.events import BoundedRange, DpEvent, PureDP
from sottovoce.privacy.ledger.budget import Budget, amount_of
from sottovoce.privacy.numbers import rounded_down
from sottovoce.privacy.parameters import MAX_EPSILON, MIN_EPSILON
from sottovoce.privacy.unit import Adjacency

__all__ = ["KNOWN", "UNKNOWN", "Accuracy", "Option", "Plan", "affordable_epsilon", "make_plan", "measured_tasks"]

KNOWN, UNKNOWN = "own", "made up"
"""Whether the label names mean something to the model."""


@final
@dataclass(frozen=True)
class _Family:
    """A method: its name after ``--method``, its name in the grid, and the event that prices an answer."""

    method: str
    measured: str
    event: Callable[[float], DpEvent]
    votes: bool = False


_FAMILIES: Final = (
    _Family("poe", "PoE", BoundedRange),
    _Family("prior-poe", "prior x PoE", BoundedRange),
    _Family("rnm --noise exponential", "votes, exponential", BoundedRange, votes=True),
    _Family("rnm --noise permute_and_flip", "votes, permute-and-flip", PureDP, votes=True),
)


@final
@dataclass(frozen=True)
class Option:
    """One way to spend the budget.

    Attributes:
        method: As typed behind ``--method``.
        epsilon: The most that every one of the answers can have; ``None`` if not even the least price fits.
        accuracy: Expected on public tasks; ``None`` where nothing was measured near this price.
        units_per_expert: g, as behind ``--per-expert``.
        clip: In nats; ``None`` for votes.
        flags: What to type.
        by_task: Percent right by task, each with the setting chosen without it.
    """

    method: str
    epsilon: float | None
    accuracy: Accuracy | None
    units_per_expert: int = 1
    clip: float | None = None
    flags: str = ""
    by_task: dict[str, float] = field(default_factory=dict)

    @property
    def votes(self) -> bool:
        """Whether it counts votes."""
        return self.method.startswith("rnm")

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "method": self.method,
            "epsilon": self.epsilon,
            "accuracy": self.accuracy.as_dict() if self.accuracy else None,
            "g": self.units_per_expert,
            "clip": self.clip,
            "flags": self.flags,
            "by_task": {task: round(value, 2) for task, value in self.by_task.items()},
        }


@final
@dataclass(frozen=True)
class Plan:
    """Advice for a data set and a number of questions.

    Attributes:
        options: The best setting of every method at its affordable price; the best one first.
        zero_shot: The floor: the model without any private record, free.
        advice: The recommendation in a few sentences.
        measured_at: Number of records that the accuracies were measured with, at ``records / measured_at`` times the
            price.
        tasks: That the accuracies are from.
        model: That they were measured with.
        over_zero_shot: The first option's lead in points, with its 95 % interval; ``None`` where nothing was measured.
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
    tasks: Sequence[str] = ()
    model: str = ""
    over_zero_shot: tuple[float, float, float] | None = None

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "records": self.records,
            "questions": self.questions,
            "budget": dict(vars(self.budget)),
            "adjacency": self.adjacency.value,
            "labels": self.labels,
            "options": [option.as_dict() for option in self.options],
            "zero_shot": self.zero_shot.as_dict(),
            "advice": self.advice,
            "measured_at": self.measured_at,
            "tasks": list(self.tasks),
            "model": self.model,
            "over_zero_shot": [round(x, 3) for x in self.over_zero_shot] if self.over_zero_shot else None,
        }


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
    """Computes what the budget buys, and which method and setting have the best expected accuracy.

    Args:
        records: Number of units; an approximate figure is enough. Under add-remove it is private: use a public guess.
        questions: How many answers the budget should pay for.
        budget: The data set's whole budget.
        adjacency: What one change is.
        labels: ``own`` if the label names mean something to the model, ``made up`` if not.
        task: Use the measurements of this task alone, one of ``measured_tasks()``.
        zero_shot: Zero-shot accuracy on the caller's own public questions, used in place of the benchmark's.

    Raises:
        ParameterError: A number is out of range, or the task was not measured.
    """
    Kind(Budget, "a Budget, such as Budget(8, 1e-6)").read("budget", budget)
    Kind((Accuracy, NoneType), "an Accuracy").read("zero_shot", zero_shot)
    Kind((str, NoneType), "the name of a task that was measured").read("task", task)
    adjacency = Adjacency.parse(adjacency)
    records, questions = PLANNED.read("records", records), PLANNED.read("questions", questions)
    OneOf((KNOWN, UNKNOWN)).read("labels", labels)
    grid = packaged_grid()
    tasks, labels = grid.tasks(labels, task)
    counts = grid.counts(tasks[0], labels)
    measured_at = max([count for count in counts if count <= records] or counts[:1])
    epsilons = {family.measured: affordable_epsilon(budget, questions, family.event) for family in _FAMILIES}
    chooser = _Adviser(grid, tasks, labels, measured_at, records, adjacency, epsilons)
    options, lead = _options(chooser)
    floor = zero_shot or chooser.floor()
    best = options[0].accuracy
    if zero_shot and best:
        lead = Accuracy(best.mean - zero_shot.mean, math.hypot(best.half_width, zero_shot.half_width) / 1.959964)
    over = (lead.mean, lead.mean - lead.half_width, lead.mean + lead.half_width) if lead else None
    return Plan(
        records,
        questions,
        budget,
        adjacency,
        labels,
        options,
        floor,
        _advice(options, floor, over, questions, tasks),
        measured_at,
        tuple(tasks),
        grid.models[tasks[0]],
        over,
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


@final
@dataclass(frozen=True)
class _Adviser:
    """Chooses a setting, and says what to expect of it from figures that took no part in the choice.

    Attributes:
        grid: The measurements.
        tasks: To be averaged over, or one.
        names: Kind of label names.
        measured_at: Number of records in the grid.
        records: The caller's number.
        adjacency: The caller's.
        epsilons: Price of an answer by method, as the grid calls it.
    """

    grid: Grid
    tasks: Sequence[str]
    names: str
    measured_at: int
    records: int
    adjacency: Adjacency
    epsilons: dict[str, float | None]

    def settings(self, methods: Sequence[str]) -> list[Setting]:
        """Those of these methods that were measured at their price on every task, and that the records suffice for."""
        known = self.grid.settings(self.tasks[0], self.names, self.measured_at)
        return [
            s
            for s in known
            if s.method in methods
            and s.units_per_expert <= self.records
            and all(self._reading(task, s, 0) for task in self.tasks)
        ]

    def choose(self, settings: Sequence[Setting]) -> Setting:
        """The best of all tasks; for one task, of the first half of its seeds."""
        if len(self.tasks) == 1:
            return max(settings, key=lambda s: self._mean(self.tasks[0], s, 0))
        return self._best(settings, self.tasks)

    def expect(self, settings: Sequence[Setting]) -> tuple[Accuracy, Accuracy, dict[str, float]]:
        """Of the best of these settings: percent right, its lead over zero-shot, and percent right by task."""
        if len(self.tasks) == 1:
            (task,) = self.tasks
            reading = self._reading(task, self.choose(settings), 1)
            assert reading is not None
            freedom, floor = self.grid.degrees_of_freedom(task), self.grid.floors[task, self.names][1].mean
            right = Accuracy(reading.mean, reading.standard_error, freedom)
            return right, Accuracy(reading.mean - floor, reading.gap_error, freedom), {task: reading.mean}
        left_out = {t: self._best(settings, [other for other in self.tasks if other != t]) for t in self.tasks}
        by_task = {task: self._mean(task, setting) for task, setting in left_out.items()}
        leads = [value - self._floor(task) for task, value in by_task.items()]
        return _over_tasks(list(by_task.values())), _over_tasks(leads), by_task

    def floor(self) -> Accuracy:
        """Zero-shot, over the same seeds or tasks as ``expect``."""
        if len(self.tasks) == 1:
            reading = self.grid.floors[self.tasks[0], self.names][1]
            return Accuracy(reading.mean, reading.standard_error, self.grid.degrees_of_freedom(self.tasks[0]))
        return _over_tasks([self._floor(task) for task in self.tasks])

    def _best(self, settings: Sequence[Setting], tasks: Sequence[str]) -> Setting:
        return max(settings, key=lambda s: math.fsum(self._mean(task, s) for task in tasks))

    def _mean(self, task: str, setting: Setting, half: int | None = None) -> float:
        if half is None:
            share = self.grid.share_of_first(task)
            return share * self._mean(task, setting, 0) + (1 - share) * self._mean(task, setting, 1)
        reading = self._reading(task, setting, half)
        return reading.mean if reading else -math.inf

    def _floor(self, task: str) -> float:
        first, second = self.grid.floors[task, self.names]
        share = self.grid.share_of_first(task)
        return share * first.mean + (1 - share) * second.mean

    def _reading(self, task: str, setting: Setting, half: int) -> Reading | None:
        epsilon = self.epsilons[setting.method]
        relation = self.adjacency
        if relation is Adjacency.ZERO_OUT:
            relation = Adjacency.ADD_REMOVE if setting.units_per_expert == 1 else Adjacency.REPLACE_ONE
        line = self.grid.lines.get((task, self.names, self.measured_at, relation.value), {}).get(setting)
        if line is None or epsilon is None:
            return None
        return line.at(epsilon * self.records / self.measured_at, half)


def _over_tasks(values: Sequence[float]) -> Accuracy:
    """Mean of tasks, with the spread between them: within-task noise is part of it."""
    count = len(values)
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    return Accuracy(mean, math.sqrt(variance / count), count - 1)


def _options(chooser: _Adviser) -> tuple[list[Option], Accuracy | None]:
    """The best setting of all, then the best of every other method; and the lead of the first over zero-shot."""
    measured = {family: chooser.settings([family.measured]) for family in _FAMILIES}
    everything = [setting for settings in measured.values() for setting in settings]
    if not everything:
        return sorted((_bare(f, chooser) for f in _FAMILIES), key=lambda option: -(option.epsilon or 0)), None
    winner = chooser.choose(everything)
    first, runners_up, lead = [], [], None
    for family, settings in measured.items():
        if winner in settings:
            right, lead, by_task = chooser.expect(everything)
            first.append(_option(family, winner, chooser, right, by_task))
        elif settings:
            right, _, by_task = chooser.expect(settings)
            runners_up.append(_option(family, chooser.choose(settings), chooser, right, by_task))
    runners_up.sort(key=lambda option: -(option.accuracy.mean if option.accuracy else 0))
    rest = [_bare(family, chooser) for family, settings in measured.items() if not settings]
    return [*first, *runners_up, *rest], lead


def _bare(family: _Family, chooser: _Adviser) -> Option:
    return Option(family.method, chooser.epsilons[family.measured], None)


def _option(family: _Family, setting: Setting, chooser: _Adviser, right: Accuracy, by_task: dict[str, float]) -> Option:
    epsilon, g = chooser.epsilons[family.measured], setting.units_per_expert
    flags = [f"--method {family.method}"]
    flags += [f"--clip {setting.clip:g}"] if setting.clip is not None else []
    flags += [f"--prior-weight {chooser.grid.prior_weight:g}"] if family.method == "prior-poe" else []
    flags += [f"--per-expert {g}"] if g > 1 else []
    flags += [f"--epsilon {rounded_down(epsilon, 6)}"] if epsilon else []
    flags += [f"--adjacency {chooser.adjacency.value}"] if chooser.adjacency is not Adjacency.REPLACE_ONE else []
    flags += [f"--capacity {-(-chooser.records // g)}"] if g > 1 and not chooser.adjacency.size_is_public else []
    return Option(family.method, epsilon, right, g, setting.clip, " ".join(flags), by_task)


def _advice(
    options: Sequence[Option],
    floor: Accuracy,
    over: tuple[float, float, float] | None,
    questions: int,
    tasks: Sequence[str],
) -> str:
    best = options[0]
    if best.epsilon is None:
        return (
            f"The budget does not pay for {questions} answers. Ask fewer, grant more, or use zero-shot, which is free."
        )
    if best.accuracy is None or over is None:
        return (
            f"At epsilon {rounded_down(best.epsilon, 6)} an answer nothing was measured; expect little. Ask fewer "
            f"questions, grant more, or use zero-shot ({floor}), which is free."
        )
    lead = f"{over[0]:+.1f} points ({over[1]:+.1f} to {over[2]:+.1f})"
    where = tasks[0] if len(tasks) == 1 else "public tasks"
    if over[1] <= 0:
        better = ", or better" if over[2] < 0 else ", as far as these figures tell" if over[0] > 0 else ""
        advice = (
            f"Zero-shot would do as well{better}: {floor} for free, against {best.accuracy} for {best.flags}, {lead}."
        )
    else:
        advice = f"Use {best.flags}: expected {best.accuracy} on {where}, against {floor} zero-shot, {lead}."
    return advice + _about_votes(options)


def _about_votes(options: Sequence[Option]) -> str:
    """A further sentence where votes were chosen."""
    best = options[0]
    product = next((option for option in options if option.accuracy and not option.votes), None)
    if not best.votes or not best.accuracy or not product or not product.accuracy:
        return ""
    compared = f"{best.accuracy}, against {product.accuracy} for the best product of experts, {product.flags}."
    if best.accuracy.mean > product.accuracy.mean:
        return f" Votes do better at this size: {compared}"
    return f" Votes do as well at this size: {compared}"
