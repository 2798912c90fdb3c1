"""Where the embedded language model lies: a small causal decoder that ships with the package.

It is in a package of its own where that is installed (``scripts/build_writer_package.py`` builds it), else in this one.

It is a plain folder of the transformers library, to be named wherever a model's folder can be:
``hf:`` and ``embedded_language_folder()`` score labels and write texts as any real model does, only poorly. It is a
stand-in, so that everything that needs a language model runs and is tested offline. What it was trained on and what it
cannot do is in ``docs/language-model.md``.

It reads and writes lower case; its weights are in half precision on disk and are to be run in float32.
"""

from __future__ import annotations

import hashlib
import os
from importlib import resources
from importlib.util import find_spec
from pathlib import Path

from sottovoce.errors import ModelError

PINNED = {
    "config.json": "11633699af7bc351751ba18975a31eed4604bc3ad5034ea65ddceaaaaef893ac",
    "model.safetensors": "58df3e8ba1327232f4c4527b5c1010f1ce36f435a1f535d1d773f2b32f112c7a",
    "tokenizer.json": "c2183c34baa67d41f28e54ffa4ff1467f7023cc8268524d155de52a3e9422a44",
    "tokenizer_config.json": "39d193a7f8823d3d67ee7ffc05cb8a96c8c32b6f3a95a6babedd2ae5179d7bda",
}
"""SHA-256 of the model's files."""
WRITER_PACKAGE = "sottovoce_writer"
WRITER_VERSION = "1.0"
"""Of the package that holds these very files."""
WRITER_FOLDER = "embedded_language_model"
"""The model's folder in either package."""


def embedded_language_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the embedded language model, after its files were checked.

    Args:
        folder: Another place where a copy of it lies; ``None`` for the one that is installed: in the package
            ``sottovoce-writer``, or else in this one.

    Returns:
        A folder that ``AutoModelForCausalLM.from_pretrained`` and ``AutoTokenizer.from_pretrained`` load.

    Raises:
        ModelError: A file is missing, or is not the one that this release was checked with.

    Example:
        >>> embedded_language_folder().name
        'embedded_language_model'
    """
    place = _installed() if folder is None else Path(folder)
    for name, pin in PINNED.items():
        try:
            with (place / name).open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
        except OSError:
            raise ModelError(
                f"The file {name!r} of the embedded language model in {str(place)!r} cannot be read; reinstall it."
            ) from None
        if digest != pin:
            raise ModelError(
                f"The file {name!r} of the embedded language model is not the one this release was checked with "
                f"(SHA-256 {digest[:12]}..., expected {pin[:12]}...) in {str(place)!r}. Reinstall sottovoce"
                f"{f' and sottovoce-writer=={WRITER_VERSION}' if WRITER_PACKAGE in place.parts else ''}."
            )
    return place


def _installed() -> Path:
    """The model's folder in the package of its own, or else in this package."""
    found = find_spec(WRITER_PACKAGE)
    if found is not None and found.origin is not None:
        return Path(found.origin).parent / WRITER_FOLDER
    return Path(str(resources.files("sottovoce") / "data" / WRITER_FOLDER))
