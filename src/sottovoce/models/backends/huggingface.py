"""Causal language models of the transformers library: ``hf:NAME_OR_PATH``."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from sottovoce.models.registry import Backend, register_model

if TYPE_CHECKING:
    from sottovoce.models.huggingface.label_scorer import TransformersScorer
    from sottovoce.models.lockstep.stepper import TransformersStepper


@final
@register_model("hf:NAME_OR_PATH", extra="local", summary="Any causal language model of the transformers library.")
class HuggingFace(Backend):
    def scorer(self) -> type[TransformersScorer]:
        from sottovoce.models.huggingface.label_scorer import TransformersScorer

        return TransformersScorer

    def stepper(self) -> type[TransformersStepper]:
        from sottovoce.models.lockstep.stepper import TransformersStepper

        return TransformersStepper
