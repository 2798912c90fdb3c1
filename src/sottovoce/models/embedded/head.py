"""The fitted part of the embedded model: six numbers and two mean vectors.

A head file is a safetensors file of about 3 kB. ``sotto models fit-head`` writes it, together with a ``.json`` of the
same name that says what it was fitted on, for which encoder, and its checksum.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import numpy as np

from sottovoce.errors import MissingExtraError, ModelError
from sottovoce.models.base import FloatArray

NUMBERS = (
    "name_scale",
    "name_threshold",
    "example_scale",
    "example_threshold",
    "example_charge",
    "sharpness",
)
MEANS = ("text_mean", "name_mean")


@final
@dataclass(frozen=True, eq=False)
class Head:
    """How similarities become log-probabilities.

    Attributes:
        name_scale: Nats for each unit of similarity between a question and a label's name (a).
        name_threshold: Similarity below which a name says nothing (t).
        example_scale: Nats for each unit of similarity between a question and an example (b).
        example_threshold: Similarity below which an example says nothing (u).
        example_charge: What every example is charged for being unlike the question (k).
        sharpness: How much the most similar of several examples of one label counts more than the rest (v).
        text_mean: Mean embedding of public texts, shape (dimension,) (c).
        name_mean: Mean embedding of public label names, shape (dimension,) (m).
        encoder: Digest of the encoder it was fitted for.
    """

    name_scale: float
    name_threshold: float
    example_scale: float
    example_threshold: float
    example_charge: float
    sharpness: float
    text_mean: FloatArray
    name_mean: FloatArray
    encoder: str

    @property
    def dimension(self) -> int:
        """Length of the embeddings it is made for."""
        return len(self.text_mean)

    @property
    def digest(self) -> str:
        """SHA-256 of its numbers and means."""
        numbers = np.array([getattr(self, name) for name in NUMBERS], dtype=np.float64)
        means = [np.asarray(getattr(self, name), dtype=np.float64) for name in MEANS]
        return hashlib.sha256(b"".join(part.tobytes() for part in (numbers, *means))).hexdigest()


def load_head(path: Path | None = None) -> Head:
    """Reads a head file; ``None`` reads the one that ships, after checking its checksum.

    Raises:
        MissingExtraError: The package ``safetensors`` is not installed.
        ModelError: The file cannot be read, lacks a part, holds a number that is not finite, or is not what its
            ``.json`` says it is.
    """
    if find_spec("safetensors") is None:
        raise MissingExtraError("safetensors", install="pip install safetensors")
    from safetensors import SafetensorError
    from safetensors.numpy import load

    place = resources.files("sottovoce") / "data" / "embedded" / "head.safetensors" if path is None else path
    story = resources.files("sottovoce") / "data" / "embedded" / "head.json" if path is None else _story_of(path)
    try:
        content, about = place.read_bytes(), json.loads(story.read_text("utf-8"))
        stored = load(content)
    except (OSError, ValueError, KeyError, RecursionError, SafetensorError):  # a KeyError for numbers of 16 bits
        raise ModelError(f"The head file {str(place)!r} or the .json beside it cannot be read.") from None
    if not isinstance(about, dict) or about.get("sha256") != hashlib.sha256(content).hexdigest():
        raise ModelError(f"The head file {str(place)!r} is not the one that the .json beside it describes.")
    return _head_of(stored, str(about.get("encoder", "")), str(place))


def save_head(head: Head, path: Path, about: Mapping[str, Any]) -> None:
    """Writes a head file, its vectors in half precision, and the ``.json`` beside it.

    Args:
        head: What was fitted.
        path: Where to, ending in ``.safetensors``.
        about: What the ``.json`` should say besides the encoder, the numbers and the checksum.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for file, content in head_files(head, path, about).items():
        file.write_bytes(content)


def head_files(head: Head, path: Path, about: Mapping[str, Any]) -> dict[Path, bytes]:
    """What ``save_head`` writes, by file: the ``.json`` first, without which a head is not read."""
    from safetensors.numpy import save

    parts = {name: np.asarray(getattr(head, name), np.float32) for name in NUMBERS}
    parts |= {name: getattr(head, name).astype(np.float16) for name in MEANS}
    content = save(parts)
    story = {
        "numbers": {name: round(float(getattr(head, name)), 4) for name in NUMBERS},
        **about,
        "encoder": head.encoder,
        "sha256": hashlib.sha256(content).hexdigest(),
    }
    return {_story_of(path): (json.dumps(story, indent=2) + "\n").encode("utf-8"), path: content}


def _story_of(path: Path) -> Path:
    return path.with_suffix(".json")


def _head_of(stored: Mapping[str, Any], encoder: str, place: str) -> Head:
    if set(stored) != {*NUMBERS, *MEANS}:
        raise ModelError(f"The head file {place!r} lacks a part; it needs {', '.join((*NUMBERS, *MEANS))}.")
    parts = {name: np.asarray(value, np.float64) for name, value in stored.items()}
    shaped = all(parts[name].shape == () for name in NUMBERS) and parts["text_mean"].ndim == 1
    if not shaped or parts["text_mean"].shape != parts["name_mean"].shape:
        raise ModelError(f"The head file {place!r} has parts of the wrong shape.")
    if not all(np.isfinite(part).all() for part in parts.values()):
        raise ModelError(f"The head file {place!r} holds a number that is not finite.")
    numbers = {name: float(parts[name]) for name in NUMBERS}
    return Head(**numbers, text_mean=parts["text_mean"], name_mean=parts["name_mean"], encoder=encoder)
