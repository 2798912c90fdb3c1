"""The model that needs no other: a frozen sentence encoder and six fitted numbers that learn from examples in context.

A question is compared with the labels' names and with the examples; what an example is worth counts for its own label.
For unit embeddings q (question), x (example) and n (name, in three templates), with the mean c of public texts and the
mean m of public names:

    q' = unit(q - c)    x' = unit(x - c)    y' = unit(unit(mean of the templates of n) - m)
    name's score        a ramp(q'.y' - t)                        ramp(z) = ln(1 + exp(20 z)) / 20
    example's evidence  b (ramp(q'.x' - u) - k), for the example's own label
    several examples    of one label: evidence averaged with weights exp(v evidence / 6), times 1 + 0.3 ln(count)
    log-probabilities   log-softmax(names' scores + evidence)

Without an example the names' scores stand alone. The means remove the constant liking that an encoder has for some
names, which many experts would otherwise repeat until it drowns the examples.

Isolation   By construction. Every text is embedded by itself (``encoder``). From there on each number of a context is
            one dot product per row (never a matrix product, whose blocks depend on the other rows), an elementwise
            function, or a sum over the context's own examples in their order.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import ModelError, ParameterError, TaskError
from sottovoce.models.base import Context, FloatArray, Isolation, require_text
from sottovoce.models.embedded.embedding_cache import EmbeddingCache, EmbeddingStore
from sottovoce.models.embedded.head import Head, load_head
from sottovoce.models.embedded.recipe import recipe_of
from sottovoce.models.embedded.sentence_encoder import Encoder, SentenceEncoder
from sottovoce.models.embedded.text_encoder import VectorArray
from sottovoce.models.embedded.transformer_encoder import TransformerEncoder, folder_of
from sottovoce.models.features import CHARGE, NATS
from sottovoce.models.text_vectors import centre_rule, public_texts
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Example, Query, Task

TEMPLATES = ("{}", "This text is about {}.", "A text of type {}.")
STEEPNESS = 20.0
MOST_EXPONENT = 20.0
SHARPNESS = 5.0
"""Of a head that was not fitted."""
PUBLIC_TEXTS_HELD = 4096
_REFIT = "Fit a head for it with 'sotto models fit-head', and open the two as encoder:NAME_OR_PATH,head=FILE."


@final
class EmbeddedScorer:
    """Scores labels with sentence embeddings, offline, on the processor.

    Args:
        encoder: Another sentence encoder: a local folder or an installed package (see ``SentenceEncoder``). It needs
            a ``head`` fitted for it.
        head: A head file (see ``scripts/fit_head.py``); ``None`` for the one that ships.
        store: Where embeddings of private texts are kept, encrypted: ``None`` for the trusted store, a cache of your
            own, or ``False`` to keep none.
        questions: Where embeddings of questions are kept between runs. ``None`` in use, since the time it takes would
            tell what was asked before; benchmarks on public rows name a store.

    Attributes:
        name: ``embedded``, followed by the encoder's name if it is not the default one.
        isolation: By construction.
        head: The fitted numbers.
        knows_labels: Whether label names mean anything to it.
        note: What to say to whoever opens it, in a line; empty as a rule.

    Raises:
        MissingExtraError: The default encoder, onnxruntime, tokenizers or safetensors is not installed.
        ParameterError: There is no such encoder, or it comes without a head.
        ModelError: A file of the encoder or the head is damaged, or they do not belong together.

    Example:
        >>> from sottovoce.tasks import Example, Task
        >>> task = Task(labels=["dax", "blicket"])
        >>> context = [Example({"text": "My card was charged twice."}, 0), Example({"text": "The parcel is late."}, 1)]
        >>> prepared = EmbeddedScorer(store=False).prepare(task, [context])
        >>> scores = prepared.score([{"text": "I was billed two times for one order."}])
        >>> scores.shape, int(scores[0, 0].argmax())
        ((1, 1, 2), 0)
    """

    isolation = Isolation.BY_CONSTRUCTION
    reads = "texts"
    knows_labels = True
    note = ""

    def __init__(
        self,
        encoder: str | os.PathLike[str] | None = None,
        head: str | os.PathLike[str] | None = None,
        store: EmbeddingStore | Literal[False] | None = None,
        questions: EmbeddingStore | None = None,
    ) -> None:
        if encoder is not None and head is None:
            raise ParameterError("head", head, "a head file fitted for this encoder, as scripts/fit_head.py writes it")
        self._encoder: Encoder = SentenceEncoder(encoder)
        self._set(
            "embedded" if encoder is None else f"embedded:{os.fspath(encoder)}",
            load_head(None if head is None else Path(head)),
            store,
            questions,
        )

    @classmethod
    def named(
        cls, name: str, *, dtype: str = "float32", store: EmbeddingStore | Literal[False] | None = None
    ) -> EmbeddedScorer:
        """Any sentence encoder: ``NAME_OR_PATH`` or ``NAME_OR_PATH,head=FILE``, which is what follows ``encoder:``.

        Without a head label names mean nothing to it. Its answers without examples are uniform, and examples count by
        fixed public numbers, those of ``vectors:``; the mean of some bundled public texts is taken off.

        Args:
            name: A folder, an installed package that holds one named ``model``, or a name on the hub, in the layout of
                the transformers or of the sentence-transformers library.
            dtype: ``float32`` or ``bfloat16``.
            store: As above.

        Raises:
            MissingExtraError: A package of the extra ``local`` is not installed.
            ModelError: There is no such encoder, it asks for what is not supported, or the head is another one's.
        """
        path, _, head = name.partition(",head=")
        made = cls.__new__(cls)
        made._encoder = open_encoder(path, dtype=dtype)
        made._set(f"encoder:{name}", load_head(Path(head)) if head else _headless(made._encoder), store, None)
        if not head:
            made._mean, made.knows_labels = centre_rule(), False
            made.note = (
                f"encoder:{name} has no head: label names mean nothing to it. "
                f"Make one with 'sotto models fit-head', and name it: encoder:{path},head=FILE."
            )
        return made

    def _set(
        self,
        name: str,
        head: Head,
        store: EmbeddingStore | Literal[False] | None,
        questions: EmbeddingStore | None,
    ) -> None:
        self.name, self.head, self._mean = name, head, ""
        _refuse_strangers(head, self._encoder)
        self._cache: EmbeddingStore | Literal[False] = EmbeddingCache() if store is None else store
        self._questions = questions
        self._public: dict[str, VectorArray] = {}

    def load(self) -> None:
        """Loads the encoder now, so that a failure comes before anything private is read.

        Raises:
            ModelError: It cannot be loaded.
        """
        self._encoder.load()

    def __getstate__(self) -> dict[str, Any]:
        """What another process is sent: it computes vectors itself."""
        return {**self.__dict__, "_public": {}}

    def prepare(self, task: Task, contexts: Sequence[Context]) -> EmbeddedContexts:
        """Embeds the labels' names and the examples of every expert.

        Args:
            task: Its labels and query fields; the encoder reads bare texts, no templates.
            contexts: One sequence of examples for each expert, of any length; an empty one is zero-shot.

        Raises:
            TaskError: The encoder can read nothing of a label's name, or an example's label is not in the task.
            ModelError: The encoder cannot run.
        """
        require_text(task, self.name)
        names = self._names(task)
        examples = [example for context in contexts for example in context]
        owners = np.array([example.label for example in examples], dtype=np.intp)
        if ((owners < 0) | (owners >= len(task.labels))).any():
            raise TaskError(f"An example's label is outside the {len(task.labels)} labels of the task {task.name!r}.")
        vectors = self._embed_private([task.text_of(example.fields) for example in examples])
        sizes = [len(context) for context in contexts]
        return EmbeddedContexts(self, task, names, vectors, owners, sizes)

    def read_once(self, task: Task, examples: Sequence[Example]) -> None:
        """Embeds private examples now, so that which of them a random sample holds leaves no trace in the store."""
        self._embed_private([task.text_of(example.fields) for example in examples])

    @cached_property
    def embedding(self) -> str:
        """SHA-256 over the encoder's files and the mean that is taken off: its numbers in a head, or how it is made."""
        mean = self._mean.encode() or self.head.text_mean.tobytes()
        return hashlib.sha256(self._encoder.digest.encode() + mean).hexdigest()

    @cached_property
    def run_settings(self) -> dict[str, Any]:
        """What tells it from another model of its name: a run is resumed with the same alone.

        Its encoder's files, how texts are read, its dtype, and every number of a head file.
        """
        head = None if self._mean else self.head.digest  # else it is made of the encoder, and rounded as here
        return {"embedding": self.embedding, "head": head, "dtype": self._encoder.dtype}

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._encoder.dimension

    def embed_records(self, task: Task, records: Sequence[Query]) -> FloatArray:
        """Private texts as unit vectors off the mean of public texts, shape (records, dimension), float64."""
        return self.unfolded(self.embed_compactly(task, records))

    def embed_compactly(self, task: Task, records: Sequence[Query]) -> VectorArray:
        """Private texts as the encoder gives them, shape (records, dimension), float32."""
        require_text(task, self.name)
        return self._embed_private([task.text_of(record) for record in records]).astype(np.float32)

    def unfolded(self, vectors: VectorArray) -> FloatArray:
        """The encoder's vectors as unit vectors off the mean of public texts, shape as given, float64."""
        return _unit(vectors.astype(np.float64) - self.head.text_mean)

    def embed_questions(self, task: Task, queries: Sequence[Query]) -> FloatArray:
        """Public texts likewise; they are not looked up among private ones."""
        require_text(task, self.name)
        return _unit(self.embed_queries([task.text_of(query) for query in queries]) - self.head.text_mean)

    def embed_queries(self, texts: Sequence[str]) -> FloatArray:
        """Embeds public texts, shape (texts, dimension), float64; the latest few thousand stay in memory."""
        cut = [self._encoder.cut(text) for text in texts]
        known = {text: self._public[text] for text in cut if text in self._public}
        missing = [text for text in dict.fromkeys(cut) if text not in known]
        if missing:
            fresh = dict(zip(missing, self._encode_questions(missing), strict=True))
            known |= fresh
            self._public = dict([*self._public.items(), *fresh.items()][-PUBLIC_TEXTS_HELD:])
        return _stacked([known[text] for text in cut], self._encoder.dimension)

    def _encode_questions(self, texts: Sequence[str]) -> Sequence[VectorArray]:
        if self._questions is None:
            return list(self._encoder.encode(texts))
        return _kept(self._questions, self._encoder, texts)

    def _names(self, task: Task) -> FloatArray:
        """The labels' names as unit vectors off their mean, shape (labels, dimension)."""
        silent = [label for label in task.labels if not self._encoder.pieces(label)]
        if silent:
            raise TaskError(f"The encoder can read nothing of the label {silent[0]!r}. Give it a name with letters.")
        filled = [template.format(label) for label in task.labels for template in TEMPLATES]
        vectors = self.embed_queries(filled).reshape(len(task.labels), len(TEMPLATES), -1)
        return _unit(_unit(vectors.mean(axis=1)) - self.head.name_mean)

    def _embed_private(self, texts: Sequence[str]) -> FloatArray:
        cut = [self._encoder.cut(text) for text in texts]
        if not cut:
            return np.empty((0, self._encoder.dimension))
        if self._cache is False:
            return self._encoder.encode(cut).astype(np.float64)
        return _stacked(_kept(self._cache, self._encoder, cut), self._encoder.dimension)


