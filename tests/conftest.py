"""Every test keeps its ledgers and caches in a folder of its own and never reaches a network."""

from __future__ import annotations

import os

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


@pytest.fixture(autouse=True)
def _own_store(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path_factory.mktemp("store")))
