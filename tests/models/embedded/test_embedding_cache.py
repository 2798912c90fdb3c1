"""The cache of private embeddings: it finds what it kept, and shows nothing to who has not the text."""

from __future__ import annotations

import multiprocessing
import os
import secrets
import sqlite3
import stat
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import ParameterError
from sottovoce.models import encrypted_cache as module
from sottovoce.models.embedded.embedding_cache import EmbeddingCache, default_folder

TEXTS = ["Ana owes 40 euros to the bank in Graz.", "The parcel for Ben is lost.", "çé \U0001f600"]


def vectors_of(texts: list[str]) -> list[np.ndarray]:
    return [np.random.default_rng(len(text)).normal(size=384).astype(np.float32) for text in texts]


@pytest.fixture
def folder(tmp_path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def filled(folder) -> EmbeddingCache:
    cache = EmbeddingCache(folder)
    cache.keep("encoder 1", TEXTS, vectors_of(TEXTS))
    return cache


def entries(folder: Path) -> int:
    with sqlite3.connect(folder / "embeddings.db") as rows:
        return rows.execute("SELECT count(*) FROM entry").fetchone()[0]


def change(folder: Path, statement: str, *values: object) -> None:
    rows = sqlite3.connect(folder / "embeddings.db")
    with rows:
        rows.execute(statement, values)
    rows.close()


def test_what_was_kept_is_found_bit_for_bit_also_by_another_process_of_the_owner(filled, folder):
    for cache in (filled, EmbeddingCache(folder)):
        for found, kept in zip(cache.find("encoder 1", TEXTS), vectors_of(TEXTS), strict=True):
            assert np.array_equal(found, kept)


def test_another_text_or_another_encoder_finds_nothing(filled):
    assert filled.find("encoder 1", [TEXTS[0] + " "]) == [None]
    assert filled.find("encoder 2", TEXTS) == [None] * len(TEXTS)


def test_neither_texts_nor_embeddings_nor_their_plain_hashes_are_in_the_files(filled, folder):
    import hashlib

    content = b"".join(file.read_bytes() for file in folder.iterdir())
    assert len(content) > 3 * 384 * 4
    for text, vector in zip(TEXTS, vectors_of(TEXTS), strict=True):
        assert text.encode() not in content
        assert hashlib.sha256(text.encode()).digest() not in content
        for kind in ("<f4", "<f2", "<f8"):
            raw = vector.astype(kind).tobytes()
            assert not any(raw[start : start + 8] in content for start in range(0, len(raw), 8))


def test_the_same_vector_is_never_stored_as_the_same_bytes_twice(filled, folder):
    def stored() -> list[bytes]:
        with sqlite3.connect(folder / "embeddings.db") as rows:
            return [row[0] for row in rows.execute("SELECT value FROM entry ORDER BY name")]

    first = stored()
    filled.keep("encoder 1", TEXTS, vectors_of(TEXTS))
    assert not set(first) & set(stored())


def test_without_its_secret_a_cache_is_unreadable(filled, folder):
    (folder / "embeddings.key").write_bytes(secrets.token_bytes(32))
    assert EmbeddingCache(folder).find("encoder 1", TEXTS) == [None] * 3
    (folder / "embeddings.key").unlink()
    assert EmbeddingCache(folder).find("encoder 1", TEXTS) == [None] * 3


def test_an_entry_cannot_be_passed_off_as_another_texts_entry(filled, folder):
    # Exchange two values: each is sound by itself, and stands under the wrong name.
    secret = (folder / "embeddings.key").read_bytes()
    names = [module.name_of(secret, "encoder 1", text) for text in TEXTS[:2]]
    with sqlite3.connect(folder / "embeddings.db") as rows:
        values = [rows.execute("SELECT value FROM entry WHERE name = ?", (name,)).fetchone()[0] for name in names]
    for name, value in zip(names, reversed(values), strict=True):
        change(folder, "UPDATE entry SET value = ? WHERE name = ?", value, name)
    assert filled.find("encoder 1", TEXTS[:2]) == [None, None]


@pytest.mark.parametrize("value", [b"", b"short", b"x" * 1564, "a text", None])
def test_a_corrupted_entry_is_dropped_and_can_be_kept_anew(filled, folder, value):
    change(folder, "UPDATE entry SET value = ?", b"" if value is None else value)
    assert filled.find("encoder 1", TEXTS) == [None] * 3
    assert entries(folder) == 0
    filled.keep("encoder 1", TEXTS, vectors_of(TEXTS))
    assert np.array_equal(filled.find("encoder 1", TEXTS)[1], vectors_of(TEXTS)[1])


def test_a_file_that_is_no_database_any_more_is_begun_again(filled, folder):
    (folder / "embeddings.db").write_bytes(b"rubbish " * 2000)
    assert filled.find("encoder 1", TEXTS) == [None] * 3
    filled.keep("encoder 1", TEXTS, vectors_of(TEXTS))
    assert filled.find("encoder 1", TEXTS)[0] is not None


@pytest.mark.skipif(os.name == "nt", reason="file modes are a Unix matter")
def test_folder_and_files_are_closed_to_other_users(folder):
    folder.mkdir(mode=0o755)
    EmbeddingCache(folder).keep("encoder 1", TEXTS, vectors_of(TEXTS))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {file.name for file in folder.iterdir()} == {"embeddings.db", "embeddings.key"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in folder.iterdir()} == {0o600}


def test_the_trusted_store_is_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "elsewhere"))
    EmbeddingCache().keep("encoder 1", TEXTS, vectors_of(TEXTS))
    assert (tmp_path / "elsewhere" / "embeddings" / "embeddings.db").exists()
    monkeypatch.delenv("SOTTOVOCE_HOME")
    assert "sottovoce" in str(default_folder())


