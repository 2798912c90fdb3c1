"""The contract of a private long answer, put to any ``Answerer``.

Guarantee   In every small world, for every adjacency, change type and sampling: what a mechanism is given moves by no
            more than it was told, in whole numbers, also where a change makes an expert null; the losses of all draws
            together stay within the event that is priced, by their exact law where that can be written out; the
            outcome is a function of what mechanisms released and of public inputs, and the answer of the outcome alone;
            the charge covers the event, amplified once where a sample is drawn.
Assumes     Worlds are small: texts of known words and vectors in three dimensions. A draw's own law is its mechanism's
            contract. That prompts hold their own units alone is the contract of experts, and driven here once.
Sources     specification 5.4 to 5.7, 7, T10 to T12.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import InputError, SottoError
from sottovoce.experts.keywords import universe_of
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.methods.answering.answerer import Answerer, AnswerPlan, AnswerSetting, Outcome, PublicSide
from sottovoce.methods.base import Price, Reads
from sottovoce.parameters import options_of
from sottovoce.privacy.aggregates import Scores, VectorSum
from sottovoce.privacy.events import ApproximateDP, NonPrivateDpEvent, NoOpDpEvent, PureDP
from sottovoce.privacy.numbers import rounded_down, rounded_up
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness
from sottovoce.testing import answer_worlds as worlds
from sottovoce.testing.accepted_prices import accepted
from sottovoce.testing.answer_candidates import candidates
from sottovoce.testing.answer_road import road
from sottovoce.testing.answer_worlds import CROWDS, RELATIONS, Neighbourhood, Relation, World, Writing
from sottovoce.testing.asked_alone import REFUSED, AskedAlone, made_alone, other_prices, others_taken, taken
from sottovoce.testing.asked_first import NOBODY, PLANS, Beside, follows_the_order, nobody_alike, plans_alike
from sottovoce.testing.claims import FloatArray, is_empty
from sottovoce.testing.draw_losses import Losses, law_of, losses_of, too_far
from sottovoce.testing.draw_tape import Draw, Tape, Teller, WrongDrawError, numbers_of, own_mechanisms, running
from sottovoce.testing.fingerprints import alike, copied, fingerprint
from sottovoce.testing.fit_draws import EXTREMES, noise_of, not_normal, usual_on
from sottovoce.testing.joint_laws import NoLawError, chances_of, joint_excess, joint_law
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.ladders import TOP, pairs_of
from sottovoce.testing.options import edges_of, name_of, settings_of, subject_of
from sottovoce.testing.own_mechanisms import check_own_mechanisms
from sottovoce.testing.pools import Pool
from sottovoce.testing.replays import OTHER_COINS, Coins, either, first_difference, replayed
from sottovoce.testing.report import ContractError, Effort, Report, must_not_raise

PRICES: Final = (Price(8.0, 1e-6), Price(1.0, 1e-6), Price(3.0, 1e-4), Price(0.3, 1e-3), Price(16.0, 1e-9))
PURE: Final = (Price(2.0, 0.0),)
"""A price without a delta, for answerers that take one."""
EDGES: Final = (Price(3e-6, 1e-9), Price(1_000.0, 1e-6))
"""Prices near the ends of their range: refused before the charge, or drawn."""
SIZES: Final = (4, worlds.MANY)
"""Experts: few, whose laws are written out, and as many as a clustering needs."""
CONTRACTS: Final = (
    "price", "sensitivity", "order", "post-processing", "composition", "prices", "state", "draws", "sampler",
    "candidates", "road",
)  # fmt: skip
"""Of which every answerer that is charged has cases: it is told where one has none."""
MOST_LEAVES: Final = 400
"""Joint laws with more outcomes are not written out."""
SMALL_NUMBER: Final = 2
"""Larger whole options, such as how many keywords are released, are tried at this too: laws can be written out then."""
ASKED: Final[Sequence[Beside[str]]] = (("household", "customer", 0.0),)
"""Units of which no other check speaks, which the public example names too: nothing in what is drawn follows them."""
SLACK: Final = 1e-9
"""Rounding of figures in floating point."""


@final
@dataclass(frozen=True)
class _Case:
    """What else is public of an answer than its relation, its price and the number of its experts.

    Attributes:
        answers: Public ones; their keywords are the public keywords.
        adds_epsilons: Whether the ledger adds epsilons, not rho.
        dimension: Length of vectors; numbers above three are zero.
        unit: Who is protected.
    """

    answers: tuple[str, ...] = tuple(worlds.POOL)
    adds_epsilons: bool = True
    dimension: int = worlds.DIMENSION
    unit: str = "record"

    def __str__(self) -> str:
        ledger = f"a ledger that adds {'epsilons' if self.adds_epsilons else 'rho'}"
        public = f"the public answers {list(self.answers)}" if self != _Case(adds_epsilons=self.adds_epsilons) else ""
        others = f", {self.dimension} dimensions, the unit {self.unit!r}, {public}" if public else ""
        return ledger + others


USUAL: Final = _Case()
_FIRST, _SECOND, _THIRD, _LONGEST = worlds.POOL
_JOINED, *_ELSE = worlds.OTHERS
OTHER_CASES: Final = {
    "number of public answers and keywords": _Case((_FIRST, _SECOND, _THIRD)),
    "number of public answers": _Case((_JOINED, _SECOND, _LONGEST)),
    "word in public answers": _Case(tuple(_ELSE)),
    "kind of ledger": _Case(adds_epsilons=False),
    "dimension": _Case(dimension=worlds.DIMENSION + 1),
    "unit": _Case(unit="person"),
}
_Question = tuple[Relation, Price, _Case, int, int]
"""A relation, a price, what else is public, which of two opposite worlds, and whether it is the smallest (0) or the
largest (-1) that is planned."""


def check_answerer(
    answerer: Answerer | type[Answerer], effort: Effort = Effort.QUICK, report: Report | None = None
) -> Report:
    """Puts an answerer through its contract.

    Args:
        answerer: An instance, which is checked as it is; or a class, which is checked at its defaults, with its whole
            numbers made small, and at every choice that an option accepts.
        effort: How many worlds are tried.
        report: To be filled; a new one by default.

    Raises:
        ContractError: The contract is broken; the message names the check and the world that shows it.

    Example:
        >>> from sottovoce.methods.answering.ksa import KSA
        >>> check_answerer(KSA(k=1)).passed
        True
    """
    report = report or Report("answerer", name_of(answerer))
    own_mechanisms()  # those of an earlier check

    def driven_alone(other: Answerer) -> list[_Answerer]:
        return [_Answerer(other, effort, report, first=False)]

    unmade = made_alone(answerer, driven_alone, name_of(answerer), report)
    every = list(_settings(answerer, effort, report)) if isinstance(answerer, type) else [answerer]
    settings = []
    for number, instance in enumerate(every):
        if not isinstance(instance, Answerer):
            problem = "it is no Answerer; subclass sottovoce.methods.answering.answerer.Answerer"
            raise ContractError("drive", name_of(answerer), problem)
        settings.append(_Answerer(instance, effort, report, first=number == 0))
    alone = [*unmade, *(setting.asked_alone() for setting in settings)]
    driven = [setting.check() for setting in settings]
    for asked in alone:
        asked.compare()
    check_own_mechanisms(name_of(answerer), report)
    if not any(driven):
        problem = "it refuses every price in every world that the suite has"
        raise ContractError("drive", name_of(answerer), report.with_refusal(problem))
    if report.checks[-1].contract not in ("free", "consent"):
        report.require(*CONTRACTS)
    return report


def _settings(answerer: type[Answerer], effort: Effort, report: Report) -> Iterator[Any]:
    """Instances as for every entry: the default one as it is, and all with their whole numbers made small."""
    seen: list[Any] = []
    for instance in settings_of(answerer, effort, report):
        values = {name: getattr(instance, name) for name in options_of(answerer)} if _is_answerer(instance) else {}
        large = {name: SMALL_NUMBER for name, value in values.items() if type(value) is int and value > SMALL_NUMBER}
        small = [replace(instance, **large)] if large else []
        for other in [instance, *small] if not seen or effort is Effort.FULL or not small else small:
            if not any(alike(other, each) for each in seen):
                seen.append(other)
                yield other


def _is_answerer(instance: Any) -> bool:
    return isinstance(instance, Answerer)


@final
class _Answerer:
    """One setting of an answerer."""

    def __init__(self, answerer: Answerer, effort: Effort, report: Report, *, first: bool) -> None:
        self.answerer, self.report, self.first = answerer, report, first
        self.subject, self.full = subject_of(answerer), effort is Effort.FULL
        self.draws = 300 if self.full else 30 if first else 10
        self.public = worlds.public_side(len(worlds.POOL), Writing())
        self._priced: list[tuple[AnswerPlan, Relation, int, Price]] = []

    @property
    def _guarded(self) -> bool:
        """Whether it reads records and has a guarantee."""
        return self.answerer.private and self.answerer.reads is not Reads.NOTHING

    @cached_property
    def prices(self) -> Sequence[Price]:
        """The prices that it takes somewhere, the usual one first."""
        every = accepted(PRICES, lambda price: any(self._planned(price, relation) for relation in RELATIONS))
        return every if self.full else every[: 3 if self.first else 2]

    def _prices_tried(self) -> Sequence[Price]:
        pure = () if self.answerer.needs_delta else PURE
        return tuple(dict.fromkeys((*self.prices, *pure)))

    @property
    def _usual(self) -> Price:
        return self.prices[0] if self.prices else PRICES[0]

    @cached_property
    def _taken(self) -> Sequence[Relation]:
        """The relations under which it takes a price."""
        return [relation for relation in RELATIONS if self._drawn_plan(relation)[0] is not None]

    @cached_property
    def _told(self) -> Sequence[Relation]:
        """Those whose worlds are compared: at a further setting one for every change under an adjacency."""
        if self.first or self.full:
            return RELATIONS
        changes = {(each.adjacency, each.setting(worlds.MANY, 4, 4).change): each for each in reversed(self._taken)}
        return [each for each in self._taken if each in changes.values()]

    def check(self) -> bool:
        """Every contract; whether anything was drawn or is free."""
        before = repr(self.answerer)
        guarded = self._guarded
        if self.first:
            candidates(self.answerer, self.subject, self.report, self._usual, self._taken or RELATIONS)
        if not guarded:
            self._reference()
            return True
        self._refusals()
        for relation in RELATIONS:
            self._prices(relation)
        driven = bool(self._priced)
        for relation in self._told:
            self._neighbours(relation)
        for relation in self._taken[: 5 if self.first or self.full else 1]:
            self._however_many(relation)
        for relation in self._taken[:3]:
            plan, experts = self._drawn_plan(relation)
            if plan is not None:
                self._alone(plan, relation, experts)
                self._whatever_is_drawn(plan, relation, experts)
                self._sampler(plan, relation, experts)
        for relation in self._taken if self.first or self.full else ():
            self._at_the_edges(relation)
        self._whatever_is_priced()
        for relation in self._taken[:1]:
            self._options_at_the_edges(relation)
        if self.first and driven:
            road(self.answerer, self.subject, self.report, self.prices[0])
        if repr(self.answerer) != before:
            raise ContractError("state", self.subject, "its attributes changed while it drew")
        return driven

    def questions_alone(self, *, prices: bool = True) -> list[_Question]:
        """Answers that differ in one thing each, under every relation; for a further option in price alone.

        Args:
            prices: Whether prices are varied by themselves.
        """
        every = [*itertools.product(RELATIONS, (*PRICES, *PURE))] if self._guarded else []
        plans = taken(every, lambda each: self._planned(each[1], each[0]), self.subject, self.report, listed=prices)
        first, most = dict(reversed(plans)), self.full or self.first
        usual = [(relation, price) for relation, price in plans if first[relation] == price]
        questions: list[_Question] = [
            (*plan, USUAL, world, -1) for plan in usual[: None if most else 1] for world in (0, 1)
        ]
        for number, (relation, price) in enumerate(usual[: None if most else int(prices)]):
            subject = f"{self.subject}, {relation}"
            others: dict[str, list[_Question]] = {
                part: [(relation, other, USUAL, 0, -1) for other in different]
                for part, different in other_prices(price).items()
            }
            if not self.full and (number or not most):
                questions += others_taken(others, self._planned_for, subject, self.report)
                continue
            for part, case in OTHER_CASES.items():
                others[part] = [(relation, price, case, 0, -1)]
            questions += others_taken(others, self._planned_for, subject, self.report)
            questions += [(relation, price, USUAL, 0, 0)]
        return questions

    def asked_alone(self) -> AskedAlone:
        """These questions, each asked alone."""
        return AskedAlone(self.questions_alone(), self.answer_to, self.in_words, self.subject, self.report)

    def _planned_for(self, question: _Question) -> list[tuple[AnswerPlan, int]]:
        relation, price, case, _, _ = question
        return self._planned(price, relation, case)

    def in_words(self, question: _Question) -> str:
        """A question in words."""
        return _question_in_words(question)

    def answer_to(self, question: _Question) -> Sequence[Any]:
        relation, _, case, world, size = question
        if not (planned := self._planned_for(question)):
            return [REFUSED]
        plan, experts = planned[size]
        data = _opposite(experts)[world]
        tape, outcome = self._draw(plan, relation, data, randomness=seeded(3), answers=case.answers)
        return [plan.event, plan.charge, plan.parameters, plan.report, tape.told, worlds.marks(outcome)]

    # What is free, and what has no guarantee

    def _reference(self) -> None:
        """A method that reads nothing charges nothing and is given nothing; one without a guarantee says so."""
        nothing = self.answerer.reads is Reads.NOTHING
        for relation in RELATIONS:
            setting = relation.setting(SIZES[0], len(worlds.POOL), 4)
            plan = self.answerer.plan(PRICES[0], setting)
            right = NoOpDpEvent if nothing else NonPrivateDpEvent
            if not all(isinstance(event, right) for event in (plan.event, plan.charge, plan.base)):
                raise ContractError("free", self.subject, f"it charges {plan.charge}", str(relation))
            data = worlds.neighbourhoods(relation, SIZES[0])[0]
            for world in data:
                experts = None if nothing else relation.outputs(world, setting)
                public = worlds.public_side(len(worlds.POOL), Writing())
                tape = Tape(seeded(7))
                with must_not_raise("free", self.subject, "its draw", worlds.shown(world)), running(tape):
                    outcome = self.answerer.draw(setting, experts, public, tape.randomness)
                    self._finished(outcome, public, worlds.shown(world))
            self.report.kept("free" if nothing else "consent", len(data), "worlds, without a price")

    # What is charged

    def _refusals(self) -> None:
        public = self.public
        setting = RELATIONS[0].setting(worlds.MANY, len(public.candidates), len(public.universe))
        lacking = []
        if self.answerer.needs_delta:
            lacking.append(("a delta", Price(1.0, 0.0), setting))
        if "Embedder" in self.answerer.needs:
            lacking.append(("an embedder", self._usual, replace(setting, dimension=0)))
        if "pool" in self.answerer.needs:
            lacking.append(("public answers", self._usual, replace(setting, candidates=0)))
        for what, price, without in lacking:
            try:
                self.answerer.plan(price, without)
            except InputError:
                self.report.kept("refusals", 1, "before anything is charged")
                continue
            raise ContractError("refusals", self.subject, f"it needs {what}, and plans without")

    def _prices(self, relation: Relation) -> None:
        for price, adds in itertools.product(self._prices_tried(), (True, False)):
            for plan, experts in self._planned(price, relation, _Case(adds_epsilons=adds)):
                self._charged(plan, price, f"{relation}, {price}")
                self._priced.append((plan, relation, experts, price))
                self.report.kept("price", 1, "plans from parameters alone, within the price")

    def _planned(self, price: Price, relation: Relation, case: _Case = USUAL) -> list[tuple[AnswerPlan, int]]:
        """Plans for few experts and for many; where it refuses both, for the smallest crowd that it takes."""
        made: list[tuple[AnswerPlan, int]] = []
        for experts in (*SIZES, *(CROWDS if relation.counted else ())):
            if made and experts in CROWDS:
                break
            setting = self._setting(relation, experts, case)
            plan = self._plan(price, setting, relation)
            made += [(plan, experts)] if plan is not None else []
        return made

    def _setting(self, relation: Relation, experts: int, case: _Case = USUAL) -> AnswerSetting:
        return relation.setting(
            experts,
            len(case.answers),
            len(universe_of(case.answers)),
            adds_epsilons=case.adds_epsilons,
            dimension=case.dimension,
            unit=case.unit,
        )

    def _plan(self, price: Price, setting: AnswerSetting, relation: Relation) -> AnswerPlan | None:
        """A plan, or ``None`` where the answerer refuses the price."""
        with must_not_raise("price", self.subject, "its plan", f"{relation}, {price}"):
            try:
                return self.answerer.plan(price, setting)
            except InputError as refusal:
                if str(refusal) not in self.report.refused:
                    self.report.refused.append(str(refusal))
                return None

    def _charged(self, plan: AnswerPlan, price: Price, world: str) -> None:
        def broken(problem: str) -> ContractError:
            return ContractError("price", self.subject, problem, world)

        setting, base = plan.setting, plan.setting.base(price)
        if any(plan.answerer.options[name] is None for name in plan.answerer.open_parameters):
            raise broken("a parameter is left open")
        events = [
            plan.base,
            copied(plan.answerer).event(setting),
            type(plan.answerer)(**plan.parameters).event(setting),
        ]
        if any(fingerprint(event) != fingerprint(events[0]) for event in events):
            raise broken("two equal answerers charge different events")
        if is_empty(plan.base) or isinstance(plan.base, NoOpDpEvent | NonPrivateDpEvent):
            raise broken(f"its event {plan.base} promises nothing, or costs nothing")
        before = min(setting.cost(plan.base, delta).epsilon for delta in (0.0, base.delta))
        if before > base.epsilon:
            left = rounded_down(base.epsilon, 9)
            raise broken(f"before its sample it costs epsilon {rounded_up(before, 9)}, and {left} is left for that")
        cost = setting.cost(plan.event, plan.report.delta).epsilon
        stated = min(plan.report.epsilon, plan.epsilon)
        if cost > price.epsilon or stated < cost or plan.report.delta > price.delta:
            raise broken(f"it costs epsilon {cost:.9g} and reports {stated:.9g}")
        if setting.rate is None and fingerprint(plan.event) != fingerprint(plan.base):
            raise broken("it has an amplified event without a sample")
        charge = plan.charge
        if isinstance(charge, ApproximateDP | PureDP) and charge != plan.event:
            delta = charge.delta if isinstance(charge, ApproximateDP) else 0.0
            enough = setting.cost(plan.event, delta).epsilon <= charge.epsilon <= price.epsilon and delta <= price.delta
        else:
            sum_of = setting.cost(plan.event, 0.0).epsilon
            enough = charge == plan.event and (not setting.adds_epsilons or sum_of <= price.epsilon)
        if not enough:
            raise broken(f"the charge {charge} does not cover the event {plan.event}, or exceeds the price")

    # Worlds one change apart

    def _neighbours(self, relation: Relation) -> None:
        taken = [price for price in self.prices if self._planned(price, relation)]
        for price in taken if self.full else taken[:1]:
            turns = 4 if self.full and price == self._usual else 2 if self.first and not self.full else 1
            for plan, experts in self._planned(price, relation):
                near, losses = worlds.neighbourhoods(relation, experts), Losses(relation.adjacency)
                for turn in range(turns):
                    self._pairs(plan, relation, near, losses, seeded(100 + turn), every_order=True)
                self._within(plan, price, losses)
                if experts == SIZES[0]:
                    self._joint(plan, relation, *near)

    def _within(self, plan: AnswerPlan, price: Price, losses: Losses) -> None:
        """What pairs lose is within the event that is charged, before it is amplified."""
        if found := losses.exceed(plan.base, plan.setting.base(price).delta):
            problem, world = found
            raise ContractError("composition", self.subject, problem, f"{world}, {price}")
        self.report.kept("composition", losses.pairs, "pairs whose losses stay within the event")

    def _whatever_is_priced(self) -> None:
        """What is priced is drawn too, in a few worlds, and what they lose is held against the event.

        A quick run takes one ledger and one size of a price: rho and few at the usual one, sums of epsilons at the
        others, with few experts and with many in turn.
        """
        sizes: dict[tuple[Relation, Price, bool], list[tuple[AnswerPlan, int]]] = {}
        for plan, relation, experts, price in self._priced:
            adds = plan.setting.adds_epsilons
            in_all_worlds = adds and price in (self.prices if self.full else self.prices[:1])
            if relation in self._told and not in_all_worlds and (self.full or adds != (price == self._usual)):
                sizes.setdefault((relation, price, adds), []).append((plan, experts))
        turns = [price for price in dict.fromkeys(self._prices_tried()) if price != self._usual]
        for (relation, price, _), made in sizes.items():
            many = price in turns[1::2]
            for plan, experts in made if self.full else made[-1:] if many else made[:1]:
                self._sharply(plan, relation, experts, price)
                self.report.kept("prices", 1, "plans that are drawn as they are charged")

    def _sharply(self, plan: AnswerPlan, relation: Relation, experts: int, price: Price) -> None:
        """The few worlds that are furthest apart."""
        losses = Losses(relation.adjacency)
        self._pairs(plan, relation, worlds.sharpest(relation, experts), losses, seeded(100), every_order=False)
        self._within(plan, price, losses)

    def _pairs(
        self,
        plan: AnswerPlan,
        relation: Relation,
        near: Neighbourhood,
        losses: Losses,
        source: Randomness,
        *,
        every_order: bool,
    ) -> None:
        """The same releases in all of these worlds: what is asked for and what is made of them is the same too."""
        data, pairs = near
        for tapes in self._replayed(plan, relation, data, source):
            if every_order:
                for tape, world in zip(tapes, data, strict=True):
                    self._same_in_any_order(plan, relation, world, tape)
            self._near(plan, relation, data, pairs, tapes)
            for one, other in pairs:
                where = _where(data[one], plan, relation, data[other])
                losses.add(losses_of(tapes[one].draws, tapes[other].draws), where)

    def _however_many(self, relation: Relation) -> None:
        """The same of worlds that differ in how many experts write one text, from many to none, one by one."""
        for climbed in worlds.climbed(relation):
            for size in (TOP, worlds.MANY, *CROWDS):  # the larger ones where so few are refused
                rungs = [(*(worlds.BESIDE,) * (size - TOP), *world) for world in climbed]
                setting = self._setting(relation, len(rungs[0]))
                plans = (self._plan(price, setting, relation) for price in self.prices)
                plan = next((each for each in plans if each is not None), None)
                if plan is not None:
                    usual = usual_on(climbed, worlds.NULLS)
                    for tapes in self._replayed(plan, relation, rungs, seeded(100), usual):
                        self._near(plan, relation, rungs, pairs_of(rungs), tapes)
                    break

    def _replayed(
        self,
        plan: AnswerPlan,
        relation: Relation,
        data: Sequence[World],
        source: Randomness,
        usual: Teller | None = None,
    ) -> Iterator[list[Tape]]:
        """Draws of all of these worlds with the releases of the first; those are the usual ones, or drawn."""
        return replayed(partial(self._with_coins, plan, relation, data, source, usual))

    def _with_coins(
        self,
        plan: AnswerPlan,
        relation: Relation,
        data: Sequence[World],
        source: Randomness,
        usual: Teller | None,
        seed: int,
        told: Teller | None,
    ) -> tuple[list[Tape], list[int]]:
        """One of them, with the coins that were thrown: all worlds ask the same, and have one outcome."""
        coins = Coins(seed)
        first, made = self._draw(plan, relation, data[0], either(told, usual), randomness=coins, noise=source)
        answered = self._answer(made, plan)
        released = [draw.outcome for draw in first.draws]
        if not first.draws and not first.others:
            raise ContractError("drive", self.subject, "it draws from no mechanism of the package", str(relation))
        tapes, marks = [], worlds.marks(made)
        for before, world in itertools.pairwise((data[0], *data)):
            where, again = _where(before, plan, relation, world), Coins(seed)
            tape, outcome = self._draw(plan, relation, world, self._replay(released, where), again, noise=seeded(8))
            if problem := first_difference(first.trace, tape.trace):
                raise ContractError("asks", self.subject, problem, where)
            if again.bounds != coins.bounds:
                raise ContractError("asks", self.subject, OTHER_COINS, where)
            if worlds.marks(outcome) != marks:
                problem = "of the same releases it makes two outcomes: something private reaches them without noise"
                raise ContractError("post-processing", self.subject, problem, where)
            if self._answer(outcome, plan) != answered:
                problem = "one outcome is finished in two ways: what experts wrote reaches the answer without noise"
                raise ContractError("post-processing", self.subject, problem, where)
            tape.made = marks
            tapes.append(tape)
        self.report.kept("post-processing", len(data), "worlds with the same outcome of the same releases")
        return tapes, coins.bounds

    def _near(
        self,
        plan: AnswerPlan,
        relation: Relation,
        data: Sequence[World],
        pairs: Sequence[tuple[int, int]],
        tapes: Sequence[Tape],
    ) -> None:
        """What a mechanism is given moves by no more than it was told, between any two neighbours."""
        for one, other in pairs:
            for draw, twin in zip(tapes[one].draws, tapes[other].draws, strict=True):
                if problem := too_far(draw, twin, _told_of(draw, relation, plan.setting)):
                    where = _where(data[one], plan, relation, data[other])
                    raise ContractError("sensitivity", self.subject, f"{draw.mechanism!r} {problem}", where)
        self.report.kept("sensitivity", len(pairs), "pairs whose sums move by no more than a mechanism was told")

    def _replay(self, released: Sequence[Any], where: str) -> Teller:
        def told(number: int, draw: Draw) -> Any:
            if number >= len(released):
                problem = f"it draws more than {len(released)} times, and fewer in a neighbouring world"
                raise ContractError("asks", self.subject, problem, where)
            return released[number]

        return told

    def _same_in_any_order(self, plan: AnswerPlan, relation: Relation, world: World, tape: Tape) -> None:
        """Experts in another order, and a null one more where their number is private, give the same sums, and the same
        outcome of the same releases."""
        if isinstance(tape.randomness, Coins) and tape.randomness.bounds:
            self.report.not_compared(f"{self.subject}: experts in another order or number, where it throws coins")
            return
        released = [draw.outcome for draw in tape.draws]
        others = [tuple(reversed(world))] + ([] if relation.counted else [(*world, None)])
        for other in others:
            twin, outcome = self._draw(plan, relation, other, self._replay(released, worlds.shown(other)))
            for draw, same in zip(tape.draws, twin.draws, strict=True):
                if not np.array_equal(numbers_of(draw.aggregate), numbers_of(same.aggregate)):
                    problem = "what it adds up depends on the order of experts, or a null expert adds something"
                    problem += "" if not relation.counted else "; where their number is public, that is no proof"
                    raise ContractError("order", self.subject, problem, worlds.shown(world))
            if worlds.marks(outcome) != tape.made:
                problem = "what it makes of the same releases depends on the order of experts, or on a null one more"
                raise ContractError("order", self.subject, problem, worlds.shown(world))
        self.report.kept("order", len(others), "worlds in another order")

    def _joint(
        self, plan: AnswerPlan, relation: Relation, data: Sequence[World], pairs: Sequence[tuple[int, int]]
    ) -> None:
        """The exact law of everything that is drawn, where that can be written out."""
        laws = []
        for world in data:

            def run(told: Teller, world: World = world) -> None:
                self._draw(plan, relation, world, told)

            law = joint_law(run, _chances, MOST_LEAVES)
            if law is None:
                return
            laws.append(law)
        if broken := joint_excess(plan.base, relation.adjacency, laws, pairs):
            where = f"{worlds.shown(data[broken.first])} and {worlds.shown(data[broken.second])}, {relation}"
            raise ContractError(
                "neighbours", self.subject, f"its event {plan.base} does not hold: {broken.words}", where
            )
        self.report.kept("neighbours", len(pairs), "pairs of exact joint laws")

    # Whatever is drawn

    def _drawn_plan(self, relation: Relation) -> tuple[AnswerPlan | None, int]:
        for price in self.prices:
            for drawn in self._planned(price, relation):
                return drawn
        return None, 0

    def _alone(self, plan: AnswerPlan, relation: Relation, experts: int) -> None:
        """An answer follows from its own draw: nothing is kept from an earlier one, in another world."""
        data = worlds.neighbourhoods(relation, experts)[0][:3]

        def told(answerer: Answerer, world: World) -> tuple[str, list[Any]]:
            tape, outcome = self._draw(replace(plan, answerer=answerer), relation, world, randomness=seeded(3))
            return worlds.marks(outcome), [numbers_of(draw.aggregate).tolist() for draw in tape.draws]

        new = [told(type(plan.answerer)(**plan.parameters), world) for world in data]
        used = [told(plan.answerer, world) for world in reversed(data)]
        if new != used[::-1]:
            raise ContractError("state", self.subject, "it keeps state between answers", worlds.shown(data[0]))

        released: list[Any] = []
        opposite = _opposite(experts)

        def drawn_from(unit: str, number: int) -> FloatArray:
            asked = replace(plan, setting=replace(plan.setting, unit=unit))
            told = self._replay(released, worlds.shown(opposite[number])) if released else None
            tape, _ = self._draw(asked, relation, opposite[number], told, shot=f"of a {unit}", noise=seeded(8))
            released[:] = [draw.outcome for draw in tape.draws]
            return np.concatenate([np.zeros(0), *(numbers_of(draw.aggregate) for draw in tape.draws)])

        if problem := follows_the_order(drawn_from, ASKED):
            raise ContractError("state", self.subject, problem, f"{worlds.shown(opposite[0])}, {relation}")

        nobody: World = (None,) * experts if relation.counted else ()
        if not nobody_alike(lambda world: told(plan.answerer, world), opposite, nobody):
            raise ContractError("state", self.subject, NOBODY, f"{worlds.shown(opposite[0])}, {relation}")

        def again() -> Any:
            next_plan, _ = self._drawn_plan(relation)
            return next_plan and (next_plan.parameters, next_plan.event, next_plan.charge)

        crowds: list[World] = [*opposite, (worlds.SMALL[0],) * experts, (None,) * experts]
        if not plans_alike(lambda world: self._draw(plan, relation, world), crowds, again):
            raise ContractError("state", self.subject, PLANS, f"{worlds.shown(opposite[0])}, {relation}")
        self.report.kept("state", len(data) + 4 * len(ASKED), "answers that do not follow what was answered before")

    def _whatever_is_drawn(self, plan: AnswerPlan, relation: Relation, experts: int) -> None:
        """Extreme releases, and a writer that says nothing any more, lead to an answer."""
        world = worlds.neighbourhoods(relation, experts)[0][0]
        empty: World = (None,) * experts if relation.counted else ()
        for told in (None, *EXTREMES):
            for data in (world, empty):
                self._draw(plan, relation, data, told)
        self.report.kept("draws", 2 * (1 + len(EXTREMES)), "extreme releases, all with an answer")

    def _sampler(self, plan: AnswerPlan, relation: Relation, experts: int) -> None:
        """Noise that comes through ``draw`` has the scale that is charged, is independent, and selections their law."""
        world = worlds.neighbourhoods(relation, experts)[0][0]
        pool, noise, source = Pool(), list[FloatArray](), seeded(20261122)
        for _ in range(self.draws):
            tape, _ = self._draw(plan, relation, world, randomness=source)
            noise += [noise_of(draw) for draw in tape.draws if isinstance(draw.aggregate, VectorSum)]
            for number, draw in enumerate(tape.draws):
                if isinstance(draw.aggregate, Scores) and isinstance(draw.mechanism, SelectionMechanism):
                    law = dict(enumerate(np.exp(law_of(draw)).tolist()))
                    pool.add({"draw": number}, law, [draw.outcome], worlds.shown(world))
        problem = pool.departs()[0] or not_normal(noise)
        if problem:
            raise ContractError(
                "sampler", self.subject, f"its draws do not follow their law: {problem}", worlds.shown(world)
            )
        self.report.kept("sampler", pool.draws + sum(map(len, noise)), "numbers drawn that follow their law")

    def _at_the_edges(self, relation: Relation) -> None:
        """A plan of any price can be drawn, and costs what it draws; what is refused is refused before the charge."""
        pure = not any(price.delta for price in self.prices)
        for price in (replace(price, delta=0.0) for price in EDGES) if pure else EDGES:
            for plan, experts in self._planned(price, relation):
                self._charged(plan, price, f"{relation}, {price}")
                self._sharply(plan, relation, experts, price)
                self.report.kept("edges", 1, "answers at prices as small and as large as any")

    def _options_at_the_edges(self, relation: Relation) -> None:
        """An option at an end of its range is refused where it is planned, or can be drawn."""
        for experts in dict.fromkeys((worlds.MANY, self._drawn_plan(relation)[1])):
            setting = self._setting(relation, experts)
            world = worlds.neighbourhoods(relation, experts)[0][0]
            for name, ends in edges_of(type(self.answerer)).items():
                for end in ends:
                    with must_not_raise("price", self.subject, f"its plan at {name} {end}", str(relation)):
                        try:
                            plan = replace(self.answerer, **{name: end}).plan(self._usual, setting)
                        except InputError:
                            continue
                    self._draw(plan, relation, world)
                    self.report.kept("edges", 1, "answers at options as small and as large as any")

    def _draw(
        self,
        plan: AnswerPlan,
        relation: Relation,
        world: World,
        told: Teller | None = None,
        randomness: Randomness | None = None,
        shot: str = "a public question",
        noise: Randomness | None = None,
        answers: Sequence[str] | None = None,
    ) -> tuple[Tape, Outcome]:
        """One answer, and what was drawn for it.

        Args:
            plan: Of the answer.
            relation: Of its worlds.
            world: What experts wrote.
            told: What mechanisms release; ``None`` where they draw.
            randomness: Source that the draw is given.
            shot: Question of the public example.
            noise: Source of what mechanisms draw where it is another one: coins of the answerer's own then fall alike,
                whatever mechanisms draw.
            answers: Public answers, where they are other ones than usual.
        """
        tape, write = Tape(randomness or seeded(7), told, noise=noise), Writing()
        public = worlds.public_side(answers or plan.setting.candidates, write, shot, plan.setting.dimension)
        where = f"{worlds.shown(world)}, {relation}"
        with running(tape):
            try:
                experts = relation.outputs(world, plan.setting)
                outcome = plan.answerer.draw(plan.setting, experts, public, tape.randomness)
            except WrongDrawError as wrong:
                raise ContractError("sampler", self.subject, str(wrong), where) from None
            except (ContractError, NoLawError):
                raise
            except (Exception, SottoError) as error:
                problem = f"its draw raised {type(error).__name__}: {error}"
                raise ContractError("draws", self.subject, problem, where) from error
        if write.asked:
            problem = "it asks a model while it draws: what fails then is charged and drawn, and has no outcome"
            raise ContractError("draws", self.subject, problem, where)
        self._finished(outcome, public, where)
        return tape, outcome

    def _answer(self, outcome: Outcome, plan: AnswerPlan) -> str:
        """The text of an outcome, as it is made behind its draw by the entry as it was given, and as it was planned."""
        public = worlds.public_side(plan.setting.candidates, Writing())
        return "".join(answerer.finish(outcome, public) for answerer in (self.answerer, plan.answerer))

    def _finished(self, outcome: Outcome, public: PublicSide, where: str) -> None:
        """The answer follows from the saved outcome, as often as it is finished, also where the writer is silent."""
        with must_not_raise("finish", self.subject, "finishing", where):
            saved = Outcome.from_json(json.loads(json.dumps(outcome.to_json())))
            answers = [self.answerer.finish(each, public) for each in (outcome, outcome, saved)]
            silent = self.answerer.finish(saved, replace(public, write=Writing(silent=True)))
        if len(set(answers)) > 1:
            raise ContractError("finish", self.subject, "an outcome is finished in two ways, or not as saved", where)
        if not all(isinstance(answer, str) and answer for answer in (*answers, silent)):
            raise ContractError("finish", self.subject, "an answer is no text", where)


def _opposite(experts: int) -> Sequence[World]:
    """Two worlds of so many experts; all but one write the same."""
    return [(*(text,) * (experts - 1), other) for text, other in (worlds.SMALL[1:], worlds.SMALL[:0:-1])]


def _question_in_words(question: _Question) -> str:
    relation, price, case, world, _ = question
    return f"{worlds.shown(_opposite(SIZES[0])[world])}, {relation}, {price}, {case}"


def _where(world: World, plan: AnswerPlan, relation: Relation, beside: World) -> str:
    """Two worlds, with the relation and the price."""
    return f"{worlds.shown(world)} and {worlds.shown(beside)}, {relation}, epsilon {rounded_up(plan.epsilon, 6)}"


def _told_of(draw: Draw, relation: Relation, setting: AnswerSetting) -> Adjacency:
    """The relation that an aggregate must be told: the data's, or replace-one among slots where a text is replaced."""
    told = draw.aggregate.adjacency
    return told if told is Adjacency.REPLACE_ONE and setting.change.widths > 1 else relation.adjacency


def _chances(draw: Draw) -> Mapping[Hashable, float]:
    """Natural-log probability of every release of a draw that is possible."""
    if draw.test is not None or isinstance(draw.mechanism, SelectionMechanism):
        return chances_of(draw)
    if not isinstance(draw.aggregate, Scores) or not hasattr(draw.mechanism, "law"):
        raise NoLawError
    k = int(getattr(draw.mechanism, "k", 1))
    if math.perm(len(draw.aggregate.values), min(k, len(draw.aggregate.values))) > MOST_LEAVES:
        raise NoLawError
    law: Mapping[Hashable, Any] = draw.mechanism.law(draw.aggregate)
    return {outcome: math.log(float(p)) for outcome, p in law.items() if p > 0}
