"""The experts' prefixes after a language model has read them, and how questions are scored against them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, final

import numpy as np
import torch

from sottovoce.errors import ModelError
from sottovoce.models.base import Context, FloatArray
from sottovoce.models.failures import OwnFailure, is_models, is_shared
from sottovoce.models.huggingface.causal_model import CausalModel, quiet
from sottovoce.models.huggingface.engine import Engine
from sottovoce.models.huggingface.label_tree import LabelTree
from sottovoce.models.huggingface.prefix_cache import QuestionRows, left_mask, spread, stack
from sottovoce.models.huggingface.prompts import PromptWriter, Tokens
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Query, Task

T = TypeVar("T")
PREFIX_STEP = 64


@final
@dataclass(frozen=True, repr=False)
class _Item(Opaque):
    """One row to run: a question with one of the label tree's probes, padded to ``bucket`` tokens."""

    query: int
    probe: int
    ids: Tokens
    start: int
    bucket: int


_Batch = tuple[list[_Item], torch.Tensor, torch.Tensor]
"""Rows, their tokens, and where the tree's nodes are read off."""


def prepare(engine: Engine[CausalModel], task: Task, contexts: Sequence[Context], layout: str) -> HFContexts:
    """Contexts whose prefixes are read, as many as may be kept.

    Raises:
        TaskError: A label has no tokens, or two labels have the same.
        ModelError: The model's chat template cannot be used, or the device ran out of memory.
    """
    return engine.prepared(lambda: HFContexts(engine, task, contexts, layout))


