"""Picture embeddings from a small convolutional network that ships with the package and runs offline.

A picture becomes a square of ink: grey levels, their distance from the border's median (so that light on dark and dark
on light are the same), cropped to what is drawn, centred, 32 by 32. Four blocks of convolution, ramp and pooling and
one linear layer follow, in numpy. The network was trained on drawn characters (``scripts/train_image_encoder.py``): it
compares drawings and signs. It was not made for photographs, and nothing was measured on them.

Isolation   The embedding of a picture is a function of that picture alone, bit for bit (spec 9.6, case i): every
            picture goes through by itself, and every sum is a dot product of one window and one kernel. A product of
            matrices would be faster, but its bits depend on the number of threads.
Sources     Snell, Swersky and Zemel (2017, arXiv:1703.05175) for the network's shape and its training on episodes.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from sottovoce.errors import MissingExtraError, ModelError
from sottovoce.models.base import FloatArray
from sottovoce.models.failures import is_models, is_shared

PixelArray = NDArray[np.float32]

SIDE = 32
BLOCKS = 4
MARGIN = 1.15
"""Side of the square around a drawing, in units of the drawing's longer side."""
FAINT = 0.35
"""What is fainter than this share of the darkest ink does not widen the crop."""
MOST_PIXELS = 1 << 20
"""Larger pictures are shrunk to this before anything else."""
MOST_SIDE = 4096
"""Longer pictures too: the square around a line of a million pixels would fill any memory."""
READING = 2
"""Goes up with every change of how a file becomes ink, so that embeddings of an earlier version are not found."""
NUMBERS = ("scale", "threshold", "charge", "steepness", "sharpness", "growth")
LAYERS = (*(f"block{block}" for block in range(BLOCKS)), "linear")


@final
@dataclass(frozen=True, eq=False)
class ImageWeights:
    """What was trained.

    Attributes:
        layers: For each layer its matrix, shape (inputs, outputs), and its bias, shape (outputs,), float32. Inputs of
            a block are ordered channel, row and column of the window; those of the linear layer row, column, channel.
        numbers: The fitted numbers of the scorer, by name (see ``embedded_image``).
        digest: SHA-256 of the file, hexadecimal.
    """

    layers: Sequence[tuple[PixelArray, PixelArray]]
    numbers: Mapping[str, float]
    digest: str


@final
class ImageEncoder:
    """Turns pictures into unit vectors, each picture by itself.

    Args:
        weights: A file that ``scripts/train_image_encoder.py`` wrote, with its ``.json`` beside it; ``None`` for the
            one that ships.

    Attributes:
        dimension: Length of an embedding.
        numbers: The scorer's fitted numbers that came with the weights.

    Raises:
        MissingExtraError: Pillow, the extra ``images``, is not installed.
        ModelError: The weights cannot be read, or are not what their ``.json`` says.
    """

    def __init__(self, weights: Path | None = None) -> None:
        if find_spec("PIL") is None:
            raise MissingExtraError("pillow", "images")
        self._weights = load_weights(weights)
        self._layers = [(np.ascontiguousarray(matrix.T), bias) for matrix, bias in self._weights.layers]
        self.numbers = self._weights.numbers
        self.dimension = len(self._weights.layers[-1][1])

    def encode(self, images: Sequence[str]) -> FloatArray:
        """Embeds pictures, one row each.

        Args:
            images: PNG or JPEG files in base64.

        Returns:
            Unit vectors, shape (images, dimension), float64. The row of a picture that cannot be read is NaN.

        Raises:
            ModelError: The machine ran out of memory. The message holds nothing of the pictures.
        """
        vectors = np.full((len(images), self.dimension), np.nan)
        for row, image in zip(vectors, images, strict=True):
            canvas = ink_of(image)
            if canvas is not None:
                row[...] = self._embed(canvas)
        return vectors

    @property
    def digest(self) -> str:
        """SHA-256 of the weights' file."""
        return self._weights.digest

    @cached_property
    def identity(self) -> str:
        """Names everything that the bits of an embedding depend on: weights, versions, and how this machine rounds."""
        from PIL import features

        pattern = np.linspace(0, 1, SIDE * SIDE, dtype=np.float32).reshape(SIDE, SIDE)
        rounding = hashlib.sha256(self._embed(pattern).tobytes()).hexdigest()[:16]
        jpeg = features.version("libjpeg_turbo") or features.version("jpg")
        return (
            f"image {READING} {self._weights.digest} numpy {version('numpy')} pillow {version('pillow')} "
            f"jpeg {jpeg} {rounding}"
        )

    def _embed(self, canvas: PixelArray) -> FloatArray:
        maps = canvas[:, :, None]
        *blocks, (matrix, bias) = self._layers
        for kernels, offset in blocks:
            sums = np.vecdot(_windows(maps)[:, None, :], kernels) + offset
            maps = _pooled(np.maximum(sums, 0).reshape(*maps.shape[:2], -1))
        vector = (np.vecdot(matrix, maps.reshape(-1)) + bias).astype(np.float64)
        with np.errstate(all="ignore"):
            return np.asarray(vector / np.sqrt(np.vecdot(vector, vector)), dtype=np.float64)


def ink_of(image: str, side: int = SIDE) -> PixelArray | None:
    """The drawing in a picture: shape (side, side), 0 for ground, 1 for the strongest ink; ``None`` if unreadable.

    Raises:
        ModelError: The machine ran out of memory.
    """
    handled = sys.exception()
    try:
        return _centred(_grey(image), side)
    except BaseException as error:
        if not is_models(error):
            raise
        if is_shared(error, handled):
            raise ModelError("The machine ran out of memory while a picture was read.", retryable=True) from None
        return None


