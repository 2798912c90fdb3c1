"""The image model that needs no other: a small encoder and six fitted numbers that learn pictures' names in context.

A name's text is not read, for the names of the task mean nothing ("dax"). Only examples tell what a name stands for:
without one every name is equally likely. For unit embeddings q (question) and x (example):

    example's evidence  a (ramp(q.x - u) - k), for the example's own name      ramp(z) = ln(1 + exp(s z)) / s
    several examples    of one name: evidence averaged with weights exp(v evidence / 6), times 1 + w ln(count)
    log-probabilities   log-softmax(evidence)

Evidence may be negative: an example unlike the question makes its own name less likely than all others. Those others
would then be exactly equal, and every expert that votes would name the first of them. So each expert has whims of its
own, up to a millionth of a nat, that its examples, the question and a name's place decide. They settle ties alone:

    whim of name y      cos(1000 r_y.(q z)) / 1,000,000     z = sum of the examples, r_y = fixed signs

Isolation   By construction. Every picture is embedded by itself (``image_encoder``). From there on each number of a
            context is one dot product per row (never a matrix product, whose blocks depend on the other rows), an
            elementwise function, or a sum over the context's own examples in their order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ModelError, TaskError
from sottovoce.models.base import Context, FloatArray, Isolation, require_images
from sottovoce.models.embedded.embedding_cache import EmbeddingCache
from sottovoce.models.embedded.image_encoder import ImageEncoder
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Example, Query, Task

VectorArray = NDArray[np.float32]

MOST_EXPONENT = 20.0
WHIM, WHIM_PITCH = 1e-6, 1000.0
PUBLIC_IMAGES_HELD = 4096


class Store(Protocol):
    """Where embeddings of private pictures are kept; ``EmbeddingCache`` is one."""

    def find(self, encoder: str, texts: Sequence[str]) -> Sequence[VectorArray | None]:
        """The vector of each picture's base64 text, or ``None`` where there is none that is intact."""

    def keep(self, encoder: str, texts: Sequence[str], vectors: Sequence[VectorArray]) -> None:
        """Stores vectors under the pictures' base64 texts."""


