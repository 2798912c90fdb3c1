"""The honest guide: for so many records, labels and questions at one total price, what to type and what to expect.

Everything a budget can buy is put on the same price: methods that pay once, methods that pay for every answer (at the
most that the total affords each of them), zero-shot for free. A figure is a mean over public sets that takes part in
no choice it is reported for: each set stands with the method that is best on the *other* sets. Student's t over sets
gives the interval of that mean; one more set may well lie outside of it.

Nothing private is read. Under add-remove the number of records is private: use a public guess.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, final

from sottovoce.methods.fitting.fitter import Fitter, find_fitter, registered_fitters
from sottovoce.methods.fitting.support import LinearSupport
from sottovoce.parameters import PLANNED, Number, OneOf
from sottovoce.planner.frontier import (
    BUNDLED,
    KEPT_BACK,
    NO_POOL,
    NO_PRIVACY,
    PER_ANSWER,
    POOLS,
    ZERO_SHOT,
    Measured,
    Reading,
    Setting,
    Tables,
    as_measured,
    lead_of,
    mean_of,
    packaged_tables,
)
from sottovoce.planner.measurements import MODEL, Accuracy
from sottovoce.planner.spending import budget_for, price_of_one
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.ledger.budget import Budget
from sottovoce.privacy.numbers import rounded_down
from sottovoce.privacy.parameters import DELTA, EPSILON
from sottovoce.privacy.unit import Adjacency

OWN, MADE_UP = "own", "made up"
ONCE, EACH, FREE = "once", "each answer", "nothing"
"""What is paid for."""
PAY_ONCE, CLASSIFIER, PAY_EACH = "pay once", "train a private classifier", "pay for every answer"
USE_ZERO_SHOT, MORE_RECORDS = "use zero-shot", "collect more records"
"""What is advised."""
CLASSIFIERS: Final = ("dp-logistic",)
"""Methods that are an ordinary classifier, trained with privacy, and nothing else."""
WORTH: Final = 1.0
"""Points over zero-shot below which nothing private is advised."""
GROWTH: Final = (2, 4, 8, 16)
"""Multiples of the records for which it is said what they would give."""
NOTABLE: Final = 5.0
"""Points over zero-shot, or over the same with fewer records, that are worth collecting records for."""
PREFERENCE: Final = 0.5
"""Points by which paying for every answer must be ahead of paying once, which goes on answering."""
MARGIN: Final = 1.0
"""Points by which an ordinary classifier must be ahead: it can fall below zero-shot where class means do not. Leaving
out each set for advice in turn, 1 and 2 did alike and better than 0 and 0.5."""
RISKY: Final = (*CLASSIFIERS, "label-public")
"""Methods that fell below zero-shot on kept-back sets."""
RISK: Final = 1.0
"""Points below zero-shot on any set, under own names, from which on none of these is advised."""
LABELS: Final = Number(2, math.inf, whole=True)
EMBEDDERS: Final = (MODEL, "embedded-image")
"""Models for whose vectors a fit makes a classifier, and that the measurements are of."""
HIDDEN_STATES: Final = "hf"
"""Models that embed with their hidden states where a method leaves a classifier (decision 0023)."""


@final
@dataclass(frozen=True)
class Asked:
    """Public numbers: what is to be answered, at which total price.

    Attributes:
        records: Number of units, a public guess under add-remove.
        labels: Number of labels, at least 2.
        questions: Number of answers that are wanted.
        epsilon: Of everything together.
        delta: Of everything together.
        adjacency: What one change of the data is.
        names: ``own`` or ``made up``: whether the label names mean something to the model.
        pool: Public texts: ``bundled``, ``same kind``, ``another kind`` or ``no pool``.
        model: That answers.
        task: Of one measured set, which then stands for itself alone.

    Raises:
        ParameterError: A number is out of range.
    """

    records: int
    labels: int
    questions: int
    epsilon: float
    delta: float = 1e-6
    adjacency: Adjacency = Adjacency.REPLACE_ONE
    names: str = OWN
    pool: str = BUNDLED
    model: str = MODEL
    task: str | None = None

    def __post_init__(self) -> None:
        checked = {
            "records": PLANNED.read("records", self.records),
            "labels": LABELS.read("labels", self.labels),
            "questions": PLANNED.read("questions", self.questions),
            "epsilon": EPSILON.read("epsilon", self.epsilon),
            "delta": DELTA.read("delta", self.delta),
            "adjacency": Adjacency.parse(self.adjacency),
            "names": OneOf((OWN, MADE_UP)).read("names", self.names),
            "pool": OneOf((*POOLS, NO_POOL)).read("pool", self.pool),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @property
    def embeds(self) -> bool:
        """Whether the model that answers embeds records, too."""
        return self.model.partition(":")[0] in (*EMBEDDERS, HIDDEN_STATES)

    @property
    def measured_model(self) -> str:
        """Of the measurements that are read."""
        return self.model if self.model in EMBEDDERS else MODEL

    @property
    def setting(self) -> Setting:
        """As measured. A zero-out is a drop (specification table 2.2), as under add-remove."""
        relation = Adjacency.REPLACE_ONE if self.adjacency is Adjacency.REPLACE_ONE else Adjacency.ADD_REMOVE
        return Setting(self.labels, relation.value, self.names, self.pool, self.measured_model)


@final
@dataclass(frozen=True)
class Expectation:
    """One way to spend the total.

    Attributes:
        method: As typed behind ``--method``.
        paid: What is paid for: ``once``, ``each answer`` or ``nothing``.
        epsilon: Of the fit, or of each answer; ``None`` where nothing is paid.
        accuracy: Expected on public sets, in percent.
        lead: Over zero-shot on the same sets, in points.
        by_set: Percent right by set.
    """

    method: str
    paid: str
    epsilon: float | None
    accuracy: Accuracy
    lead: Accuracy
    by_set: dict[str, float] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        low, high = self.lead.mean - self.lead.half_width, self.lead.mean + self.lead.half_width
        return {
            "method": self.method,
            "paid": self.paid,
            "epsilon": self.epsilon,
            "accuracy": self.accuracy.as_dict(),
            "over_zero_shot": [round(value, 3) for value in (self.lead.mean, low, high)],
            "by_set": {name: round(value, 2) for name, value in self.by_set.items()},
        }


@final
@dataclass(frozen=True)
class Guide:
    """Advice.

    Attributes:
        asked: What for.
        verdict: One of ``pay once``, ``train a private classifier``, ``pay for every answer``, ``use zero-shot`` and
            ``collect more records``.
        advised: What is expected of it.
        rows: Every way to spend the total, the best one first.
        zero_shot: For free.
        no_privacy: The better of all records in one prompt and logistic regression, without privacy; ``None`` where
            neither was measured.
        grown: What multiples of the records are expected to give, by their number.
        sets: That the figures are from.
        reason: The advice in a few sentences.
        commands: What to type.
        model: That the figures were measured with.
    """

    asked: Asked
    verdict: str
    advised: Expectation
    rows: Sequence[Expectation]
    zero_shot: Accuracy
    no_privacy: Accuracy | None
    grown: dict[int, Expectation]
    sets: Sequence[str]
    reason: str
    commands: Sequence[str]
    model: str

    def as_dict(self) -> dict[str, Any]:
        """For ``--json``."""
        return {
            "verdict": self.verdict,
            "advised": self.advised.as_dict(),
            "commands": list(self.commands),
            "reason": self.reason,
            "rows": [row.as_dict() for row in self.rows],
            "zero_shot": self.zero_shot.as_dict(),
            "no_privacy": self.no_privacy.as_dict() if self.no_privacy else None,
            "with_more_records": {str(records): row.as_dict() for records, row in self.grown.items()},
            "sets": list(self.sets),
            "measured_model": self.model,
        }


def make_guide(
    asked: Asked,
    *,
    tables: Tables | None = None,
    zero_shot: Accuracy | None = None,
    who: str = "--labels LABEL,LABEL,...",
) -> Guide:
    """Works out what to advise.

    Args:
        asked: Public numbers.
        tables: The measurements; by default those that come with the package.
        zero_shot: Measured on the caller's own public questions, instead of the benchmark's.
        who: The flags that name the labels, for the commands.

    Example:
        >>> guide = make_guide(Asked(records=960, labels=4, questions=1000, epsilon=4))
        >>> guide.verdict, guide.commands[0].split()[:2]
        ('pay once', ['sotto', 'fit'])
    """
    chooser = _Chooser(asked, tables or packaged_tables(), zero_shot)
    best = chooser.best
    worth = best is not None and best.lead.mean >= WORTH
    grown = {n: row for n in (asked.records * k for k in GROWTH) if (row := _with(chooser, n)) is not None}
    verdict = _verdict(best if worth else None, asked.names, grown)
    advised = best if worth and best else chooser.free
    rows = [row for row in chooser.rows if row.method != advised.method or row.paid != advised.paid]
    guide = Guide(
        asked,
        verdict,
        advised,
        [advised, *rows],
        chooser.free.accuracy,
        chooser.no_privacy,
        grown,
        chooser.sets,
        "",
        _commands(advised, asked, who),
        asked.measured_model,
    )
    return replace(guide, reason=_reason(guide, best))


def _with(chooser: _Chooser, records: int) -> Expectation | None:
    """The best way with more records, on the same sets."""
    return replace(chooser, asked=replace(chooser.asked, records=records), kept=tuple(chooser.sets)).best


def usable_fitters(delta: float, embeds: bool, candidates: int) -> list[str]:
    """Fitters for this delta and so many public texts; a classifier is for a model that embeds. In registry order."""
    return [name for name, kind in registered_fitters().items() if _is_usable(kind, delta, embeds, candidates)]


def _is_usable(kind: type[Fitter], delta: float, embeds: bool, candidates: int) -> bool:
    return (
        not (kind.needs_delta and delta == 0)
        and not (kind.pool == "required" and not candidates)
        and (embeds or kind.gives is not LinearSupport)
    )


def best_fitter(asked: Asked, among: Sequence[str], tables: Tables) -> Expectation | None:
    """The best of some fitters; ``None`` where none of them was measured."""
    return _Chooser(asked, tables, None, tuple((method, ONCE) for method in among)).best


def best_answering(asked: Asked, among: Sequence[str], tables: Tables) -> Expectation | None:
    """The best of some methods that pay for every answer; ``None`` where none of them was measured."""
    return _Chooser(asked, tables, None, tuple((method, EACH) for method in among)).best


@final
@dataclass(frozen=True, eq=False)
class _Chooser:
    """Reads the sets and compares methods on them."""

    asked: Asked
    tables: Tables
    own_floor: Accuracy | None
    among: Sequence[tuple[str, str]] | None = None
    kept: Sequence[str] = ()

    @cached_property
    def measured(self) -> list[Measured]:
        task = self.asked.task
        named = [task] if task is not None and task in self.tables.sets else self.kept
        return self.tables.of(self.asked.setting, self.asked.records, named)

    @property
    def sets(self) -> list[str]:
        return [one.name for one in self.measured]

    @cached_property
    def free(self) -> Expectation:
        floors = [one.floor for one in self.measured]
        right = self.own_floor or self._mean(floors)
        by_set = {one.name: one.floor.mean for one in self.measured}
        return Expectation(ZERO_SHOT, FREE, None, right, Accuracy(0.0, 0.0), by_set)

    @cached_property
    def no_privacy(self) -> Accuracy | None:
        found = [[one.open(method) for one in self.measured] for method in NO_PRIVACY]
        means = [self._mean([reading for reading in readings if reading]) for readings in found if all(readings)]
        return max(means, key=lambda right: right.mean, default=None)

    @cached_property
    def ways(self) -> dict[tuple[str, str], list[Reading]]:
        """Method and what is paid, with a reading a set; those that were measured on every set."""
        asked, relation = self.asked, self.asked.setting.adjacency
        epsilon = as_measured(asked.epsilon, asked.delta)
        price = price_of_one(asked.epsilon, asked.delta, asked.questions, BoundedRange)
        found: dict[tuple[str, str], list[Reading | None]] = {}
        for method in self.tables.fitters:
            kind = find_fitter(method)
            if kind is not None and _is_usable(kind, asked.delta, asked.embeds, int(asked.pool != NO_POOL)):
                found[method, ONCE] = [one.once(method, asked.pool, relation, epsilon) for one in self.measured]
        for name, method in PER_ANSWER.items():
            if price is not None:
                found[method, EACH] = [one.each(name, relation, price) for one in self.measured]
        return {
            way: [reading for reading in readings if reading]
            for way, readings in found.items()
            if all(readings) and (self.among is None or way in self.among)
        }

    @cached_property
    def rows(self) -> list[Expectation]:
        """Every way, by its mean, and zero-shot."""
        rows = [self._expectation(way, dict.fromkeys(range(len(self.measured)), way)) for way in self.ways]
        return sorted([*rows, self.free], key=lambda row: -row.accuracy.mean)

    @cached_property
    def best(self) -> Expectation | None:
        """The best way, with figures of sets that took no part in choosing it."""
        if not self.ways:
            return None
        places = range(len(self.measured))
        chosen = self._best(places)
        if len(places) == 1:
            return self._expectation(chosen, {0: chosen})
        return self._expectation(chosen, {left: self._best([p for p in places if p != left]) for left in places})

    def _best(self, places: Sequence[int]) -> tuple[str, str]:
        """Best by the mean over some of the sets; paying once where it is nearly as good."""

        def worth(way: tuple[str, str]) -> float:
            mean = math.fsum(self.ways[way][place].mean for place in places) / len(places)
            return mean + (PREFERENCE if way[1] == ONCE else 0.0) - (MARGIN if way[0] in CLASSIFIERS else 0.0)

        return max([way for way in self.ways if not self._risky(way)] or self.ways, key=worth)

    def _risky(self, way: tuple[str, str]) -> bool:
        if way[0] not in RISKY or self.asked.names != OWN:
            return False
        pairs = zip(self.ways[way], self.measured, strict=True)
        return any(reading.mean < one.floor.mean - RISK for reading, one in pairs)

    def _expectation(self, way: tuple[str, str], by_place: dict[int, tuple[str, str]]) -> Expectation:
        readings = [self.ways[chosen][place] for place, chosen in by_place.items()]
        leads = [lead_of(reading, one.floor) for reading, one in zip(readings, self.measured, strict=True)]
        right, lead = self._mean(readings), self._mean(leads)
        if self.own_floor:
            error = math.hypot(right.half_width, self.own_floor.half_width) / 1.959964
            lead = Accuracy(right.mean - self.own_floor.mean, error)
        by_set = {one.name: reading.mean for one, reading in zip(self.measured, readings, strict=True)}
        return Expectation(*way, self._price(way[1]), right, lead, by_set)

    def _price(self, paid: str) -> float | None:
        asked = self.asked
        if paid == ONCE:
            return asked.epsilon
        return price_of_one(asked.epsilon, asked.delta, asked.questions, BoundedRange)

    def _mean(self, readings: Sequence[Reading]) -> Accuracy:
        return mean_of(readings, self.measured[0].of.seeds)


def _verdict(best: Expectation | None, names: str, grown: dict[int, Expectation]) -> str:
    """What to advise; ``best`` is ``None`` where nothing private is worth its price."""
    lead = best.lead.mean if best else 0.0
    if names == MADE_UP and lead < 2 * NOTABLE and any(row.lead.mean >= lead + NOTABLE for row in grown.values()):
        return MORE_RECORDS  # zero-shot is a guess there
    if best is None:
        return USE_ZERO_SHOT
    if best.paid == EACH:
        return PAY_EACH
    return CLASSIFIER if best.method in CLASSIFIERS else PAY_ONCE


# In words


def _reason(guide: Guide, best: Expectation | None) -> str:
    asked, advised = guide.asked, guide.advised
    verdict = _CAPITAL[guide.verdict]
    no_privacy = f", and {guide.no_privacy} without privacy" if guide.no_privacy else ""
    if advised.paid != FREE and guide.verdict != MORE_RECORDS:
        against = f"against {guide.zero_shot} zero-shot, {_points(advised.lead)}{no_privacy}"
        told = [f"{verdict}, by {advised.method}: expected {advised.accuracy} on public sets, {against}."]
        if advised.lead.mean - advised.lead.half_width <= 0:
            told.append("The interval of its lead holds 0: try it on public questions first.")
    else:
        told = [f"{verdict}: zero-shot has {guide.zero_shot} for free{no_privacy}."]
        if best is None:
            told.append(f"The budget pays for nothing else at {asked.questions} questions.")
        else:
            told.append(f"The best that this budget buys is {best.method}, {best.accuracy}, {_points(best.lead)}.")
    return " ".join([*told, *_more(guide), *_of_another_model(asked), *_of_hidden_states(guide)])


_CAPITAL: Final = {
    verdict: verdict[0].upper() + verdict[1:]
    for verdict in (PAY_ONCE, CLASSIFIER, PAY_EACH, USE_ZERO_SHOT, MORE_RECORDS)
}


def _points(lead: Accuracy) -> str:
    low, high = lead.mean - lead.half_width, lead.mean + lead.half_width
    return f"{lead.mean:+.1f} points ({low:+.1f} to {high:+.1f})"


def _more(guide: Guide) -> list[str]:
    """The least multiple of the records that makes a notable difference."""
    for records, row in guide.grown.items():
        if row.accuracy.mean >= guide.advised.accuracy.mean + NOTABLE:
            return [f"With {records:,} records {row.method} is expected at {row.accuracy}."]
    return []


def _of_another_model(asked: Asked) -> list[str]:
    if asked.model == asked.measured_model:
        return []
    told = [
        f"All of this was measured with the model {asked.measured_model!r}; of {asked.model!r} nothing was, and both "
        f"figures and order may differ: 'sotto bench run frontier --model {asked.model}' measures it."
    ]
    if asked.model.startswith("hf:"):
        told.append(
            "Where each answer is paid, try --method poe --calibrate: small language models repeat the label of an "
            "expert's example, and calibration costs no epsilon."
        )
    return told


def _of_hidden_states(guide: Guide) -> list[str]:
    """What is known of a classifier of a language model's hidden states."""
    kind, fitter = guide.asked.model.partition(":")[0], find_fitter(guide.advised.method)
    if kind != HIDDEN_STATES or fitter is None or fitter.gives is not LinearSupport:
        return []
    return [
        "The classifier is of this model's hidden states. One checkpoint of 135 million parameters was measured with "
        "class-means (layer 20 of 30, 240 records, epsilon 4, replace-one, 3 seeds): AG News 60 % (zero-shot 53, "
        "-o prior_weight=0 63), TREC 35 % (zero-shot 19, -o prior_weight=0 54); with the vectors of 'embedded' 76 and "
        "50 %. Try both on public questions."
    ]


