"""Which models there are, and how one is opened by name, such as ``embedded`` or ``hf:NAME_OR_PATH``.

Nothing heavy is imported before a model that needs it is opened.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, final

from sottovoce.errors import MissingExtraError, ParameterError, require_kind
from sottovoce.models.base import LabelScorer
from sottovoce.models.stepper import Stepper

M = TypeVar("M")


@final
@dataclass(frozen=True)
class ModelEntry:
    """One line of ``sotto models``.

    Attributes:
        spec: What the caller types.
        capabilities: Names of the protocols that it fulfils.
        extra: Optional packages to install, as in ``pip install 'sottovoce[local]'``; empty if none are needed.
        summary: One line.
    """

    spec: str
    capabilities: tuple[str, ...]
    extra: str
    summary: str


_ENTRIES = (
    ModelEntry(
        "embedded",
        ("LabelScorer", "Stepper"),
        "embedded",
        "Small encoder that learns in context; offline, the default.",
    ),
    ModelEntry(
        "hf:NAME_OR_PATH", ("LabelScorer", "Stepper"), "local", "Any causal language model of the transformers library."
    ),
    ModelEntry(
        "embedded-image", ("LabelScorer",), "vision", "Small image encoder that learns names in context; offline."
    ),
    ModelEntry(
        "vision:NAME_OR_PATH", ("LabelScorer",), "vision", "A vision-language model of the transformers library."
    ),
    ModelEntry(
        "fake", ("LabelScorer", "Stepper"), "", "Counts the labels of its demonstrations; for tests and first tries."
    ),
)


def model_catalog() -> list[ModelEntry]:
    """Every kind of model that ``load_scorer`` can open."""
    return list(_ENTRIES)


def load_scorer(spec: str, **options: Any) -> LabelScorer:
    """Opens a model that scores labels.

    Args:
        spec: ``embedded``, ``embedded-image``, ``fake``, or ``hf:`` or ``vision:`` and a folder or a name on the hub.
        options: Passed to the model, such as ``device="cpu"`` or ``cache_bytes=2**30`` for ``hf:``.

    Raises:
        ParameterError: There is no such model, or it has no such option.
        MissingExtraError: An optional package is not installed.
        ModelError: The model cannot be loaded.

    Example:
        >>> load_scorer("fake").name
        'fake'
    """
    require_kind("model", spec, str, "the name of a model")
    kind, colon, rest = spec.partition(":")
    try:
        if kind == "hf" and rest:
            from sottovoce.models.huggingface.label_scorer import TransformersScorer

            return _open(TransformersScorer, (rest,), options)
        if kind == "vision" and rest:
            from sottovoce.models.vision.label_scorer import VisionScorer

            return _open(VisionScorer, (rest,), options)
        if spec == "embedded-image":
            from sottovoce.models.embedded.image_scorer import EmbeddedImageScorer

            return _open(EmbeddedImageScorer, (), options)
        if kind == "embedded" and not colon:
            from sottovoce.models.embedded.label_scorer import EmbeddedScorer

            return _open(EmbeddedScorer, (), options)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sottovoce"):
            raise
        extra = {"hf": "local", "embedded": "embedded"}.get(kind, "vision")
        raise MissingExtraError(error.name or "transformers", extra) from None
    if kind == "fake" and not colon:
        from sottovoce.models.fake import FakeScorer

        return _open(FakeScorer, (), options)
    raise ParameterError("model", spec, f"one of {', '.join(entry.spec for entry in _ENTRIES)}")


def load_stepper(spec: str, **options: Any) -> Stepper:
    """Opens a model that writes, token by token.

    Args:
        spec: ``embedded``, ``fake``, or ``hf:`` and a folder or a name on the hub.
        options: Passed to the model, such as ``device="cuda"`` for ``hf:``.

    Raises:
        ParameterError: There is no such model, it cannot write, or it has no such option.
        MissingExtraError: An optional package is not installed.
        ModelError: The model cannot be loaded.
    """
    require_kind("model", spec, str, "the name of a model")
    kind, _, rest = spec.partition(":")
    try:
        if kind == "hf" and rest:
            from sottovoce.models.lockstep.stepper import TransformersStepper

            return _open(TransformersStepper, (rest,), options)
        if spec == "embedded":
            from sottovoce.models.embedded.language_model import embedded_language_folder
            from sottovoce.models.lockstep.stepper import TransformersStepper

            return _open(TransformersStepper, (str(embedded_language_folder()),), {**options, "named": "embedded"})
        if spec == "fake":
            from sottovoce.models.fake import FakeStepper

            return _open(FakeStepper, (), options)
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("sottovoce"):
            raise
        raise MissingExtraError(error.name or "transformers", "local") from None
    can = [entry.spec for entry in _ENTRIES if "Stepper" in entry.capabilities]
    raise ParameterError("model", spec, f"one that writes: {', '.join(can)}")


def _open(model: Callable[..., M], given: tuple[str, ...], options: dict[str, Any]) -> M:
    known = list(inspect.signature(model).parameters)[len(given) :]
    if unknown := sorted(set(options) - set(known)):
        raise ParameterError("model option", unknown[0], f"one of {', '.join(known)}" if known else "left out")
    return model(*given, **options)
