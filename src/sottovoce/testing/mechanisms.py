"""The contract of a noise mechanism, put to any ``Mechanism``: its stated law is private, and its sampler follows it.

Guarantee   What a mechanism takes decides how it is driven: scores, counts, a vector sum, items nobody listed, the
            queries of a test, points. Its stated law is compared exactly in neighbouring worlds that its bound allows,
            as far as its law is stated; draws follow the law. A mechanism that takes something else cannot be driven,
            and fails.
Assumes     Worlds are small. Clustering, which states no law, is compared by draws alone: little power.
"""

from __future__ import annotations

import copy
import inspect
import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, final, get_type_hints

import numpy as np

from sottovoce.mechanisms.base import Mechanism
from sottovoce.mechanisms.clustering_points import PrivatePoints
from sottovoce.privacy.histograms import Counts, ItemCounts
from sottovoce.privacy.scores import Scores
from sottovoce.privacy.unit import DROP, SWAP, Adjacency
from sottovoce.privacy.vectors import VectorSum
from sottovoce.randomness import Randomness
from sottovoce.testing.claims import Claim, FloatArray, claim_of, excess, log_law
from sottovoce.testing.draws import departs, exceeds
from sottovoce.testing.label_worlds import seeded
from sottovoce.testing.options import subject_of
from sottovoce.testing.report import ContractError, Effort, Report, must_not_raise

ADJACENCIES: Final = (Adjacency.ADD_REMOVE, Adjacency.REPLACE_ONE)
LEAST: Final = 1e-200
"""Less likely noise is left out, where floating point would make it impossible."""
WIDTHS: Final = {Adjacency.ADD_REMOVE: 1, Adjacency.REPLACE_ONE: 2}


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
    made = mechanism(**(example or {})) if isinstance(mechanism, type) else mechanism
    report = report or Report("mechanism", type(made).__name__)
    _Mechanism(made, effort, report).check()
    return report


