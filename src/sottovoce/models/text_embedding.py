"""Texts that are no records of a task, such as a model's answers, as unit vectors of any embedder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.base import Embedder, FloatArray, embedding_model
from sottovoce.models.registry import load_scorer, model_catalog
from sottovoce.tasks import Task

_TEXTS: Final = Task(labels=["no", "yes"], name="texts", instruction="", query="{text}", example="{text} {label}")


def load_embedder(spec: str, **options: Any) -> Embedder:
    """Opens a model that turns texts into vectors.

    Args:
        spec: ``embedded`` for the built-in encoder, ``encoder:NAME_OR_PATH`` for any of sentence-transformers, or
            ``hf:NAME_OR_PATH`` for the hidden states of a language model.
        options: Passed to the model.

    Raises:
        ParameterError: There is no such model, or it does not embed texts.
        MissingExtraError: An optional package is not installed.
        ModelError: The model cannot be loaded.

    Example:
        >>> load_embedder("fake").dimension
        16
    """
    found = embedding_model(load_scorer(spec, **options))
    if not isinstance(found, Embedder) or getattr(found, "reads", "texts") != "texts":
        known = [
            entry.spec for entry in model_catalog() if entry.spec.partition(":")[0] in ("embedded", "encoder", "hf")
        ]
        raise ParameterError("embedder", spec, f"one that embeds texts: {', '.join(known)}")
    return found


def embed_texts(embedder: Embedder, texts: Sequence[str | None], *, private: bool) -> FloatArray:
    """Unit vectors of texts, each computed by itself.

    Args:
        embedder: The model.
        texts: The texts; ``None`` for one that is missing.
        private: Whether they may tell of private records. Public texts are not looked up among private ones.

    Returns:
        Shape (texts, dimension), float64. NaN in the row of a text that is missing, blank or cannot be read; no other
        row is affected.

    Raises:
        ModelError: The model failed for a reason that is no text's own, or gave vectors of another shape.

    Example:
        >>> from sottovoce.models.fake import FakeScorer
        >>> embed_texts(FakeScorer(), ["a fee", None], private=True).shape
        (2, 16)
    """
    vectors = np.full((len(texts), embedder.dimension), np.nan)
    places = [place for place, text in enumerate(texts) if text is not None and text.strip()]
    if not places:
        return vectors
    embed = embedder.embed_records if private else embedder.embed_questions
    found = embed(_TEXTS, [{"text": str(texts[place])} for place in places])
    if found.shape != (len(places), embedder.dimension):
        raise ModelError(f"The model {embedder.name} gave vectors of another shape than it says.")
    vectors[places] = found
    return vectors
