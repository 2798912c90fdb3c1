"""The exact laws of what fits release, for concrete units, and of the decoding of noisy embeddings.

Guarantee   ``choice`` by its own law over lists; ``label-public`` as independent answers; ``class-means`` as the two
            normal laws that its noise has before it is rounded, which give away no less.
Assumes     Units are public or synthetic. Vectors are unit vectors as an embedder gives them.
Sources     specification 10.7, 5.4 (decoding embeddings), 5.13, 5.14, 5.16.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any, Final, final

import numpy as np

from sottovoce.audits.exact.labels import LabelWorld, Worst, worst_of
from sottovoce.audits.exact.pair import MOST_OUTCOMES, GaussianPair, Leak, Pair
from sottovoce.audits.roc import FloatArray
from sottovoce.errors import ParameterError
from sottovoce.experts.public_map import PublicMap
from sottovoce.experts.unit_sums import LIMIT, Block, ClassSums, Likeness, UnitCount
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.methods.choice import Choice
from sottovoce.methods.class_means import DIVISOR, ClassMeans
from sottovoce.methods.fitting.fitter import FitPlan, Fitter
from sottovoce.methods.label_public import LabelPublic
from sottovoce.methods.prior_poe import PriorPoE
from sottovoce.privacy.aggregates import IntArray
from sottovoce.privacy.events import BoundedRange
from sottovoce.privacy.unit import Adjacency, is_drop


@final
@dataclass(frozen=True, eq=False)
class Units:
    """Embedded records, one a unit.

    Attributes:
        vectors: Shape (units, dimension); a row of NaN says nothing.
        labels: Of each, shape (units,).
    """

    vectors: FloatArray = field(repr=False)
    labels: IntArray = field(repr=False)

    def block(self) -> Block:
        """As a rule adds them up."""
        return Block(self.vectors, self.labels.tolist(), list(range(len(self.labels))))

    def neighbours(self, adjacency: Adjacency) -> Iterator[tuple[str, Units]]:
        """Every single removal; every unit blanked; or every one in another's place, as the relation has it."""
        for own in range(len(self.labels)):
            vectors, labels = np.delete(self.vectors, own, axis=0), np.delete(self.labels, own)
            if adjacency is Adjacency.ADD_REMOVE:
                yield f"unit {own + 1} removed", Units(vectors, labels)
            elif adjacency is Adjacency.ZERO_OUT:
                blank = np.full((1, self.vectors.shape[1]), np.nan)
                said = np.append(labels, self.labels[own])
                yield f"unit {own + 1} blanked", Units(np.concatenate([vectors, blank]), said)
            else:
                for other in range(len(self.labels)):
                    if other != own:
                        both = np.append(labels, self.labels[other])
                        moved = np.concatenate([vectors, self.vectors[other : other + 1]])
                        yield f"unit {own + 1} replaced by unit {other + 1}", Units(moved, both)


def class_means_pair(plan: FitPlan, first: Units, second: Units) -> GaussianPair:
    """The two normal laws of noisy class means without a pool: sums and counts, and the number of units where private.

    Raises:
        ParameterError: The plan is of another method.

    Example:
        >>> from sottovoce.methods.base import Price
        >>> from sottovoce.methods.fitting.fitter import FitSetting
        >>> from sottovoce.privacy.unit import SWAP
        >>> plan = ClassMeans().plan(Price(1.0, 1e-6), FitSetting(2, 2, 2, Adjacency.REPLACE_ONE, SWAP))
        >>> worlds = [Units(np.array([[1.0, 0.0], row]), np.array([0, 1])) for row in ([0.0, 1.0], [0.0, -1.0])]
        >>> round(class_means_pair(plan, *worlds).mu * plan.parameters["sigma"], 4)
        2.0
    """
    fitter, setting = _of(plan, ClassMeans), plan.setting
    divisor = DIVISOR if is_drop(setting.change) else 1
    rule = ClassSums(setting.labels, setting.dimension, divisor)
    square = _apart(rule.add_up(first.block()), rule.add_up(second.block())) / float(fitter.sigma or 0) ** 2
    if setting.units is None:
        counts = [UnitCount().add_up(world.block()) for world in (first, second)]
        square += _apart(*counts) / float(fitter.count_sigma or 0) ** 2
    return GaussianPair(math.sqrt(square))


def choice_pair(
    plan: FitPlan, candidates: FloatArray, first: Units, second: Units, mapped: PublicMap | None = None
) -> Pair:
    """The exact laws of a private choice of public texts, of the labels whose lists the change can alter.

    Labels are drawn for independently: those with one law in both worlds tell nothing, and are left out.

    Args:
        plan: Of a ``choice``.
        candidates: Unit vectors of the public texts, mapped where units are, shape (texts, dimension).
        first: The units.
        second: Their neighbours.
        mapped: A public map that units go through.

    Raises:
        ParameterError: The plan is of another method, or more lists can be drawn than can be added up.
    """
    fitter, setting = _of(plan, Choice), plan.setting
    rule = Likeness(setting.labels, candidates, fitter.floor, fitter.ceiling, mapped)
    sums = [rule.add_up(world.block()) for world in (first, second)]
    moved = (sums[0] != sums[1]).reshape(setting.labels, -1).any(axis=1)
    lists = math.perm(len(candidates), fitter.k) ** int(moved.sum())
    if lists > MOST_OUTCOMES // 16:
        raise ParameterError(
            "lists", f"{lists:,}", f"at most {MOST_OUTCOMES // 16:,}: fewer public texts, or a smaller k"
        )
    together = Pair.of([1.0], [1.0])
    for tables in compress(zip(*(fitter.laws(each, rule, setting) for each in sums), strict=True), moved):
        together = together.and_then(Pair.of_tables(*tables))
    return together


