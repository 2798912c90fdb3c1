"""References: what a private method is measured against.

Guarantee   ``zero-shot`` and ``demonstrations`` read no private record and cost nothing. The others have **none**: they
            answer from private records without noise, and a ledger refuses them unless the owner allows it by name.
Sources     Private PoEtry, section 4; Zhao et al. (2021, arXiv:2102.09690) for calibration; specification 8 (item 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from sottovoce.experts.label_scores import ExpertOutputs
from sottovoce.methods.base import Method, Price, Reads, register_method
from sottovoce.privacy.events import DpEvent, NonPrivateDpEvent, NoOpDpEvent
from sottovoce.privacy.unit import Adjacency
from sottovoce.randomness import Randomness


class _MostLikely(Method):
    """Takes the label with the largest summed log-probability, without noise."""

    private: ClassVar[bool] = False

    def event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        return NonPrivateDpEvent()

    def choose(self, experts: ExpertOutputs, price: Price, randomness: Randomness) -> int:
        return int(np.argmax(experts.summed_without_noise()))


@register_method("zero-shot", summary="the model alone, no private record read, free", source="reference")
@dataclass(frozen=True)
class ZeroShot(_MostLikely):
    """The model without any example."""

    private: ClassVar[bool] = True
    reads: ClassVar[Reads] = Reads.NOTHING

    def event(self, price: Price, adjacency: Adjacency) -> DpEvent:
        return NoOpDpEvent()


@final
@register_method(
    "demonstrations", summary="public or synthetic demonstrations in one prompt, free", source="post-processing"
)
@dataclass(frozen=True)
class Demonstrations(ZeroShot):
    """The model with demonstrations that anybody may see, such as those that ``sotto synthesize`` wrote.

    Attributes:
        calibrate: Whether to subtract the mean scores of content-free questions (contextual calibration).
    """

    calibrate: bool = False


@final
@register_method("full-context", summary="all records in one prompt, NO guarantee", source="reference")
@dataclass(frozen=True)
class FullContext(_MostLikely):
    """The undefended prompt: every private record in one context."""

    reads: ClassVar[Reads] = Reads.EVERYTHING


@final
@register_method("soft", summary="experts' log-probabilities summed without noise, NO guarantee", source="reference")
@dataclass(frozen=True)
class Soft(_MostLikely):
    """The product of experts without clipping and noise."""


@final
@register_method("hard", summary="experts' votes counted without noise, NO guarantee", source="reference")
@dataclass(frozen=True)
class Hard(_MostLikely):
    """The majority vote without noise; ties go to the lower index."""

    def choose(self, experts: ExpertOutputs, price: Price, randomness: Randomness) -> int:
        return int(np.argmax(experts.votes().values))
