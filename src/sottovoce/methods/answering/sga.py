"""Semantic-group aggregation (SGA): groups of like answers by private clustering, each shown by a public answer.

The experts' answers, together with public ones, are clustered by DPM in a public projection. The public answer nearest
to a group's noisy middle stands for it, and groups are ranked by their noisy counts. The first one is the answer, or
the writer is shown the first k, behind public examples, and gives the answer.

Guarantee   ``DPM.event`` for what one expert can do to the points: it comes or goes, or it moves. Cuts, counts and sums
            are all charged; representatives, ranks and the last prompt are post-processing of them and of public texts.
Assumes     Isolation of the writer and the embedder. Projection, depth and thresholds follow from public numbers.
Refuses     A price at which no group can be told from another: a cut is kept where either side has ``min_size`` points
            by noisy counts, so that experts and public answers need twice that many, and experts alone as many.
Sources     Public-data-assisted ICL; Liebenow et al. (2024) for DPM; specification 5.6; 11, items 10 to 13.
            docs/decisions/0005 for the projection. Proof: docs/proofs/private_clustering.md, docs/proofs/answering.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Annotated, ClassVar, Final, Self, final

import numpy as np

from sottovoce.errors import ParameterError
from sottovoce.experts.written import WrittenOutputs, points_relation
from sottovoce.mechanisms.clustering.private_clustering import DPM
from sottovoce.mechanisms.clustering.projection import COORDINATE_BITS, PublicProjection
from sottovoce.mechanisms.clustering.release import Cluster, Clustering
from sottovoce.methods.answering.answerer import Answerer, AnswerSetting, Outcome, PublicSide, register_answerer
from sottovoce.methods.base import Price
from sottovoce.models.base import FloatArray
from sottovoce.parameters import LEAST, Number, OneOf, Positive, Switch
from sottovoce.privacy.accounting.bounded_range import rho_of_bounded_range
from sottovoce.privacy.accounting.renyi import rho_that_fits
from sottovoce.privacy.claims import Claim, of_event
from sottovoce.privacy.events import (
    BoundedRange,
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    PureDP,
    ZCDpEvent,
)
from sottovoce.privacy.numbers import exact
from sottovoce.privacy.points import grid_rows
from sottovoce.privacy.step_costs import GaussianStep, NoiseLaw, Sensitivity, StepCost, step_cost
from sottovoce.privacy.unit import Adjacency, ChangeType, is_drop
from sottovoce.randomness import Randomness

Half = Annotated[float, Number(LEAST, 0.5 - LEAST, exact=True)]
"""A number between 0 and one half."""
TOP_1, TOP_K = "top-1", "top-k"
PUBLIC_AXIS: Final = 3
"""Public answers for every principal axis of theirs: with fewer, axes are random ones from a published seed."""
HINT: Final = "Several answers were suggested, the most common one first. Give the best answer.\n{answers}"
"""Follows the instruction of the last prompt."""


@final
@step_cost(
    "dpm-split", law="a split with weight exp(kappa * size * (we emptiness + wc centreness))", source="spec. 5.6.2"
)
@dataclass(frozen=True)
class SplitLevel(StepCost):
    """All splits of one level of the private clustering.

    A point added changes one node. A point that moves does so inside one node, or leaves one and joins another: the
    level then costs the larger of a moved point and of two changes of one point each.

    Attributes:
        kappa: Weight of one unit of size times utility.
        emptiness: we, the weight of emptiness.
        centreness: wc, the weight of centreness.
        rise: t, the height of the centreness profile at its knee.
        knee: q, where the knee is.
        one_coordinate: Whether every split's coordinate is fixed in advance from public data.

    Example:
        >>> SplitLevel(kappa=1).width(joins=True), SplitLevel(kappa=1).width(joins=False)
        (12.2, 17.2)
    """

    family = "bounded range in a node"

    kappa: Positive
    emptiness: Positive = 5.0
    centreness: Positive = 1.0
    rise: Annotated[float, Number(LEAST, 1.0, exact=True)] = 0.3
    knee: Half = 1 / 12
    one_coordinate: Switch = False

    @property
    def slope(self) -> float:
        """L, the steepest slope of centreness."""
        return max(self.rise / self.knee, 2 * (1 - self.rise) / (1 - 2 * self.knee))

    def width(self, *, joins: bool) -> float:
        """Range of size times utility when one point joins a node (or leaves it), or moves inside it."""
        centre = self.centreness * self.slope
        empty = self.emptiness * (1 if joins else 2)
        return max(empty + centre, 2 * centre) if self._tight else empty + 2 * centre

    @property
    def _tight(self) -> bool:
        # One fixed coordinate helps only where the profile is concave, which it is when t/q is the steepest slope.
        return self.one_coordinate and self.rise / self.knee >= 2 * (1 - self.rise) / (1 - 2 * self.knee)

    def sensitivity(self, change: ChangeType) -> Sensitivity:
        drop = is_drop(change)
        where = "in one node" if drop else "in one node; between two nodes it is one added and one removed point"
        return Sensitivity(self.width(joins=drop) * change.rows, f"range of the change of size times utility {where}")

    def event(self, change: ChangeType) -> DpEvent:
        added = self.kappa * self.width(joins=True)
        if is_drop(change):
            return BoundedRange(added * change.rows)
        moved = self.kappa * self.width(joins=False)
        return ZCDpEvent(max(rho_of_bounded_range(moved), 2 * rho_of_bounded_range(added)) * change.rows**2)

    def other_event(self, change: ChangeType) -> DpEvent:
        if is_drop(change):
            return self.event(change)
        pure = self.kappa * max(self.width(joins=False), 2 * self.width(joins=True))
        return PureDP(pure * change.rows)

    def figures(self, change: ChangeType) -> dict[str, float]:
        eta = self.kappa * self.width(joins=is_drop(change)) * change.rows
        return {"eta": eta} if is_drop(change) else {"eta": eta, **super().figures(change)}


@final
@step_cost("level-counts", law="the sizes of all nodes of one level + discrete Gaussian noise", source="spec. 5.6.3")
@dataclass(frozen=True)
class LevelCounts(GaussianStep):
    """Counts of disjoint nodes: a point that moves changes two of them.

    Attributes:
        sigma: Deviation per count.
        sampler: ``discrete`` or ``continuous``.
    """

    sigma: Positive
    sampler: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        return change.rows * (1.0 if is_drop(change) else math.sqrt(2))


@final
@step_cost("leaf-sums", law="all leaves' vector sums in one Gaussian release", source="specification 5.6.4")
@dataclass(frozen=True)
class LeafSums(GaussianStep):
    """Sums of disjoint clusters: a moved point changes one leaf by 2R, or two leaves by R each, which is less.

    Attributes:
        radius: R, the vectors' largest norm.
        sigma: Deviation per coordinate.
        sampler: ``discrete`` or ``continuous``.
    """

    radius: Positive
    sigma: Positive
    sampler: NoiseLaw = "discrete"

    def norm(self, change: ChangeType) -> float:
        is_drop(change)
        return change.widths * self.radius


@final
@register_answerer("sga", summary="groups of like answers by private clustering, shown by public ones", source="5.6")
@dataclass(frozen=True)
class SGA(Answerer):
    """Public answers that stand for private groups.

    Attributes:
        show: ``top-1``: the largest group's public answer. ``top-k``: the writer chooses among the first k.
        k: Groups that the writer is shown.
        depth: Levels of cuts; all are paid for.
        axes: Coordinates of the projection.
        projection: ``principal``: axes of public answers; ``random``: from a published seed; ``raw``: the vectors' own
            coordinates, as published, which find one group in real answers. ``auto``: principal axes where there are
            enough public answers.
        rho: The whole price of the clustering, as zCDP; ``None``: set by the price.
    """

    calibrated_parameters: ClassVar[tuple[str, ...]] = ("rho",)
    needs: ClassVar[frozenset[str]] = frozenset({"Embedder", "pool"})
    needs_delta: ClassVar[bool] = True
    steps: ClassVar[Sequence[type[StepCost]]] = (SplitLevel, LevelCounts, LeafSums)
    refused: ClassVar[Mapping[tuple[str, str], str]] = {
        ("representatives", "private"): (
            "public: an answer of a private expert shows the records in its prompt (specification 11, item 12). "
            "Allowed are public answers, the nearest to each group's noisy middle"
        ),
        ("ranks", "exact"): (
            "noisy: ranks by true sizes are a leak (specification 5.6.3). Allowed are ranks by counts that are charged"
        ),
        ("box", "private"): (
            "public: a box read off private answers gives them away (specification 5.6.2). Allowed are principal axes "
            "of public answers, and random ones"
        ),
    }
    show: Annotated[str, OneOf((TOP_1, TOP_K))] = TOP_1
    k: Annotated[int, Number(1, 16, whole=True)] = 3
    depth: Annotated[int, Number(1, 16, whole=True)] = 2
    axes: Annotated[int, Number(1, 64, whole=True)] = 4
    projection: Annotated[str, OneOf(("auto", "principal", "random", "raw"))] = "auto"
    rho: Positive | None = None

    def calibrated(self, price: Price, setting: AnswerSetting) -> Self:
        answerer = self if self.rho is not None else replace(self, rho=rho_that_fits(price.epsilon, price.delta))
        answerer.require_groups(setting)
        return answerer

    def require_groups(self, setting: AnswerSetting) -> None:
        """Refuses a price at which no group can be found, from public numbers, before anything is charged.

        Raises:
            ParameterError: There are too few experts for any cut to be kept, or their number is private.
        """
        if setting.experts is None:
            raise ParameterError("experts", None, "a public number (--experts): whether groups can be found follows")
        if self._kind(setting) == "principal" and setting.candidates <= self.axes:
            limit = f"more than the number of axes, {self.axes}, for principal axes of public answers"
            raise ParameterError("number of public answers", setting.candidates, limit)
        needed = self.fewest_experts(setting)
        if setting.experts < needed:
            raise ParameterError(
                "experts",
                setting.experts,
                f"{needed} or more for SGA at this price: a group needs {self.clustering(setting).min_size} answers to "
                f"stand out from the noise, and beside {setting.candidates} public answers two of them are not found. "
                "Spend more epsilon on an answer, write more public answers (--public), or use --method ksa, or one "
                "private choice of examples (--method choice)",
            )

    def fewest_experts(self, setting: AnswerSetting) -> int:
        """The fewest experts with which a cut can be kept: twice ``min_size`` points with the public ones, and experts
        of the number of one group, whose counts else are noise alone."""
        least = self.clustering(setting).min_size
        return max(least, 2 * least - setting.candidates)

    def clustering(self, setting: AnswerSetting, vectors: FloatArray | None = None) -> DPM:
        """The clustering at its price; thresholds follow from the noise.

        Args:
            setting: The public side.
            vectors: Of public answers, for their axes. No price and no threshold follows from them.
        """
        relation = points_relation(setting.change, setting.adjacency)
        return self.at(relation, self._projection(setting, vectors))

    def at(self, relation: Adjacency, projection: PublicProjection) -> DPM:
        """The clustering of points with this relation; ``rho`` must be set."""
        return DPM.for_budget(
            adjacency=relation, projection=projection, depth=self.depth, rho=self.rho, centres="projected"
        )

    def event(self, setting: AnswerSetting) -> DpEvent:
        return self.clustering(setting).event

    def cost(self, setting: AnswerSetting) -> Sequence[tuple[StepCost, int]]:
        return steps_of(self.clustering(setting), setting.change)

    def claim(self, setting: AnswerSetting) -> Claim | None:
        return published(self.clustering(setting), setting.change, setting.rate)

    def draw(
        self, setting: AnswerSetting, experts: WrittenOutputs | None, public: PublicSide, randomness: Randomness
    ) -> Outcome:
        assert experts is not None
        dpm = self.clustering(setting, public.vectors)
        found = dpm.cluster(experts.points(), randomness, public.vectors)
        chosen = representatives(found, public.vectors)
        answers = list(dict.fromkeys(public.candidates[index] for index in chosen))
        return Outcome(
            self.name, {"answers": answers, "sizes": [cluster.size for cluster in found.clusters], "show": self.show}
        )

    def finish(self, outcome: Outcome, public: PublicSide) -> str:
        answers = [str(answer) for answer in outcome.values["answers"]]
        if self.show == TOP_1 or len(answers) == 1:
            return answers[0]
        shown = "\n".join(f"{number}. {answer}" for number, answer in enumerate(answers[: self.k], start=1))
        (text,) = public.write([public.request(public.shots, HINT.format(answers=shown))])
        return text or answers[0]

    def _kind(self, setting: AnswerSetting) -> str:
        if self.projection != "auto":
            return self.projection
        return "principal" if setting.candidates >= PUBLIC_AXIS * self.axes else "random"

    def _projection(self, setting: AnswerSetting, vectors: FloatArray | None) -> PublicProjection:
        kind, axes = self._kind(setting), min(self.axes, setting.dimension)
        if kind == "raw":
            return PublicProjection.raw(setting.dimension)
        if kind == "principal" and vectors is not None:
            with suppress(ParameterError):  # answers that do not differ along an axis: known before a record was read
                return PublicProjection.principal(vectors, min(axes, len(vectors) - 1))
        return PublicProjection.random(setting.dimension, axes)


def steps_of(dpm: DPM, change: ChangeType) -> list[tuple[StepCost, int]]:
    """What a clustering releases, as step costs with how often.

    Args:
        dpm: The clustering.
        change: How one change of the data can change the points: its relation is that of ``points_relation``.
    """
    norm = 1.0 if is_drop(change) else math.sqrt(2)
    parts: list[tuple[StepCost, int]] = []
    for level in dict.fromkeys(dpm.levels):
        times = dpm.levels.count(level)
        counts = LevelCounts(norm / math.sqrt(2 * level.count_rho))
        parts += [(SplitLevel(level.kappa), times), (counts, times)]
    if not dpm.adjacency.size_is_public:
        parts.append((LevelCounts(norm / math.sqrt(2 * dpm.levels[0].count_rho)), 1))
    radius = float(dpm.projection.box_radius)
    return [*parts, (LeafSums(radius, change.widths * radius / math.sqrt(2 * dpm.sum_rho)), 1)]


def published(dpm: DPM, change: ChangeType, rate: float | None) -> Claim:
    """What the paper states (specification 11, items 9 to 12): points that come or go, though one is replaced;
    each part amplified by itself, by the coins of a Poisson sample, though all share one of fixed size; counts free.

    Args:
        dpm: The clustering as it draws.
        change: That its noise is set for.
        rate: Of the sample; ``None`` where nothing is sampled.
    """
    score = dpm.score
    movement = Fraction(score.emptiness) + Fraction(score.centreness) * score.steepest  # 8.6, of one fixed coordinate
    cuts: list[DpEvent] = [PureDP(float(2 * movement * exact(level.kappa))) for level in dpm.levels]
    sums = GaussianDpEvent(change.widths / math.sqrt(2 * dpm.sum_rho))
    parts = [*cuts, sums]
    amplified = parts if rate is None else [PoissonSampledDpEvent(rate, part) for part in parts]
    return Claim(
        "Public-data-assisted ICL: points that come or go, cuts and sums amplified apart, counts free",
        lambda delta, answers: of_event(ComposedDpEvent(tuple(amplified)), answers, delta),
    )


def representatives(found: Clustering, vectors: FloatArray) -> list[int]:
    """For every group the index of the public answer that stands for it: the nearest to its noisy middle, in its own
    cell where one is there.

    Args:
        found: A clustering with middles in the projected box.
        vectors: Of the public answers, shape (candidates, dimension).
    """
    projection = found.projection
    places = projection.project(grid_rows(vectors, found.radius)) / (1 << COORDINATE_BITS)
    cells = found.assign(vectors)
    return [_nearest(cluster, places, cells == index) for index, cluster in enumerate(found.clusters)]


def _nearest(cluster: Cluster, places: FloatArray, own: np.ndarray) -> int:
    far = ((places - cluster.centre) ** 2).sum(axis=1)
    return int(np.argmin(np.where(own, far, np.inf) if own.any() else far))
