"""Model scores kept on disk, so that no sweep over a price, a clip or a method asks a model the same thing twice.

For public rows alone. A score is kept under model, prompt and question: the model's name and the digest of its files,
the task's texts and labels, the demonstrations, the question. Embeddings of public texts are kept beside them.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import final

import numpy as np
from numpy.typing import NDArray

from sottovoce.models.base import Context, FloatArray, LabelScorer, PreparedContexts
from sottovoce.records.sealed import Opaque
from sottovoce.tasks import Query, Task

_SCHEMA = """
PRAGMA synchronous = NORMAL;
CREATE TABLE IF NOT EXISTS score (key BLOB PRIMARY KEY, labels BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS vector (key BLOB PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
"""
_CHUNK = 500
_MEBIBYTE = 1 << 20


@final
class ScoreCache:
    """One SQLite file.

    Args:
        file: Made where missing, with its folder.
    """

    def __init__(self, file: Path) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        self._rows = sqlite3.connect(file, timeout=60)
        with suppress(sqlite3.OperationalError):  # another run is making the same file just now
            self._rows.execute("PRAGMA journal_mode = WAL")
        self._rows.executescript(_SCHEMA)
        self._vectors: dict[bytes, NDArray[np.float32]] = {}

    def scores(self, keys: Sequence[bytes]) -> dict[bytes, FloatArray]:
        """What is known under these keys: log-probabilities of the labels."""
        return {key: np.frombuffer(value, "<f8") for key, value in self._read("score", "labels", keys)}

    def add_scores(self, scores: Mapping[bytes, FloatArray]) -> None:
        """Keeps log-probabilities of the labels."""
        self._write("score", ((key, np.ascontiguousarray(value, "<f8").tobytes()) for key, value in scores.items()))

    def find(self, encoder: str, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        """Embeddings of public texts, as ``models.embedding_cache.EmbeddingStore``."""
        keys = [digest(encoder, text) for text in texts]
        unknown = [key for key in dict.fromkeys(keys) if key not in self._vectors]
        self._vectors |= {key: np.frombuffer(value, "<f4") for key, value in self._read("vector", "value", unknown)}
        return [self._vectors.get(key) for key in keys]

    def keep(self, encoder: str, texts: Sequence[str], vectors: Sequence[NDArray[np.float32]]) -> None:
        """Keeps embeddings of public texts."""
        fresh = {digest(encoder, t): np.ascontiguousarray(v, "<f4") for t, v in zip(texts, vectors, strict=True)}
        self._vectors |= fresh
        self._write("vector", ((key, value.tobytes()) for key, value in fresh.items()))

    def close(self) -> None:
        """Closes the file."""
        self._rows.close()

    def _read(self, table: str, column: str, keys: Sequence[bytes]) -> Iterable[tuple[bytes, bytes]]:
        for start in range(0, len(keys), _CHUNK):
            chunk = keys[start : start + _CHUNK]
            marks = ",".join("?" * len(chunk))
            yield from self._rows.execute(f"SELECT key, {column} FROM {table} WHERE key IN ({marks})", chunk)

    def _write(self, table: str, rows: Iterable[tuple[bytes, bytes]]) -> None:
        with self._rows:
            self._rows.executemany(f"INSERT OR REPLACE INTO {table} VALUES (?, ?)", rows)


@final
class StoredScorer:
    """A model whose scores are looked up before it is asked.

    Args:
        scorer: The model.
        store: Where its scores are kept.

    Attributes:
        name: The model's.
        isolation: The model's.
        asked: Pairs of prompt and question that the model had to answer.
        found: The other pairs: known before, or the same as another one of the same call.
    """

    def __init__(self, scorer: LabelScorer, store: ScoreCache) -> None:
        self.scorer, self.store = scorer, store
        self.name, self.isolation = scorer.name, scorer.isolation
        self.identity = identity_of(scorer)
        self.asked = self.found = 0

    def prepare(self, task: Task, contexts: Sequence[Context]) -> PreparedContexts:
        return _StoredContexts(self, task, contexts)

    def keys(self, task: Task, contexts: Sequence[Context], queries: Sequence[Query]) -> list[list[bytes]]:
        """Of every question with every prompt: shape (queries, contexts)."""
        task_text = json.dumps([list(task.labels), task.instruction, task.query, task.example, task.image])
        prompts = [digest(task_text, *(task.render_example(example) for example in context)) for context in contexts]
        questions = [digest(self.identity, task.render_query(query)) for query in queries]
        return [[hashlib.blake2b(q + p, digest_size=16).digest() for p in prompts] for q in questions]


@final
class _StoredContexts(Opaque):
    __slots__ = ("_contexts", "_owner", "_task")

    def __init__(self, owner: StoredScorer, task: Task, contexts: Sequence[Context]) -> None:
        self._owner, self._task, self._contexts = owner, task, contexts

    def score(self, queries: Sequence[Query]) -> FloatArray:
        owner, keys = self._owner, self._owner.keys(self._task, self._contexts, queries)
        known = owner.store.scores(list(dict.fromkeys(key for row in keys for key in row)))
        computed = 0
        for columns, rows in _unknown(keys, known).items():
            prepared = owner.scorer.prepare(self._task, [self._contexts[c] for c in columns])
            scores = prepared.score([queries[q] for q in rows])
            prepared.close()
            fresh = {keys[q][c]: scores[i, j] for i, q in enumerate(rows) for j, c in enumerate(columns)}
            owner.store.add_scores(fresh)
            known |= fresh
            computed += len(fresh)
        owner.asked += computed
        owner.found += len(queries) * len(self._contexts) - computed
        return np.array([[known[key] for key in row] for row in keys]).reshape(
            len(queries), len(self._contexts), len(self._task.labels)
        )

    def close(self) -> None:
        pass


def _unknown(keys: Sequence[Sequence[bytes]], known: Container[bytes]) -> dict[tuple[int, ...], list[int]]:
    """What to ask: for each set of prompts the questions that lack just these. No pair is asked twice."""
    claimed: set[bytes] = set()
    groups: dict[tuple[int, ...], list[int]] = {}
    for question, row in enumerate(keys):
        lacking = []
        for prompt, key in enumerate(row):
            if key not in known and key not in claimed:
                claimed.add(key)
                lacking.append(prompt)
        if lacking:
            groups.setdefault(tuple(lacking), []).append(question)
    return groups


def digest(*texts: str) -> bytes:
    """Sixteen bytes that stand for these texts in this order."""
    return hashlib.blake2b(json.dumps(texts).encode(), digest_size=16).digest()


def identity_of(scorer: LabelScorer) -> str:
    """Name and version of a model: another checkpoint or head must not be answered from the store."""
    identity: list[object] = [scorer.name, type(scorer).__name__]
    head = getattr(scorer, "head", None)
    if head is not None:
        identity += [repr(value.tolist() if hasattr(value, "tolist") else value) for value in vars(head).values()]
    elif hasattr(scorer, "numbers"):
        # The model of images: its encoder is small and tells its weights and how this machine rounds.
        identity += [repr(dict(scorer.numbers)), str(getattr(getattr(scorer, "_encoder", None), "identity", ""))]
    identity += [str(getattr(scorer, "digest", "")), str(getattr(getattr(scorer, "model", None), "dtype", ""))]
    folder = Path(scorer.name.partition(":")[2])
    if scorer.name.partition(":")[2] and folder.is_dir():
        identity += [[f.name, f.stat().st_size, _sampled(f)] for f in sorted(folder.iterdir()) if f.is_file()]
    return digest(*(json.dumps(item) for item in identity)).hex()


def _sampled(file: Path) -> str:
    """Digest of a file's first and last mebibyte and of 4 KiB of every one between: gigabytes are not read whole."""
    size, hasher = file.stat().st_size, hashlib.sha256()
    with file.open("rb") as content:
        hasher.update(content.read(_MEBIBYTE))
        for start in range(_MEBIBYTE, size, _MEBIBYTE):
            content.seek(start)
            hasher.update(content.read(4096))
        content.seek(max(0, size - _MEBIBYTE))
        hasher.update(content.read())
    return hasher.hexdigest()
