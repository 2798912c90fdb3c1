"""Models that are downloaded with the package or stand in it: ``embedded``, ``embedded-image``, ``embedded-lm``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, final

from sottovoce.models.registry import Backend, register_model

if TYPE_CHECKING:
    from sottovoce.models.embedded.image_scorer import EmbeddedImageScorer
    from sottovoce.models.embedded.label_scorer import EmbeddedScorer
    from sottovoce.models.lockstep.stepper import TransformersStepper
    from sottovoce.models.writing.writer import TransformersWriter


@final
@register_model("embedded", extra="embedded", summary="Small encoder that learns in context; offline, the default.")
class Embedded(Backend):
    def scorer(self) -> type[EmbeddedScorer]:
        from sottovoce.models.embedded.label_scorer import EmbeddedScorer

        return EmbeddedScorer

    def stepper(self) -> partial[TransformersStepper]:
        from sottovoce.models.embedded.language_model import embedded_language_folder
        from sottovoce.models.lockstep.stepper import TransformersStepper

        return partial(TransformersStepper, str(embedded_language_folder()), named="embedded")

    def writer(self) -> partial[TransformersWriter]:
        from sottovoce.models.embedded.language_model import embedded_language_folder
        from sottovoce.models.writing.writer import TransformersWriter

        return partial(TransformersWriter, str(embedded_language_folder()), named="embedded")


@final
@register_model("embedded-image", extra="images", summary="Small image encoder that learns names in context; offline.")
class EmbeddedImage(Backend):
    def scorer(self) -> type[EmbeddedImageScorer]:
        from sottovoce.models.embedded.image_scorer import EmbeddedImageScorer

        return EmbeddedImageScorer


@final
@register_model("embedded-lm", extra="local", summary="Small language model that ships; it writes, poorly; offline.")
class EmbeddedLanguageModel(Backend):
    def writer(self) -> partial[TransformersWriter]:
        from sottovoce.models.embedded.language_model import embedded_language_folder
        from sottovoce.models.writing.writer import TransformersWriter

        return partial(TransformersWriter, str(embedded_language_folder()), named="embedded-lm")