@final
class EmbeddedImageScorer:
    """Scores names of pictures by likeness to the examples, offline, on the processor.

    Args:
        weights: A file that ``scripts/train_image_encoder.py`` wrote; ``None`` for the one that ships.
        store: Where embeddings of private pictures are kept: ``None`` for the trusted store, encrypted, a store of your
            own, or ``False`` to keep none.

    Attributes:
        name: ``embedded-image``.
        isolation: By construction.
        numbers: The fitted numbers: ``scale`` a, ``threshold`` u, ``charge`` k, ``steepness`` s, ``sharpness`` v,
            ``growth`` w.

    Raises:
        MissingExtraError: A package of the extra ``images`` is not installed.
        ModelError: The weights are damaged.

    Example:
        >>> import base64, io
        >>> from PIL import Image
        >>> from sottovoce.tasks import Example, load_task
        >>> def bar(size: tuple[int, int]) -> str:
        ...     picture, file = Image.new("L", (60, 60), 255), io.BytesIO()
        ...     picture.paste(0, (10, 10, 10 + size[0], 10 + size[1]))
        ...     picture.save(file, "PNG")
        ...     return base64.b64encode(file.getvalue()).decode()
        >>> context = [Example({"image": bar((4, 40))}, 0), Example({"image": bar((40, 4))}, 1)]
        >>> prepared = EmbeddedImageScorer(store=False).prepare(load_task("pseudonames"), [context])
        >>> scores = prepared.score([{"image": bar((5, 30))}])
        >>> scores.shape, int(scores[0, 0].argmax())
        ((1, 1, 5), 0)
    """

    name = "embedded-image"
    isolation = Isolation.BY_CONSTRUCTION
    reads = "images"

    def __init__(
        self, weights: str | os.PathLike[str] | None = None, store: Store | Literal[False] | None = None
    ) -> None:
        self._encoder = ImageEncoder(None if weights is None else Path(weights))
        self.numbers = dict(self._encoder.numbers)
        self._store: Store | Literal[False] = EmbeddingCache() if store is None else store
        self._public: dict[bytes, VectorArray] = {}

    def __getstate__(self) -> dict[str, Any]:
        """What another process is sent: it computes vectors itself."""
        return {**self.__dict__, "_public": {}}

    def prepare(self, task: Task, contexts: Sequence[Context]) -> EmbeddedImageContexts:
        """Embeds the examples of every expert.

        Args:
            task: Its number of labels and its image field; label names, templates and other fields are not read.
            contexts: One sequence of examples for each expert, of any length; an empty one is zero-shot.

        Raises:
            TaskError: The task has no image field, or an example's label is not in the task.
            ModelError: The machine ran out of memory.
        """
        require_images(task, self.name)
        examples = [example for context in contexts for example in context]
        owners = np.array([example.label for example in examples], dtype=np.intp)
        if ((owners < 0) | (owners >= len(task.labels))).any():
            raise TaskError(f"An example's label is outside the {len(task.labels)} labels of the task {task.name!r}.")
        vectors = self._embed_private([example.fields[task.image] for example in examples])
        return EmbeddedImageContexts(self, task, vectors, owners, [len(context) for context in contexts])

    def read_once(self, task: Task, examples: Sequence[Example]) -> None:
        """Embeds private pictures now, so that which of them a random sample holds leaves no trace in the store."""
        self._embed_private([example.fields[task.image] for example in examples])

    @property
    def run_settings(self) -> dict[str, Any]:
        """What tells it from another one of its name: a run is resumed with the same alone."""
        return {"weights": self.embedding}

    @property
    def embedding(self) -> str:
        """SHA-256 of the encoder's weights."""
        return self._encoder.digest

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._encoder.dimension

    def embed_records(self, task: Task, records: Sequence[Query]) -> FloatArray:
        """Private pictures as unit vectors, shape (records, dimension), float64."""
        require_images(task, self.name)
        return self._embed_private([record[task.image] for record in records])

    def embed_questions(self, task: Task, queries: Sequence[Query]) -> FloatArray:
        """Public pictures likewise; they are not looked up among private ones."""
        require_images(task, self.name)
        return self.embed_queries([query[task.image] for query in queries])

    def embed_queries(self, images: Sequence[str]) -> FloatArray:
        """Embeds public pictures, shape (images, dimension), float64; the latest few thousand stay in memory."""
        held, names = (
            self._public,
            [hashlib.sha256(image.encode("utf-8", "surrogatepass")).digest() for image in images],
        )
        known = {name: held[name] for name in names if name in held}
        missing = {name: image for name, image in zip(names, images, strict=True) if name not in known}
        if missing:
            vectors = self._encoder.encode(list(missing.values())).astype(np.float32)
            fresh = dict(zip(missing, vectors, strict=True))
            known |= fresh
            self._public = dict([*held.items(), *fresh.items()][-PUBLIC_IMAGES_HELD:])
        return _stacked([known[name] for name in names], self._encoder.dimension)

    def _embed_private(self, images: Sequence[str]) -> FloatArray:
        if self._store is False or not images:
            return self._encoder.encode(images).astype(np.float32).astype(np.float64)
        identity = self._encoder.identity
        vectors = list(self._store.find(identity, images))
        missing = [index for index, vector in enumerate(vectors) if not _intact(vector, self._encoder.dimension)]
        if missing:
            computed = self._encoder.encode([images[index] for index in missing]).astype(np.float32)
            for index, vector in zip(missing, computed, strict=True):
                vectors[index] = vector
            readable = [index for index in missing if _intact(vectors[index], self._encoder.dimension)]
            self._store.keep(
                identity, [images[index] for index in readable], [v for i in readable if (v := vectors[i]) is not None]
            )
        return _stacked([vector for vector in vectors if vector is not None], self._encoder.dimension)


