"""Semantic groups by private clustering (DPM): splits and counts level by level, then one release of the sums.

Guarantee   See each step; without amplification. The root's size is public where replacing keeps it.
Sources     Public-data-assisted ICL; specification 5.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from sottovoce.explain.cost_model import CostModel, register_cost_model
from sottovoce.methods.answering.sga import Half, LeafSums, LevelCounts, SplitLevel
from sottovoce.methods.decoding.plan import Part
from sottovoce.parameters import Positive, Share, Switch, Whole
from sottovoce.privacy.step_costs import NoiseLaw
from sottovoce.privacy.unit import Adjacency


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
