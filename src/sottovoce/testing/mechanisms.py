"""The contract of a noise mechanism, put to any ``Mechanism``: its stated law is private, and its sampler follows it.

Guarantee   What a mechanism takes decides how it is driven: scores, counts, a vector sum, items nobody listed, the
            queries of a test, points. Its stated law is compared exactly in neighbouring worlds that its bound allows,
            as far as its law is stated; draws follow the law. A mechanism that takes something else cannot be driven,
            and fails.
Assumes     Worlds are small.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Any, Final, final

import numpy as np

from sottovoce.errors import InputError, SottoError
from sottovoce.mechanisms.base import LEAST, Mechanism, log_law
from sottovoce.privacy.aggregates import Counts, ItemCounts, Scores, VectorSum
from sottovoce.privacy.points import PrivatePoints
from sottovoce.privacy.unit import Adjacency, is_drop
from sottovoce.randomness import Randomness
from sottovoce.testing.another_process import NoAnswerError, of_a_copy
from sottovoce.testing.asked_alone import AskedAlone, others_taken
from sottovoce.testing.claims import DELTA_SLACK, Claim, FloatArray, claim_of, excess, joined
from sottovoce.testing.clusterings import asked_alone, check_clustering, clustered, points_of
from sottovoce.testing.constructions import Construction, construction_of, hidden
from sottovoce.testing.declared import declared_by, inner_choices
from sottovoce.testing.draws import departs
from sottovoce.testing.fingerprints import copied, fingerprint
from sottovoce.testing.label_worlds import CHANGES, Change, seeded
from sottovoce.testing.ladders import counted
from sottovoce.testing.leads import LONGEST, is_certain, lead_among, leading_by, open_lead
from sottovoce.testing.options import subject_of
from sottovoce.testing.pools import Pool, lead_of, share_of
from sottovoce.testing.releases import given_prior, prior_of, release_of, require_comparable
from sottovoce.testing.report import ContractError, Effort, Report, must_not_raise

ADJACENCIES: Final = tuple(Adjacency)
PRIOR: Final = (0.0, -1.5, -4.0, -0.5, -2.0)
"""Public log-weights of candidates, for a mechanism that takes some."""
WIDTHS: Final = {Adjacency.ADD_REMOVE: 1, Adjacency.REPLACE_ONE: 2, Adjacency.ZERO_OUT: 1}
NUMBERS: Final = (0, 0, 1, 7, 8, 40, -3, -1000, 10**6, 2**40)
"""Numbers that get their noise together."""
TOGETHER: Final = (2, 8, 16)
"""Numbers that move together: powers of two, of which one alone is a square."""
LARGE: Final = 300
"""A bound beyond those of most entries: what is capped before it is noticed."""
MANY: Final = 40
"""Candidates of which many move together."""
OPEN_SHARES: Final = (0.0, 0.1, 0.2, 0.5, 0.8, 0.9, 1.0)
"""Of leads that are searched for, from rarely passed to mostly passed; missing noise shows on either side."""
OFTEN: Final = 12
"""Draws of such a world of a pool; other worlds have three."""
LED: Final = 100
"""Leads at which laws are compared one after another, in votes."""
LITTLE: Final = 0.02
"""By so much the law of a mechanism that tests leads moves where one is as long as a vote weighs."""
MOSTLY: Final = 0.875
"""Of the lead at which it is drawn most often: four times of five it passes."""
SHIFTS: Final = (1, 2, 3, 5, 20)
"""Bounds of numbers that get their noise together."""
Unit = tuple[Fraction, int]
"""Size of a grid step, and the number that a sum is divided by."""
PLAIN: Final[Unit] = (Fraction(1), 1)
UNITS: Final[tuple[Unit, ...]] = (
    (Fraction(1, 2), 1),
    (Fraction(3), 1),
    (Fraction(1), 3),
    (Fraction(1, 1 << 16), 100),
)
"""Noise is told in whole steps, whatever a step is worth and whatever the sum is divided by afterwards."""
RUNS: Final = ((5, 2), (6, 1), (-20, 5))
"""Thresholds of runs, with the bound of their queries."""
MOST_REACH: Final = 1 << 20
"""Noise further out than this is one outcome, as is what a law has beyond its reach."""
TOLD_BY_FLOATS: Final = 400.0
"""Nats: what two laws differ by where floats know of no value that both can take is more."""
BEYOND: Final = "beyond"
MOST_CELLS: Final = 4_096
"""Noise that has more values than this is compared with draws by intervals of so many at most."""
MODULI: Final = (2, 3, 5, 7, 10, 11, 13, 16)
"""Noise on a lattice, or on one beside it, is a multiple of one of these too often or too rarely."""
REPEATED: Final = 10
"""Of so many worlds of a pool one is drawn from two equal sources, too."""
SOURCES: Final = 60
"""Equal sources, and as many other ones, from which a mechanism draws in a world that is no pool's."""
TWICE: Final = "the same outcome of two draws"
_FIRST_SEED: Final = 1 << 32
"""Of sources that are compared two by two: no other check has them, and no two comparisons have one in common."""
TWO_SOURCES: Final = "the same outcome of two sources of noise"
OTHER_SOURCE: Final = "two equal sources give it two releases: it draws from another source than the one that is given"
ALONE: Final = 40
"""Draws of a release that is asked for alone, and values of its law."""
FAR: Final = 2**50
"""A count this far off a threshold has one answer, whatever the noise is."""
MIDDLE: Final = 1 / 3
"""The share of the noise that counts as little."""
CAPS: Final = (1, 4)
"""Items that a unit may have at most; units have up to two more."""


TAKEN: Final = (Scores, Counts, VectorSum, ItemCounts, PrivatePoints, int)
"""What a mechanism may take."""


