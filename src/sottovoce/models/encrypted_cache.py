"""Values that belong to private texts, kept between runs without giving the texts away.

A cache is one SQLite file in the trusted store, the user's data folder (or the folder that ``SOTTOVOCE_HOME`` names),
never beside the data. Without a text its entry can be neither found nor read:

    entry's name    HMAC-SHA256(secret, scope, text)
    entry's value   AES-256-GCM of the value under HKDF-SHA256(SHA-256(text), salt = secret, info = scope)

The secret is in a separate file beside the cache that only its owner can read. What remains: whoever has the
secret, the cache and a guess of a text can confirm the guess, and the number and sizes of entries are visible.

A cache is a convenience: whatever goes wrong with it, nothing is found, nothing is kept and nothing is reported.
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
from typing import final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from sottovoce.parameters import Number
from sottovoce.store import home, private_folder

SECRET_BYTES = 32
NONCE_BYTES = 12
PATIENCE_S = 5.0
WRITE_AHEAD_TRIES = 100

_SCHEMA = """
CREATE TABLE IF NOT EXISTS entry (age INTEGER PRIMARY KEY AUTOINCREMENT, name BLOB NOT NULL UNIQUE, value BLOB NOT NULL)
"""


@final
class EncryptedCache:
    """Encrypted values by text, safe to share between threads and processes of one user.

    Args:
        stem: What the cache is called: ``STEM.db`` and ``STEM.key``, in the folder ``STEM`` of the trusted store.
        use: What the values are, as part of the cipher's key.
        folder: Another folder, made where missing and closed to other users.
        most_entries: Beyond this number the oldest entries go.
        most_bytes: Beyond this size the older half of the entries goes; ``None`` for any size.

    Raises:
        ParameterError: ``most_entries`` is below 1.
    """

    def __init__(
        self, stem: str, use: str, folder: Path | None = None, *, most_entries: int, most_bytes: int | None = None
    ) -> None:
        limit = Number(1, whole=True, strict=True, words="at least 1")
        self._stem, self._use, self._most_bytes = stem, use, most_bytes
        self._folder, self._most = folder or home() / stem, limit.read("most_entries", most_entries)

    def find(self, scope: str, texts: Sequence[str]) -> list[bytes | None]:
        """Looks texts up.

        Args:
            scope: What the values depend on besides the texts; entries of another scope are not found.
            texts: Private texts.

        Returns:
            For each text its value, or ``None`` where the cache has none that is intact.
        """
        values: list[bytes | None] = [None] * len(texts)
        with suppress(OSError, sqlite3.Error), self._open() as (rows, secret):
            spoiled = []
            for index, text in enumerate(texts):
                name = name_of(secret, scope, text)
                row = rows.execute("SELECT value FROM entry WHERE name = ?", (name,)).fetchone()
                if row is not None:
                    values[index] = _decrypted(row[0], name, self._key(secret, scope, text))
                    if values[index] is None:
                        spoiled.append((name,))
            if spoiled:
                with rows:
                    rows.executemany("DELETE FROM entry WHERE name = ?", spoiled)
        return values

    def keep(self, scope: str, texts: Sequence[str], values: Sequence[bytes]) -> None:
        """Stores values under their texts, and lets the oldest entries go where there are too many."""
        with suppress(OSError, sqlite3.Error), self._open() as (rows, secret), rows:
            for text, value in zip(texts, values, strict=True):
                name = name_of(secret, scope, text)
                sealed = _encrypted(value, name, self._key(secret, scope, text))
                rows.execute("INSERT OR REPLACE INTO entry (name, value) VALUES (?, ?)", (name, sealed))
            count = rows.execute("SELECT count(*) FROM entry").fetchone()[0]
            surplus = count - self._most
            if self._most_bytes is not None and _bytes_in(rows) > self._most_bytes:
                surplus = max(surplus, -(-count // 2))
            if surplus > 0:
                rows.execute("DELETE FROM entry WHERE age IN (SELECT age FROM entry ORDER BY age LIMIT ?)", (surplus,))

    def _key(self, secret: bytes, scope: str, text: str) -> bytes:
        info = f"sottovoce {self._use}".encode() + b"\0" + scope.encode()
        return HKDF(SHA256(), length=32, salt=secret, info=info).derive(hashlib.sha256(text.encode()).digest())

    @contextmanager
    def _open(self) -> Iterator[tuple[sqlite3.Connection, bytes]]:
        if self._folder.parent == home():
            private_folder()  # the store itself is closed before anything is put into it
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._folder.chmod(0o700)
        secret = _secret(self._folder / f"{self._stem}.key")
        file = self._folder / f"{self._stem}.db"
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


def _bytes_in(rows: sqlite3.Connection) -> int:
    pages, free, size = (
        rows.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "freelist_count", "page_size")
    )
    return int((pages - free) * size)


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
        raise OSError("the secret of the cache is damaged")
    return secret


def name_of(secret: bytes, scope: str, text: str) -> bytes:
    """The name of a text's entry, 32 bytes."""
    return hmac.digest(secret, scope.encode() + b"\0" + text.encode(), "sha256")


def _encrypted(value: bytes, name: bytes, key: bytes) -> bytes:
    nonce = secrets.token_bytes(NONCE_BYTES)
    return nonce + AESGCM(key).encrypt(nonce, value, name)


def _decrypted(value: object, name: bytes, key: bytes) -> bytes | None:
    if not isinstance(value, bytes) or len(value) <= NONCE_BYTES:
        return None
    try:
        return AESGCM(key).decrypt(value[:NONCE_BYTES], value[NONCE_BYTES:], name)
    except InvalidTag:
        return None
