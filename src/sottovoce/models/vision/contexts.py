"""The experts' prompts after a vision-language model has read them, and how questions are scored against them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import torch

from sottovoce.errors import ModelError, TaskError
from sottovoce.models.base import Context, FloatArray
from sottovoce.models.failures import OwnFailure
from sottovoce.models.huggingface.contexts import _sealed
from sottovoce.models.huggingface.engine import Engine
from sottovoce.models.huggingface.label_tree import LabelTree
from sottovoce.models.huggingface.prefix_cache import spread
from sottovoce.models.huggingface.prompts import Tokens
from sottovoce.models.images import UnreadableError
from sottovoce.models.vision.prompts import VisionPromptWriter
from sottovoce.models.vision.vision_model import Picture, VisionModel
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Query, Task

ROWS = 8
"""Partly spelled labels that are read together."""


@final
@dataclass(frozen=True, repr=False)
class _Stretch(Opaque):
    """Part of a prompt: its tokens, the pictures among them, and what the language model takes."""

    ids: Tokens
    pictures: tuple[Picture, ...]
    embeddings: torch.Tensor


@final
@dataclass(frozen=True, repr=False)
class _Read(Opaque):
    """A stretch that the language model has read: tokens so far, the place that follows, keys and values."""

    length: int
    place: int
    cache: Any


def prepare(engine: Engine[VisionModel], task: Task, contexts: Sequence[Context]) -> VisionContexts:
    """Contexts that are read, as many as may be kept.

    Raises:
        TaskError: A label has no tokens, or two labels have the same.
        ModelError: The model's chat template cannot be used, or the device ran out of memory.
    """
    return engine.prepared(lambda: VisionContexts(engine, task, contexts))


@final
class VisionContexts(Opaque):
    """Prompts of all experts, as examples and as keys and values. Every expert is computed by itself."""

    def __init__(self, engine: Engine[VisionModel], task: Task, contexts: Sequence[Context]) -> None:
        self._engine, self._model, self._task, self._owner = engine, engine.model, task, engine.new_owner()
        self._writer = VisionPromptWriter(self._model.tokenizer, self._model.template, self._model.placeholder, task)
        self._tree = LabelTree(task.labels, self._writer.label_paths(), self._writer.eos_tokens(), restricted=True)
        self._head = self._model.head_rows(self._tree.tokens)
        self._longest = max(len(probe.path) for probe in self._tree.probes)
        self._contexts: list[Context] = list(contexts)
        self._known: dict[int, tuple[int, int] | None] = {}
        self._closed = False

    def _public_face(self) -> str:
        return "sealed prompts"

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Log-probabilities of the labels, shape (queries, contexts, labels), float64; see ``PreparedContexts``.

        Raises:
            TaskError: A question lacks a field.
            ModelError: The contexts were closed, or the model could not run.
        """
        with self._engine.lock:
            if self._closed:
                raise ModelError("These contexts were closed; prepare them again.")
            scores = np.zeros((len(queries), len(self._contexts), len(self._task.labels)))
            self._engine.store.touch(self._owner)
            self._require_fields(queries)
            with _sealed(), self._model.no_gradient():
                questions = [self._question(query) for query in queries]
                for index in range(len(self._contexts)):
                    self._score_expert(index, questions, scores)
        scores[~np.isfinite(scores).all(axis=-1)] = np.nan
        return scores

    def close(self) -> None:
        """Forgets the examples, their keys and values."""
        with self._engine.lock:
            self._engine.store.drop(self._owner)
            self._contexts, self._known, self._closed = [], {}, True

    def read_all(self) -> None:
        """Reads the prompts; what fits under the memory cap is kept."""
        with _sealed(), self._model.no_gradient():
            for index in range(len(self._contexts)):
                self._read(index)

    def _require_fields(self, queries: Sequence[Query]) -> None:
        for query in queries:
            for name in self._task.fields:
                if not isinstance(query.get(name), str):
                    raise TaskError(f"A row lacks the field {name!r} that the task {self._task.name!r} asks for.")

    def _question(self, query: Query) -> _Stretch | None:
        """A question with its picture; ``None`` if it cannot be read."""
        try:
            pictures = (self._look(query),)
            return self._stretch(self._writer.suffix(query, pictures[0].text), pictures)
        except UnreadableError:
            return None

    def _drawn(self, index: int) -> _Stretch | None:
        """A prompt up to the question; ``None``, a null expert, for what this context alone makes impossible."""
        context = self._contexts[index]
        try:
            pictures = tuple(self._look(example.fields) for example in context)
            fields = [example.fields for example in context]
            labels = [example.label for example in context]
            ids = self._ids(labels, fields, pictures)
            return self._stretch(ids, pictures)
        except UnreadableError:
            return None

    def _look(self, fields: Query) -> Picture:
        return self._model.look(self._model.pixels(fields.get(self._task.image)))

    def _ids(self, labels: Sequence[int], fields: Sequence[Query], pictures: Sequence[Picture]) -> Tokens | None:
        with OwnFailure():
            return self._writer.prefix(labels, fields, [picture.text for picture in pictures])
        raise UnreadableError

    def _stretch(self, ids: Tokens | None, pictures: tuple[Picture, ...]) -> _Stretch:
        limit = self._model.limit
        if ids is None or max(ids, default=0) >= self._model.words or (limit is not None and len(ids) >= limit):
            raise UnreadableError
        return _Stretch(ids, pictures, self._model.embeddings(ids, pictures))

    def _read(self, index: int) -> _Read | None:
        """A prompt, read by itself: from the store, or computed and offered to it; ``None`` for a null expert."""
        kept, known = self._engine.store.get(self._owner, index), self._known.get(index)
        if index in self._known and known is None:
            return None
        if kept is not None and known is not None:
            return _Read(*known, kept)
        drawn = self._drawn(index)
        if drawn is None:
            self._known[index] = None
            return None
        read, _ = self._after(_Read(0, 0, self._model.new_cache()), drawn)
        self._known[index] = (read.length, read.place)
        self._engine.store.offer(self._owner, index, read.cache)
        return read

    def _after(self, before: _Read, stretch: _Stretch) -> tuple[_Read, torch.Tensor]:
        """Reads a stretch behind what was read before, which stays as it is; also the last hidden state."""
        cache = spread(before.cache, 1) if before.length else before.cache
        where, place = self._model.places(stretch.ids, stretch.pictures, before.place)
        features = self._model.features(stretch.embeddings, cache, where)
        return _Read(before.length + len(stretch.ids), place, cache), features[:, -1]

    def _score_expert(self, index: int, questions: Sequence[_Stretch | None], scores: FloatArray) -> None:
        reuse = self._engine.reuse_cache
        drawn = None if reuse else self._drawn(index)
        read = self._read(index) if reuse else None
        length = read.length if read else len(drawn.ids) if drawn else None
        for number, question in enumerate(questions):
            cell = scores[number, index]
            if length is None or question is None or not self._fits(length + len(question.ids)):
                cell[:] = np.nan
            elif read is not None:
                self._score(*self._after(read, question), cell)
            elif drawn is not None:
                whole = _Stretch(
                    (*drawn.ids, *question.ids),
                    (*drawn.pictures, *question.pictures),
                    torch.cat([drawn.embeddings, question.embeddings], dim=1),
                )
                self._score(*self._after(_Read(0, 0, self._model.new_cache()), whole), cell)

    def _fits(self, length: int) -> bool:
        return self._model.limit is None or length + self._longest <= self._model.limit

    def _score(self, read: _Read, last: torch.Tensor, cell: FloatArray) -> None:
        """Adds what every node of the label tree says; rows are partly spelled labels of this one prompt."""
        probes = self._tree.probes
        for start in range(0, len(probes), ROWS):
            rows = probes[start : start + ROWS]
            features = self._spelled(read, [probe.path for probe in rows], last)
            for row, probe in enumerate(rows):
                depths = [depth for depth, _ in probe.nodes]
                logits = np.asarray(self._head(features[row, depths]).double().cpu().numpy())
                if not np.isfinite(logits).all():
                    cell[:] = np.nan
                    return
                self._tree.read(start + row, logits, cell)

    def _spelled(self, read: _Read, paths: Sequence[Tokens], last: torch.Tensor) -> torch.Tensor:
        """Hidden states before and behind each token of the paths: shape (paths, longest + 1, width)."""
        first = last.expand(len(paths), -1)[:, None]
        if not self._longest:
            return first
        padded = [[*path, *[self._model.pad] * (self._longest - len(path))] for path in paths]
        embeddings = torch.cat([self._model.embeddings(path) for path in padded])
        where, _ = self._model.places(padded[0], (), read.place)
        return torch.cat([first, self._model.features(embeddings, spread(read.cache, len(paths)), where)], dim=1)