def check_mechanism(
    mechanism: Mechanism | type[Mechanism],
    effort: Effort = Effort.QUICK,
    report: Report | None = None,
    example: Mapping[str, Any] | None = None,
) -> Report:
    """Puts a mechanism through its contract.

    Args:
        mechanism: An instance, or a class that ``example`` makes.
        effort: How many worlds are tried.
        report: To be filled; a new one by default.
        example: Arguments for a class, as in its registration.

    Raises:
        ContractError: The contract is broken; the message names the check and the smallest world that shows it.

    Example:
        >>> from sottovoce.mechanisms.laplace import Laplace
        >>> check_mechanism(Laplace(epsilon=0.5)).passed
        True
    """
    construction, lost = construction_of(mechanism, example)
    kind: Any = construction.kind
    used_up = any(isinstance(value, Iterator) for value in construction.arguments.values())
    if used_up or release_of(kind)[1] not in TAKEN:  # made once, or by a factory
        construction, lost = construction_of(construction.make())
        kind = construction.kind
    name, takes = release_of(kind)
    if takes in TAKEN:
        require_comparable(kind)
    report = report or Report("mechanism", kind.__name__)
    lost += [place for each, value in construction.arguments.items() for place in hidden(value, each)]
    if lost:
        problem = f"{kind.__name__} with another {' or '.join(lost)}, which an instance does not keep by this name"
        report.not_compared(f"{problem}, or a class does not take by it")
    alone = _asked_alone(construction, name, takes, report) if takes in TAKEN else None
    others = _at_other_choices(construction, takes, report) if isinstance(mechanism, type) else ()
    for made in (construction, *others):
        _Mechanism(made.make(), effort, report).check()
    if alone is not None:
        alone.compare()
    return report


def _at_other_choices(construction: Construction, takes: Any, report: Report) -> Iterator[Construction]:
    """The same at every other choice that its class declares, one at a time; what is refused is listed.

    A clustering is made for one adjacency, and made again for each.
    """
    try:
        every = declared_by(construction.kind)
    except ContractError as error:
        report.not_compared(f"other choices of {construction.kind.__name__}: {error.found}")
        return
    for option in every:
        if option.name not in construction.arguments or (takes is PrivatePoints and option.name == "adjacency"):
            continue
        now = construction.arguments[option.name]
        for value in (*option.choices, *inner_choices(option)):
            if type(value) is type(now) and value == now:
                continue
            other = Construction(construction.kind, {**construction.arguments, option.name: value})
            if other.is_made() and _is_priced(other.make().event):
                yield other
            else:
                report.refused.append(repr(other))


def _is_priced(event: Any) -> bool:
    """Whether an event can be compared: one of a choice that needs another number as well cannot."""
    try:
        return claim_of(event, ADJACENCIES[0]) is not None
    except (Exception, SottoError):
        return False


def _asked_alone(construction: Construction, name: str, takes: Any, report: Report) -> AskedAlone:
    """Releases that differ in one thing each, and their laws; each by a mechanism that is made in its copy."""
    subject = repr(construction)
    varied = construction.others()
    if takes is PrivatePoints:
        varied.pop("adjacency", None)  # it is asked under each
    others = others_taken(varied, Construction.is_made, subject, report)
    if takes is PrivatePoints:
        return asked_alone(construction, others, name, report)
    given = _questions(construction, takes)
    questions = [(construction, each) for each in given]
    questions += [(other, given[0]) for other in others]
    return AskedAlone(questions, partial(_answer_to, name), _asked_of, subject, report)


def _questions(construction: Construction, takes: Any) -> Sequence[Any]:
    """What it releases of: the usual one, then the same with other numbers, bounds, adjacencies, a prior."""
    usual, *others = ADJACENCIES
    if takes is Scores:
        uneven = _uneven(_chosen_of(construction))
        made = partial(_votes_of, uneven)
        bare = Scores(list(uneven), sensitivity=2, adjacency=usual)
        other = [_votes_of(uneven[::-1], usual), made(usual, 20), bare, *map(made, others)]
        kind: Any = construction.kind
        prior = prior_of(kind, release_of(kind)[0])
        return [made(usual), *other, *([(made(usual), PRIOR)] if prior else [])]
    if takes is Counts:
        values = [([7, -3], 1, usual), ([7, -3], 5, usual), ([0, 40], 1, usual), *(([7, -3], 1, a) for a in others)]
        return [Counts(at, l1=l1, adjacency=adjacency) for at, l1, adjacency in values]
    if takes is VectorSum:
        sums: list[tuple[list[int], int, Adjacency, Unit]]
        sums = [([7, -3], 1, usual, PLAIN), ([7, -3], 25, usual, PLAIN), ([0, 40], 1, usual, PLAIN)]
        sums += [([7, -3], 1, usual, UNITS[0]), *(([7, -3], 1, adjacency, PLAIN) for adjacency in others)]
        return [
            VectorSum(at, squared_l2=norm, adjacency=adjacency, grid_step=step, denominator=denominator)
            for at, norm, adjacency, (step, denominator) in sums
        ]
    if takes is ItemCounts:
        units = [["a", "b"]] * 40 + [["b"]] * 40
        return [
            ItemCounts(held, items_per_unit=cap, change=change.change, adjacency=change.adjacency)
            for held, cap in ((units, 1), (units, 2), (units[::-1][:60], 1))
            for change in CHANGES[: None if cap == 1 else 1]
        ]
    at, bound = RUNS[0]
    every = [(at, bound, usual, 0), (at, 5, usual, 0), (6, bound, usual, 0), (at, bound, usual, 4)]
    return [*every, *((at, bound, adjacency, 0) for adjacency in others)]


def _chosen_of(construction: Construction) -> int:
    """How many candidates it chooses; a class is made in a copy, to be asked."""
    try:
        return int(of_a_copy(lambda: _length_of(construction.make())))
    except NoAnswerError:
        return 1  # nothing is asked alone


def _length_of(mechanism: Any) -> int:
    """How many candidates a mechanism chooses: its ``k``, or as many as it chooses of many with long leads."""
    if hasattr(mechanism, "k"):
        return int(mechanism.k)
    draw = getattr(mechanism, release_of(mechanism.__class__)[0])
    try:
        chosen = draw(_votes_of([place * LONGEST for place in range(MANY)], ADJACENCIES[0]), seeded(1))
    except Exception:  # of a mechanism of somebody's own: its draws are compared elsewhere
        return 1
    if isinstance(chosen, frozenset):
        return len(chosen)
    return len(chosen) if isinstance(chosen, tuple) else 1


