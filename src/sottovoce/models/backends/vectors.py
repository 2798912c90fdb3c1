"""Rows of numbers, such as embeddings that somebody has already: ``vectors:COLUMNS``."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from sottovoce.models.features import VectorScorer
from sottovoce.models.registry import Backend, register_model


@final
@register_model("vectors:COLUMNS", summary="Rows of numbers, separated by blanks, such as embeddings made elsewhere.")
class Vectors(Backend):
    def scorer(self) -> Callable[[str], VectorScorer]:
        return VectorScorer.named
