"""Report noisy max (RNM): every expert votes for one label, and a noisy count decides.

Guarantee   ``exponential`` epsilon-bounded-range, ``permute_and_flip`` epsilon-DP, ``gaussian`` (epsilon, delta)-DP by
            zCDP, an answer each; the change type from the specification's table 2.2. A vote that moves changes two
            counts: squared L2 sensitivity 2, not 1.
Assumes     Isolation, as for PoE.
Sources     Wu et al. (2024) for Gaussian noise on votes; McKenna and Sheldon (2020) for permute-and-flip;
            specification 5.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from sottovoce.errors import ParameterError
from sottovoce.experts.outputs import ExpertOutputs
from sottovoce.mechanisms.base import SelectionMechanism
from sottovoce.mechanisms.exponential import Exponential
from sottovoce.mechanisms.gaussian import GaussianNoisyMax
from sottovoce.mechanisms.permute_and_flip import PermuteAndFlip
from sottovoce.methods.base import Price, Selecting, register_method
from sottovoce.privacy.scores import Scores

NOISES = ("exponential", "permute_and_flip", "gaussian")


@final
@register_method("rnm", summary="report noisy max: one vote an expert, noisy counts", source="Wu et al. (2024)")
@dataclass(frozen=True)
class RNM(Selecting):
    """Report noisy max over votes.

    Attributes:
        noise: ``exponential`` (composes best), ``permute_and_flip`` (best for a single answer), or ``gaussian`` (as
            published; needs a delta).
    """

    noise: str = "exponential"

    def __post_init__(self) -> None:
        if self.noise not in NOISES:
            raise ParameterError("noise", self.noise, f"one of {', '.join(NOISES)}")

    def mechanism(self, price: Price) -> SelectionMechanism:
        if self.noise == "gaussian":
            return GaussianNoisyMax.for_budget(price.epsilon, price.delta)
        return Exponential(price.epsilon) if self.noise == "exponential" else PermuteAndFlip(price.epsilon)

    def scores(self, experts: ExpertOutputs) -> Scores:
        return experts.votes()
