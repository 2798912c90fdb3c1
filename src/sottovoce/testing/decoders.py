"""The contract of a method that writes texts, put to any ``Decoder``.

Guarantee   Where every token is one selection whose mechanism states a law: the exact law of whole texts of one and two
            tokens, in both batches that a change can touch, against the event that is charged, and draws against that
            law. The scores of such a decoder are compared whatever its mechanism is. Elsewhere (noise on a fine grid,
            tests between tokens, coins for experts): what mechanisms are given against what they are told, exactly
            (``token_moves``), and draws in sharp worlds. The draws of texts at their longest are compared with the
            charge (``text_prices``).
Assumes     Worlds are small: two tokens and an end, and a few experts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import process_time
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import InputError
from sottovoce.experts.clipping import Candidates
from sottovoce.mechanisms.base import log_law
from sottovoce.methods.base import Price
from sottovoce.methods.decoding.decoder import Decoder, DecodingPlan
from sottovoce.methods.decoding.selecting import SelectingDecoder, SelectingSampler
from sottovoce.models.stepper import Step
from sottovoce.privacy.accounting.event_cost import cost_of
from sottovoce.privacy.aggregates import Scores
from sottovoce.privacy.unit import SWAP, Adjacency
from sottovoce.randomness import Randomness
from sottovoce.synthesis.config import SynthesisConfig, plan_of
from sottovoce.testing import text_sessions as sessions
from sottovoce.testing import text_worlds as worlds
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
from sottovoce.testing.draws import exceeds
from sottovoce.testing.fingerprints import are_equal, copied
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.ladders import counted, pairs_of, require_near
from sottovoce.testing.options import name_of, settings_of, subject_of
from sottovoce.testing.own_mechanisms import check_own_mechanisms
from sottovoce.testing.pools import OPEN, Pool, lead_of, share_of
from sottovoce.testing.public_rows import NOT_ADDITIVE, PublicRow, moved
from sottovoce.testing.replays import OWN_COINS, Coins, teller
from sottovoce.testing.report import ContractError, Effort, Report, must_not_raise
from sottovoce.testing.text_prices import SEEDS, price_of_drawn_texts
from sottovoce.testing.text_worlds import LABELS, DataSet, Scene
from sottovoce.testing.token_moves import Moves

PRICES: Final = (Price(2.0, 0.0), Price(2.0, 1e-3))
"""A pure one, and one in zCDP."""
DRAWN_PRICE: Final = Price(2.0, 1e-3)
"""At which a token spends so little that twice as much shows in few draws."""
WHOLE_PRICE: Final = Price(12.0, 1e-3)
"""At which texts of two tokens are drawn: where one expert moves a token by much, it shows who takes part."""
WHOLE: Final = ((("X", LABELS[0]),), (("X", LABELS[0]), ("Y", LABELS[0])))
"""What such texts are drawn from."""
EXPERTS: Final = 2
"""The public divisor, whatever a batch holds."""
OTHER_EXPERTS: Final = 7
"""A second one, at which events are compared, and the laws of the first setting."""
OTHERS: Final = (
    (PRICES[0], OTHER_EXPERTS, 1, "record"),
    (PRICES[1], EXPERTS, 2, "person"),
    (Price(12.0, 1e-3), EXPERTS, 1, "record"),
    (Price(0.5, 1e-3), 1, 1, "record"),
)
"""Prices, divisors, texts and units at which laws of one token are compared, for the first setting."""
LONGER: Final = ((3, 1, EXPERTS), (50, 4, OTHER_EXPERTS))
"""Tokens, texts and public divisor at which the event is compared with its steps, and with what a text draws."""
ASKED: Final[Sequence[Beside[tuple[float, ...]]]] = (
    ((-0.25, 0.0, -0.5), (-0.250002, 0.0, -0.5), 1e-3),
    ((-1.31, 0.0, -1.9), (-1.312, 0.0, -1.9), 0.02),
    ((0.0, -6.3, -7.7), (0.0, -6.300004, -7.7), 1e-3),
)
"""Public rows of which no other check asks, each with one that is nearly equal, and how far laws may differ by that."""
SLOW_LAW: Final = 0.25
"""Seconds of processor time for the law of one token, above which laws are not compared."""
MOST_MOVED: Final = 10
"""Tokens of a text without a law, from which what is given to its mechanisms is no longer compared."""
SOME: Final = 8
"""Draws of a token that is asked for alone, beside the one whose mechanisms are compared."""
OPPOSITE: Final = (("X",) * 22 + ("Y",) * 2, ("Y",) * 22 + ("X",) * 2)
"""What experts say in the two worlds that are asked in both orders."""
FIRST_OR_END: Final = (("X",) * 22 + ("Y",) * 2, (worlds.ENDS,) * 22 + ("Y",) * 2)
"""The same where these are answered alike: the best two of three tokens may be one pair there."""
POOLED: Final = (
    (PRICES[1], 1, 3),
    (PRICES[0], 6, EXPERTS),
    (Price(12.0, 1e-3), 1, OTHER_EXPERTS),
    (Price(0.5, 1e-3), 1, 1),
    (PRICES[1], 6, OTHER_EXPERTS),
    (Price(12.0, 1e-3), 6, EXPERTS),
)
"""Prices, lengths of texts and public divisors at which single tokens are drawn; a quick run of a further setting draws
at the plans of its laws."""


MOST_LEAD: Final = 4
"""Tokens that lead by so much are drawn most often, where others may come: such worlds are few."""


def check_decoder(
    decoder: Decoder | type[Decoder], effort: Effort = Effort.QUICK, report: Report | None = None
) -> Report:
    """Puts a decoding method through its contract.

    Args:
        decoder: An instance, which is checked as it is; or a class, which is checked at its defaults and at every
            choice that an option accepts. Open parameters are calibrated to the prices that are tried.
        effort: How many worlds are tried.
        report: To be filled; a new one by default.

    Raises:
        ContractError: The contract is broken; the message names the check and the smallest world that shows it.

    Example:
        >>> from sottovoce.methods.prism import PRISM
        >>> check_decoder(PRISM(clip=2.0)).passed
        True
    """
    name = name_of(decoder)
    report = report or Report("decoder", name)
    own_mechanisms()  # those of an earlier check

    def driven_alone(other: Decoder) -> list[_Decoder]:
        return [_Decoder(other, effort, report, must_run=False)]

    unmade = made_alone(decoder, driven_alone, name, report)
    every = list(settings_of(decoder, effort, report)) if isinstance(decoder, type) else [decoder]
    settings = []
    for number, instance in enumerate(every):
        if not isinstance(instance, Decoder):
            raise ContractError("drive", name, "it is no Decoder; subclass sottovoce.methods.decoding.decoder.Decoder")
        settings.append(_Decoder(instance, effort, report, must_run=number == 0))
    alone = [*unmade, *(setting.asked_alone() for setting in settings)]
    for setting in settings:
        setting.check()
    for asked in alone:
        asked.compare()
    check_own_mechanisms(name, report)
    return report


_Order = tuple[int, int, int, str]
"""Tokens, experts, texts and the unit of a run."""
ORDER: Final[_Order] = (1, EXPERTS, 1, "record")
OTHER_ORDERS: Final[Mapping[str, _Order]] = {
    "number of tokens": (2, EXPERTS, 1, "record"),
    "number of experts": (1, OTHER_EXPERTS, 1, "record"),
    "number of texts": (1, EXPERTS, 2, "record"),
    "unit": (1, EXPERTS, 1, "person"),
}
"""Another number or unit each."""
_Question = tuple[Adjacency, Price, _Order, Sequence[float], Sequence[str]]
"""An adjacency, a price, a run, the public row of a token, and what experts say beside it."""


def _question_in_words(question: _Question) -> str:
    adjacency, price, (tokens, experts, texts, unit), public, said = question
    run = f"{tokens} tokens, {experts} experts, {texts} texts, the unit {unit!r}"
    return f"{counted(said)} beside {tuple(public)}, {adjacency.value}, {price}, {run}"


class _DrawnEndError(Exception):
    """A text ends by a draw, so that no law of it is known."""


@final
class _Decoder:
    """One setting of a decoder."""

    def __init__(self, decoder: Decoder, effort: Effort, report: Report, *, must_run: bool) -> None:
        self.decoder, self.report, self.must_run = decoder, report, must_run
        self.subject = subject_of(decoder)
        self.full, self.exact = effort is Effort.FULL, False
        self.draws = 20_000 if self.full else 4_000
        self._charged: list[tuple[Price, DecodingPlan]] = []
        self._drawn: list[tuple[DecodingPlan, int]] = []
        self._slow = set[tuple[type, ...]]()
        self._refusal = ""

    def check(self) -> None:
        """Every contract that applies."""
        accepted = 0
        # A quick run drives the further choices under zero-out by one token alone: a change is a drop, as under
        # add-remove.
        relations = [
            relation for relation in Adjacency if self.full or self.must_run or relation is not Adjacency.ZERO_OUT
        ]
        for adjacency in relations:
            plans = [(price, plan) for price, tokens in self._runs() if (plan := self._plan(adjacency, price, tokens))]
            if plans and not all(self._has_law(plan) for _, plan in plans):
                plan = self._plan(adjacency, DRAWN_PRICE, 1)
                plans = [(DRAWN_PRICE, plan)] if plan else []
            if not plans:
                self.report.refused.append(f"{self.subject} under {adjacency.value}")
            for price, plan in plans:
                self._check(plan, price, accepted)
                self._drawn.append((plan, SEEDS))
                if self.exact:
                    self._charged.append((price, plan))
                accepted += 1
            if plans and (self.full or accepted == len(plans)):
                self._longer_texts(adjacency)
        if accepted:
            if self.full or self.must_run:
                self._other_settings()
                self._exchanged()
            elif (plan := self._plan(Adjacency.ZERO_OUT, PRICES[1], 1)) is not None:
                self._of_one_token(plan, PRICES[1])
            if self.exact:
                self._sampler()
            every = self.must_run or self.full
            sessions.writes(self.decoder, self.subject, self.report, exact=self.exact, every=every)
            for plan, texts in self._drawn:
                compared = price_of_drawn_texts(plan, self.subject, self._setting(plan), texts=texts)
                self.report.kept("price", compared, "plans within the price, and texts that draw what is charged")
        if not accepted and self.must_run:
            raise ContractError(
                "drive",
                self.subject,
                f"it accepts no adjacency at any price that was tried; first it said: {self._refusal}",
            )

    def questions_alone(self, *, prices: bool = True) -> list[_Question]:
        """Tokens that differ in one thing each, under every adjacency; for a further option in price alone.

        Args:
            prices: Whether prices are varied by themselves.
        """
        worlds.step_beside(worlds.PUBLIC, OPPOSITE[0])  # libraries are loaded here, and not in every copy
        every_plan = [*itertools.product(Adjacency, PRICES)]
        plans = taken(
            every_plan, lambda each: self._plan(each[0], each[1], 1), self.subject, self.report, listed=prices
        )
        (public, _, _), (beside, _, _), *_ = ASKED
        first, every = dict(reversed(plans)), self.full or self.must_run
        usual = [(adjacency, price) for adjacency, price in plans if first[adjacency] == price]
        questions: list[_Question] = [
            (*plan, ORDER, public, said) for plan in (usual if every else usual[:1]) for said in OPPOSITE
        ]
        for number, (adjacency, price) in enumerate(usual[: None if every else int(prices)]):
            subject = f"{self.subject}, {adjacency.value}"
            others: dict[str, list[_Question]] = {
                part: [(adjacency, each, ORDER, public, OPPOSITE[0]) for each in different]
                for part, different in other_prices(price).items()
            }
            if not self.full and (number or not every):
                questions += others_taken(others, self._planned, subject, self.report)
                continue
            for part, order in OTHER_ORDERS.items():
                others[part] = [(adjacency, price, order, public, OPPOSITE[0])]
            questions += others_taken(others, self._planned, subject, self.report)
            questions += [(adjacency, price, ORDER, beside, OPPOSITE[0])]
            questions += [(adjacency, price, ORDER, public, said) for said in (FIRST_OR_END[1], OPPOSITE[1] * CROWD)]
        return questions

    def asked_alone(self) -> AskedAlone:
        """These questions, each asked alone."""
        return AskedAlone(self.questions_alone(), self.answer_to, self.in_words, self.subject, self.report)

    def _planned(self, question: _Question) -> DecodingPlan | None:
        adjacency, price, (tokens, experts, texts, unit), _, _ = question
        return self._plan(adjacency, price, tokens, experts, texts, unit)

    def in_words(self, question: _Question) -> str:
        """A question in words."""
        return _question_in_words(question)

    def answer_to(self, question: _Question) -> Sequence[Any]:
        _, _, _, public, said = question
        if (plan := self._planned(question)) is None:
            return [REFUSED]
        tape = Tape(seeded(4))
        with running(tape):
            chooser = worlds.chooser_of(plan, tape.randomness)
            drawn = [chooser.next(worlds.step_beside(public, said))]
        source = seeded(5)
        draws = SOME if tape.trace or tape.draws else OWN_DRAWS
        drawn += [worlds.chooser_of(plan, source).next(worlds.step_beside(public, said)) for _ in range(draws)]
        return [plan.event, plan.decoder, tape.told, drawn]

    def _runs(self) -> Sequence[tuple[Price, int]]:
        """Prices and lengths of texts."""
        if self.full:
            return list(itertools.product(PRICES, (1, 2)))
        return [(PRICES[0], 1), (PRICES[1], 2)]

    def _check(self, plan: DecodingPlan, price: Price, number: int) -> None:
        claim = self._claim(plan, price)
        if self.full or number == 0:
            self._state(plan)
        self.exact = self._has_law(plan)
        short = plan if plan.setting.tokens == 1 else self._plan(plan.setting.adjacency, price, 1)
        # Scores are compared whether or not a law is known; where one is, a breach of whole laws is the better proof.
        if isinstance(plan.decoder, SelectingDecoder):
            self._isolation(short or plan, plan.decoder)
        if self.exact:
            most = 4 if self.full else 2 if self.must_run and plan.setting.tokens == 1 else 1
            self._texts(plan, claim, most, number % len(LABELS))
        if isinstance(plan.decoder, SelectingDecoder):
            self._scores_beside(short or plan, plan.decoder)
        if not self.exact:
            Moves(plan, self.subject, self._setting(plan), self.report).check(every=True)
            self._texts_by_draws(plan)
        elif short is not None:
            self._laws_beside(short, claim if short is plan else self._claim(short, price))

    def _plan(
        self,
        adjacency: Adjacency,
        price: Price,
        tokens: int,
        experts: int = EXPERTS,
        texts: int = 1,
        unit: str = "record",
    ) -> DecodingPlan | None:
        """The plan of a run, or ``None`` where it is refused, before anything is read."""
        order = SynthesisConfig(per_label=texts, tokens=tokens, experts=experts)
        try:
            plan = plan_of(self.decoder, order, price, adjacency, unit, experts)
            worlds.chooser_of(plan, seeded(0))
        except InputError as refusal:
            self._refusal = self._refusal or str(refusal)
            return None
        except AssertionError as error:
            raise ContractError("price", self.subject, str(error), f"{adjacency.value}, {experts} experts") from error
        return plan

    def _claim(self, plan: DecodingPlan, price: Price) -> Claim:
        """What a batch of texts promises; its cost is within the price."""
        adjacency = plan.setting.adjacency
        claim = claim_of(plan.event, adjacency)
        if claim is None or is_empty(plan.event):
            raise ContractError("price", self.subject, f"its event {plan.event} promises nothing", adjacency.value)
        for event in (
            (plan.event, *plan.decoder.alternatives(plan.setting)) if plan.decoder.refundable else (plan.event,)
        ):
            cost = within_price(event, adjacency, price.epsilon, price.delta)
            if cost > price.epsilon * (1 + 1e-9):
                problem = f"its event {event} costs epsilon {cost:.6g} where the price is {price.epsilon:g}"
                raise ContractError("price", self.subject, problem, f"{adjacency.value}, delta {price.delta:g}")
        self.report.kept("price", 1, "plans within the price, from parameters alone")
        return claim

    def _longer_texts(self, adjacency: Adjacency) -> None:
        """Further tokens, further texts and another divisor cost what their steps cost; their draws are noted last."""
        for tokens, texts, experts in LONGER:
            plan = self._plan(adjacency, PRICES[1], tokens, experts, texts)
            if plan is None:
                continue
            decoder, setting, price = plan.decoder, plan.setting, PRICES[1]
            if decoder.refundable:
                steps = [(part.row.event(setting.change), part.steps) for part in decoder.parts(setting)]
                if isinstance(decoder, SelectingDecoder):
                    steps = [(plan.token_event, tokens)]
                least, charged = texts * sum(cost_of(e).rho * n for e, n in steps), cost_of(plan.event).rho
            else:
                shorter = decoder.event(replace(setting, tokens=1, texts=1))
                least, charged = (
                    within_price(event, adjacency, price.epsilon, price.delta) for event in (shorter, plan.event)
                )
                least *= 1 + 1e-6
            if charged < least * (1 - 1e-9):
                problem = f"its event {plan.event} costs {charged:.6g}, and what it covers costs at least {least:.6g}"
                raise ContractError("price", self.subject, problem, self._setting(plan))
            self._drawn.append((plan, 1))
            if tokens < MOST_MOVED:
                moves = Moves(plan, self.subject, self._setting(plan), self.report)
                if not self._has_law(plan):
                    moves.check(every=False)
                elif not isinstance(worlds.chooser_of(plan, seeded(0)), SelectingSampler):
                    moves.check_ends()

    # Exact laws

    def _other_settings(self) -> None:
        """One token of every text of the first setting, where public numbers are others: few worlds each.

        Without a law, what mechanisms are given is compared.
        """
        relations = Adjacency if self.full else (Adjacency.REPLACE_ONE, Adjacency.ADD_REMOVE)
        for adjacency, (price, experts, texts, unit) in itertools.product(relations, OTHERS):
            plan = self._plan(adjacency, price, 1, experts, texts, unit)
            if plan is not None:
                self._at_another(plan, self._claim(plan, price))

    def _at_another(self, plan: DecodingPlan, claim: Claim) -> None:
        if self._has_law(plan):
            self._texts(plan, claim, 1, 0)
        else:
            Moves(plan, self.subject, self._setting(plan), self.report).check(every=False)

    def _exchanged(self) -> None:
        """An expert of several units: under add-remove a change may be that it says another thing."""
        try:
            plan = self.decoder.plan(PRICES[1], tokens=1, experts=EXPERTS, adjacency=Adjacency.ADD_REMOVE, change=SWAP)
            worlds.chooser_of(plan, seeded(0))
        except InputError:
            return
        except AssertionError as error:
            raise ContractError("price", self.subject, str(error), "add-remove, swap") from error
        self._of_one_token(plan, PRICES[1])

    def _of_one_token(self, plan: DecodingPlan, price: Price) -> None:
        claim = self._claim(plan, price)
        if isinstance(plan.decoder, SelectingDecoder):
            self._scores_beside(plan, plan.decoder)
        elif self._has_law(plan):
            self._laws_beside(plan, claim)
        else:
            Moves(plan, self.subject, self._setting(plan), self.report).check(every=False)

    def _texts(self, plan: DecodingPlan, claim: Claim, most: int, home: int) -> None:
        """Data sets a change apart, by laws of texts; where an end is drawn, by what mechanisms are given."""
        try:
            self._laws_of_texts(plan, claim, most, home)
        except _DrawnEndError:
            self.report.not_compared(f"{self.subject}: laws of texts, whose end is drawn")
            if self._has_drawn_tokens(plan):
                Moves(plan, self.subject, self._setting(plan), self.report).check(every=False)
            else:
                self.report.not_compared(f"{self.subject}: what ends a text, behind tokens that it draws by itself")

    @staticmethod
    def _has_drawn_tokens(plan: DecodingPlan) -> bool:
        """Whether a token comes from a mechanism: of the same releases it is the same, whatever the decoder's coins."""
        scene, released = Scene(sessions.DATA, plan.setting.adjacency, plan.setting.tokens), None
        tokens = set[int | None]()
        for seed in range(OWN_COINS):
            coins = Coins(seed)
            tape = Tape(coins, teller(released, []) if released else None, noise=seeded(8))
            chooser = worlds.chooser_of(plan, coins)
            with running(tape):
                tokens.add(chooser.next(scene.step(0, ())))
            if not coins.bounds:
                return True
            released = released or tape
        return len(tokens) == 1

    def _laws_of_texts(self, plan: DecodingPlan, claim: Claim, most: int, home: int) -> None:
        """Data sets a change apart: the joint law of all texts of both batches, which are drawn independently."""
        setting, seen = plan.setting, dict[DataSet, Any]()
        possible = worlds.every_text(setting.tokens)

        def of(data: DataSet) -> Any:
            if data not in seen:
                with must_not_raise("failures", self.subject, "a text", worlds.shown(data)):
                    scene = Scene(data, setting.adjacency, setting.tokens)
                    laws = [worlds.law_of_text(plan, scene, batch) for batch in range(len(LABELS))]
                known = [law for law in laws if law is not None]
                if len(known) < len(laws):
                    raise _DrawnEndError
                batches = [log_law([law.get(text, 0.0) for text in possible]) for law in known]
                joint = np.zeros(1)
                for of_a_text in batches * setting.texts:
                    joint = np.add.outer(joint, of_a_text).ravel()
                seen[data] = joint
                if not abs(np.exp(seen[data]).sum() - 1) < 1e-6:
                    raise ContractError("neighbours", self.subject, "its law does not sum to 1", worlds.shown(data))
            return seen[data]

        for group, pairs in worlds.data_sets(setting.adjacency, most, home):
            breach = excess(claim, np.array([of(data) for data in group]), pairs)
            self.report.kept("neighbours", len(pairs), "pairs of exact laws of texts within the event")
            if breach:
                problem = f"its event {claim.words} does not hold: {breach.words}"
                world = f"{worlds.shown(group[breach.first])} and {worlds.shown(group[breach.second])}"
                raise ContractError("neighbours", self.subject, problem, f"{world} ({self._setting(plan)})")
        self._same(of, plan)

    def _same(self, of: Any, plan: DecodingPlan) -> None:
        """Data sets that must have one law: in another order, with a null expert more, with a prompt that failed."""
        for contract, problem, data, other in worlds.alike(plan.setting.adjacency):
            if not np.allclose(np.exp(of(data)), np.exp(of(other)), rtol=0, atol=1e-12):
                world = f"{worlds.shown(data)} and {worlds.shown(other)} ({self._setting(plan)})"
                raise ContractError(contract, self.subject, problem, world)
            self.report.kept(contract, 1, "pairs of data sets of one law")

    # Scores

    def _isolation(self, plan: DecodingPlan, decoder: SelectingDecoder) -> None:
        """A summand is a function of its expert's row."""
        null = ("N", LABELS[0])
        for name in worlds.SAYINGS:
            moves = set()
            for rest in worlds.BACKGROUNDS:
                values = []
                for unit in ((name, LABELS[0]), null):
                    step = Scene((*((other, LABELS[0]) for other in rest), unit), plan.setting.adjacency, 1).step(0, ())
                    chooser = worlds.chooser_of(plan, seeded(0))
                    if (public := chooser._candidates(step, None)) is None:
                        problem = "its public rule leaves no candidate where every public score is finite"
                        raise ContractError("isolation", self.subject, problem, f"{name} ({self._setting(plan)})")
                    scores = decoder.scores(plan, step, public)
                    values.append(scores.values)
                moves.add(moved(values[0], values[1]))
            if len(moves) > 1:
                problem = f"{NOT_ADDITIVE}: {sorted(moves)}"
                raise ContractError("isolation", self.subject, problem, f"{name} ({self._setting(plan)})")
            self.report.kept("isolation", 1, "summands that are functions of one expert")

    def _laws_beside(self, plan: DecodingPlan, claim: Claim) -> None:
        """The law of the only token beside other public rows, and of later texts."""
        names, pairs = list(worlds.SAYINGS), self._near(plan)
        null, comes = names.index("N"), plan.setting.adjacency is Adjacency.ADD_REMOVE
        rows = [(public, 0, rest) for public in worlds.PUBLIC_ROWS for rest in worlds.BACKGROUNDS]
        rows += [(worlds.PUBLIC, text, worlds.BACKGROUNDS[1]) for text in worlds.LATER_TEXTS]
        for public, text, rest in rows:
            laws = [self._law_beside(plan, public, (*rest, name), text) for name in names]
            places = [(names.index(one), names.index(other)) for one, other in pairs]
            beside = f"with {rest} beside {public}, text {text} ({self._setting(plan)})"
            if comes:
                alone = self._law_beside(plan, public, rest, text)
                if not np.allclose(np.exp(alone), np.exp(laws[null]), rtol=0, atol=1e-12):
                    problem = "an expert that says nothing changes its law"
                    raise ContractError("null expert", self.subject, problem, f"an expert or none {beside}")
                self.report.kept("null expert", 1, "pairs of laws beside other public rows")
            if breach := excess(claim, np.array(laws), places):
                problem = f"its event {claim.words} does not hold: {breach.words}"
                world = f"{names[breach.first]} and {names[breach.second]} {beside}"
                raise ContractError(PublicRow.CONTRACT, self.subject, problem, world)
            self.report.kept(PublicRow.CONTRACT, len(pairs), "pairs of neighbours beside other public rows")
        if not isinstance(plan.decoder, SelectingDecoder) and (self.full or self.must_run):
            self._however_many(plan, claim)
            self._many_tokens(plan, claim)
        elif samples(plan.decoder):  # scores tell nothing of the share that is drawn
            self._many_tokens(plan, claim)

    def _many_tokens(self, plan: DecodingPlan, claim: Claim) -> None:
        """The law of the only token among many, of which half move at once."""
        names = list(worlds.WIDE_SAYINGS)
        places = [(names.index(one), names.index(other)) for one, other in self._near(plan, names)]
        row = f"beside a flat public row of {worlds.WIDE + 1} tokens ({self._setting(plan)})"
        for rest in worlds.WIDE_RESTS:
            laws = []
            for name in names:
                with must_not_raise(PublicRow.CONTRACT, self.subject, "a token", f"{name} with {rest} {row}"):
                    chooser = worlds.chooser_of(plan, seeded(0), worlds.WIDE + 1)
                    experts = (*rest, name)
                    laws.append(log_law(worlds.law_of_token(plan, chooser, partial(worlds.wide_step, experts))))
            if breach := excess(claim, np.array(laws), places):
                problem = f"its event {claim.words} does not hold: {breach.words}"
                world = f"{names[breach.first]} and {names[breach.second]} with {rest} {row}"
                raise ContractError(PublicRow.CONTRACT, self.subject, problem, world)
            self.report.kept(PublicRow.CONTRACT, len(places), "pairs of neighbours beside other public rows")

    def _near(self, plan: DecodingPlan, said: Sequence[str] = tuple(worlds.SAYINGS)) -> Sequence[tuple[str, str]]:
        """What one expert may say in two neighbouring worlds."""
        names = list(said)
        swaps, drops = itertools.combinations(names, 2), ((name, "N") for name in names if name != "N")
        return list(swaps if plan.setting.change is SWAP else drops)

    def _scores_beside(self, plan: DecodingPlan, decoder: SelectingDecoder) -> None:
        """Scores beside other public rows and of later texts, with few other experts and with a crowd."""
        pairs = self._near(plan)
        rows = [(public, 0) for public in worlds.PUBLIC_ROWS] + [(worlds.PUBLIC, text) for text in worlds.LATER_TEXTS]
        for public, text in rows:
            row = f"{public}, text {text} ({self._setting(plan)})"
            looked = PublicRow(self.subject, self.report, row)

            candidates = worlds.chooser_of(plan, seeded(0))._candidates(worlds.step_beside(public, (), text), None)
            if candidates is None:
                continue

            def scores(
                experts: Sequence[str],
                candidates: Candidates = candidates,
                beside: tuple[Sequence[float], int] = (public, text),
                row: str = row,
            ) -> Scores:
                with must_not_raise(PublicRow.CONTRACT, self.subject, "scores", f"{experts} beside {row}"):
                    return decoder.scores(plan, worlds.step_beside(beside[0], experts, beside[1]), candidates)

            for rest in worlds.BACKGROUNDS if text == 0 else worlds.BACKGROUNDS[:2]:
                looked.look(str(rest), {name: scores((*rest, name)) for name in worlds.SAYINGS}, pairs, "N")
            if (public, text) == rows[0]:
                crowd = {name: scores((*worlds.CROWD, name)) for name in worlds.SAYINGS}
                looked.look(str(worlds.CROWD), crowd, pairs, "N", adds=False)
                self._in_any_order(crowd, scores, f"{worlds.CROWD} beside {row}")
                for rungs in worlds.climbed(plan):
                    require_near([scores(names) for names in rungs], self.subject, f"beside {row}", self.report)
        self._scores_of_many(plan, decoder)

    def _scores_of_many(self, plan: DecodingPlan, decoder: SelectingDecoder) -> None:
        """Scores of many tokens, of which half move at once: there a norm is far more than a range."""
        row = f"a flat public row of {worlds.WIDE + 1} tokens ({self._setting(plan)})"
        looked, names = PublicRow(self.subject, self.report, row), list(worlds.WIDE_SAYINGS)
        chooser = worlds.chooser_of(plan, seeded(0), worlds.WIDE + 1)
        if (candidates := chooser._candidates(worlds.wide_step(()), None)) is None:
            return
        for rest in worlds.WIDE_RESTS:
            with must_not_raise(PublicRow.CONTRACT, self.subject, "scores", f"{rest} beside {row}"):
                said = {name: decoder.scores(plan, worlds.wide_step((*rest, name)), candidates) for name in names}
            looked.look(str(rest), said, self._near(plan, names), "N")

    def _however_many(self, plan: DecodingPlan, claim: Claim) -> None:
        """Laws of a first token by crowds, of which ever fewer are of one opinion, one by one."""
        for rungs in worlds.climbed(plan):
            laws = [self._law_beside(plan, worlds.PUBLIC_ROWS[0], names) for names in rungs]
            if breach := excess(claim, np.array(laws), pairs_of(rungs)):
                problem = f"its event {claim.words} does not hold: {breach.words}"
                first, second = counted(rungs[breach.first]), counted(rungs[breach.second])
                world = f"({first}) and ({second}) ({self._setting(plan)})"
                raise ContractError("neighbours", self.subject, problem, world)
            self.report.kept("neighbours", len(rungs) - 1, "pairs of exact laws of texts within the event")

    def _in_any_order(self, last: Mapping[str, Scores], scores: Callable[[Sequence[str]], Scores], world: str) -> None:
        """The first expert of a crowd is heard as the last one is."""
        for name, its in last.items():
            if any(moved(its.values, scores((name, *worlds.CROWD)).values)):
                problem = "the order of the experts changes the scores"
                raise ContractError("order", self.subject, problem, f"{name} first or last of {world}")
            self.report.kept("order", 1, "crowds whose scores do not follow the order of experts")

    def _law_beside(self, plan: DecodingPlan, public: Sequence[float], names: Sequence[str], text: int = 0) -> Any:
        world = f"{names} beside {public}, text {text} ({self._setting(plan)})"
        with must_not_raise(PublicRow.CONTRACT, self.subject, "a token", world):
            chooser = worlds.chooser_of(plan, seeded(0))
            return log_law(worlds.law_of_token(plan, chooser, lambda: worlds.step_beside(public, names, text)))

    # Draws

    def _sampler(self) -> None:
        """Draws follow the law of a token: a few in each of many worlds, at every price, relation and divisor.

        The tokens before it are given, so that the law is known before anything is drawn.
        """
        dice, source, pool = seeded(5), seeded(6), Pool()
        plans = self._charged
        if self.full or self.must_run:
            runs = [(price, self._plan(a, price, n, s)) for a, (price, n, s) in itertools.product(Adjacency, POOLED)]
            plans = [(price, plan) for price, plan in runs if plan is not None and self._has_law(plan)]
        for number in range((3_000 if self.full else 240) // (1 if self.must_run else 5) if plans else 0):
            price, plan = plans[number % len(plans)]
            self._draw_tokens(plan, price, number, dice, source, pool)
        problem, world = pool.departs()
        if problem:
            raise ContractError("sampler", self.subject, f"its draws do not follow its law: {problem}", world)
        self.report.kept("sampler", pool.draws, "tokens drawn that follow the law")
        if self.full or self.must_run:
            self._whole_texts()

    def _whole_texts(self) -> None:
        """Texts of two tokens, where a sampler of the decoder's own may draw both by the same coins."""
        plans = (self._plan(adjacency, WHOLE_PRICE, 2) for adjacency in Adjacency)
        for plan in [plan for plan in plans if plan is not None and self._has_law(plan)][: None if self.full else 1]:
            sampler = worlds.chooser_of(plan, seeded(0))
            if isinstance(sampler, SelectingSampler) and not samples(plan.decoder):
                return
            for number, data in enumerate(WHOLE):
                scene, source, pool = Scene(data, plan.setting.adjacency, 2), seeded(7 + number), Pool()
                world = f"{worlds.shown(data)} ({self._setting(plan)})"
                with must_not_raise("sampler", self.subject, "a text", world):
                    if (law := worlds.law_of_text(plan, scene, 0)) is None:
                        return
                    drawn = [worlds.drawn_text(plan, scene, 0, source) for _ in range(self.draws // 4)]
                if any(text not in law for text in drawn):
                    self.report.not_compared(f"{self.subject}: whole texts, which may end by a coin of its own")
                    return
                pool.add({"world": world}, law, drawn, world)
                problem, _ = pool.departs()
                if problem:
                    problem = f"its texts of two tokens do not follow the law of one behind the other: {problem}"
                    raise ContractError("sampler", self.subject, problem, world)
                self.report.kept("sampler", len(drawn), "tokens drawn that follow the law")

    def _draw_tokens(
        self, plan: DecodingPlan, price: Price, number: int, dice: Randomness, source: Randomness, pool: Pool
    ) -> None:
        """Two tokens behind the same random text."""
        text = (0, *worlds.LATER_TEXTS)[number % (1 + len(worlds.LATER_TEXTS))]
        most = 4 if samples(plan.decoder) else 12
        before = [dice.below(worlds.WORDS - 2) for _ in range(dice.below(plan.setting.tokens))]
        steps = [worlds.random_step(dice, most, text) for _ in range(len(before) + 1)]
        repeated = bool(before) and dice.below(3) == 0
        if repeated:  # experts say of the second token what they said of the first
            before, steps = before[:1], steps[:1] * 2
        rows = sum(len(block) for block in steps[-1]().blocks)
        world = f"token {len(before) + 1}, {rows} experts answer ({self._setting(plan)})"
        with must_not_raise("sampler", self.subject, "a token", world):
            chooser = worlds.random_text(plan, steps, before, source)
            if chooser is None:
                return
            law = worlds.law_of_token(plan, chooser, steps[-1])
            if not law.any():
                return
            second, best = np.sort(law)[-2:].tolist()
            lead = (math.log(best / second) if second else math.inf) * plan.setting.tokens / price.epsilon
            drawn: list[Hashable] = []
            for _ in range(2 + 3 * min(MOST_LEAD, int(lead)) if best < OPEN else 1):
                chooser = worlds.random_text(plan, steps, before, source)
                if chooser is None:  # ended by a coin of its own
                    return
                drawn.append(chooser.next(steps[-1]()))
        features = {
            "adjacency": plan.setting.adjacency.value,
            "divisor": plan.setting.experts,
            "experts": share_of(rows),
            "lead": lead_of(lead),
            "price": f"{price.epsilon:g}, {price.delta:g}",
            "scores": "those of the token before" if repeated else "others",
            "token": share_of(len(before) + 1),
        }
        pool.add(features, dict(enumerate(law.tolist())), drawn, world)

    def _texts_by_draws(self, plan: DecodingPlan) -> None:
        """Sharp data sets a change apart, by draws of the one batch that changes, against what that batch costs."""
        event = plan.event
        if plan.decoder.refundable:
            event = plan.decoder.event(replace(plan.setting, labels_public=True))
        if (claim := claim_of(event, plan.setting.adjacency)) is None:
            raise ContractError("price", self.subject, f"its event {event} promises nothing", self._setting(plan))
        setting, x, y = plan.setting, ("X", LABELS[0]), ("Y", LABELS[0])
        other = {Adjacency.REPLACE_ONE: (y,), Adjacency.ZERO_OUT: (("", ""),), Adjacency.ADD_REMOVE: ()}
        for rest in ((y,), (y, x)) if self.full else ((y,),):
            pair = ((*rest, x), (*rest, *other[setting.adjacency]))
            drawn = []
            for seed, data in enumerate(pair):
                scene, source = Scene(data, setting.adjacency, setting.tokens), seeded(seed)
                with must_not_raise("failures", self.subject, "a text", worlds.shown(data)):
                    drawn.append([worlds.drawn_text(plan, scene, 0, source) for _ in range(self.draws)])
            if problem := exceeds(claim, *drawn):
                world = f"{worlds.shown(pair[0])} and {worlds.shown(pair[1])} ({self._setting(plan)})"
                raise ContractError("neighbours", self.subject, problem, world)
            self.report.kept("neighbours by draws", 1, "pairs of data sets that draws do not tell apart too well")

    def _state(self, plan: DecodingPlan) -> None:
        """The same batch has the same texts under the same noise, whatever was written before."""
        pristine, held = copied(plan.decoder), held_by(plan.decoder)
        scenes = [
            Scene(data, plan.setting.adjacency, plan.setting.tokens)
            for data in ((("X", LABELS[0]),), (("Y", LABELS[0]), ("U", LABELS[1])))
        ]

        def texts(scene: Scene) -> Sequence[tuple[int, ...]]:
            source = seeded(9)
            return [worlds.drawn_text(plan, scene, 0, source) for _ in range(5)]

        before = [texts(scene) for scene in scenes]
        for _ in range(7):
            worlds.drawn_text(plan, scenes[1], 1, seeded(2))
        if [texts(scene) for scene in scenes[::-1]][::-1] != before or not are_equal(plan.decoder, pristine):
            problem = "its texts follow what was written before: it keeps state between texts"
            raise ContractError("state", self.subject, problem, self._setting(plan))
        if held_by(plan.decoder) != held:
            raise ContractError("state", self.subject, "its attributes changed while it wrote", self._setting(plan))

        def answers(
            public: Sequence[float], world: int, said: Sequence[tuple[str, ...]] = OPPOSITE, times: int = 1
        ) -> Asked:
            return self._first(plan, public, said[world] * times)

        if problem := follows_the_order(
            answers, ASKED, partial(answers, said=FIRST_OR_END), partial(answers, times=CROWD)
        ):
            raise ContractError("state", self.subject, problem, self._setting(plan))

        def draw(names: Sequence[str]) -> int | None:
            return worlds.chooser_of(plan, seeded(5)).next(worlds.step_beside(worlds.PUBLIC, names))

        def planned() -> Sequence[Any]:
            setting = plan.setting
            each = (self._plan(setting.adjacency, price, setting.tokens) for price in PRICES)
            return [(one.parameters, one.event) for one in each if one is not None]

        if not nobody_alike(draw, OPPOSITE, ("N",) * len(OPPOSITE[0])):
            raise ContractError("state", self.subject, NOBODY, self._setting(plan))
        if not plans_alike(draw, (*OPPOSITE, ("X",) * 24, ("N",) * 24), planned):
            raise ContractError("state", self.subject, PLANS, self._setting(plan))
        self.report.kept("state", len(scenes) + 4 * len(ASKED), "batches written alike before and after others")

    def _first(self, plan: DecodingPlan, public: Sequence[float], names: Sequence[str]) -> Asked:
        """The law of a first token, or where none is known some draws."""

        def step() -> Step:
            return worlds.step_beside(public, names)

        with must_not_raise("state", self.subject, "a token", f"{len(names)} experts beside {public}"):
            selects = isinstance(plan.decoder, SelectingDecoder)
            if self._has_law(plan) and not samples(plan.decoder) if selects else _states_a_law(plan):
                return worlds.law_of_token(plan, worlds.chooser_of(plan, seeded(0)), step)
            source = seeded(4)
            return [worlds.chooser_of(plan, source).next(step()) for _ in range(DRAWS)]

    def _has_law(self, plan: DecodingPlan) -> bool:
        """Whether laws are compared: whether there is one for every token, and it is worked out in a short time."""
        kind = tuple(map(type, plan.decoder.mechanisms(plan)))
        if kind in self._slow:
            return False
        times = list[float]()
        for _ in range(2):  # the first law of a process may load libraries, whose time is no law's
            start = process_time()
            with must_not_raise("drive", self.subject, "the law of a token", self._setting(plan)):
                known = exact_law(replace(plan, decoder=copied(plan.decoder)))
            times.append(process_time() - start)
            if times[-1] <= SLOW_LAW:
                break
        if min(times) > SLOW_LAW:
            self._slow.add(kind)
            names = ", ".join(cls.__name__ for cls in kind)
            self.report.not_compared(f"{self.subject}: the laws of its tokens, which {names} works out too slowly")
            return False
        return known

    @staticmethod
    def _setting(plan: DecodingPlan) -> str:
        s = plan.setting
        sizes = f"{s.tokens} tokens, {s.texts} texts, {s.experts} experts, the unit {s.unit!r}"
        return f"{s.adjacency.value}, {s.change.name}, {sizes}, {plan.event}"


def exact_law(plan: DecodingPlan) -> bool:
    """Whether every token has a law: each is one selection whose mechanism states its law, or it is the first.

    A sampler whose law of a first token is its ``law`` draws one selection a token, the later ones by ``law`` as well.
    """
    decoder = plan.decoder
    if not isinstance(decoder, SelectingDecoder):
        return _states_a_law(plan) and (plan.setting.tokens == 1 or _selects_once(plan))
    try:
        worlds.law_of_token(plan, worlds.chooser_of(plan, seeded(0)), lambda: worlds.step_beside(worlds.PUBLIC, ["X"]))
    except NotImplementedError:
        return False
    return True


def samples(decoder: Decoder) -> bool:
    """Whether a decoder draws the experts that take part, so that the law of a token is a mean over coins."""
    return isinstance(decoder, SelectingDecoder) and type(decoder).subsample is not SelectingDecoder.subsample


def _states_a_law(plan: DecodingPlan) -> bool:
    return worlds.chooser_of(plan, seeded(0)).law_of_first(worlds.step_beside(worlds.PUBLIC, ["X"])) is not None


def _selects_once(plan: DecodingPlan) -> bool:
    """Whether the law of a first token is that of one selection, sharp experts or none."""
    for names in (["X"], ["Y", "Y"], ["N"]):
        chooser = worlds.chooser_of(plan, seeded(0))
        first = chooser.law_of_first(worlds.step_beside(worlds.PUBLIC, names))
        if first is None or not np.array_equal(first, chooser.law(worlds.step_beside(worlds.PUBLIC, names))):
            return False
    return True