@final
class EmbeddedContexts(Opaque):
    """Examples that the embedded model has read. Sealed: it does not print or pickle."""

    __slots__ = ("_bonus", "_cells", "_examples", "_filled", "_names", "_scorer", "_sizes", "_task")

    def __init__(
        self,
        scorer: EmbeddedScorer,
        task: Task,
        names: FloatArray,
        vectors: FloatArray,
        owners: NDArray[np.intp],
        sizes: Sequence[int],
    ) -> None:
        labels = len(task.labels)
        self._scorer, self._task, self._names, self._sizes = scorer, task, names, len(sizes)
        self._examples: FloatArray | None = _unit(vectors - scorer.head.text_mean)
        self._cells = np.repeat(np.arange(len(sizes)), sizes) * labels + owners
        counts = np.bincount(self._cells, minlength=len(sizes) * labels)
        self._filled = counts > 0
        self._bonus = 1 + 0.3 * np.log(np.maximum(counts, 1))

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Natural-log probabilities of the labels, shape (queries, contexts, labels), float64.

        A context holding an embedding that is not finite has NaN in its row, and no other row is touched.

        Raises:
            ModelError: The contexts were closed, or the encoder cannot run.
        """
        if self._examples is None:
            raise ModelError("These contexts were closed. Prepare them again.")
        questions = self._scorer.embed_queries([self._task.text_of(query) for query in queries])
        scores = np.empty((len(queries), self._sizes, len(self._task.labels)))
        with np.errstate(all="ignore"):
            for row, question in zip(scores, _unit(questions - self._scorer.head.text_mean), strict=True):
                row[...] = self._score_query(question, self._examples)
        return scores

    def close(self) -> None:
        """Forgets the examples."""
        self._examples = None

    def _score_query(self, question: FloatArray, examples: FloatArray) -> FloatArray:
        head = self._scorer.head
        names = head.name_scale * _ramp(np.vecdot(self._names, question) - head.name_threshold)
        near = np.vecdot(examples, question)
        evidence = head.example_scale * (_ramp(near - head.example_threshold) - head.example_charge)
        weight = np.exp(np.minimum(head.sharpness * evidence / 6, MOST_EXPONENT))
        cells = len(self._filled)
        total = np.bincount(self._cells, weight, minlength=cells)
        summed = np.bincount(self._cells, weight * evidence, minlength=cells)
        pooled = np.where(self._filled, summed / np.where(self._filled, total, 1.0) * self._bonus, 0.0)
        scores = names + pooled.reshape(self._sizes, len(self._task.labels))
        return np.asarray(scores - np.logaddexp.reduce(scores, axis=-1, keepdims=True), dtype=np.float64)


def open_encoder(name: str, *, dtype: str = "float32") -> TransformerEncoder:
    """An encoder as its folder says that it is run.

    Args:
        name: A folder, an installed package that holds one named ``model``, or a name on the hub.
        dtype: ``float32`` or ``bfloat16``.

    Raises:
        MissingExtraError: A package of the extra ``embedded`` is not installed.
        ModelError: There is none, or it asks for what is not supported.
    """
    folder = folder_of(name)
    return TransformerEncoder(folder, dtype=dtype, recipe=recipe_of(folder))


def _kept(store: EmbeddingStore, encoder: Encoder, texts: Sequence[str]) -> list[VectorArray]:
    """Vectors from the store where it has them intact; the others are computed and kept."""
    vectors = store.find(encoder.identity, texts)
    missing = [index for index, vector in enumerate(vectors) if not _intact(vector, encoder.dimension)]
    if missing:
        texts_missing = [texts[index] for index in missing]
        computed = encoder.encode(texts_missing)
        store.keep(encoder.identity, texts_missing, list(computed))
        for index, vector in zip(missing, computed, strict=True):
            vectors[index] = vector
    return [vector for vector in vectors if vector is not None]


def _unit(vectors: FloatArray) -> FloatArray:
    with np.errstate(all="ignore"):
        return np.asarray(vectors / np.sqrt(np.vecdot(vectors, vectors))[..., None], dtype=np.float64)


def _ramp(values: FloatArray) -> FloatArray:
    return np.asarray(np.logaddexp(0.0, STEEPNESS * values) / STEEPNESS, dtype=np.float64)


def _stacked(vectors: Sequence[VectorArray], dimension: int) -> FloatArray:
    return np.array(vectors, dtype=np.float64).reshape(len(vectors), dimension)


def _intact(vector: VectorArray | None, dimension: int) -> bool:
    return vector is not None and vector.shape == (dimension,) and bool(np.isfinite(vector).all())


def _headless(encoder: Encoder) -> Head:
    """A head that was fitted on nothing: names say nothing, examples what they say to ``vectors:``.

    Raises:
        ModelError: The encoder cannot run, or gives numbers that are not finite for public texts.
    """
    vectors = encoder.encode(public_texts()).astype(np.float64)
    if not np.isfinite(vectors).all():
        raise ModelError("The encoder gave numbers that are not finite for public texts. Check its weights.")
    nothing = np.zeros(encoder.dimension)
    return Head(0.0, 0.0, NATS, 0.0, CHARGE, SHARPNESS, vectors.mean(axis=0), nothing, encoder.digest)


def _refuse_strangers(head: Head, encoder: Encoder) -> None:
    if head.dimension != encoder.dimension:
        raise ModelError(
            f"The head was fitted for embeddings of {head.dimension} dimensions, the encoder gives "
            f"{encoder.dimension}. {_REFIT}"
        )
    if head.encoder != encoder.digest:
        raise ModelError(f"The head was fitted for another encoder. {_REFIT}")
