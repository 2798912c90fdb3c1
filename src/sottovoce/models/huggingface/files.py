"""What tells a model of the transformers library from any other: its files, or what it holds in memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from transformers.utils import cached_file

from sottovoce.errors import ModelError
from sottovoce.models.gguf.checkpoint import gguf_path
from sottovoce.models.weights import CONFIG, file_digest, files_of, folder_digest, place_of


def folder_of(name_or_path: str) -> Path:
    """The folder of a model's files: the one that is named, or where the library keeps what it fetched from the hub.

    Raises:
        ModelError: It was never fetched.
    """
    path = place_of(name_or_path)
    if path.is_dir():
        return path
    try:
        found = cached_file(name_or_path, CONFIG)
    except Exception:
        found = None
    if found is None:
        raise ModelError(f"The files of the model {name_or_path!r} are not on this machine. Fetch them: hf download")
    return Path(found).parent


def model_digest(name_or_path: str, loaded: tuple[Any, Any] | None = None) -> str:
    """SHA-256 of everything that a causal language model is made of.

    Args:
        name_or_path: A folder, a GGUF file, or a name on the hub.
        loaded: A tokenizer and a model in memory, whose numbers are read in place of files.

    Raises:
        ModelError: A file is missing.
    """
    if loaded is None:
        if (file := gguf_path(name_or_path)) is not None:
            return file_digest(file)
        return folder_digest(folder_of(name_or_path))
    tokenizer, model = loaded
    numbers = sorted(f"{name} {_tensor_digest(tensor)}" for name, tensor in model.state_dict().items())
    words = json.dumps(sorted(tokenizer.get_vocab().items()))
    return hashlib.sha256("\n".join([model.config.to_json_string(), words, *numbers]).encode()).hexdigest()


def later_digest(name_or_path: str, loaded: tuple[Any, Any] | None = None) -> Callable[[], str]:
    """``model_digest`` of a model that was just loaded, worked out where it is asked for; see there.

    The files are those of now, wherever the program goes or the name leads to in between, and may not change until
    then.
    """
    before = None
    try:
        place = _place_of(name_or_path)
        before = None if loaded is not None else _stamps(place)
    except (ModelError, OSError, ValueError, KeyError, AttributeError):  # said where the digest is asked for
        pass
    if before is None:
        return partial(model_digest, name_or_path, loaded)
    return partial(_unchanged_digest, name_or_path, place, before)


def _unchanged_digest(name_or_path: str, place: Path, before: dict[str, tuple[int, int]]) -> str:
    found = model_digest(str(place))
    if _stamps(place) != before:
        raise ModelError(f"The files of the model {name_or_path!r} changed after it was loaded. Load it again.")
    return found


def _place_of(name_or_path: str) -> Path:
    """The absolute folder or file that was just loaded; of a name on the hub, where the library keeps that revision."""
    place = place_of(name_or_path).absolute()
    if place.exists():
        return place
    if (file := gguf_path(name_or_path)) is not None:
        return file
    found = cached_file(name_or_path, CONFIG, local_files_only=True)
    if found is None:
        raise ModelError(f"The files of the model {name_or_path!r} are not on this machine.")
    return Path(found).parent


def _stamps(place: Path) -> dict[str, tuple[int, int]]:
    """Sizes and times of a model's files."""
    status = {name: (place / name).stat() for name in ([""] if place.is_file() else files_of(place))}
    return {name: (each.st_size, each.st_mtime_ns) for name, each in status.items()}


def prompts_digest(tokenizer: Any, chat: bool, further: Iterable[object] = ()) -> str:
    """SHA-256 of what prompts are written with beside the files that ``model_digest`` reads.

    Args:
        tokenizer: Of the transformers library.
        chat: Whether prompts are written in its chat template.
        further: What else shapes prompts and texts, such as tokens that end a text.
    """
    template = getattr(tokenizer, "chat_template", None) if chat else None
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    parts = json.dumps([template, special, sorted(map(str, further))], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()


def _tensor_digest(tensor: torch.Tensor) -> str:
    content = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{tensor.dtype} {tuple(tensor.shape)} {hashlib.sha256(content.tobytes()).hexdigest()}"
