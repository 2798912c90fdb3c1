"""What a language model can be asked. A method names the capability it needs; a model has it or is refused.

``LabelScorer`` is the capability behind classification: read each expert's demonstrations once, then give the
log-probability of every label after every question. ``Writer`` is behind long answers: a text for each prompt.

A model may write its next answer into the array in which it gave this one: whoever asks takes a copy.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, Protocol, final, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ModelError, SottoError, TaskError
from sottovoce.files.requests import MODELS
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Example, Query, Task

FloatArray = NDArray[np.float64]

Context = Sequence[Example]
"""The demonstrations one expert sees; empty for zero-shot."""


def settings_of(model: object, part: str = "") -> dict[str, Any]:
    """What a run notes of its model beside the name, in public words, where the model has ``run_settings``.

    Those are what tells it from another one of the same name, such as a digest of its weights and its dtype: a mapping
    of names to texts, numbers and truth values. They stand in the files of runs and in certificates.

    Args:
        model: Any model.
        part: What begins each word where a run has a second model.

    Raises:
        ModelError: They are something else, or a file of the model cannot be read.
    """
    settings = run_settings_of(model)
    if not isinstance(settings, Mapping) or not all(
        isinstance(name, str) and _is_plain(value) for name, value in settings.items()
    ):
        raise ModelError(
            f"run_settings of {type(model).__name__} must be a dict of names to texts, finite numbers, truth values or "
            "None."
        )
    return {f"{MODELS}{part}{name}": value for name, value in settings.items()}


def run_settings_of(model: Any) -> Any:
    """``run_settings`` of a model that has them; where it has and they cannot be had, the model is refused."""
    try:
        return model.run_settings or {}
    except SottoError:
        raise
    except Exception as error:
        if isinstance(error, AttributeError) and inspect.getattr_static(model, "run_settings", None) is None:
            return {}
        failed = type(error).__name__
    raise ModelError(f"run_settings of {type(model).__name__} raised {failed}. Load the model again.")


def _is_plain(value: object) -> bool:
    if isinstance(value, int | float):
        return abs(value) < 2**63  # not of NaN; and what every file of a run can hold
    return value is None or isinstance(value, str)


class Isolation(Enum):
    """Why an expert's scores depend on that expert's records alone (spec 1.2, 9.6), as far as that is known.

    ``TESTED`` claims no more than was seen: on this machine rows of made-up experts were equal in every bit at every
    place of the shapes that are run, whatever stood beside them. Kernels that choose by the numbers that they multiply
    could still tell rows apart that the test did not; none is known. ``ASSERTED`` is for a model that runs elsewhere,
    where nothing can be looked at (specification 9.6): whoever uses it takes the claim upon themselves. The members
    stand in their order: each says less than the one before.
    """

    BY_CONSTRUCTION = "by construction: every expert is computed by itself"
    TESTED = "tested, not proven: equal in every bit at every place of the shapes that are run, whatever stands beside"
    ASSERTED = "asserted by the operator, not tested; whoever hosts the model sees the prompts"
    NOT_VERIFIED = "isolation not verified: no formal guarantee"

    @classmethod
    def _missing_(cls, value: object) -> Isolation | None:
        """What earlier releases wrote into certificates."""
        earlier = {
            "verified: every expert is computed by itself": cls.BY_CONSTRUCTION,
            "verified: bit-equal whatever the other rows hold": cls.TESTED,
        }
        return earlier.get(value) if isinstance(value, str) else None

    @property
    def words(self) -> str:
        """For a statement that holds: how experts were kept apart."""
        return f"experts computed apart: {self.value.partition(':')[0]}"

    @property
    def holds(self) -> bool:
        """Whether releases may be stated as private."""
        return self is not Isolation.NOT_VERIFIED


def weakest(isolations: Iterable[Isolation]) -> Isolation:
    """What can be said of several models together, or of one at several times.

    Example:
        >>> weakest([Isolation.TESTED, Isolation.BY_CONSTRUCTION]).name
        'TESTED'
    """
    return max(isolations, key=list(Isolation).index)


class PreparedContexts(Protocol):
    """Demonstrations that a model has read, ready for questions. Holds private state; does not print it."""

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Log-probabilities of the labels, shape (queries, contexts, labels), float64.

        A context that the model could not read (it does not fit, or its numbers are not finite) has NaN in its row;
        other contexts are not affected. The number of queries and their order do not change any value.
        """

    def close(self) -> None:
        """Frees caches that hold private state."""


@runtime_checkable
class LabelScorer(Protocol):
    """A model that scores labels after demonstrations and a question."""

    @property
    def name(self) -> str:
        """As the caller would name it, such as ``embedded`` or ``hf:Qwen/Qwen3-4B``."""

    @property
    def isolation(self) -> Isolation:
        """Whether its rows are isolated from each other, as far as was checked on this machine."""

    def prepare(self, task: Task, contexts: Sequence[Context]) -> PreparedContexts:
        """Reads the demonstrations of every expert, once.

        Args:
            task: Labels and templates.
            contexts: One sequence of examples for each expert.

        Raises:
            TaskError: A label means nothing to this model (it has no tokens).
            ModelError: The model cannot run at all.
        """


