"""Which files a model is made of, as one hash: what tells its vectors from those of any other model."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Final

from sottovoce.errors import ModelError

WEIGHTS: Final = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
"""In the order in which they are looked for; the first that is there is what is loaded."""
WORDS: Final = ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json", "merges.txt", "vocab.txt")
"""Files of tokenizers; a model has some of them."""
CONFIG: Final = "config.json"

ADAPTER: Final = "adapter_config.json"
"""Of an adapter, which the transformers library puts on a model where the package ``peft`` is installed."""

_known: dict[Path, tuple[int, int, str]] = {}


def place_of(name: str) -> Path:
    """Where a model's name leads on this machine, if anywhere; ``~`` is a home folder.

    Raises:
        ModelError: No file can have this name.

    Example:
        >>> place_of("some/model")
        PosixPath('some/model')
    """
    try:
        path = Path(name).expanduser()
        path.exists()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a user that is not there, or a null character
        why = getattr(error, "strerror", None) or "no such name is possible"
        raise ModelError(f"The model {name!r} cannot be looked for ({why}). Check its name.") from None
    return path


def file_digest(path: Path) -> str:
    """SHA-256 of a file, hexadecimal; computed once a process for one path, size and time of change.

    Raises:
        OSError: It cannot be read.
    """
    status = path.stat()
    known = _known.get(path)
    if known is None or known[:2] != (status.st_size, status.st_mtime_ns):
        with path.open("rb") as content:
            known = (status.st_size, status.st_mtime_ns, hashlib.file_digest(content, "sha256").hexdigest())
        _known[path] = known
    return known[2]


def folder_digest(folder: Path, further: tuple[str, ...] = ()) -> str:
    """SHA-256 over the files of a model in the transformers layout: configuration, tokenizer and weights.

    Args:
        folder: That holds ``config.json`` and the weights.
        further: Names of other files that shape what it computes, each where it is there.

    Raises:
        ModelError: The weights are missing, a file cannot be read, or there is an adapter beside them.
    """
    require_no_adapter(folder)
    try:
        found = {name: file_digest(folder / name) for name in files_of(folder, further)}
    except (OSError, ValueError, KeyError, AttributeError):
        raise ModelError(
            f"The files of the model in {str(folder)!r} cannot be read. See that the folder is complete."
        ) from None
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def files_of(folder: Path, further: tuple[str, ...] = ()) -> list[str]:
    """Names of a model's files: configuration, tokenizer, weights, and of these further ones those that are there.

    Raises:
        ModelError: The weights are missing.
        OSError: The index of the weights cannot be read.
        ValueError, KeyError, AttributeError: The index is none.
    """
    there = [name for name in (CONFIG, *WORDS, *further) if (folder / name).is_file()]
    return [*there, *_weights(folder)]


def require_no_adapter(folder: Path, model: object = None) -> None:
    """Refuses a model with an adapter: what is computed would depend on the packages that are installed.

    Args:
        folder: Of the model's files, or its name on the hub.
        model: That was loaded from there, if any.

    Raises:
        ModelError: It has one.
    """
    if (folder / ADAPTER).is_file() or getattr(model, "_hf_peft_config_loaded", False):
        raise ModelError(
            f"The model {str(folder)!r} has an adapter ({ADAPTER}), which one installation loads and another does "
            "not. Merge the adapter into the model and save that in a folder of its own (peft: merge_and_unload)."
        )


def _weights(folder: Path) -> list[str]:
    """The files of the weights: one, or an index and what it names."""
    name = next((name for name in WEIGHTS if (folder / name).is_file()), None)
    if name is None:
        raise ModelError(f"The folder {str(folder)!r} holds no weights: {WEIGHTS[0]} or {WEIGHTS[2]}.")
    if not name.endswith(".index.json"):
        return [name]
    try:
        shards = set(json.loads((folder / name).read_text("utf-8"))["weight_map"].values())
        return [name, *sorted(shards, key=os.fspath)]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ModelError(f"The file {name} in {str(folder)!r} does not list the weights. Fetch it again.") from None
