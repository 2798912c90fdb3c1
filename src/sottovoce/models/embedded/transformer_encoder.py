"""Sentence embeddings from any encoder of the transformers library, as its folder says that a text is embedded.

Isolation   The embedding of a text is a function of that text alone, bit for bit (spec 9.6, case i): every text is a
            batch of its own, unpadded, computed on one core. Texts run side by side on the cores, which changes their
            speed and never their bits; several threads inside one text would change them.
Sources     Reimers and Gurevych (2019, arXiv:1908.10084).
"""

from __future__ import annotations

import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

from sottovoce.errors import MissingExtraError, ModelError
from sottovoce.models.embedded.recipe import FILES, Recipe
from sottovoce.models.embedded.sentence_encoder import dimension_of, package_folder
from sottovoce.models.embedded.text_encoder import THREAD_NAMES, Network, TextEncoder, VectorArray, cores
from sottovoce.models.weights import folder_digest, place_of
from sottovoce.parameters import OneOf

START_S = 60.0
FETCHED = ("*.json", "*.txt", "model*.safetensors", "*/config.json")
"""Files of an encoder on the hub."""
DTYPES = ("float32", "bfloat16")

_loading = threading.Lock()
_loaded: dict[tuple[str, str], _Network] = {}


@final
class TransformerEncoder(TextEncoder):
    """Turns texts into unit vectors, each text by itself.

    A text is cut, and its last layer pooled and scaled to length one, as the recipe says. Making an encoder reads its
    files; the network itself is loaded on first use and shared within the process.

    Args:
        folder: In the transformers layout: ``config.json``, ``model.safetensors``, ``tokenizer.json``.
        dtype: ``"float32"`` or ``"bfloat16"``; the latter is faster where the processor has it.
        recipe: How a text becomes a vector.

    Attributes:
        dimension: Length of an embedding.
        digest: SHA-256 over the encoder's files and the recipe, hexadecimal.
        recipe: As given.

    Raises:
        MissingExtraError: A package of the extra ``local`` is not installed.
        ParameterError: There is no such dtype.
        ModelError: A file is missing.
    """

    def __init__(self, folder: Path, *, dtype: str = "float32", recipe: Recipe) -> None:
        for package in ("torch", "transformers", "tokenizers", "safetensors"):
            if find_spec(package) is None:
                raise MissingExtraError(package, "local")
        OneOf(tuple(DTYPES)).read("dtype", dtype)
        self._folder, self._dtype, self.recipe = folder, dtype, recipe
        files = folder_digest(folder, FILES)
        self.digest = hashlib.sha256(f"{files} {recipe!r}".encode()).hexdigest()
        self.dimension = dimension_of(folder)

    @property
    def characters(self) -> int:
        return self.recipe.characters

    @property
    def dtype(self) -> str:
        """As given."""
        return self._dtype

    @property
    def identity(self) -> str:
        """Names everything that the bits of an embedding depend on: files, precision, versions, processor."""
        return f"{self.digest} {self._network().surroundings}"

    def _network(self) -> _Network:
        key = (self.digest, self._dtype)
        with _loading:
            if key not in _loaded:
                _loaded[key] = _Network(self._folder, self._dtype, self.recipe, self.dimension)
            return _loaded[key]


