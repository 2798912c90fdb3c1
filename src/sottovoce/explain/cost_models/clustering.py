"""Semantic groups by private clustering (DPM): splits and counts level by level, then one release of the sums.

Guarantee   See each step; without amplification. The root's size is public where replacing keeps it.
Sources     Public-data-assisted ICL; specification 5.6.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self, final

from sottovoce.experts.written import points_relation
from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.explain.subject import Change, Setting
from sottovoce.mechanisms.clustering.projection import PublicProjection
from sottovoce.methods.answering.sga import SGA, Half, LeafSums, LevelCounts, SplitLevel, published, steps_of
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import Positive, Share, Switch, Whole
from sottovoce.privacy.accounting.renyi import rho_of_budget
from sottovoce.privacy.claims import Claim
from sottovoce.privacy.step_costs import NoiseLaw
from sottovoce.privacy.unit import SWAP, Adjacency, Assignment, change_type


@final
@register_cost_model(
    "dpm", summary="Semantic groups by private clustering (DPM)", source="Public-data-assisted ICL; spec. 5.6"
)
@dataclass(frozen=True)
class DPM(CostModel):
    """Splits and counts level by level, then one release of all leaves' sums. Without amplification."""

    kappa: Positive
    count_sigma: Positive
    sigma: Positive
    levels: Whole
    radius: Positive = 1.0
    emptiness: Positive = 5.0
    centreness: Positive = 1.0
    rise: Share = 0.3
    knee: Half = 1 / 12
    one_coordinate: Switch = False
    sampler: NoiseLaw = "discrete"

    def released(self, adjacency: Adjacency) -> tuple[Part, ...]:
        # The root's size is public where replacing keeps it; under add-remove it is released like the others.
        counts = self.levels if adjacency.size_is_public else self.levels + 1
        split = SplitLevel(self.kappa, self.emptiness, self.centreness, self.rise, self.knee, self.one_coordinate)
        return (
            Part(split, self.levels),
            Part(LevelCounts(self.count_sigma, self.sampler), counts),
            Part(LeafSums(self.radius, self.sigma, self.sampler)),
        )


class _Groups(CostModel):
    """A clustering of experts' answers whose parts share one price."""

    calibrated_parameter: ClassVar[str] = "rho"
    depth: int
    rho: float | None

    def parts(self, change: Change) -> Sequence[Part]:
        relation = points_relation(change.kind, change.adjacency)
        dpm = SGA(depth=self.depth, rho=self.rho).at(relation, PublicProjection.raw(2))
        return [Part(step, times) for step, times in steps_of(dpm, change.kind)]

    def released(self, adjacency: Adjacency) -> Sequence[Part]:
        kind = change_type(Assignment.OWN_SLOT, adjacency)
        return self.parts(Change(adjacency, kind, kind))

    def priced(self, setting: Setting, change: Change) -> Self | None:
        return None if setting.epsilon is None else self.with_noise(rho_of_budget(setting.epsilon, setting.delta))


@final
@register_cost_model("sga", summary="Semantic groups of answers (SGA)", source="Public-data-assisted ICL; spec. 5.6")
@dataclass(frozen=True)
class Groups(_Groups):
    """The clustering of one answer, its price dealt out to cuts, counts and sums. Without amplification."""

    depth: Whole = 2
    rho: Positive | None = None

    def claim(self) -> Claim:
        dpm = SGA(depth=self.depth, rho=self.rho).at(Adjacency.REPLACE_ONE, PublicProjection.raw(2))
        return published(dpm, SWAP, None)


@final
@register_cost_model("augment", summary="Public answers around private groups", source="specification 5.7.1")
@dataclass(frozen=True)
class Augmentation(_Groups):
    """The same clustering; what is written around its middles is post-processing."""

    depth: Whole = 2
    rho: Positive | None = None