# What to type


def _commands(advised: Expectation, asked: Asked, who: str) -> list[str]:
    common = [who]
    common += [f"--model {asked.model}"] if asked.model != MODEL else []
    if advised.paid == FREE:
        return [" ".join(["sotto classify --method zero-shot --queries NEW.jsonl", *common])]
    common += [f"--adjacency {asked.adjacency.value}"] if asked.adjacency is not Adjacency.REPLACE_ONE else []
    if advised.paid == EACH:
        budget = _typed(budget_for(asked.epsilon, asked.delta, asked.questions, BoundedRange))
        flags = [
            f"--method {advised.method}",
            f"--epsilon {rounded_down(advised.epsilon or 0, 6)}",
            f"--budget {budget}",
        ]
        return [" ".join(["sotto classify --private RECORDS.jsonl --queries NEW.jsonl", *common, *flags])]
    flags = [f"--method {advised.method}", f"--epsilon {rounded_down(asked.epsilon, 6)}"]
    flags += [f"--delta {rounded_down(asked.delta, 6)}"]
    flags += ["--public POOL.jsonl"] if asked.pool not in (BUNDLED, NO_POOL) and _reads_pool(advised.method) else []
    flags += ["-o prior_weight=0"] if asked.names == MADE_UP and _has_prior(advised.method) else []
    return [
        " ".join(["sotto fit --private RECORDS.jsonl", *common, *flags, "--out support.sotto"]),
        "sotto predict support.sotto --queries NEW.jsonl",
    ]


