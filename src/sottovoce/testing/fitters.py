"""The contract of a method that pays once, put to any ``Fitter``.

Guarantee   In every small world, for every adjacency and both kinds of ledger: what a mechanism is given moves by no
            more than it was told, in whole numbers; the losses of all draws together stay within the event that is
            charged, by their exact joint law where selections alone are drawn; the support is a function of what
            mechanisms released and of public inputs, and so is everything that is asked of the private side. Every
            plan that is priced is drawn in a few worlds too.
Assumes     Worlds are small: two or three labels, a few units, three or four dimensions. A draw's own law is its
            mechanism's contract.
Sources     specification 5.13 to 5.17.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import InputError, SottoError
from sottovoce.experts.unit_sums import SumRule
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.methods.base import Price
from sottovoce.methods.fitting.fitter import FitPlan, Fitter
from sottovoce.privacy.aggregates import Scores, VectorSum
from sottovoce.privacy.events import ApproximateDP
from sottovoce.privacy.unit import Adjacency
from sottovoce.testing import fit_sessions as sessions
from sottovoce.testing import fit_worlds as worlds
from sottovoce.testing.accepted_prices import accepted
from sottovoce.testing.asked_alone import REFUSED, AskedAlone, made_alone, other_prices, others_taken, taken
from sottovoce.testing.asked_first import PLANS, Beside, follows_the_order, plans_alike
from sottovoce.testing.claims import FloatArray, is_empty
from sottovoce.testing.draw_losses import Losses, law_of, losses_of, too_far
from sottovoce.testing.draw_tape import Draw, Tape, Teller, WrongDrawError, numbers_of, own_mechanisms, running
from sottovoce.testing.fingerprints import copied, fingerprint
from sottovoce.testing.fit_draws import EXTREMES, noise_of, not_normal, usual_on
from sottovoce.testing.fit_worlds import (
    EXPERTS_ASKED,
    LEDGERS,
    RELATIONS,
    Case,
    Neighbourhood,
    Relation,
    World,
    WorldSums,
)
from sottovoce.testing.joint_laws import NoLawError, chances_of, joint_excess, joint_law
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.ladders import pairs_of
from sottovoce.testing.options import name_of, settings_of, subject_of
from sottovoce.testing.own_mechanisms import check_own_mechanisms
from sottovoce.testing.pools import Pool
from sottovoce.testing.replays import OTHER_COINS, Coins, either, first_difference, replayed
from sottovoce.testing.report import ContractError, Effort, Report, must_not_raise

PRICES: Final = (Price(4.0, 1e-6), Price(1.0, 1e-6), Price(0.3, 1e-3), Price(16.0, 1e-9))
PURE: Final = (Price(2.0, 0.0),)
"""A price without a delta, for fitters that take one."""
EDGES: Final = (Price(3e-6, 1e-9), Price(1e-5, 1e-9), Price(1_000.0, 1e-6))
"""Prices near the ends of their range, where some noise is out of its own: refused before the charge, or drawn."""
CONTRACTS: Final = (
    "price", "sensitivity", "isolation", "post-processing", "composition", "prices", "state", "size", "draws",
    "sampler",
)  # fmt: skip
"""Of which every fitter has cases: it is told where one has none."""
MOST_LEAVES: Final = 150
"""Joint laws of selections with more outcomes are not written out."""
SLACK: Final = 1 + 1e-9
"""Figures are worked out in floating point."""
ASKED: Final[Sequence[Beside[str]]] = (("household", "customer", 0.0),)
"""Units of which no other check speaks: nothing in what is drawn follows the name."""
OPPOSITE: Final[tuple[World, World]] = ((worlds.EAST,) * 5 + (worlds.SLANT,), ((("west", 1),),) * 5 + (worlds.EAST,))
"""The two worlds that are fitted in both orders."""
ASKED_OF: Final[Sequence[World]] = (*OPPOSITE, OPPOSITE[0] * 2)
"""The worlds of questions that are asked alone: the last has other public numbers of units."""
DRAWN_WORLD: Final[World] = (worlds.EAST, worlds.SLANT, worlds.WEST, worlds.FAR, (("west", 0), ("west", 1)))


_Question = tuple[Relation, Price, Case, int]
"""A relation, a price, what else is public, and which of the worlds."""


def check_fitter(fitter: Fitter | type[Fitter], effort: Effort = Effort.QUICK, report: Report | None = None) -> Report:
    """Puts a fitter through its contract.

    Args:
        fitter: An instance, which is checked as it is; or a class, which is checked at its defaults and at every choice
            that an option accepts.
        effort: How many worlds are tried.
        report: To be filled; a new one by default.

    Raises:
        ContractError: The contract is broken; the message names the check and the world that shows it.

    Example:
        >>> from sottovoce.methods.class_means import ClassMeans
        >>> check_fitter(ClassMeans()).passed
        True
    """
    report = report or Report("fitter", name_of(fitter))
    own_mechanisms()  # those of an earlier check

    def driven_alone(other: Fitter) -> list[_Fitter]:
        return [_Fitter(other, effort, report, first=False)]

    unmade = made_alone(fitter, driven_alone, name_of(fitter), report)
    every = list(settings_of(fitter, effort, report)) if isinstance(fitter, type) else [fitter]
    settings = []
    for number, instance in enumerate(every):
        if not isinstance(instance, Fitter):
            raise ContractError("drive", name_of(fitter), "it is no Fitter; subclass sottovoce.methods.fitting.Fitter")
        settings.append(_Fitter(instance, effort, report, first=number == 0))
    alone = [*unmade, *(setting.asked_alone() for setting in settings)]
    driven = [setting.check() for setting in settings]
    for asked in alone:
        asked.compare()
    check_own_mechanisms(name_of(fitter), report)
    if not any(driven):
        problem = "it refuses every price in every world that the suite has"
        raise ContractError("drive", name_of(fitter), report.with_refusal(problem))
    report.require(*CONTRACTS)
    return report


@final
class _Fitter:
    """One setting of a fitter."""

    def __init__(self, fitter: Fitter, effort: Effort, report: Report, *, first: bool) -> None:
        self.fitter, self.report, self.first = fitter, report, first
        self.subject, self.full = subject_of(fitter), effort is Effort.FULL
        self.fits = (400 if self.full else 60) if first else 20
        pool = len(worlds.POOL)
        self.candidates = {"unused": (0,), "optional": (pool, 0), "required": (pool,)}[fitter.pool]
        self.usual = Case(self.candidates[0], adds_epsilons=True)
        self._digests: dict[str, Any] = {}
        self._left: tuple[FitPlan, Any] | None = None
        self._priced: list[tuple[FitPlan, Relation, Price, World]] = []

    @cached_property
    def prices(self) -> Sequence[Price]:
        """The prices that it takes somewhere, the usual one first."""
        usual, _ = worlds.cases(self.candidates)
        where = [*itertools.product(RELATIONS, usual)]
        return accepted(PRICES, lambda price: any(self._planned(each, 2, price, case)[0] for each, case in where))

    @property
    def _usual(self) -> Price:
        return self.prices[0] if self.prices else PRICES[0]

    @cached_property
    def _taken(self) -> Sequence[Relation]:
        """The relations under which it takes a price of the usual case."""
        return [relation for relation in RELATIONS if self._drawn(relation, 2, self.usual)[0] is not None]

    def _prices_under(self, relation: Relation) -> Sequence[Price]:
        """Those that it takes under this relation."""
        usual, _ = worlds.cases(self.candidates)
        return [price for price in self.prices if any(self._planned(relation, 2, price, each)[0] for each in usual)]

    def check(self) -> bool:
        """Every contract; whether anything was planned."""
        before = repr(self.fitter)
        self._says_how_many_texts()
        for relation in RELATIONS:
            self._prices(relation)
        if not self._priced:
            return False
        self._refusals()
        for relation in self._taken[:1]:
            self._alone(relation)
        for relation, adds in itertools.product(RELATIONS if self.first or self.full else self._taken, LEDGERS):
            self._neighbours(relation, adds_epsilons=adds)
        for relation in self._taken[: 3 if self.first or self.full else 1]:
            self._however_many(relation)
        for relation, adds in itertools.product(self._taken[:3], LEDGERS):
            self._whatever_is_drawn(relation, replace(self.usual, adds_epsilons=adds))
            self._sampler(relation, replace(self.usual, adds_epsilons=adds))
        self._whatever_is_priced()
        if self.first or self.full:
            sessions.fits(self.fitter, self.subject, self.report, self._adjacencies)
        if repr(self.fitter) != before:
            raise ContractError("state", self.subject, "its attributes changed while it fitted")
        return True

    def questions_alone(self, *, prices: bool = True) -> list[_Question]:
        """Fits that differ in one thing each, under every relation; for a further option in price alone.

        Args:
            prices: Whether prices are varied by themselves.
        """
        every = [*itertools.product(RELATIONS, (*PRICES, *PURE))]
        plans = taken(
            every,
            lambda each: self._planned(each[0], len(OPPOSITE[0]), each[1], self.usual)[0],
            self.subject,
            self.report,
            listed=prices,
        )
        first, most = dict(reversed(plans)), self.full or self.first
        usual = [(relation, price) for relation, price in plans if first[relation] == price]
        questions: list[_Question] = [
            (*plan, self.usual, world) for plan in usual[: None if most else 1] for world in (0, 1)
        ]
        for number, (relation, price) in enumerate(usual[: None if most else int(prices)]):
            case, subject = self.usual, f"{self.subject}, {relation}"
            others: dict[str, list[_Question]] = {
                part: [(relation, other, case, 0) for other in different]
                for part, different in other_prices(price).items()
            }
            if not self.full and (number or not most):
                questions += others_taken(others, self._planned_for, subject, self.report)
                continue
            cases = {
                "kind of ledger": replace(case, adds_epsilons=False),
                "unit": replace(case, unit="person"),
                "number of labels": replace(case, labels=case.labels + 1),
                "dimension": replace(case, dimension=case.dimension + 1),
            }
            if case.candidates:
                cases["number of public texts"] = replace(case, candidates=case.candidates - 1)
                cases["text among public ones"] = replace(case, other_texts=True)
            for candidates in self.candidates[1:]:
                cases[f"number of public texts than {case.candidates}"] = replace(case, candidates=candidates)
            for part, other in cases.items():
                others[part] = [(relation, price, other, 0)]
            others["number of units"] = [(relation, price, case, 2)]
            questions += others_taken(others, self._planned_for, subject, self.report)
        return questions

    def asked_alone(self) -> AskedAlone:
        """These questions, each asked alone."""
        return AskedAlone(self.questions_alone(), self.answer_to, self.in_words, self.subject, self.report)

    def _planned_for(self, question: _Question) -> tuple[FitPlan, World] | None:
        relation, price, case, number = question
        plan, others = self._planned(relation, len(ASKED_OF[number]), price, case)
        return None if plan is None else (plan, others)

    def in_words(self, question: _Question) -> str:
        """A question in words."""
        return _question_in_words(question)

    def answer_to(self, question: _Question) -> Sequence[Any]:
        relation, _, case, number = question
        world = ASKED_OF[number]
        if (planned := self._planned_for(question)) is None:
            return [REFUSED]
        plan, others = planned
        tape, support = self._run(plan, relation, (*others, *world), None, other_texts=case.other_texts)
        return [plan.event, plan.charge, plan.parameters, plan.report, tape.told, support]

    @property
    def _adjacencies(self) -> Mapping[Adjacency, Price]:
        """Those under which it takes a price, each with the first one."""
        planned: dict[Adjacency, Price] = {}
        for _, relation, price, _ in self._priced:
            planned.setdefault(relation.adjacency, price)
        return planned

    def _says_how_many_texts(self) -> None:
        """Without that no fit is made, so that nothing else could be said of it."""
        for relation in self._taken[:1]:
            plan, _ = self._drawn(relation, len(DRAWN_WORLD), self.usual)
            try:
                plan.fitter.most_texts(plan.setting) if plan is not None else 0
            except InputError as refusal:
                raise ContractError("size", self.subject, str(refusal), worlds.shown(DRAWN_WORLD)) from None

    # What is charged

    def _refusals(self) -> None:
        setting = worlds.setting_of(RELATIONS[0], 4, self.usual)
        refused = 0
        if self.fitter.needs_delta:
            self._refused(Price(1.0, 0.0), setting, "it needs a delta, and takes a price without one")
            refused += 1
        if self.fitter.pool == "required":
            bare = worlds.setting_of(RELATIONS[0], 4, replace(self.usual, candidates=0))
            self._refused(self._usual, bare, "it needs public texts, and takes a setting without any")
            refused += 1
        for adjacency, price in [*self._adjacencies.items()][:1]:
            refused += sessions.refuses(self.fitter, self.subject, price, adjacency)
        self.report.kept("refusals", refused, "before anything was read")

    def _refused(self, price: Price, setting: Any, problem: str) -> None:
        try:
            self.fitter.plan(price, setting)
        except InputError:
            return
        raise ContractError("refusals", self.subject, problem)

    def _prices(self, relation: Relation) -> None:
        one = relation.change.rows == 1
        prices = self._prices_under(relation)[: len(PRICES) if self.full else 2 if self.first and one else 1]
        pure = PURE if one and not self.fitter.needs_delta else ()
        edges: Sequence[Price] = EDGES if one and (self.first or self.full) else ()
        if not any(price.delta for price in self.prices):
            edges = [replace(price, delta=0.0) for price in edges]
        usual, other = worlds.cases(self.candidates)
        units = len(worlds.sharpest(relation)[0][0])
        tried = [*itertools.product(prices, (*usual, *other)), *itertools.product((*pure, *edges), usual)]
        for price, case in tried:
            plan, beside = self._planned(relation, units, price, case)
            if plan is not None:
                self._charged(plan, price, f"{relation}, {price}, {case}")
                self._priced.append((plan, relation, price, beside))
                self.report.kept("price", 1, "plans from parameters alone, within the price")

    def _planned(self, relation: Relation, units: int, price: Price, case: Case) -> tuple[FitPlan | None, World]:
        """A plan for so many units, or for the fewest more of which it takes the price; and the units that are more."""
        for beside in worlds.CROWDS if relation.adjacency.size_is_public else worlds.CROWDS[:1]:
            plan = self._plan(relation, len(beside) + units, price, case, noted=not beside)
            if plan is not None:
                return plan, beside
        return None, ()

    def _drawn(self, relation: Relation, units: int, case: Case) -> tuple[FitPlan | None, World]:
        """The same at the first price that it takes under this relation."""
        for price in self.prices:
            plan, beside = self._planned(relation, units, price, case)
            if plan is not None:
                return plan, beside
        return None, ()

    def _plan(self, relation: Relation, units: int, price: Price, case: Case, *, noted: bool = True) -> FitPlan | None:
        """A plan, or ``None`` where the fitter refuses the price."""
        setting = worlds.setting_of(relation, units, case)
        with must_not_raise("price", self.subject, "its plan", f"{relation}, {price}, {case}"):
            try:
                return self.fitter.plan(price, setting)
            except InputError as refusal:
                told = f"{relation}, {price}, {case}: {refusal}"
                if noted and told not in self.report.refused:
                    self.report.refused.append(told)
                return None

    def _charged(self, plan: FitPlan, price: Price, world: str) -> None:
        def broken(problem: str) -> ContractError:
            return ContractError("price", self.subject, problem, world)

        if any(plan.fitter.options[name] is None for name in plan.fitter.calibrated_parameters):
            raise broken("a parameter is left open")
        events = [
            plan.event,
            copied(plan.fitter).event(plan.setting),
            type(plan.fitter)(**plan.parameters).event(plan.setting),
        ]
        if any(fingerprint(event) != fingerprint(events[0]) for event in events):
            raise broken("two equal fitters charge different events")
        if is_empty(plan.event):
            raise broken(f"its event {plan.event} promises nothing")
        cost = plan.setting.cost(plan.event, price.delta).epsilon
        if cost > price.epsilon or plan.report.epsilon < cost or plan.report.delta < price.delta:
            raise broken(f"it costs epsilon {cost:.9g} and reports {plan.report.epsilon:.9g} at delta {price.delta:g}")
        if plan.charge == plan.event:
            enough = not plan.setting.adds_epsilons or plan.setting.cost(plan.event, 0.0).epsilon <= price.epsilon
        else:
            point = plan.charge
            enough = (
                isinstance(point, ApproximateDP)
                and plan.setting.adds_epsilons
                and plan.setting.cost(plan.event, point.delta).epsilon <= point.epsilon <= price.epsilon
                and point.delta <= price.delta
            )
        if not enough:
            raise broken(f"the charge {plan.charge} does not cover the event {plan.event}, or exceeds the price")

    # Worlds one change apart

    def _neighbours(self, relation: Relation, *, adds_epsilons: bool) -> None:
        prices = self._prices_under(relation)[: 2 if self.full else 1]
        for price, candidates in itertools.product(prices, self.candidates):
            losses, drawn = Losses(relation.adjacency), None
            most = self.full or (self.first and relation.change.rows == 1)
            for group, near in enumerate(worlds.neighbourhoods(relation)):
                if group and not (self.full or (most and adds_epsilons)):
                    continue
                plan, beside = self._planned(relation, len(near[0][0]), price, Case(candidates, adds_epsilons))
                if plan is None:
                    continue
                drawn, whole = plan, worlds.beside(beside, near)
                self._pairs(plan, relation, whole, losses, every_rule=self.full or adds_epsilons)
                if group == 0 and (most or adds_epsilons):
                    self._joint(plan, relation, whole)
            if drawn is not None:
                self._within(drawn, price, losses)

    def _within(self, plan: FitPlan, price: Price, losses: Losses) -> None:
        """What pairs lose is within the event that is charged."""
        if found := losses.exceed(plan.event, price.delta):
            problem, world = found
            raise ContractError("composition", self.subject, problem, f"{world}, {price}")
        self.report.kept("composition", losses.pairs, "pairs whose losses stay within the event")

    def _whatever_is_priced(self) -> None:
        """What is priced is drawn too, in a few worlds, and what they lose is held against the event."""
        edges = {price.epsilon for price in EDGES}
        for plan, relation, price, others in self._priced:
            losses = Losses(relation.adjacency)
            near = worlds.beside(others, worlds.sharpest(relation))
            self._pairs(plan, relation, near, losses, every_rule=False)
            self._within(plan, price, losses)
            self.report.kept(
                "edges" if price.epsilon in edges else "prices", 1, "plans that are drawn as they are charged"
            )

    def _pairs(
        self, plan: FitPlan, relation: Relation, near: Neighbourhood, losses: Losses, *, every_rule: bool
    ) -> None:
        """The same releases in all of these worlds: what is asked for and what is made of them is the same too."""
        data, pairs = near
        for tapes in self._replayed(plan, relation, data):
            for tape, world in zip(tapes, data, strict=True):
                ends = max(1, len(tape.rules) - 1)
                self._isolated(tape.rules[:: 1 if every_rule else ends], world, plan.setting.dimension)
            self._near(plan, relation, near, tapes)
            for one, other in pairs:
                lost = losses_of(tapes[one].draws, tapes[other].draws)
                losses.add(lost, _where(data[one], plan, relation, data[other]))

    def _however_many(self, relation: Relation) -> None:
        """The same of worlds that differ in how many units are of one kind, from many to none, one by one."""
        for climbed in worlds.climbed(relation):
            plan, others = self._drawn(relation, len(climbed[0]), self.usual)
            if plan is not None:
                rungs, usual = [(*others, *world) for world in climbed], usual_on(climbed, worlds.NULLS)
                for tapes in self._replayed(plan, relation, rungs, usual):
                    self._near(plan, relation, (rungs, pairs_of(rungs)), tapes)

    def _replayed(
        self, plan: FitPlan, relation: Relation, data: Sequence[World], usual: Teller | None = None
    ) -> Iterator[list[Tape]]:
        """Fits of all of these worlds with the releases of the first; those are the usual ones, or drawn."""
        return replayed(partial(self._with_coins, plan, relation, data, usual))

    def _with_coins(
        self,
        plan: FitPlan,
        relation: Relation,
        data: Sequence[World],
        usual: Teller | None,
        seed: int,
        told: Teller | None,
    ) -> tuple[list[Tape], list[int]]:
        """One of them, with the coins that were thrown: all worlds ask the same, and leave one support."""
        coins = Coins(seed)
        first, made = self._fit(plan, relation, data[0], either(told, usual), randomness=coins, noise=seeded(7 + seed))
        released = [draw.outcome for draw in first.draws]
        if not first.draws and not first.others:
            raise ContractError(
                "drive", self.subject, "it draws from no mechanism of the package", worlds.shown(data[0])
            )
        tapes, marks = [], worlds.support_marks(made)
        for before, world in itertools.pairwise((data[0], *data)):
            again = Coins(seed)
            tape, support = self._run(plan, relation, world, self._replay(released, world), again, seeded(8))
            where = _where(before, plan, relation, world)
            if problem := first_difference(first.trace, tape.trace):
                raise ContractError("asks", self.subject, problem, where)
            if again.bounds != coins.bounds:
                raise ContractError("asks", self.subject, OTHER_COINS, where)
            if worlds.support_marks(support) != marks:
                problem = "of the same releases it makes two supports: something private reaches them without noise"
                raise ContractError("post-processing", self.subject, problem, where)
            tapes.append(tape)
        self.report.kept("post-processing", len(data), "worlds with the same support of the same releases")
        return tapes, coins.bounds

    def _near(self, plan: FitPlan, relation: Relation, near: Neighbourhood, tapes: Sequence[Tape]) -> None:
        """What a mechanism is given moves by no more than it was told, between any two neighbours."""
        data, pairs = near
        for one, other in pairs:
            for draw, twin in zip(tapes[one].draws, tapes[other].draws, strict=True):
                if problem := too_far(draw, twin, relation.adjacency):
                    where = _where(data[one], plan, relation, data[other])
                    raise ContractError("sensitivity", self.subject, f"{draw.mechanism!r} {problem}", where)
        self.report.kept("sensitivity", len(pairs), "pairs whose sums move by no more than a mechanism was told")

    def _replay(self, released: Sequence[Any], world: World) -> Teller:
        def told(number: int, draw: Draw) -> Any:
            if number >= len(released):
                problem = f"it draws more than {len(released)} times, and fewer in a neighbouring world"
                raise ContractError("asks", self.subject, problem, worlds.shown(world))
            return released[number]

        return told

    def _isolated(self, rules: Sequence[SumRule], world: World, dimension: int) -> None:
        """A sum is that of its units, each by itself, in any order and in any blocks."""
        for rule in rules:
            held = fingerprint(rule)
            if held != self._digests.setdefault(rule.digest, held):
                problem = "two rules of its sums have one digest, by which a fit knows them: it adds up one for both"
                raise ContractError("isolation", self.subject, problem, worlds.shown(world))
            whole, one, rest = (rule.add_up(worlds.block_of(part, dimension)) for part in (world, world[:1], world[1:]))
            if not np.issubdtype(whole.dtype, np.integer):
                raise ContractError("isolation", self.subject, "its sums are not whole numbers", worlds.shown(world))
            if (whole != worlds.sum_by_units(world, rule, dimension)).any() or (whole != one + rest).any():
                problem = "what a unit adds to its sum depends on the other units, their order or their block"
                raise ContractError("isolation", self.subject, problem, worlds.shown(world))
            self.report.kept("isolation", 1, "sums that are those of their units")

    def _joint(self, plan: FitPlan, relation: Relation, near: Neighbourhood) -> None:
        """The exact law of everything that is drawn, where that is selections of few candidates."""
        (data, pairs), laws = near, []
        for world in data:

            def run(told: Teller, world: World = world) -> None:
                self._fit(plan, relation, world, told)

            law = joint_law(run, chances_of, MOST_LEAVES)
            if law is None:
                return
            laws.append(law)
        if broken := joint_excess(plan.event, relation.adjacency, laws, pairs):
            problem = f"its event {plan.event} does not hold: {broken.words}"
            where = _where(data[broken.first], plan, relation, data[broken.second])
            raise ContractError("neighbours", self.subject, problem, where)
        self.report.kept("neighbours", len(pairs), "pairs of exact joint laws")

    # Whatever was fitted before, and whatever is drawn

    def _alone(self, relation: Relation) -> None:
        """What a fit draws from follows from its own records: nothing is kept from an earlier one, in another world."""
        released: list[Any] = []
        names = [name for asked in ASKED for name in asked[:2]]
        made = {name: self._drawn(relation, 6, replace(self.usual, unit=name)) for name in names}
        planned = {name: (plan, others) for name, (plan, others) in made.items() if plan is not None}
        if len(planned) < len(names):
            self.report.not_compared(f"{self.subject}: state, since it does not take units of any name")
            return

        def drawn_from(unit: str, number: int) -> FloatArray:
            plan, others = planned[unit]
            world = (*others, *OPPOSITE[number])
            told = self._replay(released, world) if released else None
            tape, _ = self._fit(plan, relation, world, told, noise=seeded(8))
            released[:] = [draw.outcome for draw in tape.draws]
            return np.concatenate([np.zeros(0), *(numbers_of(draw.aggregate) for draw in tape.draws)])

        if problem := follows_the_order(drawn_from, ASKED):
            raise ContractError(
                "state", self.subject, problem, f"{' and '.join(map(worlds.shown, OPPOSITE))}, {relation}"
            )

        plan, others = planned[names[0]]

        def again() -> Any:
            next_plan, _ = self._drawn(relation, 6, replace(self.usual, unit=names[0]))
            return next_plan and (next_plan.parameters, next_plan.event, next_plan.charge)

        crowds = [*OPPOSITE, (worlds.EAST,) * 6]
        crowds += [] if relation.adjacency.size_is_public else [(worlds.EAST,)]
        if not plans_alike(lambda world: self._run(plan, relation, (*others, *world), None), crowds, again):
            raise ContractError("state", self.subject, PLANS, f"{relation}")
        self.report.kept("state", 4 * len(ASKED), "fits whose sums do not follow what was fitted before")

    def _whatever_is_drawn(self, relation: Relation, case: Case) -> None:
        """Extreme releases lead to a support of the same shape, by as many draws, and to finite answers."""
        plan, others = self._drawn(relation, len(DRAWN_WORLD), case)
        if plan is None:
            return
        world = (*others, *DRAWN_WORLD)
        fits = [self._fit(plan, relation, world, told) for told in (None, *EXTREMES)]
        if problem := _too_much(plan, fits[0][1]):
            raise ContractError("size", self.subject, problem, worlds.shown(world))
        self.report.kept("size", 1, "supports no larger than is known before anything is drawn")
        with must_not_raise("draws", self.subject, "its support", worlds.shown(world)):
            answers = [worlds.classified(support, plan.setting) for _, support in fits]
        if any(answer is not None and not np.isfinite(answer).all() for answer in answers):
            problem = "its support answers with numbers that are not finite"
            raise ContractError("draws", self.subject, problem, worlds.shown(world))
        self.report.kept("draws", 1 + len(EXTREMES), "fits of extreme releases, all of one shape")

    def _sampler(self, relation: Relation, case: Case) -> None:
        """Noise that comes through ``fit`` has the scale that is charged, is independent, and selections their law."""
        plan, others = self._drawn(relation, len(DRAWN_WORLD), case)
        if plan is None:
            return
        world = (*others, *DRAWN_WORLD)
        pool, noise, source = Pool(), list[FloatArray](), seeded(20261122)
        for _ in range(self.fits if case.adds_epsilons else self.fits // 3):
            tape, _ = self._fit(plan, relation, world, randomness=source)
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
        self.report.kept(
            "sampler", pool.draws + sum(map(len, noise)), "numbers drawn through fit that follow their law"
        )

    def _fit(
        self,
        plan: FitPlan,
        relation: Relation,
        world: World,
        told: Teller | None = None,
        randomness: Any = None,
        noise: Any = None,
    ) -> tuple[Tape, Any]:
        """One fit, and what was drawn in it: as often, and to a support of the same shape, as in any of its plan."""
        tape, support = self._run(plan, relation, world, told, randomness, noise)
        drawn = len(tape.others) + sum(draw.test is None for draw in tape.draws)  # a run answers until it says yes
        left = drawn, _shape(support)
        if self._left is None or self._left[0] is not plan:
            self._left = plan, left
        elif left != self._left[1]:
            problem = "how often it draws, or the shape of its support, depends on what is drawn"
            raise ContractError("draws", self.subject, problem, _where(world, plan, relation))
        return tape, support

    def _run(
        self,
        plan: FitPlan,
        relation: Relation,
        world: World,
        told: Teller | None,
        randomness: Any = None,
        noise: Any = None,
        *,
        other_texts: bool = False,
    ) -> tuple[Tape, Any]:
        """One fit.

        Args:
            plan: What is fitted.
            relation: Of its worlds.
            world: The records.
            told: What mechanisms release; ``None`` where they draw.
            randomness: Source that the fit is given.
            noise: Source of what mechanisms draw where it is another one: coins of the fit's own then fall alike,
                whatever mechanisms draw.
            other_texts: Whether the public texts are other ones than usual.
        """
        tape = Tape(randomness or seeded(7), told, noise=noise)
        public, where = worlds.public_side(plan.setting, other_texts=other_texts), _where(world, plan, relation)
        with running(tape):
            try:
                support = plan.fitter.fit(plan, WorldSums(world, plan.setting, tape), public, tape.randomness)
            except WrongDrawError as wrong:
                raise ContractError("sampler", self.subject, str(wrong), where) from None
            except (ContractError, NoLawError):
                raise
            except (Exception, SottoError) as error:
                problem = f"its fit raised {type(error).__name__}: {error}"
                raise ContractError("draws", self.subject, problem, where) from error
        if not plan.fitter.asks_experts and any(what == EXPERTS_ASKED for what, _ in tape.trace):
            raise ContractError("asks", self.subject, "it asks experts and does not say so (asks_experts)", where)
        return tape, support


def _question_in_words(question: _Question) -> str:
    relation, price, case, number = question
    return f"{worlds.shown(ASKED_OF[number])}, {relation}, {price}, {case}"


def _where(world: World, plan: FitPlan, relation: Relation, beside: World | None = None) -> str:
    """A world, or two of them, with what is public of the fit."""
    shown = worlds.shown(world) + (f" and {worlds.shown(beside)}" if beside is not None else "")
    return f"{shown}, {relation}, {Case.of(plan.setting)}"


def _shape(support: Any) -> Any:
    """What of a support may not depend on what is drawn: its kind, its arrays' shapes, the number of its texts."""
    held = {name: getattr(support, name) for name in ("weights", "offset", "spread", "bias") if hasattr(support, name)}
    texts = len(support.examples) if hasattr(support, "examples") else 0
    return type(support).__name__, tuple((name, array.shape) for name, array in held.items()), texts


def _too_much(plan: FitPlan, support: Any) -> str:
    """How a support is larger than its fitter says beforehand; empty where it is not."""
    texts, most = len(getattr(support, "examples", ())), plan.fitter.most_texts(plan.setting)
    if texts > most:
        return f"it leaves {texts} texts, and its most_texts says {most}"
    linear = getattr(support, "classifier", None) or (support if hasattr(support, "weights") else None)
    if linear is not None and len(linear.spread) > plan.setting.dimension:
        return f"its map has {len(linear.spread)} coordinates, more than vectors have ({plan.setting.dimension})"
    return ""