@final
class EmbeddedImageContexts(Opaque):
    """Examples that the image model has read. Sealed: it does not print or pickle."""

    __slots__ = ("_bonus", "_cells", "_examples", "_filled", "_scorer", "_signs", "_sizes", "_sums", "_task")

    def __init__(
        self,
        scorer: EmbeddedImageScorer,
        task: Task,
        vectors: FloatArray,
        owners: NDArray[np.intp],
        sizes: Sequence[int],
    ) -> None:
        labels, ends = len(task.labels), np.cumsum([0, *sizes])
        self._scorer, self._task, self._sizes = scorer, task, len(sizes)
        self._examples: FloatArray | None = vectors
        self._sums = np.zeros((len(sizes), vectors.shape[1]))
        for row, first, last in zip(self._sums, ends, ends[1:], strict=False):
            row[...] = vectors[first:last].sum(axis=0)
        self._signs = _signs(labels, vectors.shape[1])
        self._cells = np.repeat(np.arange(len(sizes)), sizes) * labels + owners
        counts = np.bincount(self._cells, minlength=len(sizes) * labels)
        self._filled = counts > 0
        self._bonus = 1 + scorer.numbers["growth"] * np.log(np.maximum(counts, 1))

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Natural-log probabilities of the labels, shape (queries, contexts, labels), float64.

        A context with a picture that cannot be read has NaN in its row, and no other row is touched. After a question
        that cannot be read every context has NaN, an empty one too, so that it is found out before a charge.

        Raises:
            ModelError: The contexts were closed, or the machine ran out of memory.
        """
        if self._examples is None:
            raise ModelError("These contexts were closed. Prepare them again.")
        questions = self._scorer.embed_queries([query[self._task.image] for query in queries])
        scores = np.empty((len(queries), self._sizes, len(self._task.labels)))
        with np.errstate(all="ignore"):
            for row, question in zip(scores, questions, strict=True):
                row[...] = self._score_query(question, self._examples) if np.isfinite(question).all() else np.nan
        return scores

    def close(self) -> None:
        """Forgets the examples."""
        self._examples = None
        self._sums = np.empty((0, 0))

    def _score_query(self, question: FloatArray, examples: FloatArray) -> FloatArray:
        evidence = evidence_of(np.vecdot(examples, question), self._scorer.numbers)
        weight = np.exp(np.minimum(self._scorer.numbers["sharpness"] * evidence / 6, MOST_EXPONENT))
        cells = len(self._filled)
        total = np.bincount(self._cells, weight, minlength=cells)
        summed = np.bincount(self._cells, weight * evidence, minlength=cells)
        pooled = np.where(self._filled, summed / np.where(self._filled, total, 1.0) * self._bonus, 0.0)
        scores = pooled.reshape(self._sizes, len(self._task.labels))
        whims = np.cos(WHIM_PITCH * np.vecdot((self._sums * question)[:, None, :], self._signs[None, :, :]))
        scores = scores + WHIM * np.where(self._filled.reshape(scores.shape).any(axis=1, keepdims=True), whims, 0.0)
        return np.asarray(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True), dtype=np.float64)


def evidence_of(near: FloatArray, numbers: Mapping[str, float]) -> FloatArray:
    """What examples say for their own names, in nats, at these cosine similarities with the question.

    Example:
        >>> numbers = {"scale": 10.0, "threshold": 0.5, "charge": 0.2, "steepness": 50.0}
        >>> evidence_of(np.array([-0.5, 0.5, 1.0]), numbers).round(2).tolist()
        [-2.0, -1.86, 3.0]
    """
    steepness = numbers["steepness"]
    ramp = np.logaddexp(0.0, steepness * (near - numbers["threshold"])) / steepness
    return np.asarray(numbers["scale"] * (ramp - numbers["charge"]), dtype=np.float64)


def _signs(labels: int, dimension: int) -> FloatArray:
    """For each label a fixed row of signs without pattern, shape (labels, dimension)."""
    digests = [hashlib.shake_256(f"label {label}".encode()).digest(-(-dimension // 8)) for label in range(labels)]
    bits = np.unpackbits(np.frombuffer(b"".join(digests), np.uint8).reshape(labels, -1), axis=1)[:, :dimension]
    return np.asarray(bits * 2.0 - 1.0, dtype=np.float64)


def _stacked(vectors: Sequence[VectorArray], dimension: int) -> FloatArray:
    return np.array(vectors, dtype=np.float64).reshape(len(vectors), dimension)


def _intact(vector: VectorArray | None, dimension: int) -> bool:
    return vector is not None and vector.shape == (dimension,) and bool(np.isfinite(vector).all())