def load_weights(path: Path | None = None) -> ImageWeights:
    """Reads a file of weights after checking its checksum; ``None`` reads the one that ships.

    Raises:
        ModelError: The file cannot be read, lacks a part, or is not what its ``.json`` says it is.
    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    folder = resources.files("sottovoce") / "data" / "embedded_image"
    place = folder / "encoder.safetensors" if path is None else path
    story = folder / "encoder.json" if path is None else path.with_suffix(".json")
    try:
        content, card = place.read_bytes(), json.loads(story.read_text("utf-8"))
        stored = load(content)
    except (OSError, ValueError, KeyError, RecursionError, SafetensorError):  # a KeyError for numbers of 16 bits
        raise ModelError(f"The weights {str(place)!r} or the .json beside them cannot be read.") from None
    digest = hashlib.sha256(content).hexdigest()
    if not isinstance(card, dict) or card.get("sha256") != digest:
        raise ModelError(f"The weights {str(place)!r} are not those that the .json beside them describes.")
    return _weights_of(stored, digest, str(place))


def save_weights(
    layers: Sequence[tuple[PixelArray, PixelArray]], numbers: Mapping[str, float], path: Path, card: Mapping[str, Any]
) -> None:
    """Writes weights in half precision, and the ``.json`` beside them with the checksum.

    Args:
        layers: As in ``ImageWeights``.
        numbers: As in ``ImageWeights``.
        path: Where to, ending in ``.safetensors``.
        card: What the ``.json`` should say besides the numbers and the checksum.
    """
    from safetensors.numpy import save

    parts = {f"head.{name}": np.asarray(numbers[name], np.float32) for name in NUMBERS}
    for name, (matrix, bias) in zip(LAYERS, layers, strict=True):
        parts[f"{name}.matrix"] = np.ascontiguousarray(matrix, np.float16)
        parts[f"{name}.bias"] = np.ascontiguousarray(bias, np.float16)
    content = save(parts)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    shown = {name: round(float(numbers[name]), 4) for name in NUMBERS}
    story = {**card, "numbers": shown, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    path.with_suffix(".json").write_text(json.dumps(story, indent=1) + "\n", "utf-8")


def _weights_of(stored: Mapping[str, Any], digest: str, place: str) -> ImageWeights:
    expected = {f"head.{name}" for name in NUMBERS} | {
        f"{name}.{part}" for name in LAYERS for part in ("matrix", "bias")
    }
    if set(stored) != expected:
        raise ModelError(f"The weights {place!r} lack a part, or hold one that is not known.")
    if not all(np.isfinite(part).all() for part in stored.values()):
        raise ModelError(f"The weights {place!r} hold a number that is not finite.")
    parts = {name: np.asarray(part, np.float32) for name, part in stored.items()}
    layers = [(parts[f"{name}.matrix"], parts[f"{name}.bias"]) for name in LAYERS]
    numbers = {name: float(stored[f"head.{name}"]) for name in NUMBERS}
    channels, inputs = 1, []
    for _, bias in layers[:-1]:
        inputs.append(9 * channels)
        channels = bias.size
    inputs.append(channels * (SIDE >> BLOCKS) ** 2)
    if any(matrix.shape != (size, bias.size) for size, (matrix, bias) in zip(inputs, layers, strict=True)):
        raise ModelError(f"The weights {place!r} have parts of the wrong shape.")
    return ImageWeights(layers, numbers, digest)


def _grey(image: str) -> PixelArray:
    """Grey levels of the picture, upright and on white, 0 to 1."""
    from sottovoce.models.images import read_picture

    picture = read_picture(image, MOST_PIXELS)
    if (longest := max(picture.size)) > MOST_SIDE:
        picture = picture.resize(tuple(max(1, side * MOST_SIDE // longest) for side in picture.size))
    return np.asarray(np.asarray(picture.convert("L"), np.float32) / 255, np.float32)


def _centred(grey: PixelArray, side: int) -> PixelArray:
    from PIL import Image

    border = np.concatenate([grey[0], grey[-1], grey[1:-1, 0], grey[1:-1, -1]])
    ink = np.abs(grey - np.median(border))
    strongest = ink.max()
    if strongest <= 1 / 255:
        return np.zeros((side, side), np.float32)
    rows, columns = (np.flatnonzero((ink >= FAINT * strongest).any(axis=axis)) for axis in (1, 0))
    middle_x, middle_y = (columns[0] + columns[-1] + 1) / 2, (rows[0] + rows[-1] + 1) / 2
    half = MARGIN * max(len(range(columns[0], columns[-1] + 1)), len(range(rows[0], rows[-1] + 1))) / 2
    reach = int(np.ceil(half)) + 1
    padded = np.pad(ink / strongest, reach)
    box = (middle_x - half + reach, middle_y - half + reach, middle_x + half + reach, middle_y + half + reach)
    small = Image.fromarray(padded).resize((side, side), Image.Resampling.BILINEAR, box=box)
    drawn = np.asarray(small, np.float32)
    return np.asarray(drawn / max(float(drawn.max()), 1e-6), np.float32)


def _windows(maps: PixelArray) -> PixelArray:
    """The 3 x 3 neighbourhood of every pixel, zero beyond the edge: shape (pixels, 9 channels)."""
    padded = np.pad(maps, ((1, 1), (1, 1), (0, 0)))
    return np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1)).reshape(
        maps.shape[0] * maps.shape[1], -1
    )


def _pooled(maps: PixelArray) -> PixelArray:
    """The largest of each 2 x 2 pixels."""
    height, width, channels = maps.shape
    return np.asarray(maps.reshape(height // 2, 2, width // 2, 2, channels).max(axis=(1, 3)))
