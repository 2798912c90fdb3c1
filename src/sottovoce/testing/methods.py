"""The contract of a method that answers with a label, put to any ``Method``.

Guarantee   For a method with ``law``: the exact law of the answer in every small world, from records to label, against
            the event that is charged, and draws of ``choose`` against that law. For one without: what its mechanisms
            are given against what they are told, and all draws of an answer against its event (``label_moves``); and
            draws, which find what at least doubles the privacy loss of a sharp world with probability 0.999 at
            epsilon 2.
Assumes     Worlds are small: two, three or five labels, a few experts and crowds of one opinion. A method that goes
            wrong with a hundredth label alone is not found.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import is_dataclass, replace
from functools import partial
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import AssignmentError, ParameterError
from sottovoce.experts.label_scores import ExpertOutputs, FloatArray
from sottovoce.experts.partition import Partition
from sottovoce.mechanisms.base import log_law
from sottovoce.methods.base import Method, Price, Reads, Selecting, Subsampling
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.events import DpEvent
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness
from sottovoce.testing import label_sessions as sessions
from sottovoce.testing import label_worlds as worlds
from sottovoce.testing.asked_alone import (
    OWN_DRAWS,
    REFUSED,
    AskedAlone,
    made_alone,
    other_prices,
    others_taken,
    taken,
)
from sottovoce.testing.asked_first import (
    CROWD,
    DRAWS,
    NOBODY,
    PLANS,
    Asked,
    Beside,
    follows_the_order,
    held_by,
    nobody_alike,
    plans_alike,
)
from sottovoce.testing.claims import Claim, claim_of, excess, is_empty, within_price
from sottovoce.testing.draw_tape import Tape, own_mechanisms, running
from sottovoce.testing.draws import departs, exceeds, mixture
from sottovoce.testing.fingerprints import alike, are_equal, copied
from sottovoce.testing.label_moves import compare_moves, draws_alike
from sottovoce.testing.label_worlds import CHANGES, NAN, Change, Road, outputs
from sottovoce.testing.ladders import pairs_of
from sottovoce.testing.options import name_of, settings_of, subject_of
from sottovoce.testing.own_mechanisms import check_own_mechanisms
from sottovoce.testing.pools import OPEN, Pool, lead_of, share_of
from sottovoce.testing.public_rows import NOT_ADDITIVE, moved, squared_distance
from sottovoce.testing.report import ContractError, Effort, Report, World, in_words, must_not_raise

PRICES: Final = (Price(1.0, 1e-6), Price(4.0, 1e-3), Price(0.1, 0.1))
"""One as in use; one at which laws are lopsided; one at which too little Gaussian noise shows in a single answer."""
SAME_LAW: Final = 1e-12
"""Probabilities that differ by less are the same: a law may be added up in floating point."""
LARGE_PRICES: Final = (Price(16.0, 1e-6), Price(100.0, 1e-6))
"""Prices beyond those in use, in the smallest worlds: where a charge that stops growing shows."""
PURE: Final = (Price(2.0, 0.0),)
"""A price without a delta, for methods that take one."""
DRAWN_PRICES: Final = (Price(2.0, 1e-3), Price(4.0, 1e-3), Price(0.1, 0.1))
"""For methods without a law: prices at which twice the loss, or the loss of twice the price, shows in few draws."""
ASKED: Final[Sequence[Beside[tuple[float, ...]]]] = (
    ((-0.77, -0.98), (-0.770000001, -0.98), 1e-6),
    ((-0.28, -1.63), (-0.281, -1.63), 0.02),
    ((-6.4, -0.0017), (-6.400000001, -0.0017), 1e-6),
)
"""Public rows of which no other check asks, each with one that is nearly equal, and how far laws may differ by that."""
_Question = tuple[Change, Price, int, int, tuple[float, ...], int]
"""A change, a price, the number of labels, the world, its public row, and how many times larger its crowd is."""
SAMPLES: Final = ((0.5, 1), (0.5, 2))
"""Sampling probability and number of samples at which methods with samples are driven: few enough to add up."""

OTHER_SAMPLE: Final = (0.25, 1)
"""Another probability, for questions that are asked alone."""


def check_method(method: Method | type[Method], effort: Effort = Effort.QUICK, report: Report | None = None) -> Report:
    """Puts a method through its contract.

    Args:
        method: An instance, which is checked as it is; or a class, which is checked at its defaults and at every choice
            that an option accepts.
        effort: How many worlds are tried.
        report: To be filled; a new one by default.

    Raises:
        ContractError: The contract is broken; the message names the check and the smallest world that shows it.

    Example:
        >>> from sottovoce.methods.poe import PoE
        >>> check_method(PoE(clip=2.0)).passed
        True
    """
    name = name_of(method)
    report = report or Report("method", name)
    own_mechanisms()  # those of an earlier check

    def driven_alone(other: Method) -> list[_Method]:
        return [_Method(each, effort, report, first=False) for each in _driven(other, (*SAMPLES, OTHER_SAMPLE))]

    unmade = made_alone(method, driven_alone, name, report)
    every = list(settings_of(method, effort, report)) if isinstance(method, type) else [method]
    driven: list[Method] = []
    for instance in every:
        if not isinstance(instance, Method):
            raise ContractError("drive", name, "it is no Method; subclass sottovoce.methods.Method")
        driven += [each for each in _driven(instance) if not any(alike(each, other) for other in driven)]
    settings = [_Method(setting, effort, report, first=number == 0) for number, setting in enumerate(driven)]
    alone = [*unmade, *(setting.asked_alone() for setting in settings)]
    for setting in settings:
        setting.check()
    for asked in alone:
        asked.compare()
    check_own_mechanisms(name, report)
    return report


def _driven(method: Method, samples: Sequence[tuple[float, int]] = SAMPLES) -> Iterator[Method]:
    """The method, with samples few enough to be added up where it draws some."""
    if not isinstance(method, Subsampling):
        yield method
        return
    if not is_dataclass(method):
        raise ContractError(
            "drive", subject_of(method), "a method with samples must be a dataclass with its two fields"
        )
    for rate, count in samples:
        yield replace(method, sampling_probability=rate, subsamples=count)


@final
class _Method:
    """One setting of a method."""

    def __init__(self, method: Method, effort: Effort, report: Report, *, first: bool) -> None:
        self.method, self.report, self.first = method, report, first
        self.subject = subject_of(method)
        self.full = effort is Effort.FULL
        self.draws = 12_000 if self.full else 1_200
        self.worlds = 6_000 if self.full else 600
        self.sampled = isinstance(method, Subsampling)
        self._law: Callable[[ExpertOutputs, Price], Sequence[Any]] | None = getattr(method, "law", None)
        self._kept = dict[Hashable, FloatArray]()
        self._usual = dict[Adjacency, Price]()

    def check(self) -> None:
        """Every contract that applies."""
        if not self.method.private:
            sessions.refused_without_consent(self.method, self.subject, self.report)
            return
        if self.method.reads is Reads.NOTHING:
            sessions.reads_nothing(self.method, self.subject, self.report)
            return
        every = self.claims()
        pure = {key: claim for key, claim in every.items() if key[1] in PURE}
        claims = {key: claim for key, claim in every.items() if key[1] not in PURE}
        large = {} if self.sampled or self._law is None else self._claims(LARGE_PRICES)
        self._state(claims)
        self._isolation()
        if self._law is None:
            self._neighbours_by_draws(every)
        elif not self.sampled:
            self._order_of_experts(claims)
            self._neighbours(every)
            self._however_many(claims)
            self._many_labels(claims)
            self._smallest_worlds({**every, **large})
        if self.first or self.full:
            self._sharp_draws(claims)
        self._sampler({**claims, **large}, self.worlds)
        self._sampler(pure, self.worlds // 6)
        self._records(every)
        priced = {adjacency: self._priced(adjacency, sessions.PRICE) for adjacency in self._usual}
        asked = {adjacency: made[0] if made else self._usual[adjacency] for adjacency, made in priced.items()}
        answered = dict([*asked.items()][: None if self.first or self.full else 1])  # every option has the same road
        sessions.answers(self.method, self.subject, self.report, self._distribution(), answered)

    # What it charges

    def claims(self) -> dict[tuple[Adjacency, Price], Claim]:
        """What it promises at every usual price that it takes, and at one without a delta.

        Raises:
            ContractError: It takes none of the usual ones, or a promise does not hold by the event alone.
        """
        claims = self._claims(PRICES[2:] if self.sampled and not (self.first or self.full) else PRICES)
        if not claims:
            raise ContractError("drive", self.subject, "it accepts no adjacency at any price that was tried")
        self._usual = dict(reversed(claims))
        return {**claims, **self._claims(PURE)}

    def _claims(self, prices: Sequence[Price]) -> dict[tuple[Adjacency, Price], Claim]:
        """What each answer promises, by adjacency and price; refused combinations are left out."""
        claims: dict[tuple[Adjacency, Price], Claim] = {}
        pristine = copied(self.method)
        for adjacency, asked in itertools.product(Adjacency, prices):
            if (made := self._priced(adjacency, asked)) is None:
                continue
            price, event = made
            if event != pristine.event(price, adjacency):
                raise ContractError("price", self.subject, "two equal methods charge different events", str(price))
            claim = claim_of(event, adjacency)
            if claim is None or is_empty(event):
                raise ContractError("price", self.subject, f"it says that it is private and its event {event} is not")
            cost = within_price(event, adjacency, price.epsilon, price.delta)
            if cost > price.epsilon * (1 + 1e-9):
                problem = f"its event {event} costs epsilon {cost:.6g} where the price is {price.epsilon:g}"
                raise ContractError("price", self.subject, problem, f"{adjacency.value}, delta {price.delta:g}")
            claims[adjacency, price] = claim
            self.report.kept("price", 1, "events within the price, from parameters alone")
        return claims

    def _priced(self, adjacency: Adjacency, asked: Price) -> tuple[Price, DpEvent] | None:
        """A price that it takes, with its event: the one that is asked, else the same without a delta."""
        for price in dict.fromkeys((asked, replace(asked, delta=0.0))):
            try:
                return price, self.method.event(price, adjacency)
            except AssignmentError:
                where = f"{self.subject} under {adjacency.value}"
                if where not in self.report.refused:
                    self.report.refused.append(where)
                return None
            except ParameterError:
                continue
        return None

    # Exact laws

    def _neighbours(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """Outputs of experts a change apart, for every change type of the table."""
        for change, (adjacency, price), labels in itertools.product(CHANGES, claims, (2, 3)):
            usual = adjacency is change.adjacency and price == self._usual[adjacency]
            if adjacency is not change.adjacency or not (self.full or self.first or usual):
                continue
            if price in PURE and labels > 2 and not self.full:
                continue  # one price more: the smallest worlds have it with every number of labels
            claim, publics = claims[adjacency, price], worlds.public_rows(labels)
            for group, pairs in worlds.groups_of_neighbours(labels, change, self._most(labels, usual=usual)):
                self._compare_worlds(claim, group, pairs, publics[0], change, price)
            if usual and (self.full or self.first):
                for public in publics[1:]:
                    for group, pairs in worlds.groups_of_pairs(labels, change):
                        self._compare_worlds(claim, group, pairs, public, change, price)

    def _however_many(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """Outputs of crowds, of which ever fewer are of one opinion, one by one: at one price, and one unit changes."""
        for change, labels in itertools.product(CHANGES, (2, 3) if self.first or self.full else (2,)):
            price = self._usual.get(change.adjacency)
            if price is None or change.change.rows > 1:
                continue
            claim = claims[change.adjacency, price]
            for rungs in worlds.climbed(labels, change):
                self._compare_worlds(claim, rungs, pairs_of(rungs), worlds.PUBLIC[labels], change, price)

    def _many_labels(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """Outputs of experts on many labels, of which many move at once: scores, and at the first setting laws."""
        for change, labels in itertools.product(CHANGES, worlds.LONG):
            price = self._usual.get(change.adjacency)
            if price is None:
                continue
            public = (0.0,) * labels
            for group, pairs in worlds.groups_of_many(labels, change):
                if isinstance(self.method, Selecting):
                    with must_not_raise("isolation", self.subject, "its scores", f"{labels} labels ({change})"):
                        scores = [self.method.scores(outputs(rows, labels, change, public)) for rows in group]

                    def where(i: int, group: Sequence[worlds.Rows] = group) -> str:
                        return worlds.shown_rows(group[i])

                    self._bounds(scores, pairs, f"{change}", where)
                if labels == worlds.LONG[-1] and change.change.rows == 1 and (self.first or self.full):
                    self._compare_worlds(claims[change.adjacency, price], group, pairs, public, change, price)

    def _smallest_worlds(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """One expert, and none, at every price, change and number of labels, in every combination.

        So beside every public row, at one price where scores alone know of it: they are the same at every price.
        """
        for change, (adjacency, price), labels in itertools.product(CHANGES, claims, worlds.ROWS):
            if adjacency is change.adjacency:
                group, pairs = next(worlds.groups_of_neighbours(labels, change, 0))
                every = price == self._usual[adjacency] or not isinstance(self.method, Selecting)
                for public in worlds.public_rows(labels) if every else worlds.public_rows(labels)[:1]:
                    self._compare_worlds(claims[adjacency, price], group, pairs, public, change, price)

    def _most(self, labels: int, *, usual: bool) -> int:
        if self.full:
            return 3 if labels == 2 else 2
        return 2 if labels == 2 and usual else 1

    def _compare_worlds(
        self,
        claim: Claim,
        group: Sequence[worlds.Rows],
        pairs: Sequence[tuple[int, int]],
        public: tuple[float, ...],
        change: Change,
        price: Price,
    ) -> None:
        """The laws of a group of worlds beside a public row; for a ``Selecting``, the bounds of its scores too."""

        def where(i: int) -> str:
            return worlds.shown_rows(group[i], public)

        every = [outputs(rows, len(public), change, public) for rows in group]
        kept = [self._kept_law(experts, price, partial(where, i)) for i, experts in enumerate(every)]
        self._compare(claim, [law for law, _ in kept], pairs, "neighbours", f"{change}, {price}", where)
        scores = [its for _, its in kept if its is not None]
        if scores and price == self._usual[change.adjacency]:
            self._bounds(scores, pairs, f"{change}", where)

    def _bounds(
        self, scores: Sequence[Scores], pairs: Sequence[tuple[int, int]], setting: str, shown: Callable[[int], str]
    ) -> None:
        """Scores of neighbours are no further apart than is stated, and no world states another bound."""
        both = np.array(pairs)
        values = np.array([its.values for its in scores])
        moves = values[both[:, 0]] - values[both[:, 1]]
        ranges, norms = np.ptp(moves, axis=1), (moves.astype(np.float64) ** 2).sum(axis=1)
        stated = [_stated(its) for its in scores]
        for place, ((i, j), range_, norm) in enumerate(zip(pairs, ranges.tolist(), norms.tolist(), strict=True)):
            most, squared, _ = stated[i]
            far = squared is not None and norm > 0.999 * squared  # floats round, and nearly all pairs are nearer
            problem = ""
            if stated[i] != stated[j]:
                problem = f"the stated sensitivity follows the data: {sorted((stated[i], stated[j]), key=repr)}"
            elif range_ > most or (far and squared_distance(moves[place].tolist()) > squared):
                problem = "its scores move by more than is stated"
            if problem:
                raise ContractError("isolation", self.subject, problem, f"{shown(i)} and {shown(j)} ({setting})")
        self.report.kept("isolation", len(pairs), "pairs of neighbours whose scores stay within the stated bound")

    def _kept_law(self, experts: ExpertOutputs, price: Price, world: World) -> tuple[FloatArray, Scores | None]:
        """A law, and the scores of a ``Selecting``: equal scores, bounds and priors have one law, worked out once."""
        method = self.method
        if not isinstance(method, Selecting) or type(method).law is not Selecting.law:
            return self._log_law(experts, price, world), None
        with must_not_raise("neighbours", self.subject, "its scores", world):
            scores, prior = method.scores(experts), method.log_prior(experts)
        weights = None if prior is None else np.asarray(prior, dtype=np.float64).tobytes()
        key = (price, scores.values.tobytes(), _stated(scores), weights)
        if key not in self._kept:
            self._kept[key] = self._log_law(experts, price, world)
        return self._kept[key], scores

    def _log_law(self, experts: ExpertOutputs, price: Price, world: World) -> FloatArray:
        if self._law is None:
            raise AssertionError("there is no law")
        with must_not_raise("neighbours", self.subject, "its law", world):
            law = log_law(self._law(experts, price))
        if not abs(np.exp(law).sum() - 1) < 1e-6:
            raise ContractError("neighbours", self.subject, "its law does not sum to 1", in_words(world))
        return law

    def _compare(
        self,
        claim: Claim,
        laws: Sequence[FloatArray],
        pairs: Sequence[tuple[int, int]],
        contract: str,
        setting: str,
        shown: Callable[[int], str],
    ) -> None:
        self.report.kept(contract, len(pairs), "pairs of exact laws within the event")
        breach = excess(claim, np.array(laws), pairs)
        if breach:
            problem = f"its event {claim.words} does not hold: {breach.words}"
            raise ContractError(
                contract, self.subject, problem, f"{shown(breach.first)} and {shown(breach.second)} ({setting})"
            )

    def _neighbours_by_draws(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """For a method without a law: draws, from records on, in the sharpest data sets a change apart."""
        for adjacency, price in self._claims((*DRAWN_PRICES, *PURE)):
            claim = claim_of(self.method.event(price, adjacency), adjacency)
            if claim is None:
                continue
            road, yes, no = Road(adjacency, Partition()), ("yes",), ("no",)
            other = {Adjacency.REPLACE_ONE: (no,), Adjacency.ZERO_OUT: (("",),), Adjacency.ADD_REMOVE: ()}[adjacency]
            for rest in ((no,), (no, yes, yes)) if self.full else ((no,),):
                pair, source = ((*rest, yes), (*rest, *other)), worlds.seeded(3)
                with must_not_raise("failures", self.subject, "an answer", worlds.shown(pair[0])):
                    drawn = [self._drawn(data, road, price, source) for data in pair]
                if problem := exceeds(claim, *drawn):
                    world = f"{worlds.shown(pair[0])} and {worlds.shown(pair[1])} ({road}, {price})"
                    raise ContractError("neighbours", self.subject, problem, world)
                self.report.kept("neighbours by draws", 1, "pairs of data sets that draws do not tell apart too well")
        if not self.sampled:
            for change, (adjacency, price) in itertools.product(CHANGES, claims):
                if change.adjacency is adjacency:
                    compare_moves(self.method, self.subject, change, price, self.report)
            for adjacency in dict.fromkeys(adjacency for adjacency, _ in claims):
                self._alike(Road(adjacency, Partition()), self._usual[adjacency])

    def _alike(self, road: Road, price: Price) -> None:
        """For a method without a law: data sets in which its mechanisms must be given the same."""
        for contract, problem, data, other in self._alike_worlds(road):
            pair = f"{worlds.shown(data)} and {worlds.shown(other)} ({road}, {price})"
            with must_not_raise("failures", self.subject, "an answer", pair):
                experts = [worlds.road_outputs(self.method, each, road, worlds.seeded(1)) for each in (data, other)]
            found = draws_alike(self.method, self.subject, experts[0], experts[1], pair, price)
            if found is None:
                self.report.not_compared(f"{self.subject}: experts in another order or number, where it throws coins")
                continue
            if not found:
                raise ContractError(contract, self.subject, problem, pair)
            self.report.kept(contract, 1, "pairs of worlds that are drawn from alike")

    def _drawn(self, data: worlds.DataSet, road: Road, price: Price, source: Randomness) -> list[int]:
        samples: Iterable[ExpertOutputs]
        if self.sampled:
            samples = (worlds.road_outputs(self.method, data, road, source) for _ in range(self.draws))
        else:
            samples = itertools.repeat(worlds.road_outputs(self.method, data, road, source), 4 * self.draws)
        return [int(self.method.choose(experts, price, source)) for experts in samples]

    def _order_of_experts(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """The order of experts changes nothing."""
        for (adjacency, price), public in itertools.product(claims, worlds.public_rows(3)):
            if public != worlds.PUBLIC[3] and (adjacency, price) != next(iter(claims)):
                continue
            change = next(change for change in CHANGES if change.adjacency is adjacency)
            for rows in itertools.combinations(worlds.ROWS[3], 3):
                orders = rows, rows[::-1], (rows[1], rows[2], rows[0])
                kept = [
                    self._kept_law(outputs(order, 3, change, public), price, partial(worlds.shown_rows, order))
                    for order in orders
                ]
                laws = [np.exp(law) for law, _ in kept]
                if np.ptp(laws, axis=0).max() > SAME_LAW:
                    world = worlds.shown_rows(rows, public)
                    raise ContractError("order", self.subject, "the order of the experts changes its law", world)
                self.report.kept("order", 1, "worlds whose law does not follow the order of experts and records")

    def _isolation(self) -> None:
        """A summand is a function of its expert's row, up to a number common to all labels."""
        method = self.method
        if not isinstance(method, Selecting):
            return
        changes = [change for change in CHANGES if change.change.rows == 1]
        for (number, change), labels in itertools.product(enumerate(changes), worlds.ROWS):
            for public in worlds.public_rows(labels) if number < 2 or self.full else worlds.public_rows(labels)[:1]:
                self._summands(method, change, worlds.ROWS[labels], public)

    def _summands(self, method: Selecting, change: Change, rows: worlds.Rows, public: tuple[float, ...]) -> None:
        """The same beside one public row."""
        bounds, seen = set[tuple[Any, ...]](), dict[worlds.Rows, Scores]()

        def of(experts: worlds.Rows) -> Scores:
            if experts not in seen:
                with must_not_raise("isolation", self.subject, "scores", partial(worlds.shown_rows, experts, public)):
                    seen[experts] = method.scores(outputs(experts, len(public), change, public))
            return seen[experts]

        backgrounds: list[worlds.Rows] = [(), (rows[0],), (rows[1], rows[2]), (rows[-1],), (rows[0],) * 9]
        for row in rows:
            moves = set[tuple[int, ...]]()
            for rest in backgrounds:

                def world(everyone: worlds.Rows = (*rest, row)) -> str:
                    return f"{worlds.shown_rows(everyone, public)} ({change})"

                alone, both = of((*rest, rows[-1])), of((*rest, row))
                moves.add(moved(both.values, alone.values))
                if len(moves) > 1:
                    problem = f"{NOT_ADDITIVE}: {sorted(moves)}"
                    raise ContractError("isolation", self.subject, problem, world())
                if row == rows[-1] and rest and any(moved(of(rest).values, both.values)):
                    raise ContractError(
                        "null expert", self.subject, "an expert that says nothing moves the scores", world()
                    )
                bounds |= {_stated(alone), _stated(both)}
                if len(bounds) > 1:
                    problem = f"the stated sensitivity follows the data: {sorted(bounds, key=repr)}"
                    raise ContractError("isolation", self.subject, problem, world())
                self.report.kept("isolation", 1, "summands that are functions of one expert")

    # From records to label

    def _distribution(self) -> Callable[[worlds.DataSet, Road, Price], FloatArray] | None:
        """The exact law of the answer, from records: an average over the coins of a sample."""
        if self._law is None:
            return None
        law = self._law

        def distribution(data: worlds.DataSet, road: Road, price: Price) -> FloatArray:
            def conditional(source: Randomness) -> FloatArray:
                experts = worlds.road_outputs(self.method, data, road, source)
                return np.array([float(p) for p in law(experts, price)])

            if not self.sampled:
                with must_not_raise("failures", self.subject, "an answer", worlds.shown(data)):
                    experts = worlds.road_outputs(self.method, data, road, worlds.seeded(1))
                return np.exp(self._log_law(experts, price, worlds.shown(data)))
            with must_not_raise("failures", self.subject, "an answer", worlds.shown(data)):
                mean = mixture(conditional)
            if mean is None:
                raise ContractError("drive", self.subject, "its samples are too many to be added up")
            return mean

        return distribution

    def _records(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """Data sets, for every way in which records come to experts: neighbours, and those that must have one law."""
        if self._law is None:
            return
        few = {price.epsilon for price in (*PRICES[::2], *PURE)}
        runs = [
            (road, price)
            for road in worlds.roads(self.method, calibrated=self.first or self.full)
            for adjacency, price in claims
            if road.adjacency is adjacency
            and (self.full or price == self._usual[adjacency] or (self.sampled and price.epsilon in few))
        ]
        for road, price in runs:
            law = self._laws_at(road, price)
            for group, pairs in worlds.data_sets(road, list(worlds.SAYINGS), most=1 if self.sampled else 3):
                where = lambda i, group=group: worlds.shown(group[i])  # noqa: E731
                laws = [law(data) for data in group]
                self._compare(claims[road.adjacency, price], laws, pairs, "records", f"{road}, {price}", where)
        for road, price in runs:
            if (
                price == self._usual[road.adjacency]
                and road.partition.units_per_expert == 1
                and not road.partition.capacity
            ):
                self._same(self._laws_at(road, price), road)

    def _laws_at(self, road: Road, price: Price) -> Callable[[worlds.DataSet], FloatArray]:
        """Natural logs of the answer's law, by data set; kept."""
        law, seen = self._distribution(), dict[worlds.DataSet, FloatArray]()
        if law is None:
            raise AssertionError("there is no law")

        def of(data: worlds.DataSet) -> FloatArray:
            if data not in seen:
                seen[data] = log_law(law(data, road, price))
            return seen[data]

        return of

    def _alike_worlds(self, road: Road) -> list[tuple[str, str, worlds.DataSet, worlds.DataSet]]:
        """Data sets that must be answered alike: in another order; with a failing record in place of a null one."""
        yes, maybe, no, nothing = ("yes",), ("maybe",), ("no",), ("nothing",)
        same: list[tuple[str, str, worlds.DataSet, worlds.DataSet]] = [
            ("order", "the order of the records changes its law", (yes, maybe, no), order)
            for order in ((no, maybe, yes), (maybe, no, yes))
        ]
        if road.adjacency is Adjacency.ADD_REMOVE and not self.sampled:
            problem = "an expert that says nothing changes its law"
            same.append(("null expert", problem, (yes, maybe), (yes, maybe, nothing)))
        for failure in worlds.FAILURES:
            problem = f"a prompt at which the model fails ({failure}) is no null expert"
            same.append(("failures", problem, (yes, nothing, maybe), (yes, (failure,), maybe)))
        return same

    def _same(self, law: Callable[[worlds.DataSet], FloatArray], road: Road) -> None:
        """Data sets that must have one law."""
        for contract, problem, data, other in self._alike_worlds(road):
            if not np.allclose(law(data), law(other), rtol=0, atol=SAME_LAW):
                world = f"{worlds.shown(data)} and {worlds.shown(other)} ({road})"
                raise ContractError(contract, self.subject, problem, world)
            self.report.kept(contract, 1, "pairs of worlds of one law")

    # The sampler, and what it remembers

    def _choose(self, experts: ExpertOutputs, price: Price, source: Randomness, world: str = "") -> int:
        with must_not_raise("sampler", self.subject, "choose", world):
            return int(self.method.choose(experts, price, source))

    def _scenes(self, adjacency: Adjacency, price: Price) -> list[tuple[str, ExpertOutputs, Price]]:
        """Outputs of experts for draws: as many as the method asks for, some with a label that is unlikely."""
        count, result = getattr(self.method, "subsamples", 0), []
        change = next(change for change in CHANGES if change.adjacency is adjacency)
        for labels in (2, 3):
            rows = worlds.ROWS[labels]
            scenes = [(rows * 2)[:count]] if count else [rows[:1]] if labels == 2 else [rows[:1] * 2, rows[:3]]
            for expert_rows in scenes:
                world = f"{worlds.shown_rows(expert_rows)} ({change}, {price})"
                result.append((world, outputs(expert_rows, labels, change), price))
        return result

    def _scenes_beside(self, adjacency: Adjacency, price: Price) -> list[tuple[str, ExpertOutputs, Price]]:
        """The same beside every other public row of two labels."""
        change = next(change for change in CHANGES if change.adjacency is adjacency)
        rows = (worlds.ROWS[2][:1] * 2)[: getattr(self.method, "subsamples", 1)]
        return [
            (f"{worlds.shown_rows(rows, public)} ({change}, {price})", outputs(rows, 2, change, public), price)
            for public in worlds.public_rows(2)[1:]
        ]

    def _sharp_draws(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """Many draws in a few worlds, in which noise that is too small by half shows, whatever labels it favours."""
        if self._law is None:
            return
        sharp = [price for _, price in claims if price.epsilon == PRICES[1].epsilon]
        usual = (*sharp, *(price for _, price in claims))[0]
        keys = [key for key in claims if key[1] == usual]
        scenes = self._scenes(*keys[0])
        if not self.sampled:
            rows = worlds.ROWS[2][:1]
            scenes += [
                (f"{worlds.shown_rows(rows)} ({change}, {usual})", outputs(rows, 2, change), usual)
                for change in CHANGES
                if (change.adjacency, usual) in keys
            ]
        for number, (world, experts, price) in enumerate(scenes):
            law, source = np.exp(self._log_law(experts, price, world)).tolist(), worlds.seeded(200 + number)
            drawn: list[Hashable] = [self._choose(experts, price, source, world) for _ in range(self.draws * 2 // 3)]
            if problem := departs(dict(enumerate(law)), Counter(drawn)):
                raise ContractError("sampler", self.subject, f"its draws do not follow its law: {problem}", world)
            self.report.kept("sampler", len(drawn), "draws that follow the law")

    def _sampler(self, claims: Collection[tuple[Adjacency, Price]], number: int) -> None:
        """Draws of ``choose`` follow its law: a few in each of many worlds, at every price and change."""
        if self._law is None or not claims:
            return
        dice, source, pool, keys = worlds.seeded(100), worlds.seeded(101), Pool(), list(claims)
        for _ in range(number if self.first else number // 3):
            features, experts, price, law, world = self._open_world(dice, keys)
            pool.add(features, law, [self._choose(experts, price, source, world) for _ in range(4)], world)
        problem, world = pool.departs()
        if problem:
            raise ContractError("sampler", self.subject, f"its draws do not follow its law: {problem}", world)
        self.report.kept("sampler", pool.draws, "draws that follow the law")

    def _open_world(
        self, dice: Randomness, keys: Sequence[tuple[Adjacency, Price]]
    ) -> tuple[dict[str, object], ExpertOutputs, Price, dict[Any, float], str]:
        """A random world with its law; one that leaves something to chance, where a few tries find it."""
        adjacency, price = keys[dice.below(len(keys))]
        changes = [change for change in CHANGES if change.adjacency is adjacency]
        change = changes[dice.below(len(changes))]
        for _ in range(6):
            rows, public = worlds.random_rows(dice, sharp=price.epsilon < 1)
            if self.sampled:
                rows = (rows * 2 or ((NAN,) * len(public),) * 2)[: getattr(self.method, "subsamples", 1)]
            experts = outputs(rows, len(public), change, public)
            world = f"{worlds.shown_rows(rows, public)} ({change}, {price})"
            logs = self._log_law(experts, price, world)
            law = dict(enumerate(np.exp(logs).tolist()))
            if max(law.values()) < OPEN:
                break
        second, best = np.sort(logs)[-2:].tolist()
        lead = (best - second) / price.epsilon
        low, top = sorted(public)[-2:]
        features = {
            "change": str(change),
            "epsilon": price.epsilon,
            "labels": len(public),
            "experts": share_of(len(rows)),
            "lead": lead_of(lead),
            **({} if isinstance(self.method, Selecting) else {"public lead": lead_of(top - low)}),
        }
        return features, experts, price, law, world

    def _state(self, claims: dict[tuple[Adjacency, Price], Claim]) -> None:
        """The same question has the same law and draws, whatever was asked before."""
        scenes = [scene for key in claims for scene in self._scenes(*key)]
        scenes += self._scenes_beside(*next(iter(claims)))
        pristine = copied(self.method)
        held = held_by(self.method)
        before = [self._fingerprint(scene, number) for number, scene in enumerate(scenes)]
        source = worlds.seeded(7)
        for turn in range(61):  # no multiple of what a method could count to
            world, experts, price = scenes[turn % len(scenes)]
            self._choose(experts, price, source, world)
        for number, scene in reversed(list(enumerate(scenes))):
            if self._fingerprint(scene, number) != before[number]:
                problem = "its answers follow what was asked before: it keeps state between calls"
                raise ContractError("state", self.subject, problem, scene[0])
        if held_by(self.method) != held or (is_dataclass(self.method) and not are_equal(self.method, pristine)):
            raise ContractError("state", self.subject, "its attributes changed while it answered")
        key = next(iter(claims))
        if self._law is None and (made := self._priced(key[0], DRAWN_PRICES[0])):
            key = key[0], made[0]

        def answers(public: tuple[float, ...], world: int, labels: int = 2, times: int = 1) -> Asked:
            return self._beside(public, world, *key, labels, times)

        larger = [] if self.sampled else [partial(answers, times=CROWD)]
        if problem := follows_the_order(answers, ASKED, partial(answers, labels=3), *larger):
            raise ContractError("state", self.subject, problem, f"eight of ten experts of one opinion, {key[1]}")

        def draw(rows: worlds.Rows, seed: int | None = None) -> int:
            change = next(change for change in CHANGES if change.adjacency is key[0])
            coins = source if seed is None else worlds.seeded(seed)
            return self._choose(outputs(rows, 2, change, worlds.PUBLIC[2]), key[1], coins, worlds.shown_rows(rows))

        first, second = worlds.ROWS[2][:2]
        crowds = [(first,) * 8 + (second,) * 2, (second,) * 8 + (first,) * 2, (first,) * 10, ((NAN, NAN),) * 10]
        sizes = [crowd[: getattr(self.method, "subsamples", 10)] for crowd in crowds]
        if not nobody_alike(lambda rows: draw(rows, 13 if rows is sizes[3] else None), sizes[:2] * 4, sizes[3]):
            raise ContractError("state", self.subject, NOBODY, f"{key[0].value}, {key[1]}")
        if not plans_alike(draw, sizes, lambda: [self.method.event(price, adjacency) for adjacency, price in claims]):
            raise ContractError("state", self.subject, PLANS, f"{key[0].value}, {key[1]}")
        self.report.kept("state", len(scenes) + 4 * len(ASKED), "questions answered alike before and after others")

    def questions_alone(self, *, prices: bool = True) -> list[_Question]:
        """Questions that differ in one thing each, under every adjacency; for a further option in price alone.

        Args:
            prices: Whether prices are varied by themselves.
        """
        charged = self.method.private and self.method.reads is not Reads.NOTHING
        tried = (*(DRAWN_PRICES if self._law is None else PRICES), *PURE)
        every = [*itertools.product(CHANGES, tried)] if charged else []
        plans = taken(
            every, lambda each: self._priced(each[0].adjacency, each[1]), self.subject, self.report, listed=prices
        )
        first, most = dict(reversed(plans)), self.full or self.first
        usual = [(change, price) for change, price in plans if first[change] == price]
        (public, _, _), (beside, _, _), *_ = ASKED
        questions: list[_Question] = [
            (*plan, labels, world, public, 1)
            for plan in usual[: None if most else 1]
            for labels, world in itertools.product((3, 2), (0, 1))
        ]
        for number, (change, price) in enumerate(usual[: None if most else int(prices)]):
            others: dict[str, list[_Question]] = {
                part: [(change, other, 3, 0, public, 1) for other in different]
                for part, different in other_prices(price).items()
            }
            questions += others_taken(others, self._takes, f"{self.subject}, {change}", self.report)
            if not self.full and (number or not most):
                continue
            questions += [(change, price, 3, 0, beside, 1)]
            questions += [] if self.sampled else [(change, price, 2, 1, public, CROWD)]
        return questions

    def asked_alone(self) -> AskedAlone:
        """These questions, each asked alone."""
        return AskedAlone(self.questions_alone(), self.answer_to, self.in_words, self.subject, self.report)

    def _takes(self, question: _Question) -> bool:
        change, asked, *_ = question
        return self._priced(change.adjacency, asked) is not None

    def answer_to(self, question: _Question) -> Sequence[Any]:
        change, asked, labels, world, public, times = question
        if (made := self._priced(change.adjacency, asked)) is None:
            return [REFUSED]
        price, event = made
        tape, source = Tape(worlds.seeded(6)), worlds.seeded(5)
        experts, where = self._opposite(public, world, change, labels, times)
        with running(tape):
            drawn = [self._choose(experts, price, tape.randomness, where)]
        draws = OWN_DRAWS if not tape.trace and not tape.draws else DRAWS if self._law is None else 7
        drawn += [self._choose(experts, price, source, where) for _ in range(draws)]
        law = [] if self._law is None else np.exp(self._log_law(experts, price, where)).tolist()
        return [price, event, drawn, tape.told, *law]

    def in_words(self, question: _Question) -> str:
        change, asked, labels, world, public, times = question
        _, where = self._opposite(public, world, change, labels, times)
        return f"{where}, {change}, {asked}"

    def _opposite(
        self, public: tuple[float, ...], world: int, change: Change, labels: int, times: int
    ) -> tuple[ExpertOutputs, str]:
        """Experts that are sure of one label, all but a few, beside a public row; and the world in words."""
        opposite = worlds.sure_rows(labels)[:: labels - 1]
        sure, other, public = opposite[world], opposite[1 - world], (*public, -4.0)[:labels]
        rows = ((sure,) * 8 + (other,) * 2)[: getattr(self.method, "subsamples", 10)] * times
        return outputs(rows, labels, change, public), worlds.shown_rows(rows, public)

    def _beside(
        self, public: tuple[float, ...], world: int, adjacency: Adjacency, price: Price, labels: int, times: int
    ) -> Asked:
        """The law beside a public row where most experts are sure of one label, or where none is known some draws."""
        change = next(change for change in CHANGES if change.adjacency is adjacency)
        experts, where = self._opposite(public, world, change, labels, times)
        if self._law is not None:
            return np.exp(self._log_law(experts, price, where))
        source = worlds.seeded(11)
        return [self._choose(experts, price, source, where) for _ in range(DRAWS)]

    def _fingerprint(self, scene: tuple[str, ExpertOutputs, Price], seed: int) -> list[Any]:
        world, experts, price = scene
        source = worlds.seeded(seed)
        laws = [] if self._law is None else [self._log_law(experts, price, world).tolist()]
        return laws + [self._choose(experts, price, source, world) for _ in range(7)]


def _stated(scores: Scores) -> tuple[Any, ...]:
    return scores.sensitivity, scores.squared_l2, scores.adjacency