def label_public_pair(plan: FitPlan, first: Sequence[LabelWorld], second: Sequence[LabelWorld]) -> Pair:
    """The exact laws of private labels of public texts, one world of experts for each text.

    Raises:
        ParameterError: The plan is of another method, or texts and worlds do not match.
    """
    fitter, setting = _of(plan, LabelPublic), plan.setting
    if not len(first) == len(second) == int(fitter.texts or 0):
        raise ParameterError("worlds", (len(first), len(second)), f"{fitter.texts}, one for each text, on both sides")
    answers = PriorPoE(clip=fitter.clip, prior_weight=fitter.prior_weight)
    event: Any = plan.event
    one: Any = getattr(event, "event", event)
    if not isinstance(one, BoundedRange):
        raise AssertionError("an answer is a bounded-range selection")
    mechanism = Exponential(one.eta)
    together: Pair | None = None
    for worlds in zip(first, second, strict=True):
        outputs = [world.outputs(setting.adjacency) for world in worlds]
        laws = [mechanism.law(answers.scores(each), answers.log_prior(each)) for each in outputs]
        pair = Pair.of(*laws)
        together = pair if together is None else together.and_then(pair)
    if together is None:
        raise ParameterError("worlds", 0, "1 or more")
    return together


def worst_units_pair(plan: FitPlan, units: Units, pair_of: Callable[[Units, Units], Leak]) -> Worst:
    """Searches every single change of the units, and holds every pair against the event of the fit.

    Args:
        plan: Of the fit.
        units: One world.
        pair_of: What two worlds give away, such as ``class_means_pair`` with the plan put in.

    Raises:
        ParameterError: There is no neighbour.
    """
    pairs = ((words, pair_of(units, other)) for words, other in units.neighbours(plan.setting.adjacency))
    return worst_of(pairs, plan.event, plan.setting.adjacency)


def nearest_of_two(mean: FloatArray, first: FloatArray, second: FloatArray, sigma: float) -> float:
    """The chance that a noisy mean is decoded as the first of two public candidates, the nearest one winning.

    The noise along the line between the candidates decides: N(0, sigma^2) on every coordinate.

    Args:
        mean: What is released, before noise, shape (dimension,).
        first: A candidate.
        second: The other one.
        sigma: Deviation of the noise on every coordinate.

    Raises:
        ParameterError: The candidates are the same, or there is no noise.

    Example:
        >>> round(nearest_of_two(np.array([0.6, 0.2]), np.array([1.0, 0.0]), np.array([0.0, 1.0]), 0.3), 6)
        0.827111
    """
    between = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    length = float(np.linalg.norm(between))
    if length == 0 or not sigma > 0:
        raise ParameterError("sigma", sigma, "above 0, for two different candidates")
    ahead = float(np.asarray(mean) @ between) - float(np.asarray(first) @ first - np.asarray(second) @ second) / 2
    return 0.5 * math.erfc(-ahead / (sigma * length * math.sqrt(2)))


def embedding_pair(first: FloatArray, second: FloatArray, candidates: FloatArray, sigma: float) -> Pair:
    """The exact laws of which of two public candidates a noisy mean is decoded as.

    Args:
        first: The mean in one world.
        second: In the other.
        candidates: Shape (2, dimension). For more, ``GaussianPair`` bounds what any decoding gives away.
        sigma: Deviation of the noise on every coordinate.
    """
    if np.shape(candidates)[0] != _TWO:
        raise ParameterError("candidates", np.shape(candidates)[0], "2: more of them have no closed form")
    odds = [nearest_of_two(mean, candidates[0], candidates[1], sigma) for mean in (first, second)]
    return Pair.of(*([p, 1 - p] for p in odds))


NO_LAW: Final[Mapping[str, str]] = {
    "dp-logistic": "it adds noise to many sums, each of which follows from those before; every one is Gaussian",
    "evolve": "a model writes between its draws, so that later draws follow from what earlier ones made it write",
}
"""Fitters without an exact law here, and why."""
WITH_LAW: Final[Mapping[str, str]] = {
    Choice.name: "lists of texts, exactly",
    ClassMeans.name: "normal laws, exactly, before they are rounded",
    LabelPublic.name: "independent labels, exactly",
}
_TWO: Final = 2


def why_no_law(fitter: type[Fitter]) -> str | None:
    """Why a fit has no exact law here; ``None`` where it has one."""
    if fitter.name in WITH_LAW:
        return None
    return NO_LAW.get(fitter.name, "none was worked out for this method yet")


def _of(plan: FitPlan, kind: type[Any]) -> Any:
    if not isinstance(plan.fitter, kind):
        raise ParameterError("plan", plan.fitter.name, f"one of {kind.name}")
    return plan.fitter


def _apart(first: IntArray, second: IntArray) -> float:
    """Squared distance of two sums, in the vectors' own unit."""
    return float(((first - second).astype(np.float64) ** 2).sum()) / LIMIT**2
