"""Vision-language models of the transformers library: ``vision:NAME_OR_PATH``."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from sottovoce.models.registry import Backend, register_model

if TYPE_CHECKING:
    from sottovoce.models.vision.label_scorer import VisionScorer


@final
@register_model("vision:NAME_OR_PATH", extra="vision", summary="A vision-language model of the transformers library.")
class Vision(Backend):
    def scorer(self) -> type[VisionScorer]:
        from sottovoce.models.vision.label_scorer import VisionScorer

        return VisionScorer
