"""Embeddings of private texts, kept between runs without giving the texts away.

The cache is one SQLite file in the trusted store, the user's data folder (or the folder that ``SOTTOVOCE_HOME`` names),
never beside the data. Without a record's text its entry can be neither found nor read:

    entry's name    HMAC-SHA256(secret, encoder, text)
    entry's value   AES-256-GCM of the vector under HKDF-SHA256(SHA-256(text), salt = secret, info = encoder)

The secret lies in a file of its own beside the cache, readable by its owner alone. An embedding tells much of its text,
so none is stored in clear. What remains: whoever has the secret, the cache and a guess of a text can confirm the guess,
and the number of entries is visible. Queries are never looked up here, since the time it takes would tell whether a
question equals a record.

A cache is a convenience: whatever goes wrong with it, the embedding is computed instead and nothing is reported.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Protocol, final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from sottovoce.parameters import Number
from sottovoce.store import home, private_folder

VectorArray = NDArray[np.float32]

SECRET_BYTES = 32
NONCE_BYTES = 12
PATIENCE_S = 5.0
WRITE_AHEAD_TRIES = 100

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (age INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB NOT NULL UNIQUE, value BLOB NOT NULL)
"""


def default_folder() -> Path:
    """Where the cache lies unless the caller names a folder."""
    return home() / "embeddings"


class EmbeddingStore(Protocol):
    """Where embeddings are kept between runs."""

    def find(self, encoder: str, texts: Sequence[str]) -> list[VectorArray | None]:
        """For each text its vector, or ``None``."""

    def keep(self, encoder: str, texts: Sequence[str], vectors: Sequence[VectorArray]) -> None:
        """Stores vectors under their texts."""


@final
class EmbeddingCache:
    """Encrypted embeddings by text, safe to share between threads and processes of one user.

    Args:
        folder: The folder of the cache, made where missing and closed to other users; ``None`` for the trusted store.
        most_entries: Beyond this number the oldest entries go. An entry of 384 dimensions takes about 1.7 kB.

    Raises:
        ParameterError: ``most_entries`` is below 1.
    """

    def __init__(self, folder: Path | None = None, *, most_entries: int = 200_000) -> None:
        limit = Number(1, whole=True, strict=True, words="at least 1")
        self._folder, self._most = folder or default_folder(), limit.read("most_entries", most_entries)

    def find(self, encoder: str, texts: Sequence[str]) -> list[VectorArray | None]:
        """Looks texts up.

        Args:
            encoder: Identity of the encoder; entries of another one are not found.
            texts: Private texts.

        Returns:
            For each text its vector, or ``None`` where the cache has none that is intact.
        """
        vectors: list[VectorArray | None] = [None] * len(texts)
        with suppress(OSError, sqlite3.Error), self._open() as (rows, secret):
            spoiled = []
            for index, text in enumerate(texts):
                name = _name(secret, encoder, text)
                row = rows.execute("SELECT value FROM entry WHERE name = ?", (name,)).fetchone()
                if row is not None:
                    vectors[index] = _decrypted(row[0], name, _key(secret, encoder, text))
                    if vectors[index] is None:
                        spoiled.append((name,))
            if spoiled:
                with rows:
                    rows.executemany("DELETE FROM entry WHERE name = ?", spoiled)
        return vectors

    def keep(self, encoder: str, texts: Sequence[str], vectors: Sequence[VectorArray]) -> None:
        """Stores vectors under their texts, and lets the oldest entries go where there are too many."""
        with suppress(OSError, sqlite3.Error), self._open() as (rows, secret), rows:
            for text, vector in zip(texts, vectors, strict=True):
                name = _name(secret, encoder, text)
                value = _encrypted(vector, name, _key(secret, encoder, text))
                rows.execute("INSERT OR REPLACE INTO entry (name, value) VALUES (?, ?)", (name, value))
            surplus = rows.execute("SELECT count(*) FROM entry").fetchone()[0] - self._most
            if surplus > 0:
                rows.execute("DELETE FROM entry WHERE age IN (SELECT age FROM entry ORDER BY age LIMIT ?)", (surplus,))

    @contextmanager
    def _open(self) -> Iterator[tuple[sqlite3.Connection, bytes]]:
        if self._folder == default_folder():
            private_folder()  # the store itself is closed before anything is put into it
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        secret = _secret(self._folder / "embeddings.key")
        file = self._folder / "embeddings.db"
        os.close(os.open(file, os.O_RDWR | os.O_CREAT, 0o600))
        file.chmod(0o600)
        try:
            with closing(sqlite3.connect(file, timeout=PATIENCE_S)) as rows:
                _write_ahead(rows)
                rows.execute("PRAGMA synchronous = NORMAL")
                rows.execute(_SCHEMA)
                yield rows, secret
        except sqlite3.OperationalError:
            raise  # busy, full, read-only: the file is sound
        except sqlite3.DatabaseError:
            file.unlink(missing_ok=True)  # not a database any more: begin again next time
            raise


def _write_ahead(rows: sqlite3.Connection) -> None:
    """Sets the file to write ahead. Two processes that do so to a new file at once do not wait for each other as
    SQLite's timeout would have it, so they try again; a file that stays as it was works too."""
    for _ in range(WRITE_AHEAD_TRIES):
        with suppress(sqlite3.OperationalError):
            rows.execute("PRAGMA journal_mode = WAL")
            return
        time.sleep(0.01)


def _secret(file: Path) -> bytes:
    """Reads the secret, or makes it; of two processes that make it at once, one wins and both use that one."""
    if not file.exists():
        draft = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(descriptor, "wb") as out:
                out.write(secrets.token_bytes(SECRET_BYTES))
            with suppress(FileExistsError):
                os.link(draft, file)
        finally:
            draft.unlink()
    secret = file.read_bytes()
    if len(secret) != SECRET_BYTES:
        raise OSError("the secret of the embedding cache is damaged")
    return secret


def _name(secret: bytes, encoder: str, text: str) -> bytes:
    return hmac.digest(secret, encoder.encode() + b"\0" + text.encode(), "sha256")


def _key(secret: bytes, encoder: str, text: str) -> bytes:
    derivation = HKDF(SHA256(), length=32, salt=secret, info=b"sottovoce embedding 1\0" + encoder.encode())
    return derivation.derive(hashlib.sha256(text.encode()).digest())


def _encrypted(vector: VectorArray, name: bytes, key: bytes) -> bytes:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, np.ascontiguousarray(vector, "<f4").tobytes(), name)


def _decrypted(value: object, name: bytes, key: bytes) -> VectorArray | None:
    if not isinstance(value, bytes) or len(value) <= NONCE_BYTES:
        return None
    try:
        plain = AESGCM(key).decrypt(value[:NONCE_BYTES], value[NONCE_BYTES:], name)
    except InvalidTag:
        return None
    return np.frombuffer(plain, "<f4").astype(np.float32) if len(plain) % 4 == 0 else None
