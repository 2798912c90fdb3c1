"""Causal language models: ``hf:NAME_OR_PATH``, ``hf:FILE.gguf``; with ``,layer=N`` as embedders too."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, final

from sottovoce.models.base import LabelScorer
from sottovoce.models.registry import Backend, register_model

if TYPE_CHECKING:
    from sottovoce.models.lockstep.stepper import TransformersStepper
    from sottovoce.models.writing.writer import TransformersWriter


@final
@register_model(
    "hf:NAME_OR_PATH",
    extra="local",
    summary="Any causal language model of transformers, or a GGUF file; hf:NAME_OR_PATH,layer=N embeds, too.",
)
class HuggingFace(Backend):
    """What follows the name, such as ``,layer=8,pooling=mean,tokens=512``, says which hidden states it embeds with."""

    def scorer(self) -> Callable[..., LabelScorer]:
        from sottovoce.models.huggingface.hidden_states import read_name
        from sottovoce.models.huggingface.label_scorer import TransformersScorer

        @wraps(TransformersScorer, updated=())
        def opened(name: str, **options: Any) -> LabelScorer:
            path, states = read_name(name)
            scorer = TransformersScorer(path, **options)
            return scorer.embedder(**states) if states else scorer

        return opened

    def stepper(self) -> Callable[..., TransformersStepper]:
        from sottovoce.models.huggingface.hidden_states import read_name
        from sottovoce.models.lockstep.stepper import TransformersStepper

        @wraps(TransformersStepper, updated=())
        def opened(name: str, **options: Any) -> TransformersStepper:
            return TransformersStepper(read_name(name)[0], **options)

        return opened

    def writer(self) -> Callable[..., TransformersWriter]:
        from sottovoce.models.huggingface.hidden_states import read_name
        from sottovoce.models.writing.writer import TransformersWriter

        @wraps(TransformersWriter, updated=())
        def opened(name: str, **options: Any) -> TransformersWriter:
            return TransformersWriter(read_name(name)[0], **options)

        return opened