def test_a_store_that_cannot_be_written_is_done_without_and_nothing_is_said(tmp_path, capfd):
    occupied = tmp_path / "file"
    occupied.write_text("not a folder")
    cache = EmbeddingCache(occupied / "store")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.keep("encoder 1", TEXTS, vectors_of(TEXTS))
        assert cache.find("encoder 1", TEXTS) == [None] * 3
    assert capfd.readouterr() == ("", "")


def test_a_full_disk_is_done_without_and_keeps_the_file(filled, folder, monkeypatch):
    real = sqlite3.connect

    def full(*arguments: object, **options: object) -> sqlite3.Connection:
        rows = real(*arguments, **options)
        rows.execute("PRAGMA max_page_count = 1")  # SQLite then says "database or disk is full"
        return rows

    monkeypatch.setattr(module.sqlite3, "connect", full)
    more = [f"text {number}" for number in range(50)]
    filled.keep("encoder 1", more, vectors_of(more))
    monkeypatch.undo()
    assert filled.find("encoder 1", more) == [None] * 50
    assert filled.find("encoder 1", TEXTS)[0] is not None


def test_a_damaged_secret_stops_the_cache_and_nothing_else(filled, folder):
    (folder / "embeddings.key").write_bytes(b"short")
    filled.keep("encoder 1", TEXTS, vectors_of(TEXTS))
    assert filled.find("encoder 1", TEXTS) == [None] * 3


def test_beyond_its_size_the_oldest_entries_go(folder):
    cache = EmbeddingCache(folder, most_entries=3)
    texts = [f"text {number}" for number in range(5)]
    for text in texts:
        cache.keep("encoder 1", [text], vectors_of([text]))
    found = cache.find("encoder 1", texts)
    assert [vector is not None for vector in found] == [False, False, True, True, True]
    assert entries(folder) == 3


def test_a_cache_of_no_entries_is_refused():
    with pytest.raises(ParameterError, match="at least 1"):
        EmbeddingCache(most_entries=0)


def _keep_and_find(job: tuple[str, int]) -> bool:
    cache = EmbeddingCache(Path(job[0]))
    texts = [f"text {number}" for number in range(job[1], job[1] + 30)]
    for text in texts:
        cache.keep("encoder 1", [text], vectors_of([text]))
    return all(vector is not None for vector in cache.find("encoder 1", texts))


@pytest.mark.slow
def test_processes_may_write_at_once_from_an_empty_folder(folder):
    # Overlapping entries; the first to come makes the one secret that all use.
    with ProcessPoolExecutor(3, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert all(pool.map(_keep_and_find, [(str(folder), start) for start in (0, 20, 40)]))
    assert entries(folder) == 70
