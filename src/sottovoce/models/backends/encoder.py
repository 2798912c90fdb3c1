"""Any sentence encoder: ``encoder:NAME_OR_PATH``."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, final

from sottovoce.models.registry import Backend, register_model

if TYPE_CHECKING:
    from sottovoce.models.embedded.label_scorer import EmbeddedScorer


@final
@register_model(
    "encoder:NAME_OR_PATH",
    extra="local",
    summary="Any sentence encoder, for sotto fit; with ,head=FILE it knows label names, too.",
)
class Encoder(Backend):
    def scorer(self) -> Callable[..., EmbeddedScorer]:
        from sottovoce.models.embedded.label_scorer import EmbeddedScorer

        return EmbeddedScorer.named