def _typed(budget: Budget) -> str:
    failure = f",failure={rounded_down(budget.failure_delta, 6)}" if budget.failure_delta else ""
    return f"{rounded_down(budget.epsilon, 6)},{rounded_down(budget.delta, 6)}{failure}"


def _reads_pool(method: str) -> bool:
    return registered_fitters()[method].pool != "unused"


def _has_prior(method: str) -> bool:
    return hasattr(registered_fitters()[method], "prior_weight")


# How good the advice is


@final
@dataclass(frozen=True)
class Regret:
    """What advice cost on one cell of a set that it was not made from.

    Attributes:
        name: Of the set.
        asked: The cell.
        method: What was advised.
        points: By which the best way of this cell, chosen by its own figures, was ahead.
        noise: What chance explains of it: two standard errors of the difference, over seeds.
    """

    name: str
    asked: Asked
    method: str
    points: float
    noise: float


def regrets(tables: Tables, *, questions: Sequence[int], epsilons: Sequence[float]) -> list[Regret]:
    """What the advice costs on every measured cell of sets that are kept back.

    Args:
        tables: The measurements.
        questions: Numbers of questions to ask for.
        epsilons: Totals, measured ones.
    """
    found = []
    for name, names in tables.floors:
        if tables.sets[name].use == KEPT_BACK:
            for asked in _cells_of(tables, name, names, questions, epsilons):
                own = _Chooser(replace(asked, task=name), tables, None)
                right = {way: readings[0] for way, readings in own.ways.items()}
                right[ZERO_SHOT, FREE] = own.measured[0].floor
                advised = make_guide(asked, tables=tables).advised
                best, got = max(right.values(), key=lambda reading: reading.mean), right[advised.method, advised.paid]
                noise = 2 * math.hypot(best.error, got.error)
                found.append(Regret(name, asked, advised.method, best.mean - got.mean, noise))
    return found


def _cells_of(
    tables: Tables, name: str, names: str, questions: Sequence[int], epsilons: Sequence[float]
) -> list[Asked]:
    one = tables.sets[name]
    places = [place for place in tables.series if place[:2] == (name, names) and place[2] in tables.fitters]
    pools = [pool for pool in (*POOLS, NO_POOL) if any(place[3] == pool for place in places)]
    relations = list(dict.fromkeys(place[4] for place in places))
    counts = sorted({count for place in places for count in tables.series[place].records})
    return [
        Asked(count, one.labels, asked, epsilon, 1e-6, Adjacency.parse(relation), names, pool, one.model)
        for count in counts
        for relation in relations
        for pool in pools
        for epsilon in epsilons
        for asked in questions
    ]