@runtime_checkable
class Embedder(Protocol):
    """A model that turns records and questions into unit vectors, each computed by itself."""

    @property
    def name(self) -> str:
        """As the caller would name it."""

    @property
    def isolation(self) -> Isolation:
        """Whether its vectors are isolated from each other, as far as was checked on this machine."""

    @property
    def embedding(self) -> str:
        """What tells its vectors from those of any other embedder: a SHA-256 of everything that makes them."""

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    def embed_records(self, task: Task, records: Sequence[Query]) -> FloatArray:
        """Embeds private records, shape (records, dimension), float64, of length one.

        A record that cannot be read has NaN in its row, and no other row is affected.
        """

    def embed_questions(self, task: Task, queries: Sequence[Query]) -> FloatArray:
        """Embeds public texts or pictures likewise; nothing private is looked up."""


@runtime_checkable
class CompactEmbedder(Embedder, Protocol):
    """An embedder whose vectors can be kept in half the room, and come back from there bit for bit."""

    def embed_compactly(self, task: Task, records: Sequence[Query]) -> NDArray[np.float32]:
        """Private records, shape (records, dimension): what ``unfolded`` makes the vectors of ``embed_records`` of."""

    def unfolded(self, vectors: NDArray[np.float32]) -> FloatArray:
        """The vectors, shape as given, row by row."""


@final
class WritingRequest(Opaque):
    """A request to a writer: an answer to a question, after examples. It holds private text and does not print it.

    Two requests are equal if all their attributes are.

    Attributes:
        instruction: Opens the prompt; public.
        shots: Examples as (input, output), private or public, in the order in which they are shown.
        question: The input to be answered; public.
        names: What inputs and outputs are called in a prompt that a model continues; public.

    Example:
        >>> WritingRequest("Answer.", [("a private input", "a private output")], "Who called?")
        WritingRequest(sealed)
    """

    __slots__ = ("instruction", "names", "question", "shots")

    def __init__(
        self,
        instruction: str,
        shots: Sequence[tuple[str, str]],
        question: str,
        names: tuple[str, str] = ("Input", "Output"),
    ) -> None:
        self.instruction, self.question, self.names = instruction, question, names
        self.shots = tuple(shots)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, WritingRequest) and self._parts == other._parts

    def __hash__(self) -> int:
        return hash(self._parts)

    @property
    def _parts(self) -> tuple[object, ...]:
        return self.instruction, self.shots, self.question, self.names


@runtime_checkable
class Writer(Protocol):
    """A model that writes a text after a prompt, each text by itself."""

    @property
    def name(self) -> str:
        """As the caller would name it."""

    @property
    def isolation(self) -> Isolation:
        """Whether a text depends on its own request alone, as far as was checked or asserted."""

    @property
    def longest(self) -> int | None:
        """Tokens of the longest prompt and text together; ``None`` where that is not known."""

    def write(self, requests: Sequence[WritingRequest], *, tokens: int) -> list[str | None]:
        """One text for each request, in their order.

        A text is a function of its own request (and of ``tokens``): other requests, their number and their order do not
        change it. The same request gives the same text where the model itself is deterministic.

        Args:
            requests: The requests; none of them is kept.
            tokens: Most tokens of a text.

        Returns:
            A text for each, without leading or trailing spaces; ``None`` where the model failed on that request alone,
            for example because its prompt is too long or is refused.

        Raises:
            ModelError: The model failed for a reason that no single request caused. The message quotes no request.
        """


class EmbeddingScorer(LabelScorer, Embedder, Protocol):
    """A model that embeds, and scores labels."""


@runtime_checkable
class Embeddable(Protocol):
    """A model that answers from prompts, and embeds where it is asked to: at a price, or in one way among several."""

    def embedder(self) -> EmbeddingScorer:
        """The same model as one that embeds, in the way that is usual for it.

        Raises:
            ModelError: It cannot.
        """


def embedding_model(model: LabelScorer) -> LabelScorer:
    """The model as one that embeds, where it is one or can be; else as it is."""
    if not isinstance(model, Embedder) and isinstance(model, Embeddable):
        return model.embedder()
    return model


def knows_labels(model: LabelScorer) -> bool:
    """Whether label names mean something to a model, as far as it says (``knows_labels``)."""
    return bool(getattr(model, "knows_labels", True))


def require_suited(task: Task, model: LabelScorer) -> None:
    """Refuses a task that the model cannot read, where it says what it reads (``reads``: texts, images or numbers)."""
    kind = getattr(model, "reads", None)
    if kind == "texts":
        require_text(task, model.name)
    elif kind == "images":
        require_images(task, model.name)


def require_text(task: Task, model: str) -> None:
    """Refuses a task with images, for a model that reads texts alone."""
    if task.image:
        raise TaskError(
            f"The model {model!r} reads texts, and the task {task.name!r} has images. Use --model embedded-image, or "
            "vision:NAME_OR_PATH for a vision-language model."
        )


def require_images(task: Task, model: str) -> None:
    """Refuses a task of text alone, for a model that reads images."""
    if not task.image:
        raise TaskError(
            f"The model {model!r} reads images, and the task {task.name!r} names no image field. Set 'image' in the "
            "task's file, or use --model embedded or hf:NAME_OR_PATH."
        )