@final
class HFContexts(Opaque):
    """Prefixes of all experts, as tokens and as keys and values."""

    def __init__(self, engine: Engine[CausalModel], task: Task, contexts: Sequence[Context], layout: str) -> None:
        self._engine, self._model, self._layout, self._owner = engine, engine.model, layout, engine.new_owner()
        self._writer = PromptWriter(self._model.tokenizer, task, chat=engine.chat)
        self._labels = len(task.labels)
        self._tree = LabelTree(
            task.labels, self._writer.label_paths(), self._writer.eos_tokens(), restricted=engine.restricted
        )
        self._head = self._model.head_rows(self._tree.tokens)
        self._count = len(contexts)
        self._prefixes = [self._readable(context) for context in contexts]
        self._closed = False

    def _public_face(self) -> str:
        return "sealed prefixes"

    def score(self, queries: Sequence[Query]) -> FloatArray:
        """Log-probabilities of the labels, shape (queries, contexts, labels), float64; see ``PreparedContexts``.

        Raises:
            TaskError: A question lacks a field.
            ModelError: The contexts were closed, or the model could not run.
        """
        with self._engine.lock:
            if self._closed:
                raise ModelError("These contexts were closed; prepare them again.")
            scores = np.full((len(queries), self._count, self._labels), 0.0)
            items = self._items(queries, scores)
            self._engine.store.touch(self._owner)
            with _sealed(), self._model.no_gradient():
                if self._layout == "experts":
                    self._score_experts_together(items, scores)
                else:
                    self._score_one_by_one(items, scores)
        scores[~np.isfinite(scores).all(axis=-1)] = np.nan
        return scores

    def pass_tokens(self, queries: Sequence[Query]) -> int:
        """Tokens of the passes over these questions for one context, filled up as they are; none is run."""
        items = self._items(queries, np.zeros((len(queries), 1, 1)))
        passes = _grouped(items, self._engine.rows_of, lambda item: item.bucket)
        return sum(bucket * self._engine.rows_of(bucket) for bucket, _ in passes)

    def close(self) -> None:
        """Forgets the prefixes, their keys and values."""
        with self._engine.lock:
            self._engine.store.drop(self._owner)
            self._prefixes, self._closed = [], True

    def read_all(self) -> None:
        """Reads the prefixes that fit under the memory cap."""
        with _sealed(), self._model.no_gradient():
            for index, prefix in enumerate(self._prefixes):
                if prefix is not None:
                    self._read(index, prefix)

    def _readable(self, context: Context) -> Tokens | None:
        """Tokens of a prefix; ``None``, a null expert, for what this context's own text makes impossible.

        Only what follows from the text alone may make an expert null (specification 8.4). A device that runs out of
        memory does so for reasons that other experts share, and is an error.
        """
        limit, words = self._model.limit, self._model.words
        prefix = None
        with OwnFailure():
            prefix = self._writer.prefix(context)
        fits = prefix is not None and (limit is None or len(prefix) < limit) and max(prefix, default=0) < words
        return prefix if fits else None

    def _read(self, index: int, prefix: Tokens) -> Any:
        """Keys and values of one prefix, batch size 1: from the store, or computed and offered to it."""
        kept = self._engine.store.get(self._owner, index)
        if kept is None:
            kept = self._model.new_cache()
            self._model.features(torch.tensor([prefix], device=self._model.device), cache=kept)
            self._engine.store.offer(self._owner, index, kept)
        return kept

    def _items(self, queries: Sequence[Query], scores: FloatArray) -> list[_Item]:
        items = []
        for number, query in enumerate(queries):
            suffix = self._writer.suffix(query)
            if suffix is None:
                scores[number] = np.nan
                continue
            for place, probe in enumerate(self._tree.probes):
                ids = (*suffix, *probe.path)
                items.append(_Item(number, place, ids, len(suffix), self._engine.padded(len(ids))))
        return items

    def _fits(self, prefix: Tokens, item: _Item) -> bool:
        return self._model.limit is None or len(prefix) + len(item.ids) <= self._model.limit

    def _score_one_by_one(self, items: Sequence[_Item], scores: FloatArray) -> None:
        batches = []
        for bucket, chunk in _grouped(items, self._engine.rows_of, lambda item: item.bucket):
            rows = self._engine.rows_of(bucket)
            batches.append((chunk, self._ids(chunk, bucket, rows), self._read_at(chunk, rows)))
        for index, prefix in enumerate(self._prefixes):
            if prefix is None:
                scores[:, index] = np.nan
                continue
            self._score_context(index, prefix, batches, scores)

    def _score_context(self, index: int, prefix: Tokens, batches: Sequence[_Batch], scores: FloatArray) -> None:
        limit, kept = self._model.limit, None
        if self._engine.reuse_cache:
            rows = max((ids.shape[0] for _, ids, _ in batches), default=0)
            room = max((ids.shape[1] for _, ids, _ in batches), default=0)
            kept = QuestionRows(self._read(index, prefix), rows, room)
        for chunk, ids, read_at in batches:
            room = ids.shape[1] if limit is None else limit - len(prefix)
            short = ids[:, :room]
            if kept is not None:
                features = self._model.features(short, cache=kept.fresh(len(short)))
            else:
                start = torch.tensor([prefix], device=self._model.device).expand(len(short), -1)
                features = self._model.features(torch.cat([start, short], dim=1))[:, len(prefix) :]
            logits = self._logits(features, read_at.clamp(max=short.shape[1] - 1))
            for row, item in enumerate(chunk):
                self._write(item, index, logits[row], scores, fits=self._fits(prefix, item))

    def _score_experts_together(self, items: Sequence[_Item], scores: FloatArray) -> None:
        rows, device, limit = self._engine.rows, self._model.device, self._model.limit
        scores[:, [prefix is None for prefix in self._prefixes]] = np.nan
        readable = [(index, prefix) for index, prefix in enumerate(self._prefixes) if prefix is not None]
        for length, chunk in _grouped(readable, lambda _: rows, lambda pair: _rounded(len(pair[1]) + 1, PREFIX_STEP)):
            # One place on the left is always padding, so that no row can make the mask, and its kernel, go away.
            kept = stack([self._read(index, prefix) for index, prefix in chunk], rows, length)
            lengths = [len(prefix) for _, prefix in chunk]
            before = left_mask(lengths, rows, length, device)
            for item in items:
                ids = self._ids([item], item.bucket, 1).expand(rows, -1)
                steps = torch.arange(item.bucket, device=device)
                positions = torch.tensor([*lengths, *[1] * (rows - len(chunk))], device=device)[:, None] + steps
                if limit is not None:
                    positions = positions.clamp(max=limit - 1)
                mask = torch.cat([before, (steps < len(item.ids)).long().expand(rows, -1)], dim=1)
                features = self._model.features(ids, cache=spread(kept, rows), positions=positions, mask=mask)
                logits = self._logits(features, self._read_at([item], 1).expand(rows, -1))
                for row, (index, prefix) in enumerate(chunk):
                    self._write(item, index, logits[row], scores, fits=self._fits(prefix, item))

    def _ids(self, items: Sequence[_Item], length: int, rows: int) -> torch.Tensor:
        padded = [[*item.ids, *[self._model.pad] * (length - len(item.ids))] for item in items]
        padded += [[self._model.pad] * length] * (rows - len(items))
        return torch.tensor(padded, device=self._model.device)

    def _read_at(self, items: Sequence[_Item], rows: int) -> torch.Tensor:
        """Positions at which the tree's nodes are read off, shape (rows, most nodes of a probe)."""
        places = [[item.start - 1 + depth for depth, _ in self._tree.probes[item.probe].nodes] for item in items]
        padded = [[*place, *[0] * (self._tree.width - len(place))] for place in places]
        padded += [[0] * self._tree.width] * (rows - len(items))
        return torch.tensor(padded, device=self._model.device)

    def _logits(self, features: torch.Tensor, read_at: torch.Tensor) -> FloatArray:
        """Logits of the tree's tokens where its nodes are read off: shape (rows, nodes, tokens)."""
        picked = features.gather(1, read_at[:, :, None].expand(-1, -1, features.shape[-1]))
        if self._engine.restricted:
            logits = self._head(picked)
        else:
            logits = self._model.whole_head(picked).log_softmax(dim=-1)[..., self._tree.tokens]
        return np.asarray(logits.double().cpu().numpy())

    def _write(self, item: _Item, index: int, logits: FloatArray, scores: FloatArray, *, fits: bool) -> None:
        cell = scores[item.query, index]
        if not fits or not np.isfinite(logits[: len(self._tree.probes[item.probe].nodes)]).all():
            cell[:] = np.nan
        else:
            self._tree.read(item.probe, logits, cell)


def _rounded(length: int, step: int) -> int:
    return -(-length // step) * step


def _grouped(
    members: Sequence[T], rows_of: Callable[[int], int], key: Callable[[T], int]
) -> Iterator[tuple[int, list[T]]]:
    """Members with equal keys together, at most as many at a time as there are rows for the key."""
    groups: dict[int, list[T]] = {}
    for member in members:
        groups.setdefault(key(member), []).append(member)
    for value, group in groups.items():
        rows = rows_of(value)
        for start in range(0, len(group), rows):
            yield value, group[start : start + rows]


@contextmanager
def _sealed() -> Iterator[None]:
    """Errors and warnings of the numerical libraries can tell sizes of private texts; what leaves here does not."""
    handled = sys.exception()
    try:
        with quiet():
            yield
    except ModelError:
        raise
    except BaseException as error:
        if not is_models(error):
            raise
        if is_shared(error, handled):
            raise ModelError(
                "The device ran out of memory or of threads. Lower cache_bytes or rows, or use a smaller model.",
                retryable=True,
            ) from None
        raise ModelError(
            f"The model stopped with {type(error).__name__}. See what it can do here: scorer.self_test()."
        ) from None