@final
@dataclass(eq=False)
class _Network(Network):
    """The loaded model and its tokenizer, with a pool of single-core threads."""

    folder: Path
    dtype: str
    recipe: Recipe
    dimension: int
    _model: Any = field(init=False, repr=False)
    _tokenizer: Any = field(init=False, repr=False)
    _pool: tuple[int, ThreadPoolExecutor] | None = field(init=False, default=None, repr=False)

    def __post_init__(self) -> None:
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModel
        from transformers.utils import logging

        shown = logging.is_progress_bar_enabled()
        logging.disable_progress_bar()
        try:
            model = AutoModel.from_pretrained(
                self.folder, local_files_only=True, use_safetensors=True, dtype=getattr(torch, self.dtype)
            )
            tokenizer = Tokenizer.from_file(str(self.folder / "tokenizer.json"))
        except Exception:
            raise ModelError(
                f"The encoder in {str(self.folder)!r} cannot be loaded; see that it is complete."
            ) from None
        finally:
            if shown:
                logging.enable_progress_bar()
        if getattr(model.config, "is_encoder_decoder", False):
            raise ModelError(f"The model in {str(self.folder)!r} is an encoder with a decoder, which is not supported.")
        limit = min(self.recipe.pieces, getattr(model.config, "max_position_embeddings", self.recipe.pieces))
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=limit)
        self._model, self._tokenizer = model.eval(), tokenizer

    @cached_property
    def surroundings(self) -> str:
        """Precision, limits, library versions and instruction set."""
        import torch

        libraries = " ".join(f"{name} {version(name)}" for name in ("torch", "transformers", "tokenizers"))
        processor = torch.backends.cpu.get_cpu_capability()
        return f"{self.dtype} {self.recipe.characters}/{self.recipe.pieces} {libraries} {processor}"

    def _embed(self, text: str) -> VectorArray:
        import torch

        whole = self.recipe.prompt + (text.lower() if self.recipe.lowercase else text)
        ids = torch.tensor([self._tokenizer.encode(whole).ids])
        with torch.inference_mode():
            last = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state[0]
            pooled = _pooled(last.double(), self.recipe.pooling)
            vector: VectorArray = (pooled / pooled.norm()).float().numpy()
        return vector

    def _threads(self) -> ThreadPoolExecutor:
        import torch

        with _loading:
            if self._pool is None or self._pool[0] != os.getpid():
                own = torch.get_num_threads()
                count = cores()
                ready = threading.Barrier(count + 1)

                def begin() -> None:
                    torch.get_num_threads()  # a thread's first look takes the global setting; its own must come later
                    torch.set_num_threads(1)
                    ready.wait(timeout=START_S)

                pool = ThreadPoolExecutor(count, thread_name_prefix=THREAD_NAMES, initializer=begin)
                for _ in range(count):
                    pool.submit(int)
                ready.wait(timeout=START_S)
                torch.set_num_threads(own)  # the setting is global for threads that start later
                self._pool = (os.getpid(), pool)
            return self._pool[1]


def _pooled(last: Any, pooling: str) -> Any:
    """One vector of a text's last layer, shape (pieces, dimension)."""
    if pooling == "mean":
        return last.mean(dim=0)
    if pooling == "max":
        return last.max(dim=0).values
    return last[0] if pooling == "cls" else last[-1]


def folder_of(name: str) -> Path:
    """The folder of an encoder that is named by its folder, by a package, or by its name on the hub.

    Raises:
        ModelError: There is none, or it can neither be found on this machine nor fetched.
    """
    path = place_of(name)
    if path.is_dir():
        return path
    if name.isidentifier() and (package := package_folder(name)) is not None:
        return package
    if path.exists() or name.startswith((".", "/", "~")):
        raise ModelError(f"The encoder {name!r} is not a folder. Name the folder that holds config.json.")
    return _fetched(name)


def _fetched(name: str) -> Path:
    """The files of an encoder on the hub, fetched where they are not on this machine. No code is."""
    for package in ("transformers", "huggingface_hub"):
        if find_spec(package) is None:
            raise MissingExtraError(package, "local")
    from huggingface_hub import snapshot_download
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        return Path(snapshot_download(name, allow_patterns=list(FETCHED)))
    except Exception:
        raise ModelError(
            f"The encoder {name!r} could not be loaded: it is neither on this machine nor could it be fetched. Check "
            f"the name and the network, or fetch it first: hf download {name}",
            retryable=True,
        ) from None
    finally:
        if shown:
            logging.enable_progress_bar()