@final
class _Mechanism:
    """One mechanism."""

    def __init__(self, mechanism: Mechanism, effort: Effort, report: Report) -> None:
        self.mechanism: Any = mechanism
        self.report, self.subject = report, subject_of(mechanism)
        self.full = effort is Effort.FULL
        self.draws = 20_000 if self.full else 2_000

    def check(self) -> None:
        """Every contract that applies."""
        claim = self._claim()
        name, takes = _release_of(self.mechanism)
        drivers: dict[Any, Callable[[str, Claim], None]] = {
            Scores: self._scores,
            Counts: self._counts,
            VectorSum: self._vectors,
            ItemCounts: self._items,
            PrivatePoints: self._points,
            int: self._runs,
        }
        if takes not in drivers:
            raise ContractError(
                "drive",
                self.subject,
                "no public method is annotated to take Scores, Counts, a VectorSum, ItemCounts or PrivatePoints and a "
                "Randomness; let one take them, or add a driver to sottovoce.testing.mechanisms",
            )
        before = repr(self.mechanism)
        with must_not_raise("neighbours", self.subject, "it"):
            drivers[takes](name, claim)
        if repr(self.mechanism) != before:
            raise ContractError("state", self.subject, "its attributes changed while it drew")

    def _claim(self) -> Claim:
        event, same = self.mechanism.event, copy.deepcopy(self.mechanism).event
        if event != same:
            raise ContractError("price", self.subject, "two equal mechanisms charge different events")
        claim = claim_of(event, Adjacency.REPLACE_ONE)
        if claim is None:
            raise ContractError("price", self.subject, f"its event {event} promises nothing")
        self.report.kept("price", 1, "an event from parameters alone")
        return claim

    # Scores

    def _scores(self, name: str, claim: Claim) -> None:
        draw = getattr(self.mechanism, name)
        if not callable(getattr(self.mechanism, "law", None)):
            raise ContractError(
                "drive", self.subject, "it has no law; state the probability of every outcome as law(scores)"
            )
        for adjacency in ADJACENCIES:
            for one, others in self._votes():
                worlds = [self._votes_of(counts, adjacency) for counts in (one, *others[adjacency])]
                laws, pairs = self._laws([self.mechanism.law(it) for it in worlds]), len(worlds) - 1
                told = f"{list(one)} and one change of it, {adjacency.value}"
                self._compare(claim, laws, [(0, i + 1) for i in range(pairs)], told)
        for here, there in self._random_scores(2_000 if self.full else 300):
            laws = self._laws([self.mechanism.law(here), self.mechanism.law(there)])
            self._compare(claim, laws, [(0, 1)], f"{here.values.tolist()} and {there.values.tolist()}, {here!r}")
        scores = self._votes_of((6, 4, 3, 0), Adjacency.REPLACE_ONE)
        law = self.mechanism.law(scores)
        stated = law if isinstance(law, Mapping) else dict(enumerate(law))
        source = seeded(20261120)
        self._follows({key: float(p) for key, p in stated.items()}, [draw(scores, source) for _ in range(self.draws)])

    def _laws(self, laws: Sequence[Any]) -> FloatArray:
        if not isinstance(laws[0], Mapping):
            return np.array([log_law(law) for law in laws])
        outcomes = list(dict.fromkeys(outcome for law in laws for outcome in law))
        return np.array([log_law([law.get(outcome, 0.0) for outcome in outcomes]) for law in laws])

    def _votes(self) -> Iterator[tuple[tuple[int, ...], dict[Adjacency, list[tuple[int, ...]]]]]:
        """Counts of votes, and what one vote that leaves or moves makes of them; long leads are among them."""
        most = 4 if self.full else 3
        lopsided = [tuple(60 * (i == big) + (i == one) for i in range(3)) for big, one in ((0, 1), (1, 0), (1, 2))]
        for counts in [*itertools.product(range(most), repeat=3), *lopsided]:
            gone = [tuple(c - (i == out) for i, c in enumerate(counts)) for out in range(3) if counts[out]]
            moved = [tuple(c + (i == into) for i, c in enumerate(less)) for less in gone for into in range(3)]
            if gone:
                yield counts, {Adjacency.ADD_REMOVE: gone, Adjacency.REPLACE_ONE: moved}

    @staticmethod
    def _votes_of(counts: Sequence[int], adjacency: Adjacency) -> Scores:
        squared = 1 if adjacency is Adjacency.ADD_REMOVE else 2
        return Scores(list(counts), sensitivity=WIDTHS[adjacency], adjacency=adjacency, squared_l2=squared)

    def _random_scores(self, count: int) -> Iterator[tuple[Scores, Scores]]:
        """Two to five candidates, any change within a bound, extreme ones and leads past the floor among them."""
        dice = seeded(20261121)
        least = max(2, int(getattr(self.mechanism, "k", 1)) + 1)
        for _ in range(count):
            labels, bound = least + dice.below(6 - least), 1 + dice.below(3)
            values = np.array([dice.below(9) for _ in range(labels)])
            if dice.below(5) == 0:
                values[dice.below(labels)] += (20, 70)[dice.below(2)]
            change = np.array([dice.below(bound + 1) for _ in range(labels)])
            if dice.below(2):
                change = bound * (change > bound / 2)
            other = values + change - dice.below(bound + 1)
            squared = max(1, int(((other - values) ** 2).sum()))
            adjacency = ADJACENCIES[dice.below(2)]
            first, second = (
                Scores(v, sensitivity=bound, adjacency=adjacency, squared_l2=squared) for v in (values, other)
            )
            yield first, second

    # Noise on whole numbers

    def _counts(self, name: str, claim: Claim) -> None:
        for l1, adjacency in itertools.product((1, 2, 5), ADJACENCIES):
            self._noise(name, claim, Counts([0], l1=l1, adjacency=adjacency), l1)

    def _vectors(self, name: str, claim: Claim) -> None:
        for norm, adjacency in itertools.product((1, 2, 5), ADJACENCIES):
            self._noise(name, claim, VectorSum([0], squared_l2=norm**2, adjacency=adjacency), norm)

    def _noise(self, name: str, claim: Claim, zero: Counts | VectorSum, shift: int) -> None:
        """Noise on a number that moves by as much as its bound says."""
        if not callable(getattr(self.mechanism, "noise_law", None)):
            raise ContractError("drive", self.subject, "it has no law; state its noise as noise_law(values, reach)")
        masses = np.asarray(self.mechanism.noise_law(zero, 60 * (shift + 1)), dtype=np.float64)
        noise = np.log(masses[masses > LEAST])
        reach = len(noise) // 2
        world = f"a number that moves by {shift}, {zero!r}"
        self._compare(claim, np.array([noise[shift:], noise[:-shift]]), [(0, 1)], world)
        source, law = seeded(4), {step - reach: float(p) for step, p in enumerate(np.exp(noise))}
        drawn = [getattr(self.mechanism, name)(zero, source) for _ in range(self.draws // 4)]
        self._follows(law, [int(getattr(it, "steps", it)[0]) for it in drawn])

    # Items, tests, points

    def _items(self, name: str, claim: Claim) -> None:
        """An item that one unit holds or not; two items where a unit changes the one that it holds."""
        if not callable(getattr(self.mechanism, "item_law", None)):
            raise ContractError("drive", self.subject, "it has no law; state it as item_law(items, item, values)")
        for count, (adjacency, change) in itertools.product(
            (1, 2, 20, 40), ((Adjacency.ADD_REMOVE, DROP), (Adjacency.REPLACE_ONE, SWAP))
        ):
            held = [["a"]] * count + [["b"]] * 3
            other = held[1:] if change is DROP else [*held[1:], ["b"]]
            laws = []
            for units in (held, other):
                items = ItemCounts(units, items_per_unit=1, change=change, adjacency=adjacency)
                with np.errstate(divide="ignore"):
                    one, two = (np.log(self.mechanism.item_law(items, item, 80)) for item in "ab")
                laws.append(np.add.outer(one, two).ravel())
            self._compare(
                claim, np.array(laws), [(0, 1)], f"{count} and {count - 1} units with one item ({adjacency.value})"
            )
        items = ItemCounts([["a"]] * 30, items_per_unit=1, change=DROP, adjacency=Adjacency.ADD_REMOVE)
        threshold, source = self.mechanism.threshold(items), seeded(6)
        law = self.mechanism.item_law(items, "a", 80).tolist()
        drawn = [dict(getattr(self.mechanism, name)(items, source)).get("a") for _ in range(self.draws)]
        stated = {None: law[0], **{threshold + 1 + step: p for step, p in enumerate(law[1:-1])}}
        self._follows(stated, drawn)

    def _runs(self, name: str, claim: Claim) -> None:
        """Runs of a test: queries that move by as much as their bound says, each in its own direction."""
        threshold, bound = 5, 2
        for queries in ((5, 5, 5), (0, 9, 3), (9, 9, 0)):
            moved = [
                tuple(q + s for q, s in zip(queries, by, strict=True))
                for by in itertools.product((-bound, bound), repeat=3)
            ]
            laws = [log_law(self.mechanism.law(it, threshold, bound)) for it in (queries, *moved)]
            self._compare(claim, np.array(laws), [(0, i + 1) for i in range(len(moved))], f"queries {queries}")
        law, source, drawn = self.mechanism.law((0, 9, 3), threshold, bound), seeded(8), list[int]()
        for _ in range(self.draws):
            run = getattr(self.mechanism, name)(
                threshold, sensitivity=bound, adjacency=Adjacency.ADD_REMOVE, randomness=source
            )
            ends = (
                i for i, q in enumerate((0, 9, 3)) if run.above(Counts([q], l1=bound, adjacency=Adjacency.ADD_REMOVE))
            )
            drawn.append(next(ends, 3))
        self._follows(dict(enumerate(law)), drawn)

    def _points(self, name: str, claim: Claim) -> None:
        """Two clouds, and one point that goes from one to the other: noisy sizes and cuts, by draws."""
        mechanism = self.mechanism
        if getattr(mechanism, "min_size", 1) > 1:
            mechanism = replace(mechanism, min_size=1)  # what is published shows whatever it holds
        near, far = [-0.6, 0.1], [0.6, 0.1]
        drawn = []
        for seed, vectors in enumerate(([near] * 4 + [far], [near] * 3 + [far] * 2)):
            points, source = PrivatePoints(vectors, adjacency=mechanism.adjacency), seeded(seed)
            found = [getattr(mechanism, name)(points, source) for _ in range(self.draws // 10)]
            drawn.append([tuple(cluster.size // 8 for cluster in one.clusters[:2]) for one in found])
        if told := exceeds(claim, *drawn):
            raise ContractError("neighbours", self.subject, told, "four points and one, three and two")
        self.report.kept("neighbours by draws", 1, "pairs of worlds that draws do not tell apart too well")

    # What all have in common

    def _compare(self, claim: Claim, laws: FloatArray, pairs: Sequence[tuple[int, int]], world: str) -> None:
        self.report.kept("neighbours", len(pairs), "pairs of exact laws within the event")
        if found := excess(claim, laws, pairs):
            told = f"its event {claim.words} does not hold: {found.words}"
            raise ContractError("neighbours", self.subject, told, world)

    def _follows(self, law: Mapping[Any, float], drawn: Sequence[Hashable]) -> None:
        if told := departs(law, Counter(drawn)):
            raise ContractError("sampler", self.subject, f"its draws do not follow its law: {told}")
        self.report.kept("sampler", len(drawn), "draws that follow the law")


def _release_of(mechanism: Mechanism) -> tuple[str, Any]:
    """The public method that draws, and the type of what it takes first."""
    for name, method in inspect.getmembers(type(mechanism), inspect.isfunction):
        if name.startswith("_"):
            continue
        try:
            hints = get_type_hints(method)
        except NameError:
            continue
        hints.pop("return", None)
        if Randomness in hints.values():
            return name, next(iter(hints.values()))
    return "", None
