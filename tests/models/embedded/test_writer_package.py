"""The package of the embedded language model: the same bytes at every build, found before the folder in the tree."""

from __future__ import annotations

import base64
import csv
import hashlib
import importlib
import io
import zipfile
from pathlib import Path

import pytest

from sottovoce.errors import ModelError
from sottovoce.models.embedded import language_model as module
from sottovoce.models.embedded.language_model import embedded_language_folder

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"


@pytest.fixture
def build(monkeypatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("build_writer_package").build


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """A stand-in for the model, whose files are pinned in its place."""
    folder = tmp_path / "tiny"
    folder.mkdir()
    for name in module.PINNED:
        (folder / name).write_bytes(f"stand-in for {name}".encode())
        monkeypatch.setitem(module.PINNED, name, hashlib.sha256((folder / name).read_bytes()).hexdigest())
    return folder


def test_two_builds_have_the_same_bytes_and_their_record_holds(build, tiny, tmp_path):
    first, second = build(tmp_path / "a", tiny), build(tmp_path / "b", tiny)
    assert first.name == second.name == "sottovoce_writer-1.0-py3-none-any.whl"
    assert first.read_bytes() == second.read_bytes()
    with zipfile.ZipFile(first) as wheel:
        (record,) = (name for name in wheel.namelist() if name.endswith("/RECORD"))
        rows = list(csv.reader(io.StringIO(wheel.read(record).decode())))
        assert [row[0] for row in rows] == wheel.namelist()
        for path, digest, size in rows[:-1]:
            found = base64.urlsafe_b64encode(hashlib.sha256(wheel.read(path)).digest()).decode().rstrip("=")
            assert (digest, size) == (f"sha256={found}", str(len(wheel.read(path))))
        assert [Path(name).name for name in wheel.namelist() if "/embedded_language_model/" in name] == sorted(
            module.PINNED
        )


def test_the_package_is_read_where_it_is_installed_and_the_tree_elsewhere(build, tiny, tmp_path, monkeypatch):
    assert module._installed() == Path(module.__file__).parents[2] / "data" / "embedded_language_model"
    site = tmp_path / "site"
    with zipfile.ZipFile(build(tmp_path, tiny)) as wheel:
        wheel.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    folder = embedded_language_folder()
    assert folder == site / "sottovoce_writer" / "embedded_language_model"
    (folder / "config.json").write_text("of another version")
    with pytest.raises(ModelError, match=r"checked with .* Reinstall sottovoce and sottovoce-writer==1\.0\."):
        embedded_language_folder()


def test_another_model_is_not_packed(build, tiny, tmp_path):
    (tiny / "model.safetensors").write_bytes(b"other weights")
    with pytest.raises(ModelError, match=r"'model.safetensors' .* is not the one"):
        build(tmp_path / "dist", tiny)
    assert not (tmp_path / "dist").exists()