def _answer_to(name: str, question: tuple[Construction, Any]) -> Sequence[Any]:
    """Some draws by one source of noise, and the law."""
    construction, given = question
    mechanism = construction.make()
    draw, source = getattr(mechanism, name), seeded(5)
    if isinstance(given, tuple) and isinstance(given[0], Scores):
        (scores, prior), places = given, prior_of(mechanism.__class__, name)
        weights = np.resize(prior, len(scores.values))
        law = given_prior(mechanism.law, (scores,), places and places.law, weights)
        drawn = [given_prior(draw, (scores, source), places and places.draw, weights) for _ in range(ALONE)]
    elif isinstance(given, tuple):
        at, bound, adjacency, above = given
        queries = (at + above, at - above, at)
        law = mechanism.law(queries, at, bound)
        drawn = [_ended(mechanism, name, at, bound, adjacency, queries, source) for _ in range(ALONE)]
    elif isinstance(given, Scores):
        law, drawn = mechanism.law(given), [draw(given, source) for _ in range(ALONE)]
    elif isinstance(given, ItemCounts):
        law, drawn = mechanism.item_law(given, "b", ALONE), [draw(given, source) for _ in range(ALONE // 4)]
    else:
        law, drawn = mechanism.noise_law(given, ALONE), [draw(given, source) for _ in range(ALONE // 4)]
    law = [law[outcome] for outcome in sorted(law, key=repr)] if isinstance(law, Mapping) else law
    return [mechanism.event, drawn, *map(float, law)]


@final
class _Mechanism:
    """One mechanism."""

    def __init__(self, mechanism: Mechanism, effort: Effort, report: Report) -> None:
        self.mechanism: Any = mechanism
        self.report, self.subject = report, subject_of(mechanism)
        self.full = effort is Effort.FULL
        self.draws = 20_000 if self.full else 2_000
        self.worlds = 6_000 if self.full else 600
        self._fresh_seeds = itertools.count(_FIRST_SEED)

    def check(self) -> None:
        """Every contract that applies."""
        claim = self._claim()
        name, takes = release_of(self.mechanism.__class__)
        drivers: list[Callable[[str, Claim], None]]
        drivers = [self._scores, self._counts, self._vectors, self._items, self._points, self._runs]
        if takes not in TAKEN:
            raise ContractError(
                "drive",
                self.subject,
                "no public method is annotated, by names that are known when it runs, to take Scores, Counts, a "
                "VectorSum, ItemCounts or PrivatePoints and a Randomness; let one take them, or add a driver to "
                "sottovoce.testing.mechanisms",
            )
        before = repr(self.mechanism)
        with must_not_raise("neighbours", self.subject, "it"):
            drivers[TAKEN.index(takes)](name, claim)
        if repr(self.mechanism) != before:
            raise ContractError("state", self.subject, "its attributes changed while it drew")

    def _claim(self) -> Claim:
        event, same = self.mechanism.event, copied(self.mechanism).event
        if event != same:
            raise ContractError("price", self.subject, "two equal mechanisms charge different events")
        claim = claim_of(event, Adjacency.REPLACE_ONE)
        if claim is None:
            raise ContractError("price", self.subject, f"its event {event} promises nothing")
        self.report.kept("price", 1, "an event from parameters alone")
        return claim

    # Scores

    def _scores(self, name: str, claim: Claim) -> None:
        if not callable(getattr(self.mechanism, "law", None)):
            raise ContractError(
                "drive", self.subject, "it has no law; state the probability of every outcome as law(scores)"
            )
        draw = partial(self._drawn, name)
        priors = (False, True) if prior_of(self.mechanism.__class__, name) else (False,)
        for adjacency, prior in itertools.product(ADJACENCIES, priors):
            law_of = cache(partial(self._law_of_votes, adjacency=adjacency, prior=prior))
            for votes, neighbours in itertools.chain(
                self._votes(), self._open_votes(adjacency, prior), self._led_votes()
            ):
                laws = self._laws([law_of(counts) for counts in (votes, *neighbours[adjacency])])
                pairs = len(laws) - 1
                world = f"{list(votes)} and one change of it, {adjacency.value}{', with a prior' if prior else ''}"
                self._compare(claim, laws, [(0, i + 1) for i in range(pairs)], world)
        large = self._takes_large(draw)
        for (first, second), prior in itertools.product(
            self._random_scores(2_000 if self.full else 300, large), priors
        ):
            laws = self._laws([self._law(scores, prior) for scores in (first, second)])
            world = (
                f"{first.values.tolist()} and {second.values.tolist()}, {first!r}{', with a prior' if prior else ''}"
            )
            self._compare(claim, laws, [(0, 1)], world)
        for pair, prior in itertools.product(self._many_moved(), priors):
            words = " and ".join(counted(map(str, scores.values.tolist())) for scores in pair)
            world = f"{words}, {pair[0]!r}, squared norm {pair[0].squared_l2}{', with a prior' if prior else ''}"
            its_law = partial(self._law, pair[0], prior)
            if pair[0].squared_l2 is not None or self._takes(partial(draw, prior, pair[0], seeded(4)), its_law):
                laws = self._laws([self._law(scores, prior) for scores in pair])
                self._compare(claim, laws, [(0, 1)], world)
        source = seeded(20261120)
        for adjacency, prior in itertools.product(ADJACENCIES, priors):
            scores = _votes_of(_uneven(self._chosen), adjacency)
            if self._tests_leads or is_certain(self._shares(scores, prior)):
                scores = self._at_open_lead(scores, prior, MOSTLY) or scores
            drawn = [draw(prior, scores, source) for _ in range(self.draws // 2)]
            world = f"{scores.values.tolist()}, {scores!r}{', with a prior' if prior else ''}"
            self._follows(self._shares(scores, prior), drawn, world)
        self._pooled_scores(draw, priors)

    @cached_property
    def _chosen(self) -> int:
        """How many candidates it chooses; one that does not say is asked in a copy."""
        if hasattr(self.mechanism, "k"):
            return int(self.mechanism.k)
        try:
            return int(of_a_copy(lambda: _length_of(self.mechanism)))
        except NoAnswerError:
            return 1

    def _law(self, scores: Scores, prior: bool) -> Any:
        places = prior_of(self.mechanism.__class__, release_of(self.mechanism.__class__)[0]) if prior else None
        return given_prior(self.mechanism.law, (scores,), places and places.law, self._prior(scores))

    def _drawn(self, name: str, prior: bool, scores: Scores, source: Randomness) -> Any:
        places = prior_of(self.mechanism.__class__, name) if prior else None
        method = getattr(self.mechanism, name)
        return given_prior(method, (scores, source), places and places.draw, self._prior(scores))

    def _shares(self, scores: Scores, prior: bool) -> dict[Any, float]:
        """The law, by outcome."""
        stated = self._law(scores, prior)
        listed = stated.items() if isinstance(stated, Mapping) else enumerate(stated)
        return {outcome: float(p) for outcome, p in listed}

    def _at_open_lead(self, scores: Scores, prior: bool, share: float) -> Scores | None:
        """The same with another lead of those that it chooses, at which the law leaves something to chance."""

        def led(lead: int) -> Scores:
            values = leading_by(scores.values.tolist(), self._chosen, lead)
            return Scores(
                values, sensitivity=scores.sensitivity, adjacency=scores.adjacency, squared_l2=scores.squared_l2
            )

        lead = open_lead(lambda lead: self._shares(led(lead), prior), scores.sensitivity, share)
        return None if lead is None else led(lead)

    @cached_property
    def _tests_leads(self) -> bool:
        """Whether a lead says little of what it releases, and a long one all: it may be certain where nothing leads,
        or left to chance."""
        even = [0] * max(3, self._chosen + 1)
        ahead = [int(place < self._chosen) for place in range(len(even))]
        none, short = (self._shares(_votes_of(votes, ADJACENCIES[0]), prior=False) for votes in (even, ahead))
        moved = sum(abs(none.get(each, 0.0) - short.get(each, 0.0)) for each in none.keys() | short.keys())
        return is_certain(none) or moved < LITTLE

    def _law_of_votes(self, counts: Sequence[int], *, adjacency: Adjacency, prior: bool) -> Any:
        return self._law(_votes_of(counts, adjacency), prior)

    @staticmethod
    def _prior(scores: Scores) -> FloatArray:
        return np.resize(PRIOR, len(scores.values))

    def _laws(self, laws: Sequence[Any]) -> FloatArray:
        if not isinstance(laws[0], Mapping):
            return np.array([log_law(law) for law in laws])
        outcomes = list(dict.fromkeys(outcome for law in laws for outcome in law))
        return np.array([log_law([law.get(outcome, 0.0) for outcome in outcomes]) for law in laws])

    def _votes(self) -> Iterator[tuple[tuple[int, ...], dict[Adjacency, list[tuple[int, ...]]]]]:
        """Counts of votes, and what one vote that leaves or moves makes of them; long leads are among them."""
        size = max(3, self._chosen + 1)
        most = (4 if self.full else 3) if size < 5 else 2
        lopsided = [
            tuple(60 * (i == big) + (i == single) for i in range(size)) for big, single in ((0, 1), (1, 0), (1, 2))
        ]
        for counts in [*itertools.product(range(most), repeat=size), *lopsided]:
            if any(counts):
                yield counts, _changed(counts)

    def _led_votes(self) -> Iterator[tuple[tuple[int, ...], dict[Adjacency, list[tuple[int, ...]]]]]:
        """The same at every lead, one after another: a test of it that falls back to another draw shows at few."""
        for lead in range(LED):
            counts = leading_by(_uneven(self._chosen), self._chosen, lead)
            yield counts, _changed(counts)

    def _open_votes(
        self, adjacency: Adjacency, prior: bool
    ) -> Iterator[tuple[tuple[int, ...], dict[Adjacency, list[tuple[int, ...]]]]]:
        """The same where the law leaves something to chance, of a mechanism that does so at few leads."""
        uneven = _votes_of(_uneven(self._chosen), adjacency)
        for share in OPEN_SHARES if self._tests_leads else ():
            if scores := self._at_open_lead(uneven, prior, share):
                counts = tuple(scores.values.tolist())
                yield counts, _changed(counts)

    def _takes_large(self, draw: Callable[..., Any]) -> bool:
        """Whether it draws by scores of a large bound; where it refuses them, that is listed."""
        scores = _votes_of([LARGE * vote for vote in _uneven(self._chosen)], ADJACENCIES[0], LARGE)
        return self._takes(partial(draw, False, scores, seeded(4)), partial(self._law, scores, prior=False))

    def _random_scores(self, count: int, large: bool) -> Iterator[tuple[Scores, Scores]]:
        """Two to five candidates, any change within a bound, extreme ones and leads past the floor among them."""
        dice = seeded(20261121)
        least = max(2, self._chosen + 1)
        for _ in range(count):
            labels, scale = least + dice.below(max(1, 6 - least)), LARGE if dice.below(12) == 0 and large else 1
            bound = scale * (1 + dice.below(3))
            values = scale * np.array([dice.below(9) for _ in range(labels)])
            if dice.below(5) == 0:
                values[dice.below(labels)] += (20, 70)[dice.below(2)]
            if self._tests_leads and dice.below(2):
                plain = Scores(values, sensitivity=bound, adjacency=ADJACENCIES[0], squared_l2=bound**2 * len(values))
                values = (self._at_open_lead(plain, False, OPEN_SHARES[dice.below(len(OPEN_SHARES))]) or plain).values
            change = np.array([dice.below(bound + 1) for _ in range(labels)])
            if dice.below(2):
                change = bound * (change > bound / 2)
            other = values + change - dice.below(bound + 1)
            squared = max(1, int(((other - values) ** 2).sum()))
            adjacency = ADJACENCIES[dice.below(len(ADJACENCIES))]
            first, second = (
                Scores(v, sensitivity=bound, adjacency=adjacency, squared_l2=squared) for v in (values, other)
            )
            yield first, second

    def _many_moved(self) -> Iterator[tuple[Scores, Scores]]:
        """Many candidates, of which a half rises by one and the other falls by one; few where several are chosen.

        With the norm of the move, and with none stated.
        """
        size = MANY if self._chosen == 1 else 8 + 2 * (self._chosen // 4)
        moved = [1] * (size // 2) + [-1] * (size // 2)
        for squared in (size, None):
            first, second = (
                Scores(values, sensitivity=2, adjacency=Adjacency.REPLACE_ONE, squared_l2=squared)
                for values in ([0] * size, moved)
            )
            yield first, second

    def _pooled_scores(self, draw: Callable[..., Hashable], priors: Sequence[bool]) -> None:
        """Few draws in many worlds: two to twelve candidates, ties, long leads, every relation, bounds up to 2**20."""
        dice, source, pool = seeded(20261120), seeded(20261123), Pool()
        stated = self._law(_votes_of(_uneven(self._chosen), ADJACENCIES[0]), prior=False)
        exact = isinstance(next(iter(stated.values() if isinstance(stated, Mapping) else stated)), Fraction)
        for number in range(self.worlds):
            prior = priors[dice.below(len(priors))]
            scores, law = self._open_scores(dice, prior, exact)
            lead = lead_among(scores.values.tolist(), self._chosen)
            even = not np.ptp(scores.values)
            features = {
                "adjacency": scores.adjacency.value,
                "bound": _bound_of(scores.sensitivity),
                "candidates": len(scores.values),
                "lead in bounds": "all equal" if even else lead_of(lead / scores.sensitivity),
                "lead in steps": "30 or more" if lead >= 30 else "10 or more" if lead >= 10 else "below 10",
            } | ({"prior": "yes" if prior else "no"} if len(priors) > 1 else {})
            again = partial(draw, prior, scores)
            often = self._tests_leads and not is_certain(law)
            drawn = [again(source) for _ in range(OFTEN if often else 3)]
            world = f"{scores.values.tolist()}, {scores!r}{', with a prior' if prior else ''}"
            pool.add(features, law, drawn, world)
            pool.note(TWICE, features, sum(p * p for p in law.values()), int(drawn[0] == drawn[1]), 1, world)
            if number % REPEATED == 0:
                self._sources(pool, again, sum(p * p for p in law.values()), world)
        self._pool_follows(pool)

    def _open_scores(self, dice: Randomness, prior: bool, exact: bool) -> tuple[Scores, dict[Any, float]]:
        """A random world with its law; one that leaves something to chance, where a few tries or a search find it.

        In one of four worlds where the tries found none, the law is left to be certain.

        Args:
            dice: For the world.
            prior: Whether it has public log-weights.
            exact: Whether the law is stated in fractions. One in floating point may add up as many steps of noise as
                a bound is large, so it gets small bounds alone.
        """
        least = max(2, self._chosen + 1)
        most = 12 if least == 2 else least + 3
        for _ in range(1 if self._tests_leads else 6):
            large = 16 << dice.below(17) if exact else 16
            bound = (1, 2, 15, 1 + dice.below(15), large)[dice.below(5)]
            reach = (1, bound, 2 * bound, 6 * bound)[dice.below(4)]
            values = np.array([dice.below(reach + 1) for _ in range(least + dice.below(most - least + 1))])
            if dice.below(10) == 0:
                values[:] = values[0]
            elif dice.below(2):
                values[dice.below(len(values))] = values.max() + bound * dice.below(6) + dice.below(bound)
            adjacency = ADJACENCIES[dice.below(len(ADJACENCIES))]
            squared = bound**2 * (1 + dice.below(2))
            scores = Scores(values - dice.below(9), sensitivity=bound, adjacency=adjacency, squared_l2=squared)
            law = self._shares(scores, prior)
            if not self._tests_leads and not is_certain(law):
                return scores, law
        if dice.below(4) and (led := self._at_open_lead(scores, prior, OPEN_SHARES[dice.below(len(OPEN_SHARES))])):
            return led, self._shares(led, prior)
        return scores, law

    # Noise on whole numbers

    def _counts(self, name: str, claim: Claim) -> None:
        self._noises(name, claim, lambda at, l1, adjacency: Counts(at, l1=l1, adjacency=adjacency))
        self._together(claim, [Counts([0] * n, l1=n, adjacency=its) for n in TOGETHER for its in ADJACENCIES])

    def _vectors(self, name: str, claim: Claim) -> None:
        def made(at: list[int], norm: int, adjacency: Adjacency, unit: Unit = PLAIN) -> VectorSum:
            step, denominator = unit
            return VectorSum(at, squared_l2=norm**2, adjacency=adjacency, grid_step=step, denominator=denominator)

        self._noises(name, claim, made, UNITS)
        self._together(
            claim, [VectorSum([0] * n, squared_l2=n, adjacency=its) for n in TOGETHER for its in ADJACENCIES]
        )

    def _together(self, claim: Claim, every: Sequence[Any]) -> None:
        """Noise on numbers that all move by one, as their bound lets them."""
        for zeros in every:
            masses = self._masses(zeros, 1)
            both: list[FloatArray] = [masses[1:], masses[:-1]]
            for _ in range(len(zeros.values).bit_length() - 1):
                logs = joined([both, both])
                both = [*np.exp(logs)]
            self._compare(claim, logs, [(0, 1)], f"{len(zeros.values)} numbers that move by 1 each, {zeros!r}")

    def _noises(self, name: str, claim: Claim, made: Callable[..., Any], units: Sequence[Unit] = ()) -> None:
        """Noise on numbers that ``made`` makes of a list, a bound and an adjacency, and of each of these units."""
        if not callable(getattr(self.mechanism, "noise_law", None)):
            raise ContractError("drive", self.subject, "it has no law; state its noise as noise_law(values, reach)")
        widest = max(SHIFTS)
        self._masses(made([0], widest, ADJACENCIES[0]), widest)  # too wide is said before anything is compared
        large = (LARGE,) if self._takes_wide(name, made([0], LARGE, ADJACENCIES[0])) else ()
        for bound, adjacency in itertools.product((1, 2, 5, *large), ADJACENCIES):
            self._noise(name, claim, made([0], bound, adjacency), bound)
        every: list[tuple[Unit, ...]] = [()]
        for unit, adjacency in zip(units, itertools.cycle(ADJACENCIES), strict=False):
            zero = made([0], 2, adjacency, unit)
            if self._takes(partial(getattr(self.mechanism, name), zero, seeded(4)), partial(self._masses, zero, 2)):
                self._noise(name, claim, zero, 2)
                every.append((unit,))
        self._pooled_noise(name, made, every)

    def _takes_wide(self, name: str, values: Any) -> bool:
        """Whether the noise at a large bound can be compared; where it is refused, or too wide, that is listed."""
        law = partial(self.mechanism.noise_law, values, LARGE)
        if not self._takes(partial(getattr(self.mechanism, name), values, seeded(4)), law):
            return False
        try:
            self._masses(values, LARGE)
        except ContractError as error:
            self.report.not_compared(f"{self.subject} at a bound of {LARGE}: {error.found}")
            return False
        return True

    def _takes(self, draw: Callable[[], object], law: Callable[[], object]) -> bool:
        """Whether it draws from what is public here. What it refuses is listed, and needs no comparison.

        Raises:
            ContractError: It draws where it states no law.
        """
        try:
            draw()
        except InputError as error:
            if str(error) not in self.report.refused:  # one setting is asked in several worlds
                self.report.refused.append(str(error))
            return False
        try:
            law()
        except InputError as error:
            raise ContractError("drive", self.subject, f"it draws where its law is refused: {error}") from error
        return True

    def _noise(self, name: str, claim: Claim, zero: Any, shift: int) -> None:
        """Noise on a number that moves by as much as its bound says."""
        masses = self._masses(zero, shift)
        noise = log_law(masses[masses > LEAST])
        world = f"a number that moves by {shift}, {_face(zero)}"
        if len(noise) <= shift:
            raise self._narrow(claim, shift, world)
        self._compare(claim, np.array([noise[shift:], noise[:-shift]]), [(0, 1)], world)
        source, reach = seeded(4), len(masses) // 2
        width = 1 + 2 * reach // MOST_CELLS
        cells = np.add.reduceat(masses, np.arange(0, len(masses), width))
        law: dict[Hashable, float] = {cell * width - reach: float(p) for cell, p in enumerate(cells)}
        law[BEYOND] = max(0.0, 1 - float(masses.sum()))
        drawn = [int(_steps(getattr(self.mechanism, name)(zero, source))[0]) for _ in range(self.draws // 10)]
        starts = [noise - (noise + reach) % width if abs(noise) <= reach else BEYOND for noise in drawn]
        self._follows(law, starts, world)

    def _narrow(self, claim: Claim, shift: int, world: str) -> ContractError:
        """Of noise on so few values that two neighbours have none in common: what floats know of it refutes all but
        the weakest claims."""
        if min(claim.pure, claim.width, claim.rho, *(epsilon for epsilon, _ in claim.points)) < TOLD_BY_FLOATS:
            few = f"its noise is on too few values to hide a number that moves by {shift}"
            problem = f"its event {claim.words} does not hold: {few}"
            return ContractError("neighbours", self.subject, problem, world)
        narrow = "its noise is too narrow to be compared in floating point; try less sharp ones"
        return ContractError("drive", self.subject, narrow, world)

    def _masses(self, values: Any, shift: int) -> FloatArray:
        """The law of the noise on one number, as far out as it takes to hold all but a millionth of a millionth."""
        reach = 60 * (shift + 1)
        while True:
            masses = np.asarray(self.mechanism.noise_law(values, reach), dtype=np.float64)
            if abs(1 - masses.sum()) <= 1e-12 or reach > MOST_REACH:
                break
            reach *= 2
        if masses.sum() > 1 + 1e-9:
            raise ContractError("neighbours", self.subject, "its law sums to more than 1", f"{values!r}")
        if masses.sum() < MIDDLE:
            wide = f"its noise is too wide to be compared: less than a third of it lies within {MOST_REACH:,} steps"
            raise ContractError("drive", self.subject, f"{wide}; try sharper ones", f"{values!r}")
        return masses

    def _pooled_noise(self, name: str, made: Callable[..., Any], units: Sequence[tuple[Unit, ...]]) -> None:
        """Few draws of many vectors: the noise on every number, and whether two numbers have noise in common."""
        dice, source, pool, release = seeded(20261122), seeded(4), Pool(), getattr(self.mechanism, name)
        known: dict[tuple[Any, ...], tuple[int, dict[str, float]]] = {}
        for number in range(self.worlds // 2):
            shift, adjacency = SHIFTS[dice.below(len(SHIFTS))], ADJACENCIES[dice.below(len(ADJACENCIES))]
            size = 1 + dice.below(12)
            at = [NUMBERS[dice.below(len(NUMBERS))] for _ in range(size)]
            unit = units[number % len(units)]
            values = made(at, shift, adjacency, *unit)
            if (shift, adjacency, unit, size) not in known:
                known[shift, adjacency, unit, size] = _parts_of(self._masses(values, shift))
            middle, chances = known[shift, adjacency, unit, size]
            noise = [int(n) - v for n, v in zip(_steps(release(values, source)), at, strict=True)]
            common = {"adjacency": adjacency.value, "bound": shift, "numbers": share_of(size)}
            common |= {"unit": _unit_of(values)} if len(units) > 1 else {}
            world = f"{at}, {_face(values)}"
            for place, amount in enumerate(noise):
                features = {**common, "place": share_of(place + 1), "value": _sort_of(at[place])}
                for event, hit in (
                    ("no noise", amount == 0),
                    ("little noise", abs(amount) <= middle),
                    ("more", amount > middle),
                ):
                    pool.note(event, features, chances[event], int(hit), 1, world)
            for modulus in MODULI:
                event, hits = _multiple_of(modulus), sum(amount % modulus == 0 for amount in noise)
                pool.note(event, common, chances[event], hits, size, world)
            order = sorted(range(size), key=lambda place: dice.below(2**32))
            for first, second in zip(order[::2], order[1::2], strict=False):  # pairs that share no number
                a, b = noise[first], noise[second]
                pool.note("the same noise twice", common, chances["same"], int(a == b), 1, world)
                pool.note("opposite noise", common, chances["opposite"], int(a == -b), 1, world)
            again = partial(lambda values, at, source: int(_steps(release(values, source))[0]) - at, values, at[0])
            pool.note(TWICE, common, chances["same"], int(again(source) == noise[0]), 1, world)
            if number % REPEATED == 0:
                self._sources(pool, again, chances["same"], world)
            pool.draws += 1
        self._pool_follows(pool)

    # Items, tests, points

    def _items(self, name: str, claim: Claim) -> None:
        """An item that one unit holds or not; two items where a unit changes the one that it holds."""
        if not callable(getattr(self.mechanism, "item_law", None)):
            raise ContractError("drive", self.subject, "it has no law; state it as item_law(items, item, values)")
        for change, cap in itertools.product(CHANGES, CAPS):
            for held, other in self._held(change, cap):
                each = [
                    ItemCounts(units, items_per_unit=cap, change=change.change, adjacency=change.adjacency)
                    for units in (held, other)
                ]
                laws = [
                    [np.asarray(self.mechanism.item_law(items, item, 80), dtype=np.float64) for items in each]
                    for item in sorted({*each[0].counts, *each[1].counts})
                ]
                world = f"{len(held)} units with up to {cap} items each, one change apart ({change}): "
                world += " and ".join(str(dict(items.counts)) for items in each)
                self._compare(claim, joined(laws), [(0, 1)], world)
        pool = Pool()
        for cap, change in itertools.product((1, 3), CHANGES):
            made = partial(ItemCounts, items_per_unit=cap, change=change.change, adjacency=change.adjacency)
            few = made([["a"]])
            units = [["a"]] * 30 + [["b"]] * 30 if cap == 1 else [[*"abcd"]] * int(self.mechanism.threshold(few))
            items = made(units)
            threshold, source = self.mechanism.threshold(items), seeded(6)
            release, world = partial(getattr(self.mechanism, name), items), f"{len(units)} units, {items!r}"
            drawn = [dict(release(source)) for _ in range(self.draws // cap)]
            shares, splits = [], []
            for item in "ab":
                law = self.mechanism.item_law(items, item, 80 if cap == 1 else 1_000).tolist()
                stated = {None: law[0], **{threshold + 1 + step: p for step, p in enumerate(law[1:])}}
                last = threshold + len(law) - 1  # and all that is above it
                self._follows(stated, [min(draw[item], last) if item in draw else None for draw in drawn], world)
                splits.append(threshold + int(np.searchsorted(np.cumsum(law), 0.5)))
                shares.append(sum(p for value, p in stated.items() if value is None or value <= splits[-1]))
            joint = {
                (a, b): abs(1 - a - shares[0]) * abs(1 - b - shares[1])
                for a, b in itertools.product((False, True), repeat=2)
            }
            lows = [tuple(draw.get(i, threshold) <= s for i, s in zip("ab", splits, strict=True)) for draw in drawn]
            self._follows(joint, lows, f"which of 'a' and 'b' is low, {world}")
            same = sum(p * p for p in stated.values())
            for _ in range(SOURCES):
                self._sources(pool, partial(_shown_as, "b", last, release), same, world)
        self._pool_follows(pool)

    def _held(self, change: Change, cap: int) -> Iterator[tuple[list[list[str]], list[list[str]]]]:
        """Items of units, and what one change makes of them; some units have fewer items than the cap, some more."""
        common = [f"a{place}" for place in range(cap + 2)]
        few = ItemCounts([common], items_per_unit=cap, change=change.change, adjacency=change.adjacency)
        rows = change.change.rows
        others = [["b0"], *[[f"b{place}" for place in range(cap)]] * 2]
        for count in dict.fromkeys([rows, 20, *([40] if cap == 1 else []), int(self.mechanism.threshold(few)) + 1]):
            units = [*others, *[common] * count]
            gone = units[:-rows]
            if is_drop(change.change):
                yield units, gone if change.adjacency is Adjacency.ADD_REMOVE else [*gone, *[[]] * rows]
                continue
            yield units, [*gone, *[others[-1]] * rows]
            yield units, [*gone, *[[f"c{place}" for place in range(cap)]] * rows]
            yield units, [*gone, *[[f"c{row}{place}" for place in range(cap)] for row in range(rows)]]

    def _runs(self, name: str, claim: Claim) -> None:
        """Runs of a test: queries that move by as much as their bound says, each in its own direction."""

        def taken(at: int, bound: int, queries: Sequence[int], adjacency: Adjacency = ADJACENCIES[0]) -> bool:
            drawn = partial(_ended, self.mechanism, name, at, bound, adjacency, queries, seeded(8))
            return self._takes(drawn, partial(self.mechanism.law, tuple(queries), at, bound))

        runs = [RUNS[0], *((at, bound) for at, bound in RUNS[1:] if taken(at, bound, (at,)))]
        for (threshold, bound), above in itertools.product(runs, ((0, 0, 0), (-5, 4, -2), (4, 4, -5))):
            queries = tuple(threshold + each for each in above)
            moved = [
                tuple(q + s for q, s in zip(queries, by, strict=True))
                for by in itertools.product((-bound, bound), repeat=3)
            ]
            laws = [log_law(self.mechanism.law(it, threshold, bound)) for it in (queries, *moved)]
            world = f"queries {queries}, threshold {threshold}, bound {bound}"
            self._compare(claim, np.array(laws), [(0, i + 1) for i in range(len(moved))], world)
        source, pool = seeded(8), Pool()
        drawn_at = (((0, 9, 3), 5, 2), ((5, 5, 5), 5, 1), ((40, 20, 30), 30, 5))
        for adjacency, (queries, at, bound) in itertools.product(ADJACENCIES, drawn_at):
            if (at, bound) != RUNS[0] and not taken(at, bound, queries, adjacency):
                continue
            ended = partial(_ended, self.mechanism, name, at, bound, adjacency, queries)
            law = self.mechanism.law(queries, at, bound)
            world = f"queries {queries}, threshold {at}, bound {bound}, {adjacency.value}"
            drawn = [ended(source) for _ in range(self.draws)]
            self._follows(dict(enumerate(law)), drawn, world)
            for _ in range(SOURCES):
                self._sources(pool, ended, sum(p * p for p in law), world)
        self._pool_follows(pool)
        bounds = [RUNS[0][1], *(bound for bound in (1, 5) if taken(RUNS[0][0], bound, (RUNS[0][0],)))]
        for adjacency, bound, noes in itertools.product(ADJACENCIES, bounds, (0, 1, 3)):
            asked = partial(self._asked_again, name, bound, adjacency, noes)
            if asked(1) != asked(-1):
                problem = "a run goes on after its first yes, which its law and its event do not cover: let it raise"
                world = f"a yes after {noes} noes, then counts far above and far below (bound {bound})"
                raise ContractError("sampler", self.subject, problem, f"{world}, {adjacency.value}")
            self.report.kept("sampler", 1, "draws that follow the law")

    def _asked_again(self, name: str, bound: int, adjacency: Adjacency, noes: int, sign: int) -> list[Any]:
        """What becomes of counts far above and far below the threshold, in turn, once a run has said yes."""
        run = getattr(self.mechanism, name)(RUNS[0][0], sensitivity=bound, adjacency=adjacency, randomness=seeded(9))
        last = list[Any]()
        for count in (*(-FAR,) * noes, FAR, *(sign * FAR, -sign * FAR) * 3):
            try:
                last.append(run.above(Counts([count], l1=bound, adjacency=adjacency)))
            except Exception as error:  # whatever it raises, it gives no answer
                last.append(type(error))
        if last[: noes + 1] != [False] * noes + [True]:
            problem = "counts that are far off the threshold have another answer than they must"
            raise ContractError("sampler", self.subject, problem, f"{noes} counts of {-FAR}, one of {FAR}")
        return last[noes + 1 :]

    def _points(self, name: str, claim: Claim) -> None:
        """What it draws through other mechanisms, in worlds of points that differ by one."""
        points = points_of(self.mechanism)
        for _ in range(SOURCES // 10):
            self._sources(Pool(), partial(_clustering_of, self.mechanism, points), 0.0, f"{points!r}")
        check_clustering(self.mechanism, name, self.subject, self.report)

    # What all have in common

    def _sources(self, pool: Pool, draw: Callable[[Randomness], Any], chance: float, world: str) -> None:
        """Noise comes from the source that is given: equal sources give the same, others as often as the law says.

        Args:
            pool: To be filled.
            draw: One outcome, from a source.
            chance: Probability that two draws agree, by the law.
            world: The world in words.
        """
        own, other = next(self._fresh_seeds), next(self._fresh_seeds)
        first = draw(seeded(own))
        if draw(seeded(own)) != first:
            raise ContractError("sampler", self.subject, OTHER_SOURCE, world)
        pool.note(TWO_SOURCES, {}, chance, int(draw(seeded(other)) == first), 1, world)

    def _compare(
        self,
        claim: Claim,
        laws: FloatArray,
        pairs: Sequence[tuple[int, int]],
        world: str,
        slack: float = DELTA_SLACK,
    ) -> None:
        self.report.kept("neighbours", len(pairs), "pairs of exact laws within the event")
        if breach := excess(claim, laws, pairs, slack=slack):
            problem = f"its event {claim.words} does not hold: {breach.words}"
            raise ContractError("neighbours", self.subject, problem, world)

    def _pool_follows(self, pool: Pool) -> None:
        problem, world = pool.departs()
        if problem:
            raise ContractError("sampler", self.subject, f"its draws do not follow its law: {problem}", world)
        self.report.kept("sampler", pool.draws, "draws that follow the law")

    def _follows(self, law: Mapping[Any, float], drawn: Sequence[Hashable], world: str) -> None:
        if problem := departs(law, Counter(drawn)):
            raise ContractError("sampler", self.subject, f"its draws do not follow its law: {problem}", world)
        self.report.kept("sampler", len(drawn), "draws that follow the law")


def _parts_of(masses: FloatArray) -> tuple[int, dict[str, float]]:
    """How far the middle third of a symmetric noise reaches, and how likely the events of a pool are."""
    reach = len(masses) // 2
    outside = masses[reach + 1 :] + masses[:reach][::-1]
    within = masses[reach] + np.concatenate([[0.0], np.cumsum(outside)])
    middle = min(int(np.searchsorted(within, MIDDLE)), reach)
    little = float(within[middle])
    same, opposite = float((masses**2).sum()), float((masses * masses[::-1]).sum())
    more = (1 - little) / 2  # what lies beyond the reach is on either side too
    chances = {"no noise": float(masses[reach]), "little noise": little, "more": more}
    # What lies beyond the reach leaves the same remainders as what does not.
    multiples = {_multiple_of(m): float(masses[reach % m :: m].sum() / masses.sum()) for m in MODULI}
    return middle, chances | multiples | {"same": same, "opposite": opposite}


def _shown_as(item: str, last: int, release: Callable[[Randomness], Any], source: Randomness) -> int | None:
    """The noisy count of an item, or that it is this large at least; ``None`` where it is hidden."""
    shown = dict(release(source)).get(item)
    return None if shown is None else min(last, int(shown))


def _clustering_of(mechanism: Any, points: PrivatePoints, source: Randomness) -> Any:
    return fingerprint(clustered(mechanism, points, source))


def _unit_of(values: VectorSum) -> str:
    return f"a step of {values.grid_step} over {values.denominator}"


def _ended(
    mechanism: Any,
    name: str,
    at: int,
    bound: int,
    adjacency: Adjacency,
    queries: Sequence[int],
    source: Randomness,
) -> int:
    """The place of the query with which a run ends; one more than the last where it does not end."""
    run = getattr(mechanism, name)(at, sensitivity=bound, adjacency=adjacency, randomness=source)
    ends = (i for i, q in enumerate(queries) if run.above(Counts([q], l1=bound, adjacency=adjacency)))
    return next(ends, len(queries))


def _asked_of(question: tuple[Construction, Any]) -> str:
    construction, given = question
    return f"{construction!r}, {_face(given)}"


def _uneven(chosen: int) -> tuple[int, ...]:
    """Votes for a few more candidates than are chosen."""
    return (6, 4, 3, 0, *range(1, chosen - 2))


def _changed(counts: tuple[int, ...]) -> dict[Adjacency, list[tuple[int, ...]]]:
    """What one vote that leaves or moves makes of counts of votes."""
    places = range(len(counts))
    gone = [tuple(c - (i == out) for i, c in enumerate(counts)) for out in places if counts[out]]
    moved = [tuple(c + (i == into) for i, c in enumerate(less)) for less in gone for into in places]
    return {adjacency: moved if adjacency is Adjacency.REPLACE_ONE else gone for adjacency in ADJACENCIES}


def _votes_of(counts: Sequence[int], adjacency: Adjacency, bound: int = 1) -> Scores:
    """Votes that weigh ``bound`` each."""
    width = WIDTHS[adjacency]
    return Scores(list(counts), sensitivity=width * bound, adjacency=adjacency, squared_l2=width * bound**2)


def _face(values: Any) -> str:
    """What is public of numbers that get noise."""
    return f"{values!r}, {_unit_of(values)}" if isinstance(values, VectorSum) else repr(values)


def _multiple_of(modulus: int) -> str:
    return f"noise divisible by {modulus}"


def _bound_of(bound: int) -> str:
    if bound > 15:
        return "above 15"
    return str(bound) if bound in (1, 2, 15) else "3 to 14"


def _sort_of(number: int) -> str:
    return "0" if number == 0 else "up to 7" if abs(number) <= 7 else "above 7"


def _steps(drawn: Any) -> Sequence[int]:
    """A released vector, or released counts, in steps of the noise."""
    return drawn.steps if hasattr(drawn, "steps") else drawn  # type: ignore[no-any-return]
